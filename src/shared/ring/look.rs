//! What a ring says, and what is left in it.

use super::head::Index;
use super::{LOCKED, Ring};
use crate::algorithm::Report;
use crate::algorithm::grant_log::GrantLog;
use crate::clock::Instant;
use crate::decision::{Decision, answer};
use crate::sync::Ordering;

/// What the head said, and the newest permit.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) word: u64,
    /// What is claimed next.
    pub(super) next: Index,
    /// Whether what lies ahead may be of this lap, given back, and the newest
    /// time later than that of the newest permit.
    pub(super) rewound: bool,
    /// The latest come-back time of all.
    pub(super) newest: u64,
    /// An earlier one, from which its lower bits in the head tell it.
    pub(super) floor: u64,
    /// When the newest permit that is out comes back.
    pub(super) last: u64,
}

impl Ring<'_> {
    /// The time that a head means, of which it has the lower bits.
    fn time(&self, word: u64, floor: u64) -> u64 {
        let gap = self.time_bits(word).wrapping_sub(floor) & !self.lost();
        let time = floor + gap;
        match self.state.slots.base().checked_sub(time) {
            Some(late) => time + (late & self.lost()),
            None => time,
        }
    }

    #[inline(always)]
    pub(super) fn is_at(&self, look: &Look) -> bool {
        self.state.head.load(Ordering::Relaxed) == look.word
    }

    pub(super) fn look(&self) -> Option<Look> {
        loop {
            let word = self.state.head.load(Ordering::Acquire);
            if word >= LOCKED {
                return None;
            }
            let (next, rewound) = (self.next(word), self.is_rewound(word));
            let top = self.before(next, 1);
            let slot = self.slot(top);
            let floor = slot >> 1;
            let is_stamped = slot & 1 == top.lap();
            if rewound {
                let last = if is_stamped { floor } else { 0 };
                let newest = self.time(word, floor);
                let look = Look { word, next, rewound, newest, floor, last };
                // Or the time may be one that has never been.
                if self.is_at(&look) {
                    return Some(look);
                }
                continue;
            }
            if is_stamped {
                return Some(Look { word, next, rewound, newest: floor, floor, last: floor });
            }
            self.finish(word, top);
        }
    }

    /// Stamps the newest claim up to `top`, for whoever has made it.
    #[cold]
    fn finish(&self, word: u64, top: Index) {
        let (mut first, mut floor) = (top, self.slot(top) >> 1);
        for n in 0..self.count {
            let index = self.before(top, n);
            let slot = self.slot(index);
            if slot & 1 == index.lap() {
                floor = slot >> 1;
                break;
            }
            first = index;
        }
        let back = self.time(word, floor);
        let mut index = first;
        loop {
            // Read before the head is: if that has not moved, this is no stamp of
            // a later claim.
            let slot = self.slot(index);
            if self.state.head.load(Ordering::Relaxed) != word {
                return;
            }
            if slot & 1 != index.lap()
                && let Some(place) = self.place(index)
            {
                let stamp = self.stamp(index, back);
                let _ = place.compare_exchange(slot, stamp, Ordering::Release, Ordering::Relaxed);
            }
            if index == top {
                return;
            }
            index = self.after(index, 1);
        }
    }

    /// Whether a permit can be had that lies ahead.
    fn is_free(&self, look: &Look, index: Index, at: u64) -> bool {
        let slot = self.slot(index);
        slot >> 1 <= at || look.rewound && slot & 1 == index.lap()
    }

    /// How many permits can be had.
    pub(super) fn left(&self, look: &Look, at: u64) -> u32 {
        self.free(look, at).saturating_sub(self.log.lacking(at))
    }

    /// How many are not out.
    pub(super) fn free(&self, look: &Look, at: u64) -> u32 {
        if look.last <= at { self.count } else { self.search(look, at) }
    }

    /// The same, if it is where it was or one further.
    #[inline(always)]
    pub(super) fn free_near(&self, next: Index, at: u64) -> Option<u32> {
        let hint = Index(self.state.slots.hint());
        let free = self.distance(next, hint);
        if free == 0 || free >= self.count {
            return None;
        }
        let is_free = |index| self.slot(index) >> 1 <= at;
        if !is_free(hint) {
            return is_free(self.before(hint, 1)).then_some(free);
        }
        let hint = self.after(hint, 1);
        if is_free(hint) || free + 1 == self.count {
            return None;
        }
        self.state.slots.set_hint(hint.0);
        Some(free + 1)
    }

    /// How far ahead an index is; anything, if it is not.
    #[inline(always)]
    fn distance(&self, from: Index, to: Index) -> u32 {
        let laps = if to.lap() == from.lap() { 0 } else { self.count };
        (to.position() + laps).wrapping_sub(from.position())
    }

    #[inline(never)]
    fn search(&self, look: &Look, at: u64) -> u32 {
        let near = self.distance(look.next, Index(self.state.slots.hint()));
        // The newest permit is out.
        let free =
            boundary(near, self.count - 1, |n| self.is_free(look, self.after(look.next, n), at));
        self.state.slots.set_hint(self.after(look.next, free).0);
        free
    }

    /// When `n` permits can be had.
    pub(super) fn when(&self, look: &Look, at: u64, n: u32) -> u64 {
        self.log.when(at, n, |n| {
            let last = self.after(look.next, n - 1);
            if self.is_free(look, last, at) { 0 } else { self.slot(last) >> 1 }
        })
    }

    /// The answer to a call for `n` permits, which can be had at `earliest`.
    pub(super) fn answer(
        &self,
        look: &Look,
        free: u32,
        now: Instant,
        n: u32,
        earliest: Instant,
    ) -> Decision {
        answer(self.report(free, self.fresh_at(look)), now, n, earliest)
    }

    #[inline(always)]
    pub(super) fn report(&self, remaining: u32, reset_at: Instant) -> Report {
        Report { limit: self.count, remaining, reset_at, index: 0 }
    }

    pub(super) fn fresh_at(&self, look: &Look) -> Instant {
        self.span.instant(look.last.max(self.settled(look)))
    }

    /// The time of the newest grant.
    fn settled(&self, look: &Look) -> u64 {
        self.span.at(Instant::ZERO, look.newest)
    }

    /// The log that the ring stands for.
    pub(super) fn log(&self, look: &Look) -> GrantLog {
        let out = self.count - self.free(look, self.settled(look));
        let mut log = GrantLog::with_newest(look.newest);
        for n in (1..=out).rev() {
            log.push(self.slot(self.before(look.next, n)) >> 1, 1);
        }
        log
    }
}

/// The first of so many that is not free, if all before it are: looked for from
/// `near` in ever longer steps.
fn boundary(near: u32, len: u32, is_free: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, len);
    let (mut probe, mut step) = (near.min(len.saturating_sub(1)), 0);
    while low < high {
        if is_free(probe) {
            low = probe + 1;
        } else {
            high = probe;
        }
        probe = if high == len {
            (low + step).min(high.saturating_sub(1))
        } else if low == 0 {
            high.saturating_sub(1 + step)
        } else {
            low + (high - low) / 2
        };
        step = 2 * step + 1;
    }
    low
}
