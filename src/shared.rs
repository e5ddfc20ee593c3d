//! How threads share one state.
//!
//! | | a grant | a refusal | a stopped thread |
//! |---|---|---|---|
//! | [`AtomicState`]: one 64-bit word | one compare-exchange | one load | holds up nobody |
//! | [`MutexState`]: any state | a lock | a lock | holds up everybody while it has the lock |

mod atomic;
mod mutex;
mod none;

pub use atomic::AtomicState;
pub use mutex::MutexState;
pub use none::NoState;

use crate::algorithm::Algorithm;
use crate::clock::Instant;
use crate::decision::{Decision, decide, foresee};
use core::fmt::Debug;
use core::ops::DerefMut;

/// The state of an algorithm `A` between threads.
///
/// Each call takes effect in one step: no other call sees it half done.
pub trait Shared<A: Algorithm>: Default + Debug + Send + Sync {
    /// Takes `n` permits, all or none.
    fn try_acquire(&self, algorithm: &A, now: Instant, n: u32) -> Decision;

    /// What [`try_acquire`](Self::try_acquire) would say, taking nothing.
    fn peek(&self, algorithm: &A, now: Instant, n: u32) -> Decision;

    /// Books up to `n` permits and returns how many.
    fn charge(&self, algorithm: &A, now: Instant, n: u32) -> u32;

    /// Gives back up to `n` of the permits of a grant and returns how many.
    fn refund(&self, algorithm: &A, now: Instant, receipt: u64, n: u32) -> u32;

    /// Forgets everything.
    fn reset(&self, algorithm: &A);
}

/// A place that holds a state which is changed one whole step at a time.
pub(crate) trait Cell: Default + Debug + Send + Sync {
    type State: Default;
    type Step<'a>: DerefMut<Target = Self::State>
    where
        Self: 'a;

    /// The present state, to look at or to change.
    fn begin(&self) -> Self::Step<'_>;

    /// Makes the changes of a step the present state, unless another thread has
    /// changed it meanwhile: then begins again with what it is now.
    fn commit<'a>(&'a self, step: Self::Step<'a>) -> Result<(), Self::Step<'a>>;
}

/// Runs a pure expression on the state of a cell, until it is committed.
///
/// A macro rather than a function with a closure: the whole must be inlined
/// into the caller for the compiler to leave out the parts of a decision that
/// nobody looks at (19 against 10 ns), and closures cannot be made to.
macro_rules! in_one_step {
    ($cell:expr, |$state:ident| $answer:expr) => {{
        let cell = $cell;
        let mut step = cell.begin();
        loop {
            let $state = &mut *step;
            let answer = $answer;
            match cell.commit(step) {
                Ok(()) => break answer,
                Err(newer) => step = newer,
            }
        }
    }};
}

impl<A: Algorithm, C: Cell<State = A::State>> Shared<A> for C {
    #[inline(always)]
    fn try_acquire(&self, algorithm: &A, now: Instant, n: u32) -> Decision {
        in_one_step!(self, |state| decide(algorithm, state, now, n))
    }

    #[inline(always)]
    fn peek(&self, algorithm: &A, now: Instant, n: u32) -> Decision {
        foresee(algorithm, &self.begin(), now, n)
    }

    fn charge(&self, algorithm: &A, now: Instant, n: u32) -> u32 {
        in_one_step!(self, |state| algorithm.charge(state, now, n))
    }

    fn refund(&self, algorithm: &A, now: Instant, receipt: u64, n: u32) -> u32 {
        in_one_step!(self, |state| algorithm.refund(state, now, receipt, n))
    }

    fn reset(&self, _: &A) {
        in_one_step!(self, |state| *state = A::State::default());
    }
}
