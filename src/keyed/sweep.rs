//! When keys are forgotten.

use super::{KeyedRateLimiter, PartOf};
use crate::algorithm::Algorithm;
use crate::clock::{Clock, Instant};
use crate::shared::Shared;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use core::hash::{BuildHasher, Hash};

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

/// Whose turn it is to be swept, and when. Relaxed: a hint, and who changes it
/// by an exchange is the one who sweeps.
#[derive(Debug)]
pub(super) struct Upkeep {
    hand: AtomicU32,
    next_sweep: AtomicU64,
}

impl Upkeep {
    pub(super) fn new(now: Instant) -> Self {
        Self { hand: AtomicU32::new(0), next_sweep: AtomicU64::new(now.as_nanos()) }
    }

    #[inline(always)]
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now.as_nanos() >= self.next_sweep.load(Ordering::Relaxed)
    }
}

impl<K: Eq + Hash, A: Algorithm, C: Clock, S: BuildHasher> KeyedRateLimiter<K, A, C, S> {
    pub(super) fn next_part(&self) -> &PartOf<K, A, S> {
        let hand = self.upkeep.hand.fetch_add(1, Ordering::Relaxed);
        &self.map.parts()[hand as usize % self.map.parts().len()]
    }

    pub(super) fn sweep_if_doubled(&self, part: &PartOf<K, A, S>, now: Instant) {
        if !part.about.has_doubled() {
            return;
        }
        let fresh_by = before_grace(now);
        if part.about.fresh_from() <= fresh_by {
            self.sweep_part(part, now, fresh_by);
        } else {
            part.about.has_not_doubled();
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
    pub(super) fn sweep_part(
        &self,
        part: &PartOf<K, A, S>,
        now: Instant,
        fresh_by: Instant,
    ) -> usize {
        let mut parameters = None;
        let (mut seen, mut stay, mut first) = (0, 0, Instant::MAX);
        let gone = part.retain(|_, state| {
            let (algorithm, settled, all) = parameters.get_or_insert_with(|| {
                let algorithm = self.parameters_in(part);
                let settled = algorithm.fresh_at(&algorithm.unseen());
                (algorithm, settled, part.about.len())
            });
            let fresh_at = match state.fresh_at(algorithm) {
                Some(fresh_at) => fresh_at.max(*settled),
                None => Instant::MAX, // aside: it is needed as a sign
            };
            let stays = fresh_at > fresh_by || fresh_at == Instant::MAX;
            if stays {
                first = first.min(fresh_at);
                stay += 1;
            } else {
                part.about.forgets_at(now);
                // At once, or who finds no room and nothing to forget is told
                // that there never will be any.
                self.room.give_up(1);
            }
            seen += 1;
            if seen == *all {
                // The last of them, and the lock is still held.
                part.about.swept_to(stay, first);
            }
            stays
        });
        part.shrink(4);
        gone
    }
}
