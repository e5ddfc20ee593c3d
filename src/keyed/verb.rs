//! What a verb does about a key that is not remembered.

use crate::algorithm::Algorithm;
use crate::clock::Instant;
use crate::decision::{Decision, Era, decide, foresee};
use crate::verb::{Acquire, Cancel, Charge, Peek, Refund, Reset, Verb};

/// What a verb does about a key that is not remembered.
#[derive(PartialEq, Eq)]
pub(super) enum Sight {
    /// The key may be remembered.
    Adds,
    /// It answers as if it were.
    Looks,
    /// There is nothing to do.
    Ignores,
}

pub(super) trait KeyedVerb<A: Algorithm>: Verb<A> + Copy {
    const SIGHT: Sight;
    /// It may make a key fresh sooner than it was.
    const FREES: bool = false;

    /// Whether something may be taken, of a key that has everything.
    fn asks(&self, algorithm: &A) -> bool {
        let _ = algorithm;
        false
    }

    /// Calls for a key never seen, which has this state if there is something
    /// to remember.
    fn begin(
        &self,
        algorithm: &A,
        state: &mut A::State,
        now: Instant,
        era: Era,
    ) -> (Self::Answer, bool);

    /// What a new key is answered that there is no room for in the next `wait`
    /// nanoseconds.
    fn crowded_out(&self, algorithm: &A, now: Instant, wait: u64) -> Self::Answer;
}

impl<A: Algorithm> KeyedVerb<A> for Peek {
    const SIGHT: Sight = Sight::Looks;

    fn begin(&self, algorithm: &A, state: &mut A::State, now: Instant, _: Era) -> (Decision, bool) {
        (foresee(algorithm, state, now, self.0), false)
    }

    /// What would be refused or takes nothing needs no room.
    fn crowded_out(&self, algorithm: &A, now: Instant, wait: u64) -> Decision {
        let decision = foresee(algorithm, &algorithm.unseen(), now, self.0);
        match self.0 > 0 && decision.is_granted() {
            true => decision.crowded_out(wait),
            false => decision,
        }
    }
}

impl<A: Algorithm> KeyedVerb<A> for Acquire {
    const SIGHT: Sight = Sight::Adds;

    fn asks(&self, algorithm: &A) -> bool {
        (1..=algorithm.capacity()).contains(&self.0)
    }

    fn begin(
        &self,
        algorithm: &A,
        state: &mut A::State,
        now: Instant,
        era: Era,
    ) -> (Decision, bool) {
        let decision = decide(algorithm, state, now, self.0).in_era(era);
        let took = decision.permits() > 0;
        (decision, took)
    }

    fn crowded_out(&self, algorithm: &A, now: Instant, wait: u64) -> Decision {
        Peek(self.0).crowded_out(algorithm, now, wait)
    }
}

impl<A: Algorithm> KeyedVerb<A> for Charge {
    const SIGHT: Sight = Sight::Adds;

    fn asks(&self, _: &A) -> bool {
        self.0 > 0
    }

    fn begin(&self, algorithm: &A, state: &mut A::State, now: Instant, _: Era) -> (u32, bool) {
        let booked = algorithm.charge(state, now, self.0);
        (booked, booked > 0)
    }

    fn crowded_out(&self, _: &A, _: Instant, _: u64) -> u32 {
        0
    }
}

/// Verbs that undo something: for a key that is not remembered there is nothing
/// to undo.
macro_rules! undoing {
    ($($verb:ty),+) => {$(
        impl<A: Algorithm> KeyedVerb<A> for $verb {
            const SIGHT: Sight = Sight::Ignores;
            const FREES: bool = true;

            fn begin(
                &self,
                _: &A,
                _: &mut A::State,
                _: Instant,
                _: Era,
            ) -> (<Self as Verb<A>>::Answer, bool) {
                Default::default()
            }

            fn crowded_out(&self, _: &A, _: Instant, _: u64) -> <Self as Verb<A>>::Answer {
                Default::default()
            }
        }
    )+};
}

undoing!(Refund<'_>, Cancel<'_>, Reset);
