use super::{Clock, Instant, MonotonicClock};
use crate::sync::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Weak};
use std::thread;

/// The default clock as it was at the last tick of a background thread.
///
/// Reading it is one atomic load. It is late by up to the tick it was started
/// with, or longer where the thread is not scheduled. Limits hold exactly on
/// this clock's time; on that of a wall, a grant may be up to a tick late, and
/// two grants that much closer than they should be. Its zero is that of
/// [`MonotonicClock`].
///
/// Clones share the thread, which ends within a tick after the last of them is
/// dropped. Start one and clone it.
///
/// # Orderings
///
/// Relaxed: the reading is the whole message, and the readings of each thread
/// rise with the word's modification order.
#[derive(Clone, Debug)]
pub struct CoarseClock {
    now: Arc<AtomicU64>,
}

impl CoarseClock {
    /// A clock that ticks every `tick`.
    ///
    /// # Errors
    ///
    /// The operating system's error when it refuses the thread.
    pub fn start(tick: Duration) -> io::Result<Self> {
        let clock = MonotonicClock::new();
        let now = Arc::new(AtomicU64::new(clock.now().as_nanos()));
        let readers = Arc::downgrade(&now);
        thread::Builder::new()
            .name("tollgate-clock".into())
            .spawn(move || keep(&readers, &clock, tick))?;
        Ok(Self { now })
    }
}

fn keep(readers: &Weak<AtomicU64>, clock: &MonotonicClock, tick: Duration) {
    while let Some(now) = readers.upgrade() {
        now.store(clock.now().as_nanos(), Ordering::Relaxed);
        drop(now);
        thread::sleep(tick);
    }
}

impl Clock for CoarseClock {
    #[inline]
    fn now(&self) -> Instant {
        Instant(self.now.load(Ordering::Relaxed))
    }

    #[inline]
    fn is_built_in(&self) -> bool {
        true
    }
}
