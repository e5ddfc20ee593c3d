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
//! # Change
//!
//! [`reconfigure`](KeyedRateLimiter::reconfigure) goes through the parts, one
//! lock at a time. Under it the keys are [carried](crate::Algorithm::carry)
//! over and the part is flipped to the new parameters, so that every decision
//! finds parameters and state that belong together.
//!
//! # Locks
//!
//! A decision about a known key holds the part's lock shared; adding, sweeping
//! and changing hold it exclusively, each for one part. Under it run hashing,
//! comparing, cloning (for [`levels`](KeyedRateLimiter::levels)) and dropping of
//! keys, and arithmetic. No clock but this crate's own is read, no key is made,
//! and nothing else is locked that could wait for it.

mod eviction;
mod lookup;
mod map;
mod own;
mod random_state;

pub use eviction::WhenFull;
pub use lookup::{Lookup, Pair};
pub use own::Full;
pub use random_state::{KeyHasher, RandomState};

use crate::algorithm::{Algorithm, IntoAlgorithm, TokenBucket};
use crate::clock::{Clock, Instant, MonotonicClock};
use crate::decision::{Decision, Era};
use crate::shared::Shared;
use crate::sync::{Mutex, Parameters};
use crate::verb::{Acquire, Cancel, Charge, Peek, Refund, Reset, Verb};
use core::fmt;
use core::hash::{BuildHasher, Hash};
use eviction::{About, KeyedVerb, Room, Sight, Upkeep};
use map::{Map, Part, find};
use own::OwnMap;
use std::sync::{Arc, OnceLock};

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
/// fresh. What a flood has left goes within a second or two of calls, or a
/// microsecond a key if that is more; a limiter that is called no more keeps it.
/// An empty one takes 50 KiB.
///
/// # Cost
///
/// A decision about a known key: one hash, one look-up under a shared lock, one
/// decision. A call that cleans up besides looks at no more than a 128th of the
/// keys, about a tenth of a millisecond at a million, and in all takes a hundredth of the
/// calls' time. `len` adds up 128 numbers.
pub struct KeyedRateLimiter<K, A: Algorithm = TokenBucket, C = MonotonicClock, S = RandomState> {
    clock: C,
    /// The first parameters; the present ones are here or in a slot.
    first: A,
    slots: [Parameters<A>; 2],
    /// Where the present parameters are, held while they change.
    present: Mutex<u32>,
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
            first: algorithm,
            slots: [Parameters::new(algorithm), Parameters::new(algorithm)],
            present: Mutex::new(0),
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
        let mut limiter = KeyedRateLimiter::build(algorithm, self.clock, hasher, now);
        limiter.room = self.room.emptied();
        limiter.upkeep = self.upkeep;
        limiter
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
            0 if self.room.is_shared() => self.refund_shared(&grant, n, self.clock.now()),
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

    /// Gives back a grant of `key` made at `taken`, whoever has taken since.
    pub(crate) fn cancel<Q>(&self, key: &Q, grant: &Decision, taken: Instant)
    where
        Q: Lookup<K> + ?Sized,
    {
        let refund = Refund(grant, grant.permits());
        if self.call_now(key, refund) > 0 || self.call_now(key, Cancel(grant, taken)) > 0 {
            return;
        }
        let now = self.clock.now();
        self.room.overflow(|own| match own.call(now, refund) {
            Some(0) => own.call(now, Cancel(grant, taken)),
            given => given,
        });
    }

    /// Gives back to the state that keys share for which there was no room; a
    /// grant is of one era alone.
    fn refund_shared(&self, grant: &Decision, n: u32, now: Instant) -> u32 {
        self.room.overflow(|own| own.call(now, Refund(grant, n))).flatten().unwrap_or(0)
    }

    /// Calls by the limiter's clock. One of this crate is read once the state has
    /// been found, since a time-stamp read holds up the loads around it (3 of
    /// 20 ns); any other one before anything is locked.
    #[inline(always)]
    fn call_now<Q, V>(&self, key: &Q, verb: V) -> V::Answer
    where
        Q: Lookup<K> + ?Sized,
        V: KeyedVerb<A>,
    {
        if self.clock.is_built_in() {
            return self.call(key, &self.clock, true, verb);
        }
        self.call(key, &Fixed(self.clock.now()), true, verb)
    }

    /// Calls at a time that the caller says. That a look is at another time must
    /// not be taken for that time, and makes nobody be forgotten.
    fn call_at<Q, V>(&self, key: &Q, now: Instant, verb: V) -> V::Answer
    where
        Q: Lookup<K> + ?Sized,
        V: KeyedVerb<A>,
    {
        self.call(key, &Fixed(now), V::SIGHT == Sight::Adds, verb)
    }

    /// Calls with the state of a key, known or not.
    #[inline(always)]
    fn call<Q, V>(&self, key: &Q, clock: &impl Clock, sweeps: bool, verb: V) -> V::Answer
    where
        Q: Lookup<K> + ?Sized,
        V: KeyedVerb<A>,
    {
        let hash = self.map.hash(key);
        let part = self.map.part(hash);
        loop {
            let known = find!(part, hash, |other| key.is(other), |state| {
                let now = clock.now();
                if V::ENDS_ERA {
                    part.about.cancel();
                }
                let answer = self.call_in(part, state, now, verb);
                if V::ENDS_ERA {
                    part.about.cancel();
                }
                if V::FREES && answer.is_some() {
                    part.about.may_be_fresh_from(now);
                }
                (now, answer)
            });
            // The rare answers do not go straight into the caller's place for
            // them: that would keep the compiler from leaving out what the
            // caller does not need.
            let (now, answer) = match known {
                Some((now, Some(answer))) => (now, answer),
                Some((now, None)) => match self.call_own(key, hash, now, verb) {
                    Some(answer) => (now, answer),
                    None => continue,
                },
                None => {
                    let now = clock.now();
                    match self.first_sight(key, hash, now, verb) {
                        Some(answer) => (now, answer),
                        None => continue,
                    }
                }
            };
            if sweeps && self.upkeep.is_due(now) {
                self.sweep_next(now);
            }
            return answer;
        }
    }

