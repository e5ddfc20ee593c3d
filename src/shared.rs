//! How threads share one state.
//!
//! | | a grant | a refusal | a stopped thread |
//! |---|---|---|---|
//! | [`AtomicState`]: one 64-bit word | one compare-exchange | one load | holds up nobody |
//! | [`RingState`]: a log | one compare-exchange, and one for each permit | four loads | holds up nobody |
//! | [`MutexState`]: any state | a lock | a lock | holds up everybody while it has the lock |

mod atomic;
mod mutex;
mod none;
mod ring;

pub use atomic::AtomicState;
pub use mutex::MutexState;
pub use none::NoState;
pub use ring::RingState;

use crate::algorithm::Algorithm;
use crate::clock::Instant;
use crate::decision::{Decision, decide, foresee};
use core::fmt::Debug;
use core::ops::DerefMut;

/// The state of an algorithm `A` between threads.
///
/// Each call takes effect in one step: no other call sees it half done.
///
/// A state can be [set aside](Self::set_aside): what it was has then moved to
/// another place that its owner knows, and every call answers `None`, without a
/// price for states that are not.
pub trait Shared<A: Algorithm>: Debug + Send + Sync + Sized {
    /// Whether a grant stands once others have been granted after it; see
    /// [`Algorithm::STANDS`].
    const STANDS: bool = A::STANDS;

    /// Begins as `state`.
    fn new(algorithm: &A, state: A::State) -> Self;

    /// Takes `n` permits, all or none.
    fn try_acquire(&self, algorithm: &A, now: Instant, n: u32) -> Option<Decision>;

    /// What [`try_acquire`](Self::try_acquire) would say, taking nothing.
    fn peek(&self, algorithm: &A, now: Instant, n: u32) -> Option<Decision>;

    /// Books up to `n` permits and returns how many.
    fn charge(&self, algorithm: &A, now: Instant, n: u32) -> Option<u32>;

    /// Gives back up to `n` of the permits of a grant and returns how many.
    fn refund(&self, algorithm: &A, now: Instant, receipt: u128, n: u32) -> Option<u32>;

    /// Gives back up to `n` permits of a grant made at `taken`, whoever has
    /// taken since, and returns how many.
    fn cancel(&self, algorithm: &A, now: Instant, taken: Instant, n: u32) -> Option<u32>;

    /// Forgets everything.
    fn reset(&self, algorithm: &A, now: Instant) -> Option<()>;

    /// Sets the state aside, in one step with the last call of `successor`,
    /// which may be called several times and must make ready the place where
    /// the given state goes on. What is aside already stays as it is.
    fn set_aside(&self, algorithm: &A, successor: impl FnMut(&A::State));

    /// Becomes `state`, whatever it was: the end of being aside. No other thread
    /// calls meanwhile.
    fn replace(&self, algorithm: &A, state: A::State);

    /// Looks at the state while no other thread can.
    fn look<R>(&mut self, algorithm: &A, look: impl FnOnce(&A::State) -> R) -> Option<R>;

    /// [`Algorithm::fresh_at`], while no other thread can call.
    fn fresh_at(&mut self, algorithm: &A) -> Option<Instant> {
        self.look(algorithm, |state| algorithm.fresh_at(state))
    }
}

/// A place that holds a state which is changed one whole step at a time.
pub(crate) trait Cell: Debug + Send + Sync {
    type State;
    type Step<'a>: DerefMut<Target = Self::State>
    where
        Self: 'a;

    fn holding(state: Self::State) -> Self;

    /// The present state, to look at or to change; none if it is aside.
    fn begin(&self) -> Option<Self::Step<'_>>;

    /// Makes the changes of a step the present state, unless another thread has
    /// changed it meanwhile: then begins again with what it is now.
    fn commit<'a>(&'a self, step: Self::Step<'a>) -> Result<(), Option<Self::Step<'a>>>;

    /// The last step: the state that is committed is no longer here.
    fn retire<'a>(&'a self, step: Self::Step<'a>) -> Result<(), Option<Self::Step<'a>>>;

    fn set(&self, state: Self::State);
}

/// Runs a pure expression on the state of a cell, until it is committed.
///
/// A macro rather than a function with a closure: the whole must be inlined
/// into the caller for the compiler to leave out the parts of a decision that
/// nobody looks at (19 against 10 ns), and closures cannot be made to.
macro_rules! in_one_step {
    ($cell:expr, $commit:ident, |$state:ident| $answer:expr) => {{
        let cell = $cell;
        let mut step = cell.begin()?;
        loop {
            let $state = &mut *step;
            let answer = $answer;
            match cell.$commit(step) {
                Ok(()) => break Some(answer),
                Err(newer) => step = newer?,
            }
        }
    }};
}

impl<A: Algorithm, C: Cell<State = A::State>> Shared<A> for C {
    fn new(_: &A, state: A::State) -> Self {
        Self::holding(state)
    }

    #[inline(always)]
    fn try_acquire(&self, algorithm: &A, now: Instant, n: u32) -> Option<Decision> {
        in_one_step!(self, commit, |state| decide(algorithm, state, now, n))
    }

    #[inline(always)]
    fn peek(&self, algorithm: &A, now: Instant, n: u32) -> Option<Decision> {
        Some(foresee(algorithm, &*self.begin()?, now, n))
    }

    fn charge(&self, algorithm: &A, now: Instant, n: u32) -> Option<u32> {
        in_one_step!(self, commit, |state| algorithm.charge(state, now, n))
    }

    fn refund(&self, algorithm: &A, now: Instant, receipt: u128, n: u32) -> Option<u32> {
        in_one_step!(self, commit, |state| algorithm.refund(state, now, receipt, n))
    }

    fn cancel(&self, algorithm: &A, now: Instant, taken: Instant, n: u32) -> Option<u32> {
        in_one_step!(self, commit, |state| algorithm.cancel(state, now, taken, n))
    }

    fn reset(&self, algorithm: &A, now: Instant) -> Option<()> {
        in_one_step!(self, commit, |state| algorithm.reset(state, now))
    }

    fn set_aside(&self, _: &A, successor: impl FnMut(&A::State)) {
        fn retired<C: Cell>(cell: &C, mut successor: impl FnMut(&C::State)) -> Option<()> {
            in_one_step!(cell, retire, |state| successor(state))
        }
        let _: Option<()> = retired(self, successor);
    }

    fn replace(&self, _: &A, state: A::State) {
        self.set(state);
    }

    fn look<R>(&mut self, _: &A, look: impl FnOnce(&A::State) -> R) -> Option<R> {
        Some(look(&*self.begin()?))
    }
}

/// Takes a state over from old parameters, unless it is aside.
pub(crate) fn carry<A: Algorithm>(state: &mut A::Shared, old: &A, new: &A, now: Instant) {
    if let Some(carried) = state.look(old, |state| new.carry(old, state, now)) {
        state.replace(new, carried);
    }
}
