//! One limit for each of many keys.
//!
//! # Forgetting
//!
//! A key is forgotten when, and only when, its state cannot be told from that
//! of a key never seen, so nobody can notice. No thread and no timer does it,
//! but the calls:
//!
//! * A key is remembered only once it holds something: refusals and looks leave
//!   no entry.
//! * The keys lie in 128 parts. A call that adds a key and finds that the part
//!   has doubled since it was last swept sweeps it. That is a constant number of
//!   inspections for each key added.
//! * Besides, every call looks at one number and, when it is time, sweeps the
//!   next part in turn: each once a second, but never so often that it takes more
//!   than about a hundredth of the calls' time. So a flood that has passed is
//!   cleared by whatever traffic there is.
//! * A call inspects the keys of one part at most: a 128th of all.
//! * A part remembers when the first of its keys may become fresh, and is not
//!   looked through before.
//! * What a part no longer needs of its memory is given back when three
//!   quarters of it are empty.
//!
//! # Locks
//!
//! A decision about a known key holds the part's lock shared; adding, sweeping
//! and changing hold it exclusively, each for one part. Under it run hashing,
//! comparing, cloning (for [`levels`](KeyedRateLimiter::levels)) and dropping of
//! keys, and arithmetic. No clock but this crate's own is read, and no key is
//! made. A place of a key's own is locked under it when a state moves there, and
//! it under the place when the state comes back; both while `editing` is held,
//! and by nobody else.

mod about;
mod at;
mod call;
mod change;
mod lookup;
mod map;
mod own;
mod random_state;
mod room;
mod sweep;
mod verb;

pub use at::KeyedAt;
pub use lookup::{Lookup, Pair};
pub use own::Full;
pub use random_state::{KeyHasher, RandomState};
pub use room::WhenFull;

use crate::algorithm::{Algorithm, IntoAlgorithm, TokenBucket};
use crate::clock::{Clock, Instant, MonotonicClock};
use crate::decision::Decision;
use crate::sync::Mutex;
use crate::verb::{Acquire, Charge, Peek, Refund, Reset};
use about::About;
use change::Versions;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use map::{Map, Part, find};
use own::OwnMap;
use room::Room;
use std::sync::{Arc, OnceLock};
use sweep::Upkeep;

/// Some of the keys.
type PartOf<K, A, S> = Part<K, <A as Algorithm>::Shared, S, About>;

/// A limiter with a state of its own for each key: per user, per address.
///
/// Parameters and clock are stored once; a key costs its state and its place in
/// the map, 36 bytes for a `u64` at a million keys. Keys start unused, are
/// looked up in borrowed form (`&str` for `String`, see [`Lookup`]) and
/// forgotten when they are as good as unused again, without any call or thread
/// for it.
///
/// ```
/// use tollgate::{KeyedRateLimiter, limit};
///
/// let limiter: KeyedRateLimiter<Box<str>> = KeyedRateLimiter::new(limit!("5/s burst 1"));
/// assert!(limiter.try_acquire("alice").is_granted());
/// assert!(limiter.try_acquire("alice").is_denied());
/// assert!(limiter.try_acquire("bob").is_granted());
/// ```
///
/// The methods are those of [`RateLimiter`](crate::RateLimiter), by key.
///
/// # Memory
///
/// A key is forgotten exactly when nobody can notice: when it is as good as
/// never seen. Calls do it on the way, so without a
/// [cap](Self::with_max_keys) there are at most twice as many keys as are in
/// use, and some thousands. In use is a key until 100 ms after it has become
/// fresh. What a flood has left goes within a second or two of calls, on the
/// limiter's clock, or a
/// microsecond a key if that is more; a limiter that is called no more keeps it.
/// An empty one takes 40 KiB.
///
/// # Cost
///
/// A decision about a known key: one hash, one look-up under a shared lock, one
/// decision. A call that cleans up besides looks at no more than a 128th of the
/// keys, for about a tenth of a millisecond at a million, and all that takes a
/// hundredth of the calls' time. `len` adds up 128 numbers.
///
/// # Locks
///
/// Keys are hashed, compared and forgotten under a lock of the map: their `Hash`,
/// `Eq` and `Drop`, and `Clone` where [`levels`](Self::levels) asks for it, must
/// not call the limiter. Clocks of your own may.
pub struct KeyedRateLimiter<K, A: Algorithm = TokenBucket, C = MonotonicClock, S = RandomState> {
    clock: C,
    versions: Versions<A>,
    map: Map<K, A::Shared, S, About>,
    upkeep: Upkeep,
    room: Room<A>,
    /// Keys with parameters of their own.
    own: OnceLock<OwnMap<K, A, S>>,
    /// Held while a key gets or loses parameters of its own.
    editing: Mutex<()>,
    hasher: Arc<S>,
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
        let now = clock.now();
        algorithm.start(now);
        Self::build(algorithm, clock, RandomState::default(), now)
    }
}