    /// Calls with a state of a part and the parameters that it goes with, while
    /// the part's lock is held.
    #[inline(always)]
    fn call_in<V: Verb<A>>(
        &self,
        part: &Part<K, A::Shared, S, About>,
        state: &A::Shared,
        now: Instant,
        verb: V,
    ) -> Option<V::Answer> {
        let mut changed = None;
        let (algorithm, era) = self.parameters_of(part, &mut changed);
        verb.call(algorithm, state, now, era)
    }

    /// The parameters that the states of a part go with, while its lock is
    /// held, and their era. The slot is not written meanwhile: a change leaves
    /// the parts' present one alone.
    #[inline(always)]
    fn parameters_of<'a>(
        &'a self,
        part: &Part<K, A::Shared, S, About>,
        changed: &'a mut Option<A>,
    ) -> (&'a A, Era) {
        let era = part.about.era();
        match About::slot(era) {
            0 => (&self.first, era),
            slot => (changed.insert(self.parameters(slot)), era),
        }
    }

    /// The same, as a copy. Without the lock the slot may be written meanwhile,
    /// but not before the part has left it.
    fn parameters_in(&self, part: &Part<K, A::Shared, S, About>) -> A {
        loop {
            let era = part.about.era();
            let parameters = self.parameters(About::slot(era));
            if part.about.era() == era {
                return parameters;
            }
        }
    }

    fn parameters(&self, slot: u32) -> A {
        match slot {
            0 => self.first,
            _ => self.slots[(slot & 1) as usize].load(),
        }
    }

    /// The algorithm, with its present parameters. It waits for a change that
    /// is under way.
    pub fn algorithm(&self) -> A {
        self.parameters(*self.present.lock())
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Replaces the parameters for all keys, from now on: see
    /// [`RateLimiter::reconfigure`](crate::RateLimiter::reconfigure). Keys with
    /// [parameters of their own](Self::set_own) keep these.
    ///
    /// It takes 10 to 20 ns a key, a 128th of the keys at a time; a call
    /// for a key in the part that is being changed waits for that part, for
    /// about a tenth of a millisecond at a million keys; all others go on.
    ///
    /// ```
    /// use tollgate::{KeyedRateLimiter, ManualClock, limit};
    ///
    /// let limiter: KeyedRateLimiter<String, _, _> =
    ///     KeyedRateLimiter::with_clock(limit!("10/s burst 100"), ManualClock::new());
    /// assert_eq!(limiter.try_acquire_n("alice", 97).remaining(), 3);
    /// limiter.reconfigure(limit!("1000/s burst 50"));
    /// assert_eq!(limiter.peek("alice").remaining(), 3);
    /// assert_eq!(limiter.peek("bob").remaining(), 50);
    /// ```
    pub fn reconfigure(&self, algorithm: impl IntoAlgorithm<Algorithm = A>) {
        let mut new = algorithm.into_algorithm();
        let now = self.clock.now();
        let mut present = self.present.lock();
        // Keys that were forgotten are new at that time, not before.
        let swept = self.map.parts().iter().map(|part| part.about.swept()).max();
        let now = self.upkeep.after_change(now).max(swept.unwrap_or(now));
        self.upkeep.set_changed_at(now);
        let old = self.parameters(*present);
        new.resume(&old, now);
        // Every part has left the slot that is not the present one.
        let next = *present % 2 + 1;
        self.slots[(next & 1) as usize].store(new);
        for part in self.map.parts() {
            let now = now.max(part.about.swept());
            part.change(
                || part.about.flip(next),
                |state| {
                    state.with_mut(|state| *state = new.carry(&old, state, now));
                },
            );
            part.about.may_be_fresh_from(Instant::ZERO);
        }
        self.room.overflow(|own| own.reconfigure(new, now, self.upkeep.era()));
        *present = next;
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
        let editing = self.editing.lock();
        let removed = part.remove(hash, |other| key.is(other), || part.about.removed());
        if removed.is_some() {
            self.room.give_up(1);
        }
        self.disown(key, hash);
        drop(editing); // before the key
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
        f.debug_struct("KeyedRateLimiter").field("algorithm", &self.first).finish_non_exhaustive()
    }
}

/// A clock that stands at a reading taken before.
struct Fixed(Instant);

impl Clock for Fixed {
    #[inline(always)]
    fn now(&self) -> Instant {
        self.0
    }
}

/// A keyed limiter at a moment, from [`KeyedRateLimiter::at`], with those of its
/// methods that depend on the time of the call.
#[derive(Debug)]
pub struct KeyedAt<'a, K, A: Algorithm, C, S> {
    limiter: &'a KeyedRateLimiter<K, A, C, S>,
    now: Instant,
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
        let given = self.limiter.call_at(key, self.now, Refund(&grant, n));
        given.max(self.limiter.refund_shared(&grant, n, self.now))
    }
}
