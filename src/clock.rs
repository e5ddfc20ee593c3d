//! Time, injected: what a clock is, and the clocks that come with the crate.
//!
//! | clock | its zero | a read costs | use |
//! |---|---|---|---|
//! | [`MonotonicClock`] | first use in the process | a time-stamp counter read | the default |
//! | [`CoarseClock`] | as above | one atomic load | very hot paths that bear some staleness |
//! | [`StdClock`] | its creation | a system call without a switch | where the counter is not trusted |
//! | [`WallClock`] | the Unix epoch | the same | windows aligned to the calendar |
//! | [`ManualClock`] | where you say | one atomic load | tests, simulations, replays |
//!
//! A clock of your own is one method. A struct that must not become generic
//! takes an erased one, `Arc<dyn Clock>`:
//!
//! ```
//! use std::sync::Arc;
//! use tollgate::{Clock, Instant, RateLimiter, TokenBucket, limit};
//!
//! #[derive(Debug)]
//! struct FrameClock { /* counts the frames of a game, say */ }
//!
//! impl Clock for FrameClock {
//!     fn now(&self) -> Instant {
//!         Instant::from_nanos(16_666_667 * 3)
//!     }
//! }
//!
//! struct Service {
//!     limiter: RateLimiter<TokenBucket, Arc<dyn Clock>>,
//! }
//!
//! let clock: Arc<dyn Clock> = Arc::new(FrameClock {});
//! let service = Service { limiter: RateLimiter::with_clock(limit!("10/s"), clock) };
//! assert!(service.limiter.try_acquire().is_granted());
//! ```
//!
//! The clocks do not stop in suspend where the operating system's monotonic
//! clock does not; on Linux `MonotonicClock` (a time-stamp counter) and
//! `StdClock` stop while the machine sleeps, `WallClock` does not.

mod clamped;
mod coarse;
mod manual;
mod monotonic;
mod std;
mod wall;

pub use self::std::StdClock;
pub use clamped::Clamped;
pub use coarse::CoarseClock;
pub use manual::ManualClock;
pub use monotonic::MonotonicClock;
pub use wall::WallClock;

use ::std::sync::Arc;
use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A moment: nanoseconds since the zero of the clock that was read.
///
/// It spans 584 years. All arithmetic saturates at both ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Instant(u64);

impl Instant {
    /// The clock's zero.
    pub const ZERO: Self = Self(0);
    /// The end of time. A limiter that answers it means never, and one that is
    /// asked at it refuses.
    pub const MAX: Self = Self(u64::MAX);

    /// `nanos` nanoseconds after the clock's zero.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's zero.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to this moment; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    #[inline]
    pub(crate) const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    #[inline]
    pub(crate) const fn after_nanos(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

/// Nanoseconds of a duration, saturating after 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at [`Instant::MAX`].
    fn add(self, duration: Duration) -> Self {
        self.after_nanos(nanos(duration))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// Saturates at [`Instant::ZERO`].
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

/// A source of time.
///
/// A clock should not run back. If its source can, wrap it in [`Clamped`];
/// a limiter that meets a step back all the same hands out nothing for it and
/// catches up when the clock has.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Instant;

    /// Whether [`now`](Self::now) runs none but this crate's code, so that it
    /// may be called under a lock.
    #[doc(hidden)]
    #[inline]
    fn is_built_in(&self) -> bool {
        false
    }
}

/// A clock that runs by itself, with the time that threads sleep by: after a
/// sleep of `d`, about `d` has passed on it.
///
/// What waits for a moment needs one, as [`LeakyQueue::pop`] does. A
/// [`ManualClock`] is none: nobody would wake a thread that sleeps by it.
///
/// [`LeakyQueue::pop`]: crate::LeakyQueue::pop
pub trait RealTime: Clock {}

impl<C: RealTime + ?Sized> RealTime for &C {}
impl<C: RealTime + ?Sized> RealTime for Arc<C> {}
impl<C: RealTime> RealTime for Clamped<C> {}
impl RealTime for CoarseClock {}
impl RealTime for MonotonicClock {}
impl RealTime for StdClock {}
impl RealTime for WallClock {}

impl<C: Clock + ?Sized> Clock for &C {
    #[inline]
    fn now(&self) -> Instant {
        (**self).now()
    }

    #[inline]
    fn is_built_in(&self) -> bool {
        (**self).is_built_in()
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> Instant {
        (**self).now()
    }

    #[inline]
    fn is_built_in(&self) -> bool {
        (**self).is_built_in()
    }
}

impl fmt::Debug for dyn Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dyn Clock")
    }
}
