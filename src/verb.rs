//! What a limiter does with parameters and state, wherever it keeps them.
//!
//! Values rather than closures: a method can be told to be inlined always, a
//! closure cannot, and only when all is inlined does the compiler leave out
//! what a caller does not look at.

use crate::algorithm::Algorithm;
use crate::clock::Instant;
use crate::decision::{Decision, Era};
use crate::shared::Shared;

pub(crate) trait Verb<A: Algorithm> {
    type Answer;

    /// Receipts from before are worth nothing after it.
    const ENDS_ERA: bool = false;

    /// Calls once with parameters and state that belong together, and the
    /// number of their era; none if the state has been set aside.
    fn call(
        &self,
        algorithm: &A,
        state: &A::Shared,
        now: Instant,
        era: Era,
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

/// Gives back a grant made then, whoever has taken since.
#[derive(Clone, Copy)]
pub(crate) struct Cancel<'a>(pub(crate) &'a Decision, pub(crate) Instant);

/// Forgets everything.
#[derive(Clone, Copy)]
pub(crate) struct Reset;

impl<A: Algorithm> Verb<A> for Acquire {
    type Answer = Decision;

    #[inline(always)]
    fn call(&self, algorithm: &A, state: &A::Shared, now: Instant, era: Era) -> Option<Decision> {
        Some(state.try_acquire(algorithm, now, self.0)?.in_era(era))
    }
}

impl<A: Algorithm> Verb<A> for Peek {
    type Answer = Decision;

    #[inline(always)]
    fn call(&self, algorithm: &A, state: &A::Shared, now: Instant, _: Era) -> Option<Decision> {
        state.peek(algorithm, now, self.0)
    }
}

impl<A: Algorithm> Verb<A> for Charge {
    type Answer = u32;

    fn call(&self, algorithm: &A, state: &A::Shared, now: Instant, _: Era) -> Option<u32> {
        state.charge(algorithm, now, self.0)
    }
}

impl<A: Algorithm> Verb<A> for Refund<'_> {
    type Answer = u32;

    fn call(&self, algorithm: &A, state: &A::Shared, now: Instant, era: Era) -> Option<u32> {
        match self.0.receipt(era, self.1) {
            Some(receipt) => state.refund(algorithm, now, receipt, self.1),
            // Nothing, but by the state that is in use.
            None => Peek(0).call(algorithm, state, now, era).map(|_| 0),
        }
    }
}

impl<A: Algorithm> Verb<A> for Cancel<'_> {
    type Answer = u32;

    const ENDS_ERA: bool = true;

    fn call(&self, algorithm: &A, state: &A::Shared, now: Instant, era: Era) -> Option<u32> {
        let Self(grant, taken) = *self;
        if !grant.has_tenure_of(era) {
            // Carried over, it can no longer be told from the others.
            return Peek(0).call(algorithm, state, now, era).map(|_| 0);
        }
        state.cancel(algorithm, now, taken, grant.permits())
    }
}

impl<A: Algorithm> Verb<A> for Reset {
    type Answer = ();

    fn call(&self, algorithm: &A, state: &A::Shared, now: Instant, _: Era) -> Option<()> {
        state.reset(algorithm, now)
    }
}
