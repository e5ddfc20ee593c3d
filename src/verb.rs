//! What a limiter does with parameters and state, wherever it keeps them.
//!
//! Values rather than closures: a method can be told to be inlined always, a
//! closure cannot, and only when all is inlined does the compiler leave out
//! what a caller does not look at.

use crate::algorithm::Algorithm;
use crate::clock::Instant;
use crate::decision::Decision;
use crate::shared::Shared;

pub(crate) trait Verb<A: Algorithm> {
    type Answer;

    /// Calls once with parameters and state that belong together, and the
    /// number of their era; none if the state has been set aside.
    fn call(
        &self,
        algorithm: &A,
        state: &A::Shared,
        now: Instant,
        era: u64,
    ) -> Option<Self::Answer>;
}

/// Takes so many permits.
#[derive(Clone, Copy)]
pub(crate) struct Acquire(pub(crate) u32);

/// Says what taking so many permits would say.
#[derive(Clone, Copy)]
pub(crate) struct Peek(pub(crate) u32);

/// Books so many permits.
#[derive(Clone, Copy)]
pub(crate) struct Charge(pub(crate) u32);

/// Gives back so many permits of a grant.
#[derive(Clone, Copy)]
pub(crate) struct Refund<'a>(pub(crate) &'a Decision, pub(crate) u32);

/// Forgets everything.
#[derive(Clone, Copy)]
pub(crate) struct Reset;

impl<A: Algorithm> Verb<A> for Acquire {
    type Answer = Decision;

    #[inline(always)]
    fn call(&self, algorithm: &A, state: &A::Shared, now: Instant, era: u64) -> Option<Decision> {
        Some(state.try_acquire(algorithm, now, self.0)?.in_era(era))
    }
}

impl<A: Algorithm> Verb<A> for Peek {
    type Answer = Decision;

    #[inline(always)]
    fn call(&self, algorithm: &A, state: &A::Shared, now: Instant, _: u64) -> Option<Decision> {
        state.peek(algorithm, now, self.0)
    }
}

impl<A: Algorithm> Verb<A> for Charge {
    type Answer = u32;

    fn call(&self, algorithm: &A, state: &A::Shared, now: Instant, _: u64) -> Option<u32> {
        state.charge(algorithm, now, self.0)
    }
}

impl<A: Algorithm> Verb<A> for Refund<'_> {
    type Answer = u32;

    fn call(&self, algorithm: &A, state: &A::Shared, now: Instant, era: u64) -> Option<u32> {
        match self.0.receipt(era, self.1) {
            Some(receipt) => state.refund(algorithm, now, receipt, self.1),
            // Nothing, but by the state that is in use.
            None => Peek(0).call(algorithm, state, now, era).map(|_| 0),
        }
    }
}

impl<A: Algorithm> Verb<A> for Reset {
    type Answer = ();

    fn call(&self, algorithm: &A, state: &A::Shared, _: Instant, _: u64) -> Option<()> {
        state.reset(algorithm)
    }
}
