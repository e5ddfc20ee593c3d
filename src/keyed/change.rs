//! The parameters of all keys, and how they are replaced.
//!
//! A change goes through the parts, one lock at a time. Under it the keys are
//! [carried](crate::Algorithm::carry) over and the part is flipped to the new
//! parameters, so that every decision finds parameters and state that belong
//! together.

use super::about::About;
use super::{KeyedRateLimiter, PartOf};
use crate::algorithm::{Algorithm, IntoAlgorithm};
use crate::clock::{Clock, Instant};
use crate::decision::Era;
use crate::shared::carry;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, Parameters};
use core::hash::{BuildHasher, Hash};

/// The parameters that there have been last.
///
/// Relaxed: the numbers of tenures only have to differ, and the time of a change
/// is set before the first part is flipped, under whose lock it is read.
#[derive(Debug)]
pub(super) struct Versions<A: Algorithm> {
    /// The first parameters; the present ones are here or in a slot.
    first: A,
    slots: [Parameters<A>; 2],
    /// Where the present parameters are, held while they change.
    present: Mutex<u32>,
    /// When the parameters were last changed.
    changed_at: AtomicU64,
    /// Numbers for tenures elsewhere than in the map.
    tenures: AtomicU32,
}

impl<A: Algorithm> Versions<A> {
    pub(super) fn new(first: A, now: Instant) -> Self {
        Self {
            first,
            slots: [Parameters::new(first), Parameters::new(first)],
            present: Mutex::new(0),
            changed_at: AtomicU64::new(now.as_nanos()),
            tenures: AtomicU32::new(0),
        }
    }

    /// The same, with the present parameters as the first.
    pub(super) fn restarted(self) -> Self {
        let new = Self::new(self.present(), self.after_change(Instant::ZERO));
        Self { tenures: self.tenures, ..new }
    }

    fn in_slot(&self, slot: u32) -> A {
        match slot {
            0 => self.first,
            _ => self.slots[(slot & 1) as usize].load(),
        }
    }

    fn present(&self) -> A {
        self.in_slot(*self.present.lock())
    }

    /// `now`, or when the parameters were last changed if that is later: time
    /// that steps back brings no supply twice.
    pub(super) fn after_change(&self, now: Instant) -> Instant {
        now.max(Instant::from_nanos(self.changed_at.load(Ordering::Relaxed)))
    }

    /// An era like no other.
    pub(super) fn era(&self) -> Era {
        Era::new(1 << 31 | self.tenures.fetch_add(1, Ordering::Relaxed), 0)
    }
}

impl<K: Eq + Hash, A: Algorithm, C: Clock, S: BuildHasher> KeyedRateLimiter<K, A, C, S> {
    /// The parameters that the states of a part go with, while its lock is
    /// held, and their era. The slot is not written meanwhile: a change leaves
    /// the parts' present one alone.
    #[inline(always)]
    pub(super) fn parameters_of<'a>(
        &'a self,
        part: &PartOf<K, A, S>,
        changed: &'a mut Option<A>,
    ) -> (&'a A, Era) {
        let era = part.about.era();
        match About::slot(era) {
            0 => (&self.versions.first, era),
            slot => (changed.insert(self.versions.in_slot(slot)), era),
        }
    }

    /// The same, as a copy. Without the lock the slot may be written meanwhile,
    /// but not before the part has left it.
    pub(super) fn parameters_in(&self, part: &PartOf<K, A, S>) -> A {
        loop {
            let era = part.about.era();
            let parameters = self.versions.in_slot(About::slot(era));
            if part.about.era() == era {
                return parameters;
            }
        }
    }

    /// The algorithm, with its present parameters. It waits for a change that
    /// is under way.
    pub fn algorithm(&self) -> A {
        self.versions.present()
    }

    /// Replaces the parameters for all keys, from now on: see
    /// [`RateLimiter::reconfigure`](crate::RateLimiter::reconfigure). Keys with
    /// [parameters of their own](Self::set_own) keep these.
    ///
    /// It takes 10 to 20 ns a key, a 128th of the keys at a time; a call for a key
    /// in the part that is being changed waits for that part, for about a tenth
    /// of a millisecond at a million keys; all others go on. A log is written anew,
    /// which takes half a microsecond and more with what is out.
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
        let versions = &self.versions;
        let mut present = versions.present.lock();
        // Keys that were forgotten are new at that time, not before.
        let swept = self.map.parts().iter().map(|part| part.about.swept()).max();
        let now = versions.after_change(now).max(swept.unwrap_or(now));
        versions.changed_at.store(now.as_nanos(), Ordering::Relaxed);
        let old = versions.in_slot(*present);
        new.resume(&old, now);
        // Every part has left the slot that is not the present one.
        let next = *present % 2 + 1;
        versions.slots[(next & 1) as usize].store(new);
        for part in self.map.parts() {
            let now = now.max(part.about.swept());
            let flip = || {
                part.about.flip(next);
                part.about.may_be_fresh_from(Instant::ZERO);
            };
            part.change(flip, |state| carry(state, &old, &new, now));
        }
        self.room.overflow(|own| own.reconfigure(new, now, versions.era()));
        *present = next;
    }
}
