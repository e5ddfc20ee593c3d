//! The algorithms: pure rules that know no clock, no lock and no key.
//!
//! An algorithm answers one question, *when could `n` permits be had?*, about a
//! state that somebody else keeps. Everything a caller can ask is derived from
//! the answer, in one place. How threads share the state is a separate choice
//! ([`Shared`](crate::Shared)): each algorithm names the best way for it, and
//! [`Locked`] puts any algorithm behind a mutex with the same answers.
//!
//! A new algorithm is one new file here, its name in the two lists below and in
//! `lib.rs`, and one line in the list of `tests/common/mod.rs`, which runs it
//! through the laws. Its state should be a `u64` with [`AtomicState`], or anything
//! with [`MutexState`](crate::MutexState).
//!
//! [`AtomicState`]: crate::AtomicState

mod all;
mod constant;
mod fixed_window;
pub(crate) mod grant_log;
mod leaky_bucket;
mod locked;
mod sliding_window_counter;
mod sliding_window_log;
mod token_bucket;

pub use constant::{DenyAll, Unlimited};
pub use fixed_window::FixedWindow;
pub use leaky_bucket::LeakyBucket;
pub use locked::Locked;
pub use sliding_window_counter::SlidingWindowCounter;
pub use sliding_window_log::SlidingWindowLog;
pub use token_bucket::TokenBucket;

use crate::clock::Instant;
use crate::rate::{Limit, Rate};
use crate::shared::Shared;
use core::fmt::Debug;

/// A rate-limiting algorithm: parameters, and pure functions of a state.
///
/// A state begins as [`unseen`](Self::unseen). The methods are called by a
/// limiter, with a state that no other thread is changing. Parameters are plain
/// numbers, to be copied: [`reconfigure`](crate::RateLimiter::reconfigure)
/// replaces them while others read them.
///
/// # Laws
///
/// 1. `earliest` is never before `now`, and a call at exactly `earliest`
///    succeeds if nobody took anything in between: the promised wait is enough,
///    and one nanosecond less is not.
/// 2. Once possible, possible at every later moment while nothing is taken.
///    So the answer for several algorithms together is the latest of theirs.
/// 3. From `fresh_at` on, and from the one of `unseen` on, a state cannot be
///    told from `unseen`. So forgetting it then is invisible.
/// 4. Only `take`, `charge` and `refund` change a state: a refusal leaves no
///    trace.
/// 5. Time that steps back creates no permits, panics nowhere, and locks nobody
///    out for longer than the step.
/// 6. More than `capacity` permits in one call is its own answer, not a wait:
///    the other methods are never asked for them.
pub trait Algorithm: Copy + Debug + Send + Sync {
    /// What is remembered between calls.
    type State: Debug + Send;

    /// How threads share the state.
    type Shared: Shared<Self>;

    /// Whether a grant stands once others have been granted after it:
    /// [`cancel`](Self::cancel) does nothing.
    const STANDS: bool = true;

    /// Begins to count at `now`. Called once, when a limiter is made.
    fn start(&mut self, now: Instant);

    /// The state of a caller who has never been seen.
    fn unseen(&self) -> Self::State;

    /// Takes over from `old` at `now`, instead of [`start`](Self::start). From
    /// now on [`unseen`](Self::unseen) is what [`carry`](Self::carry) makes of
    /// the old one: a change hands out nothing to anybody.
    fn resume(&mut self, old: &Self, now: Instant);

    /// The state with as many permits left at `now` as `state` had under `old`,
    /// if these parameters allow so many; rounded down. In a queue it is the
    /// number that waits which is kept.
    fn carry(&self, old: &Self, state: &Self::State, now: Instant) -> Self::State;

    /// The most permits one call may take.
    fn capacity(&self) -> u32;

    /// When `n` permits can be taken: `now`, or later if not yet.
    /// `n` is from 1 to [`capacity`](Self::capacity).
    fn earliest(&self, state: &Self::State, now: Instant, n: u32) -> Instant;

