//! The head of a ring: one word, and the places that it speaks of.

use super::Ring;

/// Bits of the head that count how often it has been moved back.
const TURNS: u32 = 16;
const TURNS_MASK: u64 = (1 << TURNS) - 1;

/// A place in the ring, and in which of two laps: `position << 1 | lap`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Index(pub(super) u32);

impl Index {
    #[inline(always)]
    pub(super) fn new(position: u32, lap: u64) -> Self {
        Self(position << 1 | lap as u32)
    }

    #[inline(always)]
    pub(super) fn position(self) -> u32 {
        self.0 >> 1
    }

    #[inline(always)]
    pub(super) fn lap(self) -> u64 {
        u64::from(self.0 & 1)
    }
}

impl Ring<'_> {
    #[inline(always)]
    pub(super) fn after(&self, index: Index, n: u32) -> Index {
        let position = index.position() + n;
        match position.checked_sub(self.count) {
            Some(position) => Index::new(position, index.lap() ^ 1),
            None => Index::new(position, index.lap()),
        }
    }

    #[inline(always)]
    pub(super) fn before(&self, index: Index, n: u32) -> Index {
        match index.position().checked_sub(n) {
            Some(position) => Index::new(position, index.lap()),
            None => Index::new(index.position() + self.count - n, index.lap() ^ 1),
        }
    }

    #[inline(always)]
    pub(super) fn word(&self, next: Index, rewound: bool, turn: u64, newest: u64) -> u64 {
        let time = newest << (self.width + 1 + TURNS) | turn << (self.width + 1);
        time | u64::from(rewound) << self.width | u64::from(next.0)
    }

    /// How often the head has been moved back.
    #[inline(always)]
    pub(super) fn turn(&self, word: u64) -> u64 {
        word >> (self.width + 1) & TURNS_MASK
    }

    /// The same, once more.
    #[inline(always)]
    pub(super) fn next_turn(&self, word: u64) -> u64 {
        (self.turn(word) + 1) & TURNS_MASK
    }

    /// The bits of a time that the head has room for.
    #[inline(always)]
    pub(super) fn time_bits(&self, word: u64) -> u64 {
        word >> (self.width + 1 + TURNS)
    }

    #[inline(always)]
    pub(super) fn next(&self, word: u64) -> Index {
        Index((word & ((1 << self.width) - 1)) as u32)
    }

    #[inline(always)]
    pub(super) fn is_rewound(&self, word: u64) -> bool {
        word >> self.width & 1 == 1
    }

    /// The bits of a time that the head has no room for.
    #[inline(always)]
    pub(super) fn lost(&self) -> u64 {
        !(u64::MAX >> (self.width + 1 + TURNS))
    }
}
