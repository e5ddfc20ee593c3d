use super::{Clock, Instant, nanos};
use crate::sync::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

/// A clock that stands still until it is told to move: for tests,
/// simulations and replays.
///
/// Clones share the time, so a test keeps one and gives the other away.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{ManualClock, RateLimiter, limit};
///
/// let clock = ManualClock::new();
/// let limiter = RateLimiter::with_clock(limit!("1/s"), clock.clone());
/// assert!(limiter.try_acquire().is_granted());
/// assert!(limiter.try_acquire().is_denied());
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.try_acquire().is_granted());
/// ```
///
/// # Orderings
///
/// A test that moves the clock and then lets another thread decide already
/// synchronises with it; release and acquire make that hold as well for
/// threads which learn of the step from the clock alone.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    now: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock at [`Instant::ZERO`].
    #[must_use]
    pub fn new() -> Self {
        Self::starting_at(Instant::ZERO)
    }

    /// A clock at `start`.
    #[must_use]
    pub fn starting_at(start: Instant) -> Self {
        Self { now: Arc::new(AtomicU64::new(start.0)) }
    }

    /// Lets `duration` pass; stops at [`Instant::MAX`].
    pub fn advance(&self, duration: Duration) {
        let step = nanos(duration);
        let mut now = self.now.load(Ordering::Relaxed);
        while let Err(moved) = self.now.compare_exchange_weak(
            now,
            now.saturating_add(step),
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            now = moved;
        }
    }

    /// Sets the time; it may also go back, as broken clocks do.
    pub fn set(&self, now: Instant) {
        self.now.store(now.0, Ordering::Release);
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> Instant {
        Instant(self.now.load(Ordering::Acquire))
    }

    #[inline]
    fn is_built_in(&self) -> bool {
        true
    }
}