impl<K: Eq + Hash, A: Algorithm, C: Clock, S: BuildHasher> KeyedRateLimiter<K, A, C, S> {
    fn build(algorithm: A, clock: C, hasher: S, now: Instant) -> Self {
        let hasher = Arc::new(hasher);
        Self {
            clock,
            versions: Versions::new(algorithm, now),
            map: Map::new(hasher.clone()),
            upkeep: Upkeep::new(now),
            room: Room::default(),
            own: OnceLock::new(),
            editing: Mutex::new(()),
            hasher,
        }
    }

    /// The same limiter, with no keys yet, on another hasher: one line to take
    /// a faster one where nobody can choose the keys.
    ///
    /// ```
    /// use std::hash::{BuildHasherDefault, DefaultHasher};
    /// use tollgate::{KeyedRateLimiter, limit};
    ///
    /// // foldhash::fast::RandomState, say
    /// type Trusted = BuildHasherDefault<DefaultHasher>;
    ///
    /// let limiter = KeyedRateLimiter::new(limit!("5/s")).with_hasher(Trusted::default());
    /// assert!(limiter.try_acquire(&42_u64).is_granted());
    /// ```
    ///
    /// Keys are spread by the upper half of the hash: a hasher that leaves it
    /// zero puts them all in one part.
    #[must_use]
    pub fn with_hasher<H: BuildHasher>(self, hasher: H) -> KeyedRateLimiter<K, A, C, H> {
        let (algorithm, now) = (self.algorithm(), self.clock.now());
        let limiter = KeyedRateLimiter::build(algorithm, self.clock, hasher, now);
        KeyedRateLimiter {
            versions: self.versions.restarted(),
            room: self.room.emptied(),
            ..limiter
        }
    }

    /// Takes a permit of `key`, or is told when there will be one.
    #[inline(always)]
    pub fn try_acquire<Q: Lookup<K> + ?Sized>(&self, key: &Q) -> Decision {
        self.call_now(key, Acquire(1))
    }

    /// Takes `n` permits of `key`, all or none.
    #[inline(always)]
    pub fn try_acquire_n<Q: Lookup<K> + ?Sized>(&self, key: &Q, n: u32) -> Decision {
        self.call_now(key, Acquire(n))
    }

    /// What [`try_acquire`](Self::try_acquire) would say, taking nothing.
    pub fn peek<Q: Lookup<K> + ?Sized>(&self, key: &Q) -> Decision {
        self.call_now(key, Peek(1))
    }

    /// What [`try_acquire_n`](Self::try_acquire_n) would say, taking nothing.
    pub fn peek_n<Q: Lookup<K> + ?Sized>(&self, key: &Q, n: u32) -> Decision {
        self.call_now(key, Peek(n))
    }

    /// Books `n` permits of `key` whether or not they are there, and returns
    /// how many it could book; see [`RateLimiter::charge`](crate::RateLimiter::charge).
    pub fn charge<Q: Lookup<K> + ?Sized>(&self, key: &Q, n: u32) -> u32 {
        self.call_now(key, Charge(n))
    }

    /// Gives the permits of a grant of `key` back, and returns how many were
    /// taken back; see [`RateLimiter::refund`](crate::RateLimiter::refund).
    pub fn refund<Q: Lookup<K> + ?Sized>(&self, key: &Q, grant: Decision) -> u32 {
        let n = grant.permits();
        self.refund_n(key, grant, n)
    }

