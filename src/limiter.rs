//! One limiter for one caller, or for all callers together.

use crate::algorithm::{Algorithm, IntoAlgorithm, TokenBucket};
use crate::clock::{Clock, Instant, MonotonicClock};
use crate::decision::Decision;
use crate::error::ConfigError;
use crate::shared::Shared;
use crossbeam_utils::CachePadded;

/// A rate limiter: an algorithm, a clock and a state that threads share.
///
/// All methods take `&self`; share it by reference or in an
/// [`Arc`](std::sync::Arc). Each reads the clock once.
///
/// ```
/// use tollgate::{RateLimiter, limit};
///
/// let limiter = RateLimiter::new(limit!("100/s burst 20"));
/// if limiter.try_acquire().is_granted() {
///     // serve
/// }
/// ```
///
/// A limit alone makes a [`TokenBucket`]. With another algorithm, sharing or
/// clock:
///
/// ```
/// use tollgate::{FixedWindow, Locked, RateLimiter, StdClock, rate};
///
/// let windows = FixedWindow::new(rate!("1000/h"));
/// let lock_free = RateLimiter::new(windows.clone());
/// let mutex = RateLimiter::with_clock(Locked(windows), StdClock::new());
/// # let _ = (lock_free.try_acquire(), mutex.try_acquire());
/// ```
#[derive(Debug)]
pub struct RateLimiter<A: Algorithm = TokenBucket, C = MonotonicClock> {
    algorithm: A,
    clock: C,
    /// On cache lines of its own, away from whatever its owner keeps beside.
    state: CachePadded<A::Shared>,
}

impl<A: Algorithm> RateLimiter<A> {
    /// A limiter on the default clock, unused at first.
    #[must_use]
    pub fn new(algorithm: impl IntoAlgorithm<Algorithm = A>) -> Self {
        Self::with_clock(algorithm, MonotonicClock::new())
    }
}

impl<A: Algorithm, C: Clock> RateLimiter<A, C> {
    /// A limiter on a clock of your choice, unused at first. It counts from
    /// now on.
    #[must_use]
    pub fn with_clock(algorithm: impl IntoAlgorithm<Algorithm = A>, clock: C) -> Self {
        let mut algorithm = algorithm.into_algorithm();
        algorithm.start(clock.now());
        Self { algorithm, clock, state: CachePadded::default() }
    }

    /// The same limiter, starting with only so many permits.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InitialAboveCapacity`].
    ///
    /// ```
    /// use tollgate::{ManualClock, RateLimiter, limit};
    ///
    /// let limiter = RateLimiter::with_clock(limit!("10/s"), ManualClock::new()).with_initial(4)?;
    /// assert!(limiter.try_acquire_n(4).is_granted());
    /// assert!(limiter.try_acquire().is_denied());
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    pub fn with_initial(self, permits: u32) -> Result<Self, ConfigError> {
        let Some(missing) = self.algorithm.capacity().checked_sub(permits) else {
            return Err(ConfigError::InitialAboveCapacity);
        };
        self.reset();
        self.charge(missing);
        Ok(self)
    }

