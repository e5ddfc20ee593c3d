//! When keys are forgotten, and what happens when there are too many.
//!
//! # Orderings
//!
//! All relaxed. What belongs to a part is written and read under its lock where
//! it has to agree with the keys; the counters are hints of when to look, or
//! count by single read-modify-writes.

use super::map::Part;
use super::own::Own;
use super::{KeyedRateLimiter, Lookup};
use crate::algorithm::Algorithm;
use crate::clock::{Clock, Instant};
use crate::decision::{Decision, Era, decide, foresee};
use crate::error::ConfigError;
use crate::shared::Shared;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::verb::{Acquire, Cancel, Charge, Peek, Refund, Reset, Verb};
use core::hash::{BuildHasher, Hash};

/// A part is not swept for being doubled before it has so many keys.
const FEW: u64 = 32;

/// The keys that a call looks at when there is no room, if no part holds more.
const INSPECTED: usize = 64;

/// The time of calls that pays for inspecting a key, which takes about a
/// hundredth of it.
const NANOS_PER_KEY: u64 = 1_000;

/// Without need no key is forgotten sooner after it has become fresh, and no
/// part swept more often than [`SECOND`]: to make a key again costs ten times a
/// look-up.
const GRACE: u64 = 100_000_000;
const SECOND: u64 = 1_000_000_000;

fn before_grace(now: Instant) -> Instant {
    Instant::from_nanos(now.as_nanos().saturating_sub(GRACE))
}

/// What is known about the keys of a part.
#[derive(Debug)]
pub(super) struct About {
    /// Which parameters their states go with.
    pub(super) generation: AtomicU64,
    /// How often something other than a newest grant has been undone, counted
    /// before and after, as in a limiter of one key.
    pub(super) cancels: AtomicU64,
    /// The latest time at which a key was forgotten: a key that is new is
    /// decided at this time or later, so that a clock which steps back gives
    /// nobody what a forgotten state would have refused.
    swept: AtomicU64,
    /// The number of keys after the last sweep.
    kept: AtomicU64,
    /// No state is fresh before.
    fresh_from: AtomicU64,
}

impl Default for About {
    fn default() -> Self {
        Self {
            generation: AtomicU64::new(0),
            cancels: AtomicU64::new(0),
            swept: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            fresh_from: AtomicU64::new(u64::MAX),
        }
    }
}

impl About {
    pub(super) fn swept(&self) -> Instant {
        Instant::from_nanos(self.swept.load(Ordering::Relaxed))
    }

    pub(super) fn may_be_fresh_from(&self, at: Instant) {
        if at < self.fresh_from() {
            self.fresh_from.fetch_min(at.as_nanos(), Ordering::Relaxed);
        }
    }

    fn fresh_from(&self) -> Instant {
        Instant::from_nanos(self.fresh_from.load(Ordering::Relaxed))
    }
}

/// What is known about all keys.
#[derive(Debug)]
pub(super) struct Upkeep {
    /// Numbers for those whose parameters are not the map's.
    eras: AtomicU64,
    /// The part whose turn it is.
    hand: AtomicU64,
    /// When it is.
    next_sweep: AtomicU64,
    /// How long a key takes at most to become fresh, but a second at least.
    refill: AtomicU64,
}

impl Upkeep {
    pub(super) fn new<A: Algorithm>(algorithm: &A, now: Instant) -> Self {
        let upkeep = Self {
            eras: AtomicU64::new(1 << 63),
            hand: AtomicU64::new(0),
            next_sweep: AtomicU64::new(0),
            refill: AtomicU64::new(0),
        };
        upkeep.set_refill(algorithm, now);
        upkeep
    }

    pub(super) fn set_refill<A: Algorithm>(&self, algorithm: &A, now: Instant) {
        let mut state = algorithm.unseen();
        algorithm.charge(&mut state, now, u32::MAX);
        let refill = algorithm.fresh_at(&state).nanos_since(now);
        self.refill.store(refill.max(SECOND), Ordering::Relaxed);
        self.next_sweep.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn era(&self) -> Era {
        Era { generation: self.eras.fetch_add(1, Ordering::Relaxed), cancels: 0 }
    }

    #[inline(always)]
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now.as_nanos() >= self.next_sweep.load(Ordering::Relaxed)
    }
}

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

/// What a keyed limiter does with a new key when it holds as many as it may
/// ([`with_max_keys`](KeyedRateLimiter::with_max_keys)) and none of them can be
/// forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WhenFull {
    /// Refuses it; see [`Decision::is_full`].
    Refuse,
    /// Decides by one state that all new keys share, as though they were one.
    Share,
}

#[derive(Debug)]
pub(super) struct Room<A: Algorithm> {
    /// How many keys there may be, if that is bounded.
    max: Option<u64>,
    /// How many there are, if so.
    taken: AtomicU64,
    overflow: Option<Mutex<Own<A>>>,
}

