//! The rule that token bucket, leaky bucket and fixed window share, on one
//! word of state: a mark on the [supply axis](crate::supply).
//!
//! ```text
//! grant k of capacity c  iff  mark <= S(now) + (c - k) * cost
//! then                        mark  = max(mark, S(now)) + k * cost
//! ```
//!
//! A mark at or below the supply is a fresh meter; zero needs no case of its
//! own. This is the generic cell rate algorithm (virtual scheduling, ITU-T
//! I.371) with the theoretical arrival time measured in supply, not in time.

use crate::clock::Instant;
use crate::supply::Supply;
use core::num::NonZeroU64;

#[derive(Clone, Debug)]
pub(crate) struct Meter<S> {
    pub(crate) supply: S,
    capacity: u64,
    cost: NonZeroU64,
    /// `(capacity - 1) * cost`: how far above the supply a mark may lie for one
    /// more permit. It fits, see [`supply`](crate::supply#range).
    reach: u64,
}

impl<S: Supply> Meter<S> {
    pub(crate) const fn new(supply: S, capacity: u64, cost: NonZeroU64) -> Self {
        Self { supply, capacity, cost, reach: (capacity - 1) * cost.get() }
    }

    pub(crate) fn start(&mut self, now: Instant) {
        self.supply.start(now);
    }

    /// The capacity, as far as one call can ask for it.
    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        u32::try_from(self.capacity).unwrap_or(u32::MAX)
    }

    /// The supply at which `n` more permits are covered.
    #[inline]
    fn needed(&self, mark: u64, n: u32) -> u64 {
        let others = u64::from(n.saturating_sub(1)).saturating_mul(self.cost.get());
        mark.saturating_sub(self.reach.saturating_sub(others))
    }

    #[inline]
    pub(crate) fn earliest(&self, mark: u64, now: Instant, n: u32) -> Instant {
        let needed = self.needed(mark, n);
        if needed <= self.supply.at(now) {
            return now;
        }
        let when = self.supply.when(needed);
        // After its end the line no longer rises to meet the mark. That `when` is
        // not past is true, but the compiler needs to be told to leave out its
        // calculation where only the verdict is asked for.
        if when > now && when <= self.supply.end() { when } else { Instant::MAX }
    }

    #[inline]
    pub(crate) fn take(&self, mark: &mut u64, now: Instant, n: u32) {
        let cost = self.cost.get().saturating_mul(u64::from(n));
        *mark = (*mark).max(self.supply.at(now)).saturating_add(cost);
    }

    /// When the last of `n` permits leaves, one by one at the rate of supply,
    /// if `early` permits may leave before it is their turn.
    #[inline]
    pub(crate) fn departure(&self, mark: u64, now: Instant, n: u32, early: u32) -> Instant {
        let supply = self.supply.at(now);
        let cost = self.cost.get();
        let last = mark.max(supply).saturating_add(cost.saturating_mul(u64::from(n) - 1));
        let turn = last.saturating_sub(cost.saturating_mul(u64::from(early)));
        if turn <= supply { now } else { self.supply.when(turn) }
    }

    #[inline]
    pub(crate) fn remaining(&self, mark: u64, now: Instant) -> u32 {
        let ahead = mark.saturating_sub(self.supply.at(now));
        let left = self.capacity.saturating_sub(ahead.div_ceil(self.cost.get()));
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    #[inline]
    pub(crate) fn fresh_at(&self, mark: u64) -> Instant {
        let fresh = self.supply.when(mark);
        if fresh <= self.supply.end() { fresh } else { Instant::MAX }
    }

    /// Books up to `n` permits, as many as keep the debt within `debt` and the
    /// mark on the axis; what is there can always be booked.
    pub(crate) fn charge(&self, mark: &mut u64, now: Instant, n: u32, debt: u32) -> u32 {
        let supply = self.supply.at(now);
        let base = (*mark).max(supply);
        let most = self.cost.get().saturating_mul(self.capacity + u64::from(debt));
        let room = supply.saturating_add(most).saturating_sub(base) / self.cost;
        // The smaller of the two fits where `n` did.
        let booked = room.max(self.remaining(*mark, now).into()).min(n.into()) as u32;
        if booked > 0 {
            self.take(mark, now, booked);
        }
        booked
    }

    /// Undoes up to `n` permits of the grant that left the mark at `receipt`,
    /// unless something has been taken since: lowering the mark under later
    /// grants would let more through in one span than the bound allows.
    pub(crate) fn undo(&self, mark: &mut u64, now: Instant, receipt: u64, n: u32) -> u32 {
        // A saturated mark no longer says how much was taken.
        if *mark != receipt || receipt == u64::MAX {
            return 0;
        }
        let cost = self.cost.get().saturating_mul(u64::from(n));
        let floor = self.supply.at(now).min(*mark);
        let lowered = mark.saturating_sub(cost).max(floor);
        // A part of a permit may be the one that was missing.
        let given = (*mark - lowered).div_ceil(self.cost.get());
        *mark = lowered;
        given as u32
    }
}

/// The methods of an [`Algorithm`](crate::Algorithm) that come straight from
/// its meter.
macro_rules! on_one_word {
    ($meter:ident) => {
        type State = u64;
        type Shared = crate::shared::AtomicState;

        fn start(&mut self, now: Instant) {
            self.$meter.start(now);
        }

        #[inline]
        fn capacity(&self) -> u32 {
            self.$meter.capacity()
        }

        #[inline]
        fn earliest(&self, mark: &u64, now: Instant, n: u32) -> Instant {
            self.$meter.earliest(*mark, now, n)
        }

        #[inline]
        fn take(&self, mark: &mut u64, now: Instant, n: u32) {
            self.$meter.take(mark, now, n);
        }

        #[inline]
        fn remaining(&self, mark: &u64, now: Instant) -> u32 {
            self.$meter.remaining(*mark, now)
        }

        #[inline]
        fn fresh_at(&self, mark: &u64) -> Instant {
            self.$meter.fresh_at(*mark)
        }

        #[inline]
        fn receipt(&self, mark: &u64) -> u64 {
            *mark
        }
    };
}

pub(crate) use on_one_word;
