use super::{KeyedRateLimiter, Lookup};
use crate::algorithm::Algorithm;
use crate::clock::{Clock, Instant};
use crate::decision::Decision;
use crate::verb::{Acquire, Charge, Peek, Refund};
use core::hash::{BuildHasher, Hash};

/// A keyed limiter at a moment, from [`KeyedRateLimiter::at`], with those of its
/// methods that depend on the time of the call.
#[derive(Debug)]
pub struct KeyedAt<'a, K, A: Algorithm, C, S> {
    pub(super) limiter: &'a KeyedRateLimiter<K, A, C, S>,
    pub(super) now: Instant,
}

impl<K: Eq + Hash, A: Algorithm, C: Clock, S: BuildHasher> KeyedAt<'_, K, A, C, S> {
    /// Takes a permit of `key`, or is told when there will be one.
    pub fn try_acquire<Q: Lookup<K> + ?Sized>(&self, key: &Q) -> Decision {
        self.try_acquire_n(key, 1)
    }

    /// Takes `n` permits of `key`, all or none.
    pub fn try_acquire_n<Q: Lookup<K> + ?Sized>(&self, key: &Q, n: u32) -> Decision {
        self.limiter.call_at(key, self.now, Acquire(n))
    }

    /// What [`try_acquire`](Self::try_acquire) would say, taking nothing.
    pub fn peek<Q: Lookup<K> + ?Sized>(&self, key: &Q) -> Decision {
        self.peek_n(key, 1)
    }

    /// What [`try_acquire_n`](Self::try_acquire_n) would say, taking nothing.
    pub fn peek_n<Q: Lookup<K> + ?Sized>(&self, key: &Q, n: u32) -> Decision {
        self.limiter.call_at(key, self.now, Peek(n))
    }

    /// Books up to `n` permits of `key` and returns how many.
    pub fn charge<Q: Lookup<K> + ?Sized>(&self, key: &Q, n: u32) -> u32 {
        self.limiter.call_at(key, self.now, Charge(n))
    }

    /// Gives the permits of a grant of `key` back and returns how many.
    pub fn refund<Q: Lookup<K> + ?Sized>(&self, key: &Q, grant: Decision) -> u32 {
        let n = grant.permits();
        self.refund_n(key, grant, n)
    }

    /// Gives `n` of the permits of a grant of `key` back.
    pub fn refund_n<Q: Lookup<K> + ?Sized>(&self, key: &Q, grant: Decision, n: u32) -> u32 {
        match self.limiter.call_at(key, self.now, Refund(&grant, n)) {
            0 => self.limiter.refund_shared(&grant, n, || self.now),
            given => given,
        }
    }
}
