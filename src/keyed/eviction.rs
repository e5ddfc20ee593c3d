//! When keys are forgotten, and what happens when there are too many.
//!
//! # Orderings
//!
//! What belongs to a part is changed under its exclusive lock, which orders it
//! with the keys, but for two numbers. `fresh_from` is only lowered under the
//! shared lock. An era is read before the grant that it is kept with, so that
//! read acquires; and it is released when it ends, since looks at a key that is
//! not there read it and then the parameters without the lock. All else is
//! relaxed: hints of when to look, or counts by single read-modify-writes.

use super::map::{Gate, Part};
use super::own::Own;
use super::{KeyedRateLimiter, Lookup};
use crate::algorithm::Algorithm;
use crate::clock::{Clock, Instant};
use crate::decision::{Decision, Era, decide, foresee};
use crate::error::ConfigError;
use crate::shared::Shared;
use crate::sync::{AtomicU16, AtomicU32, AtomicU64, Mutex, Ordering};
use crate::verb::{Acquire, Cancel, Charge, Peek, Refund, Reset, Verb};
use core::hash::{BuildHasher, Hash};

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
    /// The era of their states. Of its tenure, the lowest two bits say where the
    /// parameters are.
    era: AtomicU64,
    /// The latest time at which a key was forgotten: a key that is new is
    /// decided at this time or later, so that a clock which steps back gives
    /// nobody what a forgotten state would have refused.
    swept: AtomicU64,
    /// No state is fresh before.
    fresh_from: AtomicU64,
    /// The number of keys.
    len: AtomicU32,
    /// The number of keys after the last sweep, in sixteens, which leaves room
    /// for the gate.
    kept: AtomicU16,
    gate: Gate,
}

impl AsRef<Gate> for About {
    #[inline(always)]
    fn as_ref(&self) -> &Gate {
        &self.gate
    }
}

impl Default for About {
    fn default() -> Self {
        Self {
            era: AtomicU64::new(0),
            swept: AtomicU64::new(0),
            fresh_from: AtomicU64::new(u64::MAX),
            len: AtomicU32::new(0),
            kept: AtomicU16::new(0),
            gate: Gate::default(),
        }
    }
}

const SLOT_BITS: u32 = 2;

impl About {
    #[inline(always)]
    pub(super) fn era(&self) -> Era {
        Era::from_bits(self.era.load(Ordering::Acquire))
    }

    /// Where the parameters are: zero is the first.
    #[inline(always)]
    pub(super) fn slot(era: Era) -> u32 {
        era.tenure() % (1 << SLOT_BITS)
    }

    /// Begins a new tenure, with other parameters.
    pub(super) fn flip(&self, slot: u32) {
        self.change_era(|era| {
            let tenure = (era.tenure() >> SLOT_BITS).wrapping_add(1);
            Era::new(tenure << SLOT_BITS | slot, 0)
        });
    }

    /// Begins a new tenure: a state has come from elsewhere, or begun anew.
    pub(super) fn hand_over(&self) {
        self.flip(Self::slot(self.era()));
    }

    /// Something other than a newest grant is being undone.
    pub(super) fn cancel(&self) {
        self.change_era(Era::cancelled);
    }

    fn change_era(&self, change: impl Fn(Era) -> Era) {
        let change = |bits| Some(change(Era::from_bits(bits)).to_bits());
        let changed = self.era.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
        debug_assert!(changed.is_ok(), "the change is always made");
    }

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

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    /// Whether there are twice as many keys as when this was last said not to be
    /// so or they were swept.
    fn has_doubled(&self) -> bool {
        let kept = u32::from(self.kept.load(Ordering::Relaxed));
        self.len.load(Ordering::Relaxed) / 2 >= 16 * kept.max(1)
    }

    fn keep(&self, keys: u32) {
        let sixteens = u16::try_from(keys.div_ceil(16)).unwrap_or(u16::MAX);
        self.kept.store(sixteens, Ordering::Relaxed);
    }

