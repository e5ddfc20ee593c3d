//! What a caller is told, and the one routine that decides it.

use crate::algorithm::{Algorithm, Report};
use crate::clock::Instant;
use core::fmt;
use core::time::Duration;

/// The answer to a call: granted, denied for now, or never possible.
///
/// Both outcomes carry the same data, so that it can be put into response
/// headers before looking at which it was. A granted decision is also the
/// receipt for [`refund`](crate::RateLimiter::refund), which takes it by value;
/// that is why it cannot be cloned.
///
/// The numbers are computed where they are asked for: a caller that only wants
/// to know whether it was granted does not pay for the wait, when the compiler
/// sees both.
///
/// ```
/// use tollgate::{ManualClock, RateLimiter, limit};
///
/// let limiter = RateLimiter::with_clock(limit!("5/s burst 2"), ManualClock::new());
/// let decision = limiter.try_acquire();
/// assert!(decision.is_granted());
/// assert_eq!((decision.limit(), decision.remaining()), (2, 1));
/// assert_eq!(decision.reset_after().as_millis(), 200);
///
/// let decision = limiter.try_acquire_n(2);
/// assert!(decision.is_denied());
/// assert_eq!(decision.retry_after().unwrap().as_millis(), 200);
/// assert_eq!(decision.retry_after_secs(), Some(1));
/// ```
#[must_use = "a decision that nobody looks at limits nothing"]
#[derive(Debug)]
pub struct Decision {
    outcome: Outcome,
    /// The permits that a refund may give back.
    permits: u32,
    receipt: u128,
    era: Era,
    limit: u32,
    remaining: u32,
    index: usize,
    /// Nanoseconds, turned into a `Duration` when asked for.
    delay: u64,
    /// `u64::MAX` for never.
    retry_after: u64,
    reset_after: u64,
}

/// While it lasts, a receipt is good: a tenure in the upper half, which ends when
/// the state changes hands (other parameters, another place), and in the lower
/// how often something other than the newest grant has been undone in it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Era(u64);

