use super::{Algorithm, Report};
use crate::clock::Instant;
use crate::shared::MutexState;

/// Any algorithm behind a mutex: the same rule, so the same answers.
///
/// The lock-free default decides in one word, or in a ring of words; this one
/// holds a short lock (`parking_lot`) around the decision, never around a clock, a
/// wait or code of yours. It costs more alone, holds up everybody when its holder
/// is preempted, and can be faster when many threads hammer one limiter, since
/// the losers of a lock sleep where the losers of a compare-exchange try again. A
/// [`SlidingWindowLog`](crate::SlidingWindowLog) takes many permits in one step
/// here, and a step for each without a lock.
///
/// ```
/// use tollgate::{Locked, RateLimiter, TokenBucket, limit};
///
/// let limiter = RateLimiter::new(Locked(TokenBucket::new(limit!("10/s"))));
/// assert!(limiter.try_acquire().is_granted());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Locked<A>(pub A);

impl<A: Algorithm> Algorithm for Locked<A> {
    type State = A::State;
    type Shared = MutexState<A::State>;

    const STANDS: bool = A::STANDS;

    fn start(&mut self, now: Instant) {
        self.0.start(now);
    }

    fn unseen(&self) -> A::State {
        self.0.unseen()
    }

    fn resume(&mut self, old: &Self, now: Instant) {
        self.0.resume(&old.0, now);
    }

    fn carry(&self, old: &Self, state: &A::State, now: Instant) -> A::State {
        self.0.carry(&old.0, state, now)
    }

    #[inline]
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }

    #[inline]
    fn earliest(&self, state: &A::State, now: Instant, n: u32) -> Instant {
        self.0.earliest(state, now, n)
    }

    #[inline(always)]
    fn is_possible(&self, state: &A::State, now: Instant, n: u32) -> bool {
        self.0.is_possible(state, now, n)
    }

    #[inline]
    fn departure(&self, state: &A::State, now: Instant, n: u32) -> Instant {
        self.0.departure(state, now, n)
    }

    #[inline]
    fn take(&self, state: &mut A::State, now: Instant, n: u32) {
        self.0.take(state, now, n);
    }

    #[inline]
    fn remaining(&self, state: &A::State, now: Instant) -> u32 {
        self.0.remaining(state, now)
    }

    #[inline]
    fn fresh_at(&self, state: &A::State) -> Instant {
        self.0.fresh_at(state)
    }

    fn charge(&self, state: &mut A::State, now: Instant, n: u32) -> u32 {
        self.0.charge(state, now, n)
    }

    #[inline]
    fn receipt(&self, state: &A::State) -> u128 {
        self.0.receipt(state)
    }

    fn refund(&self, state: &mut A::State, now: Instant, receipt: u128, n: u32) -> u32 {
        self.0.refund(state, now, receipt, n)
    }

    fn cancel(&self, state: &mut A::State, now: Instant, taken: Instant, n: u32) -> u32 {
        self.0.cancel(state, now, taken, n)
    }

    fn reset(&self, state: &mut A::State, now: Instant) {
        self.0.reset(state, now);
    }

    #[inline]
    fn report(&self, state: &A::State, now: Instant, refused: Option<u32>) -> Report {
        self.0.report(state, now, refused)
    }
}