    /// A key is being added, which is fresh `at`. Nobody else adds meanwhile, so
    /// a load and a store do.
    pub(super) fn added(&self, at: Instant) {
        self.may_be_fresh_from(at);
        self.len.store(self.len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A key is being removed, and may begin anew.
    pub(super) fn removed(&self) {
        self.hand_over();
        self.len.store(self.len.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }
}

/// What is known about all keys.
#[derive(Debug)]
pub(super) struct Upkeep {
    /// Numbers for tenures elsewhere than in the map.
    tenures: AtomicU32,
    /// The part whose turn it is.
    hand: AtomicU32,
    /// When it is.
    next_sweep: AtomicU64,
    /// When the parameters were last changed.
    changed_at: AtomicU64,
}

impl Upkeep {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            tenures: AtomicU32::new(0),
            hand: AtomicU32::new(0),
            next_sweep: AtomicU64::new(now.as_nanos()),
            changed_at: AtomicU64::new(now.as_nanos()),
        }
    }

    /// `now`, or when the parameters were last changed if that is later: time
    /// that steps back brings no supply twice.
    pub(super) fn after_change(&self, now: Instant) -> Instant {
        now.max(Instant::from_nanos(self.changed_at.load(Ordering::Relaxed)))
    }

    pub(super) fn set_changed_at(&self, now: Instant) {
        self.changed_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// An era like no other.
    pub(super) fn era(&self) -> Era {
        Era::new(1 << 31 | self.tenures.fetch_add(1, Ordering::Relaxed), 0)
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

/// A place that has been taken, and is given up unless it is kept: also if the
/// making of a key panics.
pub(super) struct Place<'a, A: Algorithm>(&'a Room<A>);

impl<A: Algorithm> Place<'_, A> {
    pub(super) fn keep(self) {
        core::mem::forget(self);
    }
}

impl<A: Algorithm> Drop for Place<'_, A> {
    fn drop(&mut self) {
        self.0.give_up(1);
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

    pub(super) fn taken(&self) -> Option<usize> {
        self.max.map(|_| self.taken.load(Ordering::Relaxed) as usize)
    }

    fn is_full(&self) -> bool {
        self.max.is_some_and(|max| self.taken.load(Ordering::Relaxed) >= max)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.overflow.is_some()
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
    /// the next call goes on. Looking takes no place, so a
    /// [`peek`](Self::peek) tells a new key what it will be told when there is
    /// one. A place counts as taken while a call is about to take it.
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
        self.room.taken = AtomicU64::new(self.len() as u64);
        self.room.max = Some(max as u64);
        let (algorithm, era) = (self.algorithm(), self.upkeep.era());
        let since = self.upkeep.after_change(Instant::ZERO);
        self.room.overflow = match when_full {
            WhenFull::Refuse => None,
            WhenFull::Share => Some(Mutex::new(Own::new(algorithm, era, since))),
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
        let algorithm = self.parameters_in(part);
        if V::SIGHT != Sight::Adds || !verb.asks(&algorithm) {
            return Some(self.passing_sight(part, &algorithm, now, verb));
        }
        let Some(place) = self.reserve(now) else {
            return Some(self.crowded(part, now, verb));
        };
        let (answer, unused) = part.find_or_add((hash, key.to_key()), |known| {
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
            part.about.added(algorithm.fresh_at(&state));
            (Some(answer), Some(A::Shared::new(state)))
        });
        if unused.is_none() {
            place.keep();
            self.sweep_if_doubled(part, now);
        }
        answer
    }

    /// Calls with the state that a key has which is not remembered, by the
    /// parameters that said that it need not be.
    fn passing_sight<V: KeyedVerb<A>>(
        &self,
        part: &Part<K, A::Shared, S, About>,
        algorithm: &A,
        now: Instant,
        verb: V,
    ) -> V::Answer {
        if V::SIGHT != Sight::Ignores && self.room.is_full() && self.room_from() > now {
            return self.crowded(part, now, verb);
        }
        verb.begin(algorithm, &mut algorithm.unseen(), now.max(part.about.swept()), Era::default())
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
            let wait = match self.room_from() {
                Instant::MAX => u64::MAX,
                from => from.nanos_since(now).max(1), // or there may be some now
            };
            verb.crowded_out(&self.parameters_in(part), now, wait)
        })
    }

    /// No key can be forgotten before.
    fn room_from(&self) -> Instant {
        self.map.parts().iter().map(|part| part.about.fresh_from()).min().unwrap_or(Instant::MAX)
    }

    /// Counts one more key, if there is room or can be made.
    fn reserve(&self, now: Instant) -> Option<Place<'_, A>> {
        while !self.room.take() {
            if !self.make_room(now) {
                return None;
            }
        }
        Some(Place(&self.room))
    }