    /// The same limiter at a time that the caller passes, in place of a clock
    /// reading: for a batch with one reading, or for events that carry their
    /// own time.
    ///
    /// Times that step back hand out nothing, as with a clock that does.
    ///
    /// ```
    /// use tollgate::{Clock, RateLimiter, limit};
    ///
    /// let limiter = RateLimiter::new(limit!("100/s"));
    /// let batch = limiter.at(limiter.clock().now());
    /// let granted = (0..5).filter(|_| batch.try_acquire().is_granted()).count();
    /// assert_eq!(granted, 5);
    /// ```
    #[inline(always)]
    pub fn at(&self, now: Instant) -> At<'_, A> {
        At { algorithm: &self.algorithm, state: &self.state, now }
    }

    #[inline(always)]
    fn now(&self) -> At<'_, A> {
        self.at(self.clock.now())
    }

    /// Takes a permit, or is told when there will be one.
    #[inline(always)]
    pub fn try_acquire(&self) -> Decision {
        self.now().try_acquire()
    }

    /// Takes `n` permits, all or none.
    ///
    /// None is granted and takes nothing. More than the capacity is refused
    /// for good ([`Decision::is_never`]).
    #[inline(always)]
    pub fn try_acquire_n(&self, n: u32) -> Decision {
        self.now().try_acquire_n(n)
    }

    /// What [`try_acquire`](Self::try_acquire) would say, taking nothing:
    /// [`remaining`](Decision::remaining) is what there is.
    #[inline(always)]
    pub fn peek(&self) -> Decision {
        self.now().peek()
    }

    /// What [`try_acquire_n`](Self::try_acquire_n) would say, taking nothing.
    #[inline(always)]
    pub fn peek_n(&self, n: u32) -> Decision {
        self.now().peek_n(n)
    }

    /// Books `n` permits that were used, whether or not they were there, and
    /// returns how many it could book: for costs known only afterwards.
    ///
    /// Buckets go into debt, by up to another capacity; windows fill up to
    /// their limit.
    ///
    /// ```
    /// use tollgate::{ManualClock, RateLimiter, limit};
    ///
    /// let limiter = RateLimiter::with_clock(limit!("10/s"), ManualClock::new());
    /// assert!(limiter.try_acquire().is_granted());
    /// assert_eq!(limiter.charge(14), 14); // it took 15 in all: 5 in debt
    /// assert_eq!(limiter.try_acquire().retry_after().unwrap().as_millis(), 600);
    /// ```
    pub fn charge(&self, n: u32) -> u32 {
        self.now().charge(n)
    }

    /// Gives the permits of a grant back, and returns how many were taken
    /// back: see each algorithm for when. Never more than the grant still
    /// occupies, and nothing for a denial.
    ///
    /// ```
    /// use tollgate::{ManualClock, RateLimiter, limit};
    ///
    /// let limiter = RateLimiter::with_clock(limit!("10/s"), ManualClock::new());
    /// let grant = limiter.try_acquire_n(3);
    /// assert_eq!(limiter.refund(grant), 3);
    /// assert_eq!(limiter.peek().remaining(), 10);
    /// ```
    ///
    /// The receipt must be of this limiter, and of no time before a
    /// [`reset`](Self::reset): others may be taken for a grant that happens to
    /// look the same.
    pub fn refund(&self, grant: Decision) -> u32 {
        self.now().refund(grant)
    }

    /// Gives `n` of the permits of a grant back and keeps the others. More than
    /// the grant took changes nothing.
    pub fn refund_n(&self, grant: Decision, n: u32) -> u32 {
        self.now().refund_n(grant, n)
    }

    /// Forgets everything: as good as new.
    pub fn reset(&self) {
        self.state.reset(&self.algorithm);
    }

    /// The algorithm, with its parameters.
    pub fn algorithm(&self) -> &A {
        &self.algorithm
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }
}

/// A limiter at a moment, from [`RateLimiter::at`]. The methods are those of
/// [`RateLimiter`].
#[derive(Debug)]
pub struct At<'a, A: Algorithm> {
    algorithm: &'a A,
    state: &'a A::Shared,
    now: Instant,
}

impl<A: Algorithm> At<'_, A> {
    /// Takes a permit, or is told when there will be one.
    #[inline(always)]
    pub fn try_acquire(&self) -> Decision {
        self.try_acquire_n(1)
    }

    /// Takes `n` permits, all or none.
    #[inline(always)]
    pub fn try_acquire_n(&self, n: u32) -> Decision {
        self.state.try_acquire(self.algorithm, self.now, n)
    }

    /// What [`try_acquire`](Self::try_acquire) would say, taking nothing.
    #[inline(always)]
    pub fn peek(&self) -> Decision {
        self.peek_n(1)
    }

    /// What [`try_acquire_n`](Self::try_acquire_n) would say, taking nothing.
    #[inline(always)]
    pub fn peek_n(&self, n: u32) -> Decision {
        self.state.peek(self.algorithm, self.now, n)
    }

    /// Books up to `n` permits and returns how many.
    pub fn charge(&self, n: u32) -> u32 {
        self.state.charge(self.algorithm, self.now, n)
    }

    /// Gives the permits of a grant back and returns how many.
    pub fn refund(&self, grant: Decision) -> u32 {
        let n = grant.receipt().1;
        self.refund_n(grant, n)
    }

    /// Gives `n` of the permits of a grant back.
    pub fn refund_n(&self, grant: Decision, n: u32) -> u32 {
        let (receipt, permits) = grant.receipt();
        if n > permits {
            return 0;
        }
        self.state.refund(self.algorithm, self.now, receipt, n)
    }
}