    /// Whether `n` permits can be taken `now`: whether
    /// [`earliest`](Self::earliest) is `now`, for callers who do not ask when.
    #[inline(always)]
    fn is_possible(&self, state: &Self::State, now: Instant, n: u32) -> bool {
        self.earliest(state, now, n) <= now
    }

    /// When the holder of `n` permits taken `now` may act; later than `now` for
    /// an algorithm that queues.
    #[inline]
    fn departure(&self, state: &Self::State, now: Instant, n: u32) -> Instant {
        let _ = (state, n);
        now
    }

    /// Takes `n` permits, which [`earliest`](Self::earliest) has found
    /// possible `now`.
    fn take(&self, state: &mut Self::State, now: Instant, n: u32);

    /// The most permits a call could take `now`.
    fn remaining(&self, state: &Self::State, now: Instant) -> u32;

    /// From when on the state is as good as never used; [`Instant::MAX`] for
    /// never.
    fn fresh_at(&self, state: &Self::State) -> Instant;

    /// Books up to `n` permits whether or not they are there, and returns how
    /// many it has booked.
    fn charge(&self, state: &mut Self::State, now: Instant, n: u32) -> u32;

    /// Something to know a grant by: it changes with every permit taken, unless
    /// it does not matter which of two grants is undone.
    fn receipt(&self, state: &Self::State) -> u128;

    /// Gives back up to `n` of the permits of the grant after which
    /// [`receipt`](Self::receipt) was `receipt`, and returns how many.
    fn refund(&self, state: &mut Self::State, now: Instant, receipt: u128, n: u32) -> u32;

    /// Gives back up to `n` permits of a grant that was made at `taken`, even if
    /// others have been granted since, and returns how many: no more than leave
    /// everything that is granted within the algorithm's bound, whatever else
    /// is given back. None, where a grant once made [stands](Self::STANDS).
    ///
    /// Receipts from before are worth nothing after it.
    fn cancel(&self, state: &mut Self::State, now: Instant, taken: Instant, n: u32) -> u32 {
        let _ = (state, now, taken, n);
        0
    }

    /// Forgets what has been taken: gives back all but what a caller never seen
    /// lacks.
    fn reset(&self, state: &mut Self::State, now: Instant) {
        let _ = now;
        *state = self.unseen();
    }

    /// What a caller is told beside the decision, `refused` being the permits
    /// that could not be had. Only an algorithm made of several overrides it.
    #[inline]
    fn report(&self, state: &Self::State, now: Instant, refused: Option<u32>) -> Report {
        let _ = refused;
        Report {
            limit: self.capacity(),
            remaining: self.remaining(state, now),
            reset_at: self.fresh_at(state),
            index: 0,
        }
    }
}

/// The numbers that go with a decision; see [`Algorithm::report`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The most permits one call may take.
    pub limit: u32,
    /// The permits left.
    pub remaining: u32,
    /// When the state is as good as never used, or its window ends.
    pub reset_at: Instant,
    /// The position of the limit that the numbers describe, among several.
    pub index: usize,
}

/// What a limiter can be made of: an algorithm, or a [`Limit`] or [`Rate`] as
/// short for the [`TokenBucket`] of it.
pub trait IntoAlgorithm {
    /// The algorithm it becomes.
    type Algorithm: Algorithm;

    /// Becomes it.
    fn into_algorithm(self) -> Self::Algorithm;
}

impl<A: Algorithm> IntoAlgorithm for A {
    type Algorithm = A;

    fn into_algorithm(self) -> A {
        self
    }
}

impl IntoAlgorithm for Limit {
    type Algorithm = TokenBucket;

    fn into_algorithm(self) -> TokenBucket {
        self.into()
    }
}

impl IntoAlgorithm for Rate {
    type Algorithm = TokenBucket;

    fn into_algorithm(self) -> TokenBucket {
        self.into()
    }
}
