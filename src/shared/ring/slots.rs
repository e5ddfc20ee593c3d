//! Where the words of a ring are: made when they are first needed, so that
//! memory follows use.

use crate::algorithm::grant_log::GrantLog;
use crate::shared::{Cell, MutexState};
use crate::sync::{AtomicU32, AtomicU64, Lazy, Ordering};

/// What a word is that has not been made: of the lap before, back ever since.
pub(super) const UNUSED: u64 = 1;

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
const FIRST: u32 = 8;
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
const SEGMENTS: usize = 13;

// In a model, where all is made at the start.
#[cfg(any(tollgate_loom, tollgate_shuttle))]
const FIRST: u32 = 2;
#[cfg(any(tollgate_loom, tollgate_shuttle))]
const SEGMENTS: usize = 1;

/// The first words, and then segments each of which is as long as all before it.
#[derive(Debug)]
pub(super) struct Slots {
    first: Lazy<First>,
    rest: Lazy<Rest>,
}

#[derive(Debug)]
struct First {
    base: AtomicU64,
    hint: AtomicU32,
    words: [AtomicU64; FIRST as usize],
}

#[derive(Debug)]
struct Rest {
    segments: [Lazy<Box<[AtomicU64]>>; SEGMENTS],
    locked: Lazy<MutexState<GrantLog>>,
}

fn unused() -> AtomicU64 {
    AtomicU64::new(UNUSED)
}

fn first() -> First {
    First {
        base: AtomicU64::new(0),
        hint: AtomicU32::new(0),
        words: core::array::from_fn(|_| unused()),
    }
}

fn segment(number: usize) -> Box<[AtomicU64]> {
    (0..FIRST << number).map(|_| unused()).collect()
}

fn rest() -> Rest {
    Rest {
        segments: core::array::from_fn(|number| Lazy::new(|| segment(number))),
        locked: Lazy::new(locked),
    }
}

fn locked() -> MutexState<GrantLog> {
    MutexState::holding(GrantLog::default())
}

impl Slots {
    /// The positions that there may be.
    pub(super) const MOST: u32 = (FIRST << SEGMENTS) - 1;

    pub(super) fn new() -> Self {
        Self { first: Lazy::new(first), rest: Lazy::new(rest) }
    }

    #[inline(always)]
    pub(super) fn get(&self, position: u32) -> Option<&AtomicU64> {
        let Some(number) = (position / FIRST).checked_ilog2() else {
            return self.first.get()?.words.get(position as usize);
        };
        let segment = self.rest.get()?.segments.get(number as usize)?.get()?;
        // A segment begins at its length, the highest power of two.
        segment.get((position ^ FIRST << number) as usize)
    }

    /// Acquires: who sees a stamp sees a head that is not older.
    #[inline(always)]
    pub(super) fn load(&self, position: u32) -> u64 {
        self.get(position).map_or(UNUSED, |word| word.load(Ordering::Acquire))
    }

    /// Makes the words up to a position.
    pub(super) fn make(&self, position: u32) {
        self.first.get_or_make(first);
        if position < FIRST {
            return;
        }
        let last = (position / FIRST).ilog2() as usize;
        let segments = &self.rest.get_or_make(rest).segments;
        for (number, cell) in segments.iter().enumerate().take(last + 1) {
            cell.get_or_make(|| segment(number));
        }
    }

    /// Forgets what the words say, while nobody else is there.
    pub(super) fn clear(&self) {
        let Some(First { base, hint, words }) = self.first.get() else { return };
        base.store(0, Ordering::Relaxed);
        hint.store(0, Ordering::Relaxed);
        let segments = self.rest.get().into_iter().flat_map(|rest| &rest.segments);
        let others = segments.filter_map(Lazy::get).flat_map(|segment| segment.iter());
        words.iter().chain(others).for_each(|word| word.store(UNUSED, Ordering::Relaxed));
    }

    #[inline]
    pub(super) fn base(&self) -> u64 {
        self.first.get().map_or(0, |first| first.base.load(Ordering::Relaxed))
    }

    pub(super) fn raise_base(&self, time: u64) {
        self.first.get_or_make(first).base.fetch_max(time, Ordering::Relaxed);
    }

    /// Where something was that is looked for, perhaps: any number will do.
    #[inline]
    pub(super) fn hint(&self) -> u32 {
        if cfg!(any(tollgate_loom, tollgate_shuttle)) {
            return 0; // one thing less to try all orders of
        }
        self.first.get().map_or(0, |first| first.hint.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn set_hint(&self, index: u32) {
        if cfg!(any(tollgate_loom, tollgate_shuttle)) {
            return;
        }
        if let Some(first) = self.first.get()
            && first.hint.load(Ordering::Relaxed) != index
        {
            first.hint.store(index, Ordering::Relaxed);
        }
    }

    /// The log behind a mutex.
    #[inline]
    pub(super) fn locked(&self) -> &MutexState<GrantLog> {
        self.rest.get_or_make(rest).locked.get_or_make(locked)
    }
}