    /// Gives `n` of the permits of a grant of `key` back and keeps the others.
    /// More than the grant took changes nothing.
    pub fn refund_n<Q: Lookup<K> + ?Sized>(&self, key: &Q, grant: Decision, n: u32) -> u32 {
        match self.call_now(key, Refund(&grant, n)) {
            0 => self.refund_shared(&grant, n, || self.clock.now()),
            given => given,
        }
    }

    /// The same limiter at a time that the caller passes, in place of a clock
    /// reading; see [`RateLimiter::at`](crate::RateLimiter::at).
    ///
    /// A call that takes says that it is so late: keys that are fresh by then may
    /// be forgotten, and are new, at that time, for a call at an earlier one.
    /// Looks say nothing of the kind.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Instant, KeyedRateLimiter, ManualClock, limit};
    ///
    /// // Events carry their own time, and the first of them begins the count.
    /// let first = Instant::from_nanos(1_000_000_000);
    /// let limiter: KeyedRateLimiter<String, _, _> =
    ///     KeyedRateLimiter::with_clock(limit!("1/s"), ManualClock::starting_at(first));
    /// assert!(limiter.at(first).try_acquire("alice").is_granted());
    /// assert!(limiter.at(first + Duration::from_secs(1)).try_acquire("alice").is_granted());
    /// ```
    pub fn at(&self, now: Instant) -> KeyedAt<'_, K, A, C, S> {
        KeyedAt { limiter: self, now }
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The number of keys that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        let sum = || self.map.parts().iter().map(|part| part.about.len()).sum();
        self.room.taken().unwrap_or_else(sum)
    }

    /// Whether no key is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The remembered keys, each with the permits it has left.
    ///
    /// A snapshot, part by part: each is copied when the iterator comes to it,
    /// and no lock is held while you look.
    pub fn levels(&self) -> impl Iterator<Item = (K, u32)> + '_
    where
        K: Clone,
    {
        self.map.parts().iter().flat_map(move |part| {
            let now = self.clock.now();
            let levels = part.snapshot(|state| {
                self.call_in(part, state, now, Peek(0)).map(|decision| decision.remaining())
            });
            levels.into_iter().filter_map(move |(key, level)| {
                let level = level.or_else(|| self.own_level(&key, now))?;
                Some((key, level))
            })
        })
    }

    /// Forgets the key: it starts anew when it is seen again. Says whether it
    /// was known. What a key holds and owes goes with it, and so do
    /// [parameters of its own](Self::set_own). Grants of before cannot be given
    /// back any more, nor can those of the keys that happen to lie in the same
    /// 128th of the map.
    pub fn remove<Q: Lookup<K> + ?Sized>(&self, key: &Q) -> bool {
        let hash = self.map.hash(key);
        let part = self.map.part(hash);
        let (removed, _disowned); // dropped after the lock is given up
        let _editing = self.editing.lock();
        removed = part.remove(hash, |other| key.is(other), || part.about.removed());
        if removed.is_some() {
            self.room.give_up(1);
        }
        _disowned = self.disown(key, hash);
        removed.is_some()
    }

    /// Makes the key as good as never seen. After a
    /// [change](Self::reconfigure) that raised the capacity it has, as new keys
    /// have, what there was before, and gains the rest at the rate.
    pub fn reset<Q: Lookup<K> + ?Sized>(&self, key: &Q) {
        self.call_now(key, Reset);
    }

    /// Forgets all keys, and gives their memory back.
    pub fn clear(&self) {
        let _editing = self.editing.lock();
        for part in self.map.parts() {
            let gone = part.retain(|_, _| {
                part.about.removed();
                false
            });
            self.room.give_up(gone);
            part.shrink(1);
        }
        self.disown_all();
    }

    /// Gives back the memory that the map does not need now.
    pub fn shrink_to_fit(&self) {
        for part in self.map.parts() {
            part.shrink(1);
        }
    }
}

impl<K, A: Algorithm, C, S> fmt::Debug for KeyedRateLimiter<K, A, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedRateLimiter").field("versions", &self.versions).finish_non_exhaustive()
    }
}
