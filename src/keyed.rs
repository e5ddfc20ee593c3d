//! One limit for each of many keys.

use crate::algorithm::{Algorithm, IntoAlgorithm, TokenBucket};
use crate::clock::{Clock, Instant, MonotonicClock};
use crate::decision::Decision;
use crate::shared::Shared;
use core::borrow::Borrow;
use core::hash::Hash;
use dashmap::DashMap;

/// A limiter with a state of its own for each key: per user, per address.
///
/// Parameters and clock are stored once; a key costs its state and its place in
/// the map. Keys start unused. A key is looked up in borrowed form (`&str` for
/// `String`) and made only when it is new.
///
/// ```
/// use tollgate::{KeyedRateLimiter, limit};
///
/// let limiter = KeyedRateLimiter::new(limit!("5/s burst 1"));
/// let _: &KeyedRateLimiter<String> = &limiter;
/// assert!(limiter.try_acquire("alice").is_granted());
/// assert!(limiter.try_acquire("alice").is_denied());
/// assert!(limiter.try_acquire("bob").is_granted());
/// ```
#[derive(Debug)]
pub struct KeyedRateLimiter<K: Eq + Hash, A: Algorithm = TokenBucket, C = MonotonicClock> {
    algorithm: A,
    clock: C,
    states: DashMap<K, A::Shared>,
}

impl<K: Eq + Hash, A: Algorithm> KeyedRateLimiter<K, A> {
    /// A limiter on the default clock.
    #[must_use]
    pub fn new(algorithm: impl IntoAlgorithm<Algorithm = A>) -> Self {
        Self::with_clock(algorithm, MonotonicClock::new())
    }
}

impl<K: Eq + Hash, A: Algorithm, C: Clock> KeyedRateLimiter<K, A, C> {
    /// A limiter on a clock of your choice. It counts from now on.
    #[must_use]
    pub fn with_clock(algorithm: impl IntoAlgorithm<Algorithm = A>, clock: C) -> Self {
        let mut algorithm = algorithm.into_algorithm();
        algorithm.start(clock.now());
        Self { algorithm, clock, states: DashMap::new() }
    }

    /// Takes a permit of `key`, or is told when there will be one.
    pub fn try_acquire<Q>(&self, key: &Q) -> Decision
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        self.try_acquire_n(key, 1)
    }

    /// Takes `n` permits of `key`, all or none.
    pub fn try_acquire_n<Q>(&self, key: &Q, n: u32) -> Decision
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        self.decide(key, n, || self.clock.now())
    }

    /// The same at a time that the caller passes.
    pub fn try_acquire_n_at<Q>(&self, key: &Q, n: u32, now: Instant) -> Decision
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        self.decide(key, n, || now)
    }

    /// The clock is read after the look-up: a time-stamp read holds up the
    /// loads around it, and the time is closer to the decision.
    fn decide<Q>(&self, key: &Q, n: u32, now: impl Fn() -> Instant) -> Decision
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(state) = self.states.get(key) {
            return state.try_acquire(&self.algorithm, now(), n);
        }
        let state = self.states.entry(key.to_owned()).or_default();
        state.try_acquire(&self.algorithm, now(), n)
    }

    /// The number of keys that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether no key is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }
}
