//! How a call finds the state of its key, known or not.

use super::verb::{KeyedVerb, Sight};
use super::{KeyedRateLimiter, Lookup, PartOf, find};
use crate::algorithm::Algorithm;
use crate::clock::{Clock, Instant};
use crate::decision::{Decision, Era};
use crate::shared::Shared;
use crate::verb::{Cancel, Refund, Verb};
use core::hash::{BuildHasher, Hash};

/// A clock that stands at a reading taken before.
struct Fixed(Instant);

impl Clock for Fixed {
    #[inline(always)]
    fn now(&self) -> Instant {
        self.0
    }
}

impl<K: Eq + Hash, A: Algorithm, C: Clock, S: BuildHasher> KeyedRateLimiter<K, A, C, S> {
    /// Calls by the limiter's clock. One of this crate is read once the state has
    /// been found, since a time-stamp read holds up the loads around it (3 of
    /// 20 ns); any other one before anything is locked.
    #[inline(always)]
    pub(super) fn call_now<Q, V>(&self, key: &Q, verb: V) -> V::Answer
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
    pub(super) fn call_at<Q, V>(&self, key: &Q, now: Instant, verb: V) -> V::Answer
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
    pub(super) fn call_in<V: Verb<A>>(
        &self,
        part: &PartOf<K, A, S>,
        state: &A::Shared,
        now: Instant,
        verb: V,
    ) -> Option<V::Answer> {
        let mut changed = None;
        let (algorithm, era) = self.parameters_of(part, &mut changed);
        verb.call(algorithm, state, now, era)
    }

    /// Calls with the state of a key that is not in the map; none if it is to be
    /// looked up again.
    #[cold]
    fn first_sight<Q, V>(&self, key: &Q, hash: u64, now: Instant, verb: V) -> Option<V::Answer>
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
            (Some(answer), Some(A::Shared::new(algorithm, state)))
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
        part: &PartOf<K, A, S>,
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
    fn crowded<V: KeyedVerb<A>>(&self, part: &PartOf<K, A, S>, now: Instant, verb: V) -> V::Answer {
        let shared = self.room.overflow(|own| own.call(now, verb)).flatten();
        shared.unwrap_or_else(|| {
            let wait = match self.room_from() {
                Instant::MAX => u64::MAX,
                from => from.nanos_since(now).max(1), // or there may be some now
            };
            verb.crowded_out(&self.parameters_in(part), now, wait)
        })
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
    pub(super) fn refund_shared(
        &self,
        grant: &Decision,
        n: u32,
        now: impl FnOnce() -> Instant,
    ) -> u32 {
        if !self.room.is_shared() {
            return 0;
        }
        let now = now(); // before anything is locked
        self.room.overflow(|own| own.call(now, Refund(grant, n))).flatten().unwrap_or(0)
    }
}
