//! What is known about the keys of a part, beside them.
//!
//! # Orderings
//!
//! It is changed under the part's exclusive lock, which orders it with the keys,
//! but for what is said here. `fresh_from` may be lowered at any time, `kept` set;
//! both are hints of when to look. An era is read before the grant that it is
//! kept with, so that read acquires; and it is released when it ends, since looks
//! at a key that is not there read it and then the parameters without the lock.
//! All else is relaxed.

use super::map::Gate;
use crate::clock::Instant;
use crate::decision::Era;
use crate::sync::{AtomicU16, AtomicU32, AtomicU64, Ordering};

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

    pub(super) fn fresh_from(&self) -> Instant {
        Instant::from_nanos(self.fresh_from.load(Ordering::Relaxed))
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    /// Whether there are twice as many keys as when this was last said not to be
    /// so or they were swept.
    pub(super) fn has_doubled(&self) -> bool {
        let kept = u32::from(self.kept.load(Ordering::Relaxed));
        self.len.load(Ordering::Relaxed) / 2 >= 16 * kept.max(1)
    }

    /// Says that there are not twice as many.
    pub(super) fn has_not_doubled(&self) {
        self.keep(self.len.load(Ordering::Relaxed));
    }

    /// The end of a sweep: so many keys are left, of which none is fresh before.
    pub(super) fn swept_to(&self, keys: u32, fresh_from: Instant) {
        self.fresh_from.store(fresh_from.as_nanos(), Ordering::Relaxed);
        self.len.store(keys, Ordering::Relaxed);
        self.keep(keys);
    }

    /// A key is forgotten.
    pub(super) fn forgets_at(&self, now: Instant) {
        self.swept.fetch_max(now.as_nanos(), Ordering::Relaxed);
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