impl Era {
    pub(crate) const fn new(tenure: u32, cancels: u32) -> Self {
        Self((tenure as u64) << 32 | cancels as u64)
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn tenure(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The next, after a cancel.
    pub(crate) const fn cancelled(self) -> Self {
        Self::new(self.tenure(), (self.0 as u32).wrapping_add(1))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Granted,
    Denied,
    Never,
    Full,
}

impl Decision {
    /// The permits are yours.
    #[must_use]
    #[inline]
    pub fn is_granted(&self) -> bool {
        self.outcome == Outcome::Granted
    }

    /// The permits were not to be had, now or at all. Nothing was taken.
    #[must_use]
    #[inline]
    pub fn is_denied(&self) -> bool {
        !self.is_granted()
    }

    /// More permits were asked for than one call can ever take.
    #[must_use]
    #[inline]
    pub fn is_never(&self) -> bool {
        self.outcome == Outcome::Never
    }

    /// A keyed limiter holds as many keys as it may, and this one is new.
    ///
    /// The [wait](Self::retry_after) is a hint: no place comes free before, but
    /// another key may take it, or the keys that hold the places may be used
    /// again.
    #[must_use]
    #[inline]
    pub fn is_full(&self) -> bool {
        self.outcome == Outcome::Full
    }

    /// The most permits one call may take.
    #[must_use]
    #[inline]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// The permits left, after a grant without those just taken.
    #[must_use]
    #[inline]
    pub fn remaining(&self) -> u32 {
        self.remaining
    }

    /// How long a granted call has to wait before it acts: zero but for a
    /// [`LeakyBucket`](crate::LeakyBucket), which has booked its departure.
    #[must_use]
    #[inline]
    pub fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay)
    }

    /// How long until the same call succeeds if nobody else takes anything,
    /// to the nanosecond: zero for a grant. `None` when no wait will do: for
    /// more permits than a call can take, and past the
    /// [`HORIZON`](crate::HORIZON).
    #[must_use]
    #[inline]
    pub fn retry_after(&self) -> Option<Duration> {
        (self.retry_after < u64::MAX).then_some(Duration::from_nanos(self.retry_after))
    }

    /// [`retry_after`](Self::retry_after) in whole seconds, rounded up, as
    /// HTTP's `Retry-After` wants it: at least 1 for a call denied for now.
    #[must_use]
    pub fn retry_after_secs(&self) -> Option<u64> {
        (self.retry_after < u64::MAX).then_some(self.retry_after.div_ceil(1_000_000_000))
    }

    /// How long until the limiter is as good as never used; for a
    /// [`FixedWindow`](crate::FixedWindow) until the window ends.
    #[must_use]
    #[inline]
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.reset_after)
    }

    /// Which of several limits the numbers describe, by its position in the
    /// tuple: for a denial the one with the longest wait, and of several such
    /// the one with the smallest limit; for a grant the one with the least left.
    /// Zero for a single limit.
    #[must_use]
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// A grant as `Ok`, a denial as an error, for the `?` operator.
    ///
    /// ```
    /// use tollgate::{Denied, RateLimiter};
    ///
    /// fn handle(limiter: &RateLimiter) -> Result<&'static str, Denied> {
    ///     limiter.try_acquire().granted()?;
    ///     Ok("welcome")
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`], with the decision inside.
    #[inline]
    pub fn granted(self) -> Result<Self, Denied> {
        if self.is_granted() { Ok(self) } else { Err(Denied(self)) }
    }

    /// The same for a key that there is no room for, before `wait` at least.
    pub(crate) fn crowded_out(self, wait: u64) -> Self {
        Self {
            outcome: Outcome::Full,
            permits: 0,
            remaining: 0,
            delay: 0,
            retry_after: wait,
            reset_after: wait,
            ..self
        }
    }

    pub(crate) fn denial(&self) -> Denial<'_> {
        Denial(self)
    }

    /// The permits that may be given back.
    #[inline]
    pub(crate) fn permits(&self) -> u32 {
        self.permits
    }

    #[inline(always)]
    pub(crate) fn in_era(self, era: Era) -> Self {
        Self { era, ..self }
    }

    /// The receipt by which `n` permits may be given back, in the era of the
    /// grant.
    #[inline]
    pub(crate) fn receipt(&self, era: Era, n: u32) -> Option<u128> {
        (self.era == era && n <= self.permits).then_some(self.receipt)
    }

    pub(crate) fn has_tenure_of(&self, era: Era) -> bool {
        self.era.tenure() == era.tenure()
    }
}

/// A denial as an error; it derefs to the [`Decision`].
#[derive(Debug)]
pub struct Denied(Decision);

impl core::ops::Deref for Denied {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        &self.0
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.denial().fmt(f)
    }
}

/// The words for a denial.
pub(crate) struct Denial<'a>(&'a Decision);

impl fmt::Display for Denial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(denied) = self;
        match denied.retry_after() {
            Some(wait) if denied.is_full() => write!(f, "too many keys, retry in {wait:?}"),
            Some(wait) => write!(f, "rate limit exceeded, retry in {wait:?}"),
            None if denied.is_full() => f.write_str("too many keys"),
            None if denied.is_never() => {
                write!(f, "more permits than the limit of {} per call", denied.limit())
            }
            None => f.write_str("rate limit exceeded for good"),
        }
    }
}

impl core::error::Error for Denied {}

/// Decides on `n` permits, and takes them.
#[inline(always)]
pub(crate) fn decide<A: Algorithm>(
    algorithm: &A,
    state: &mut A::State,
    now: Instant,
    n: u32,
) -> Decision {
    let (outcome, at) = verdict(algorithm, state, now, n);
    if outcome != Outcome::Granted || n == 0 {
        return describe(algorithm, state, now, n, outcome, at);
    }
    let departure = algorithm.departure(state, now, n);
    algorithm.take(state, now, n);
    let receipt = algorithm.receipt(state);
    describe(algorithm, state, now, n, outcome, departure).taking(n, receipt)
}

/// Decides on `n` permits, and takes nothing.
#[inline(always)]
pub(crate) fn foresee<A: Algorithm>(
    algorithm: &A,
    state: &A::State,
    now: Instant,
    n: u32,
) -> Decision {
    let (outcome, mut at) = verdict(algorithm, state, now, n);
    if outcome == Outcome::Granted && n > 0 {
        at = algorithm.departure(state, now, n);
    }
    describe(algorithm, state, now, n, outcome, at)
}

#[inline(always)]
fn verdict<A: Algorithm>(
    algorithm: &A,
    state: &A::State,
    now: Instant,
    n: u32,
) -> (Outcome, Instant) {
    if n == 0 {
        return (Outcome::Granted, now);
    }
    if n > algorithm.capacity() {
        return (Outcome::Never, Instant::MAX);
    }
    if algorithm.is_possible(state, now, n) && now < Instant::MAX {
        (Outcome::Granted, now)
    } else {
        (Outcome::Denied, algorithm.earliest(state, now, n))
    }
}

/// `at` is when a grant may act or a denied call succeeds.
#[inline(always)]
fn describe<A: Algorithm>(
    algorithm: &A,
    state: &A::State,
    now: Instant,
    n: u32,
    outcome: Outcome,
    at: Instant,
) -> Decision {
    let refused = (outcome != Outcome::Granted).then_some(n);
    let report = algorithm.report(state, now, refused);
    Decision::new(outcome, now, at, report)
}

/// The answer to a call for `n` permits, of an algorithm with one limit and no
/// queue, which has them at `earliest`.
#[inline(always)]
pub(crate) fn answer(report: Report, now: Instant, n: u32, earliest: Instant) -> Decision {
    let (outcome, at) = match n {
        0 => (Outcome::Granted, now),
        _ if n > report.limit => (Outcome::Never, Instant::MAX),
        _ if earliest <= now && now < Instant::MAX => (Outcome::Granted, now),
        _ => (Outcome::Denied, earliest),
    };
    Decision::new(outcome, now, at, report)
}

impl Decision {
    #[inline(always)]
    fn new(outcome: Outcome, now: Instant, at: Instant, report: Report) -> Self {
        let wait = at.nanos_since(now);
        let (delay, retry_after) = match outcome {
            Outcome::Granted => (wait, 0),
            _ if at == Instant::MAX => (0, u64::MAX),
            _ => (0, wait),
        };
        Self {
            outcome,
            permits: 0,
            receipt: 0,
            era: Era::default(),
            limit: report.limit,
            remaining: report.remaining,
            index: report.index,
            delay,
            retry_after,
            reset_after: report.reset_at.nanos_since(now),
        }
    }

    /// The same with `n` permits taken.
    #[inline(always)]
    pub(crate) fn taking(self, n: u32, receipt: u128) -> Self {
        Self { permits: n, receipt, ..self }
    }
}
