//! Taking permits out of a ring, and giving them back.

use super::Ring;
use super::head::Index;
use super::look::Look;
use crate::sync::Ordering;

impl Ring<'_> {
    /// Moves the head on, unless others have moved it.
    fn advance(&self, look: &Look, next: Index, rewound: bool, newest: u64) -> bool {
        let word = self.word(next, rewound, self.turn(look.word), newest);
        self.move_head(look, word, newest, look.floor)
    }

    /// Moves the head to a word of `newest`, which the next look will tell from
    /// `floor`.
    fn move_head(&self, look: &Look, word: u64, newest: u64, floor: u64) -> bool {
        if newest.saturating_sub(floor) & self.lost() != 0 {
            // What was read together may be told from a time that has never been.
            if !self.is_at(look) {
                return false;
            }
            self.state.slots.raise_base(newest);
        }
        self.exchange(look.word, word)
    }

    #[inline(always)]
    pub(super) fn exchange(&self, seen: u64, new: u64) -> bool {
        let head = &self.state.head;
        head.compare_exchange(seen, new, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Takes `n` permits that can be had, unless others have moved the head, and
    /// says when they come back.
    pub(super) fn claim(&self, look: &Look, at: u64, n: u32) -> Option<u64> {
        let (next, back) = (self.after(look.next, n), self.span.back(at));
        let furthest = (look.next.position() + n).min(self.count) - 1;
        if self.state.slots.get(furthest).is_none() {
            return self.make_room(look, at, furthest, n);
        }
        if look.rewound {
            return self.claim_again(look, next, back, n);
        }
        self.advance(look, next, false, back).then(|| {
            self.stamp_all(look.next, n, back);
            back
        })
    }

    /// The last of them last: that it is stamped says that all are. A maximum,
    /// since another may have stamped, and others claimed, since.
    fn stamp_all(&self, first: Index, n: u32, back: u64) {
        for n in 0..n {
            let index = self.after(first, n);
            if let Some(place) = self.place(index) {
                place.fetch_max(self.stamp(index, back), Ordering::Release);
            }
        }
    }

    /// Has the caller look again, with room for `n`.
    #[cold]
    fn make_room(&self, look: &Look, at: u64, furthest: u32, n: u32) -> Option<u64> {
        let used = look.next.position();
        // Where all is back, the places that there are will do.
        if look.last <= at && used > 0 && self.state.slots.get(n - 1).is_some() {
            // At this time, or an earlier reading would have it too.
            self.rewind(look, used, self.span.back(at));
        } else {
            self.state.slots.make(furthest);
        }
        None
    }

    /// Claims what may have been given back.
    ///
    /// The time in the head first, so that nobody claims at an earlier one what is
    /// raised to it. The slots next, so that the claim finds those of this lap
    /// with the time that it needs.
    #[cold]
    fn claim_again(&self, look: &Look, next: Index, back: u64, n: u32) -> Option<u64> {
        if back > look.newest {
            self.advance(look, look.next, true, back);
            return None;
        }
        for n in 0..n {
            let index = self.after(look.next, n);
            let (slot, stamp) = (self.slot(index), self.stamp(index, back));
            if slot & 1 != index.lap() {
                break;
            }
            if slot < stamp {
                self.place(index)?
                    .compare_exchange(slot, stamp, Ordering::Release, Ordering::Relaxed)
                    .ok()?;
            }
        }
        // What was given back lies together.
        let rewound = n < self.count && self.slot(next) & 1 == next.lap();
        self.advance(look, next, rewound, back).then(|| {
            self.stamp_all(look.next, n, back);
            back
        })
    }

    /// Gives the newest `n` permits back, unless others have moved the head.
    pub(super) fn rewind(&self, look: &Look, n: u32, newest: u64) -> bool {
        if n == 0 && newest == look.newest {
            return self.is_at(look);
        }
        let next = self.before(look.next, n);
        let floor = self.slot(self.before(next, 1)) >> 1;
        let word = self.word(next, true, self.next_turn(look.word), newest);
        self.move_head(look, word, newest, floor)
    }
}