    /// The same for a key that may be there.
    pub(super) fn reserve_for<Q: Lookup<K> + ?Sized>(
        &self,
        key: &Q,
        hash: u64,
        now: Instant,
    ) -> Option<Place<'_, A>> {
        if self.map.part(hash).find(hash, |other| key.is(other), |_| ()).is_none() {
            return self.reserve(now);
        }
        self.room.take_again();
        Some(Place(&self.room))
    }

    /// Forgets a key, if there is one to be found.
    fn make_room(&self, now: Instant) -> bool {
        let mut inspected = 0;
        for _ in self.map.parts() {
            let part = self.next_part();
            if part.about.fresh_from() > now {
                continue;
            }
            inspected += part.about.len();
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

    fn sweep_if_doubled(&self, part: &Part<K, A::Shared, S, About>, now: Instant) {
        if !part.about.has_doubled() {
            return;
        }
        let fresh_by = before_grace(now);
        if part.about.fresh_from() <= fresh_by {
            self.sweep_part(part, now, fresh_by);
        } else {
            part.about.keep(part.about.len.load(Ordering::Relaxed));
        }
    }

    /// Sweeps the part whose turn it is.
    #[cold]
    pub(super) fn sweep_next(&self, now: Instant) {
        let next_sweep = &self.upkeep.next_sweep;
        let due = next_sweep.load(Ordering::Relaxed);
        // At the end of time there is no turn after this one.
        if due > now.as_nanos() || now == Instant::MAX {
            return;
        }
        let next = now.after_nanos(SECOND / self.map.parts().len() as u64).as_nanos();
        let turn = next_sweep.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        if turn.is_err() {
            return; // another thread's
        }
        let part = self.next_part();
        let fresh_by = before_grace(now);
        if part.about.fresh_from() <= fresh_by {
            let inspected = part.about.len() as u64;
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
        let About { swept, fresh_from, len, .. } = &part.about;
        let mut parameters = None;
        let (mut seen, mut stay, mut first) = (0, 0, Instant::MAX);
        let gone = part.retain(|_, state| {
            let (algorithm, settled, all) = parameters.get_or_insert_with(|| {
                let algorithm = self.parameters_in(part);
                let settled = algorithm.fresh_at(&algorithm.unseen());
                (algorithm, settled, len.load(Ordering::Relaxed))
            });
            let fresh_at = match state.with_mut(|state| algorithm.fresh_at(state)) {
                Some(fresh_at) => fresh_at.max(*settled),
                None => Instant::MAX, // aside: it is needed as a sign
            };
            let stays = fresh_at > fresh_by || fresh_at == Instant::MAX;
            if stays {
                first = first.min(fresh_at);
                stay += 1;
            } else {
                swept.fetch_max(now.as_nanos(), Ordering::Relaxed);
                // At once, or who finds no room and nothing to forget is told
                // that there never will be any.
                self.room.give_up(1);
            }
            seen += 1;
            if seen == *all {
                // The last of them, and the lock is still held.
                fresh_from.store(first.as_nanos(), Ordering::Relaxed);
                len.store(stay, Ordering::Relaxed);
                part.about.keep(stay);
            }
            stays
        });
        part.shrink(4);
        gone
    }
}
