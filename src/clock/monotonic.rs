use super::{Clock, Instant};
use std::sync::OnceLock;

/// The default clock: the processor's time-stamp counter, through `quanta`.
///
/// All of a process share one zero, the first use of any of them.
/// Where the machine has no counter that runs evenly, the operating system's
/// monotonic clock is read instead.
///
/// The first one of a process calibrates the counter, which takes a
/// millisecond on most machines and at worst 200 ms. Call [`new`](Self::new)
/// early if the first request must not pay for it; the later ones cost a copy.
/// The counter is not disciplined by a time server and drifts from the wall
/// clock by some parts in a hundred thousand.
#[derive(Clone, Debug)]
pub struct MonotonicClock {
    clock: quanta::Clock,
    zero: u64,
}

impl MonotonicClock {
    /// The process's clock, calibrated on first use.
    #[must_use]
    pub fn new() -> Self {
        static PROCESS: OnceLock<MonotonicClock> = OnceLock::new();
        PROCESS
            .get_or_init(|| {
                let clock = quanta::Clock::new();
                let zero = clock.raw();
                Self { clock, zero }
            })
            .clone()
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Instant {
        Instant(self.clock.delta_as_nanos(self.zero, self.clock.raw()))
    }

    #[inline]
    fn is_built_in(&self) -> bool {
        true
    }
}