impl<A: Algorithm> Default for Room<A> {
    fn default() -> Self {
        Self { max: None, taken: AtomicU64::new(0), overflow: None }
    }
}

impl<A: Algorithm> Room<A> {
    /// The same room without the keys.
    pub(super) fn emptied(self) -> Self {
        Self { taken: AtomicU64::new(0), ..self }
    }

    /// Takes a place if there is one.
    fn take(&self) -> bool {
        let Some(max) = self.max else {
            return true;
        };
        let more = |taken| (taken < max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Takes a place for a key that may have one already.
    fn take_again(&self) {
        if self.max.is_some() {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn give_up(&self, places: usize) {
        if self.max.is_some() {
            self.taken.fetch_sub(places as u64, Ordering::Relaxed);
        }
    }

    fn is_full(&self) -> bool {
        self.max.is_some_and(|max| self.taken.load(Ordering::Relaxed) >= max)
    }

    pub(super) fn overflow<R>(&self, work: impl FnOnce(&mut Own<A>) -> R) -> Option<R> {
        self.overflow.as_ref().map(|own| work(&mut own.lock()))
    }
}

impl<K: Eq + Hash, A: Algorithm, C: Clock, S: BuildHasher> KeyedRateLimiter<K, A, C, S> {
    /// The same limiter, never holding more than `max` keys. A key that is
    /// still limited is not forgotten to make room for another.
    ///
    /// When all places are taken, a new key makes the call look for keys that
    /// are as good as unused, in turn, in parts where there may be any. It
    /// looks through one part or 64 keys, whichever is more: where it gives up,
    /// the next call goes on.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Zero`] for no keys at all.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedRateLimiter, ManualClock, WhenFull, limit};
    ///
    /// let clock = ManualClock::new();
    /// let limiter: KeyedRateLimiter<String, _, _> =
    ///     KeyedRateLimiter::with_clock(limit!("1/s"), clock.clone())
    ///         .with_max_keys(1, WhenFull::Refuse)?;
    /// assert!(limiter.try_acquire("alice").is_granted());
    /// let refused = limiter.try_acquire("bob");
    /// assert!(refused.is_full());
    /// clock.advance(refused.retry_after().unwrap());
    /// assert!(limiter.try_acquire("bob").is_granted());
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    pub fn with_max_keys(mut self, max: usize, when_full: WhenFull) -> Result<Self, ConfigError> {
        if max == 0 {
            return Err(ConfigError::Zero("max_keys"));
        }
        self.room.max = Some(max as u64);
        self.room.taken = AtomicU64::new(self.len() as u64);
        self.room.overflow = match when_full {
            WhenFull::Refuse => None,
            WhenFull::Share => Some(Mutex::new(Own::new(self.first, self.upkeep.era()))),
        };
        Ok(self)
    }

    /// Calls with the state of a key that is not in the map; none if it is to be
    /// looked up again.
    #[cold]
    pub(super) fn first_sight<Q, V>(
        &self,
        key: &Q,
        hash: u64,
        now: Instant,
        verb: V,
    ) -> Option<V::Answer>
    where
        Q: Lookup<K> + ?Sized,
        V: KeyedVerb<A>,
    {
        let part = self.map.part(hash);
        if V::SIGHT != Sight::Adds {
            let answer = self.passing_sight(part, now, verb);
            return Some(answer);
        }
        if !self.reserve(now) {
            return Some(self.crowded(part, now, verb));
        }
        let (answer, added) = part.find_or_add((hash, key.to_key()), |known| {
            let now = now.max(part.about.swept());
            if let Some(state) = known {
                return (self.call_in(part, state, now, verb), None);
            }
            let mut changed = None;
            let (algorithm, era) = self.parameters_of(part, &mut changed);
            let mut state = algorithm.unseen();
            let (answer, took) = verb.begin(algorithm, &mut state, now, era);
            if !took {
                return (Some(answer), None);
            }
            // Under the lock, or a sweep in between would not know.
            part.about.may_be_fresh_from(algorithm.fresh_at(&state));
            (Some(answer), Some(A::Shared::new(state)))
        });
        match added {
            Ok(len) => self.sweep_if_doubled(part, len as u64, now),
            Err(_) => self.room.give_up(1),
        }
        answer
    }

    /// Calls with the state that a key has which is not remembered.
    fn passing_sight<V: KeyedVerb<A>>(
        &self,
        part: &Part<K, A::Shared, S, About>,
        now: Instant,
        verb: V,
    ) -> V::Answer {
        if V::SIGHT == Sight::Looks && self.room.is_full() && self.room_from() > now {
            return self.crowded(part, now, verb);
        }
        let algorithm = self.parameters_in(part);
        verb.begin(&algorithm, &mut algorithm.unseen(), now.max(part.about.swept()), Era::default())
            .0
    }

    /// Calls for a key that there is no room for.
    fn crowded<V: KeyedVerb<A>>(
        &self,
        part: &Part<K, A::Shared, S, About>,
        now: Instant,
        verb: V,
    ) -> V::Answer {
        let shared = self.room.overflow(|own| own.call(now, verb)).flatten();
        shared.unwrap_or_else(|| {
            let wait = self.room_from().nanos_since(now);
            verb.crowded_out(&self.parameters_in(part), now, wait)
        })
    }

    /// No key can be forgotten before.
    fn room_from(&self) -> Instant {
        self.map.parts().iter().map(|part| part.about.fresh_from()).min().unwrap_or(Instant::MAX)
    }

    /// Counts one more key, if there is room or can be made.
    fn reserve(&self, now: Instant) -> bool {
        while !self.room.take() {
            if !self.make_room(now) {
                return false;
            }
        }
        true
    }

    /// The same for a key that may be there.
    pub(super) fn reserve_for<Q: Lookup<K> + ?Sized>(
        &self,
        key: &Q,
        hash: u64,
        now: Instant,
    ) -> bool {
        if self.map.part(hash).find(hash, |other| key.is(other), |_| ()).is_none() {
            return self.reserve(now);
        }
        self.room.take_again();
        true
    }

    /// Forgets a key, if there is one to be found.
    fn make_room(&self, now: Instant) -> bool {
        let mut inspected = 0;
        for _ in self.map.parts() {
            let part = self.next_part();
            if part.about.fresh_from() > now {
                continue;
            }
            inspected += part.len();
            if self.sweep_part(part, now, now) > 0 {
                return true;
            }
            if inspected >= INSPECTED {
                return false;
            }
        }
        false
    }

    fn next_part(&self) -> &Part<K, A::Shared, S, About> {
        let hand = self.upkeep.hand.fetch_add(1, Ordering::Relaxed);
        &self.map.parts()[hand as usize % self.map.parts().len()]
    }

    fn sweep_if_doubled(&self, part: &Part<K, A::Shared, S, About>, len: u64, now: Instant) {
        if len < 2 * part.about.kept.load(Ordering::Relaxed) + FEW {
            return;
        }
        let fresh_by = before_grace(now);
        if part.about.fresh_from() <= fresh_by {
            self.sweep_part(part, now, fresh_by);
        } else {
            part.about.kept.store(len, Ordering::Relaxed);
        }
    }

    /// Sweeps the part whose turn it is.
    #[cold]
    pub(super) fn sweep_next(&self, now: Instant) {
        let Upkeep { next_sweep, refill, .. } = &self.upkeep;
        let due = next_sweep.load(Ordering::Relaxed);
        if due > now.as_nanos() {
            return; // another thread's
        }
        let pace = refill.load(Ordering::Relaxed) / self.map.parts().len() as u64;
        let next = now.after_nanos(pace).as_nanos();
        let turn = next_sweep.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        if turn.is_err() {
            return;
        }
        let part = self.next_part();
        let fresh_by = before_grace(now);
        if part.about.fresh_from() <= fresh_by {
            let inspected = part.len() as u64;
            self.sweep_part(part, now, fresh_by);
            let rest = now.after_nanos(inspected.saturating_mul(NANOS_PER_KEY)).as_nanos();
            next_sweep.fetch_max(rest, Ordering::Relaxed);
        }
    }

    /// Forgets all keys that are as good as never seen, now, and returns how
    /// many. There is no need to call it.
    ///
    /// It looks at all keys, part by part, and gives their memory back.
    pub fn sweep(&self) -> usize {
        let parts = self.map.parts().iter();
        let sweep = |part| {
            let now = self.clock.now();
            self.sweep_part(part, now, now)
        };
        parts.map(sweep).sum()
    }

    /// Forgets what has been fresh since `fresh_by`, `now` or before.
    fn sweep_part(
        &self,
        part: &Part<K, A::Shared, S, About>,
        now: Instant,
        fresh_by: Instant,
    ) -> usize {
        let about = &part.about;
        about.swept.fetch_max(now.as_nanos(), Ordering::Relaxed);
        // What is lowered from here on is not raised by what is found.
        about.fresh_from.store(u64::MAX, Ordering::Relaxed);
        let mut first = Instant::MAX;
        let mut kept = 0;
        let mut parameters = None;
        let gone = part.retain(|_, state| {
            let (algorithm, settled) = parameters.get_or_insert_with(|| {
                let algorithm = self.parameters_in(part);
                (algorithm, algorithm.fresh_at(&algorithm.unseen()))
            });
            let fresh_at = match state.with_mut(|state| algorithm.fresh_at(state)) {
                Some(fresh_at) => fresh_at.max(*settled),
                None => Instant::MAX, // aside: it is needed as a sign
            };
            let keeps = fresh_at > fresh_by || fresh_at == Instant::MAX;
            if keeps {
                first = first.min(fresh_at);
                kept += 1;
            }
            keeps
        });
        about.may_be_fresh_from(first);
        about.kept.store(kept, Ordering::Relaxed);
        self.room.give_up(gone);
        part.shrink(4);
        gone
    }
}
