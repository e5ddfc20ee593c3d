use super::{Clock, Instant, MonotonicClock, nanos};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The time of the last tick of a background thread, through `quanta`'s upkeep.
///
/// Reading it is one atomic load. It is late by up to the tick it was started
/// with, so a permit may be handed out that much later than due, never earlier.
/// Its zero is that of [`MonotonicClock`].
///
/// The thread is the process's only one and ends when the last coarse clock
/// of the process is dropped. It ticks as fast as the clock that started it
/// asked for. A program that runs `quanta`'s upkeep itself shares that one.
#[derive(Clone, Debug)]
pub struct CoarseClock {
    clock: quanta::Clock,
    zero: quanta::Instant,
    _upkeep: Option<Arc<Upkeep>>,
}

struct Upkeep(#[expect(dead_code, reason = "dropping it ends the thread")] quanta::Handle);

impl core::fmt::Debug for Upkeep {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Upkeep")
    }
}

impl CoarseClock {
    /// A clock that ticks every `tick`.
    ///
    /// # Errors
    ///
    /// The operating system's error when it refuses the thread.
    pub fn start(tick: Duration) -> io::Result<Self> {
        static RUNNING: Mutex<Weak<Upkeep>> = Mutex::new(Weak::new());
        let zero = MonotonicClock::shared_zero();
        let clock = quanta::Clock::new();

        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let upkeep = match running.upgrade() {
            Some(upkeep) => Some(upkeep),
            None => {
                quanta::set_recent(clock.now());
                match quanta::Upkeep::new_with_clock(tick, clock.clone()).start() {
                    Ok(handle) => {
                        let upkeep = Arc::new(Upkeep(handle));
                        *running = Arc::downgrade(&upkeep);
                        Some(upkeep)
                    }
                    Err(quanta::Error::UpkeepRunning) => None,
                    Err(quanta::Error::FailedToSpawnUpkeepThread(error)) => return Err(error),
                }
            }
        };
        Ok(Self { clock, zero, _upkeep: upkeep })
    }
}

impl Clock for CoarseClock {
    #[inline]
    fn now(&self) -> Instant {
        Instant(nanos(self.clock.recent().duration_since(self.zero)))
    }
}
