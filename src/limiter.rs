//! One limiter for one caller, or for all callers together.

use crate::algorithm::{Algorithm, IntoAlgorithm, TokenBucket};
use crate::clock::{Clock, Instant, MonotonicClock};
use crate::decision::{Decision, Era};
use crate::error::ConfigError;
use crate::generations::Generations;
use crate::shared::Shared;
use crate::sync::{AtomicU64, Lazy, Ordering};
use crate::verb::{Acquire, Cancel, Charge, Peek, Refund, Reset, Verb};
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
/// let lock_free = RateLimiter::new(windows);
/// let mutex = RateLimiter::with_clock(Locked(windows), StdClock::new());
/// # let _ = (lock_free.try_acquire(), mutex.try_acquire());
/// ```
#[derive(Debug)]
pub struct RateLimiter<A: Algorithm = TokenBucket, C = MonotonicClock> {
    algorithm: A,
    clock: C,
    start: Instant,
    /// On cache lines of its own, away from whatever its owner keeps beside.
    state: CachePadded<A::Shared>,
    /// Where a limiter goes on that has been changed.
    later: Lazy<Generations<A>>,
    /// How often something other than the newest grant has been undone, counted
    /// before and after.
    ///
    /// A grant is of the era that it reads before it takes, which is why the
    /// read acquires; if the count has moved when a receipt comes back, the
    /// state may look as after that grant and not be so.
    cancels: AtomicU64,
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
        let start = clock.now();
        algorithm.start(start);
        let state = CachePadded::new(A::Shared::new(&algorithm, algorithm.unseen()));
        let later = Lazy::new(|| Generations::after(&algorithm, start));
        Self { algorithm, clock, start, state, later, cancels: AtomicU64::new(0) }
    }

    /// The same limiter, starting with only so many permits. What it has
    /// granted before is forgotten.
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
    /// Times are on the axis of the limiter's clock: there is no supply before the
    /// reading that the limiter was made at. Times that step back hand out
    /// nothing, as with a clock that does, and a call far ahead has the others
    /// wait for its time.
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
        At { limiter: self.parts(), now }
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

    /// Gives back a grant made at `taken`, whoever has taken since.
    pub(crate) fn cancel(&self, grant: &Decision, taken: Instant) {
        let (parts, now) = (self.parts(), self.clock.now());
        if parts.call(Refund(grant, grant.permits()), now) == 0 {
            parts.call(Cancel(grant, taken), now);
        }
    }

    /// Forgets everything: as good as new, except that after a
    /// [change](Self::reconfigure) that raised the capacity the rest still comes
    /// in at the rate, and that the time of a log does not step back.
    pub fn reset(&self) {
        self.parts().call(Reset, self.clock.now());
    }

    /// Replaces the parameters, from now on: any rate, burst, limit or window
    /// by any other, however often, while other threads decide.
    ///
    /// What the limiter holds it keeps, as a number of permits, up to the new
    /// capacity, and so it does with debt; a queue keeps its length. Nothing is
    /// handed out by the change, and time before it counts at the old rate: a
    /// wait told before it is no longer exact. Grants from before cannot be given
    /// back any more. A change at a time before the last one counts from there.
    ///
    /// No decision ever waits for a change. One that runs at the same time is
    /// made by the old parameters or by the new, as if it had come before or
    /// after. The first change allocates, and from then on a decision costs
    /// some nanoseconds more.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{ManualClock, RateLimiter, limit};
    ///
    /// let clock = ManualClock::new();
    /// let limiter = RateLimiter::with_clock(limit!("1/min burst 10"), clock.clone());
    /// assert!(limiter.try_acquire_n(10).is_granted());
    /// clock.advance(Duration::from_secs(30)); // half a permit
    /// limiter.reconfigure(limit!("10/s"));
    /// assert_eq!(limiter.try_acquire().retry_after(), Some(Duration::from_millis(50)));
    /// ```
    pub fn reconfigure(&self, algorithm: impl IntoAlgorithm<Algorithm = A>) {
        let later = self.later.get_or_make(|| Generations::after(&self.algorithm, self.start));
        let first = (&self.algorithm, &*self.state);
        later.change(first, algorithm.into_algorithm(), self.clock.now());
    }

    /// The algorithm, with its present parameters.
    pub fn algorithm(&self) -> A {
        let later = self.later.get().and_then(|later| later.parameters());
        later.unwrap_or(self.algorithm)
    }

    #[inline(always)]
    fn parts(&self) -> Parts<'_, A> {
        let Self { algorithm, state, later, cancels, .. } = self;
        Parts { algorithm, state, later, cancels }
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }
}

/// A limiter without its clock.
#[derive(Clone, Copy, Debug)]
struct Parts<'a, A: Algorithm> {
    algorithm: &'a A,
    state: &'a A::Shared,
    later: &'a Lazy<Generations<A>>,
    cancels: &'a AtomicU64,
}

impl<A: Algorithm> Parts<'_, A> {
    /// Calls with the parameters and the state as they are now.
    #[inline(always)]
    fn call<V: Verb<A> + Copy>(&self, verb: V, now: Instant) -> V::Answer {
        if V::ENDS_ERA {
            self.cancels.fetch_add(1, Ordering::AcqRel);
        }
        loop {
            let cancels = self.cancels.load(Ordering::Acquire) as u32;
            let era = Era::new(0, cancels);
            let answer = match verb.call(self.algorithm, self.state, now, era) {
                Some(answer) => answer,
                // Not straight into the caller's place for the answer: that
                // would keep the compiler from leaving out what the caller does
                // not need.
                None => match self.call_later(verb, now, cancels) {
                    Some(answer) => answer,
                    None => continue,
                },
            };
            if V::ENDS_ERA {
                self.cancels.fetch_add(1, Ordering::AcqRel);
            }
            return answer;
        }
    }

    /// Only a change sets a state aside, and it has a place to go on before.
    #[cold]
    fn call_later<V: Verb<A>>(&self, verb: V, now: Instant, cancels: u32) -> Option<V::Answer> {
        Some(self.later.get()?.call(verb, now, cancels))
    }
}

/// A limiter at a moment, from [`RateLimiter::at`], with those of its methods
/// that depend on the time of the call.
#[derive(Debug)]
pub struct At<'a, A: Algorithm> {
    limiter: Parts<'a, A>,
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
        self.limiter.call(Acquire(n), self.now)
    }

    /// What [`try_acquire`](Self::try_acquire) would say, taking nothing.
    #[inline(always)]
    pub fn peek(&self) -> Decision {
        self.peek_n(1)
    }

    /// What [`try_acquire_n`](Self::try_acquire_n) would say, taking nothing.
    #[inline(always)]
    pub fn peek_n(&self, n: u32) -> Decision {
        self.limiter.call(Peek(n), self.now)
    }

    /// Books up to `n` permits and returns how many.
    pub fn charge(&self, n: u32) -> u32 {
        self.limiter.call(Charge(n), self.now)
    }

    /// Gives the permits of a grant back and returns how many.
    pub fn refund(&self, grant: Decision) -> u32 {
        let n = grant.permits();
        self.refund_n(grant, n)
    }

    /// Gives `n` of the permits of a grant back.
    pub fn refund_n(&self, grant: Decision, n: u32) -> u32 {
        self.limiter.call(Refund(&grant, n), self.now)
    }
}
