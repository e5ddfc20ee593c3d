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
use crate::supply::{LAST_MARK, Supply};
use core::num::NonZeroU64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter<S> {
    pub(crate) supply: S,
    capacity: u64,
    cost: NonZeroU64,
    /// `(capacity - 1) * cost`: how far above the supply a mark may lie for one
    /// more permit. It fits, see [`supply`](crate::supply#range).
    reach: u64,
    /// The mark of a state that has never been used: zero, but for what was
    /// not there when these parameters took over.
    pub(crate) unseen: u64,
}

impl<S: Supply> Meter<S> {
    pub(crate) const fn new(supply: S, capacity: u64, cost: NonZeroU64) -> Self {
        Self { supply, capacity, cost, reach: (capacity - 1) * cost.get(), unseen: 0 }
    }

    pub(crate) fn start(&mut self, now: Instant) {
        self.supply.start(now);
        self.unseen = 0;
    }

    /// The mark with as many permits left as `mark` had, if so many fit, and
    /// with as much debt.
    pub(crate) fn carry(&self, old: &Self, mark: u64, now: Instant) -> u64 {
        let cost = u128::from(self.cost.get());
        let missing = self.missing(old, mark, now);
        let missing = if old.capacity <= self.capacity {
            missing + u128::from(self.capacity - old.capacity) * cost
        } else {
            missing.saturating_sub(u128::from(old.capacity - self.capacity) * cost)
        };
        self.mark_with(missing, now)
    }

    /// The mark with as many permits ahead of supply, whatever the capacity.
    pub(crate) fn carry_ahead(&self, old: &Self, mark: u64, now: Instant) -> u64 {
        self.mark_with(self.missing(old, mark, now), now)
    }

    /// How far the mark is ahead of the old supply, in these units.
    fn missing(&self, old: &Self, mark: u64, now: Instant) -> u128 {
        let ahead = mark.saturating_sub(old.supply.at(now));
        let (cost, old_cost) = (u128::from(self.cost.get()), u128::from(old.cost.get()));
        (u128::from(ahead) * cost).div_ceil(old_cost)
    }

    fn mark_with(&self, missing: u128, now: Instant) -> u64 {
        let missing = u64::try_from(missing).unwrap_or(LAST_MARK);
        self.supply.at(now).saturating_add(missing).min(LAST_MARK)
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
    pub(crate) fn is_possible(&self, mark: u64, now: Instant, n: u32) -> bool {
        self.needed(mark, n) <= self.supply.at(now)
    }

    #[inline]
    pub(crate) fn earliest(&self, mark: u64, now: Instant, n: u32) -> Instant {
        if self.is_possible(mark, now, n) {
            return now;
        }
        let when = self.supply.when(self.needed(mark, n));
        // After its end the line no longer rises to meet the mark.
        if when <= self.supply.end() { when } else { Instant::MAX }
    }

    #[inline]
    pub(crate) fn take(&self, mark: &mut u64, now: Instant, n: u32) {
        let cost = self.cost.get().saturating_mul(u64::from(n));
        *mark = (*mark).max(self.supply.at(now)).saturating_add(cost).min(LAST_MARK);
    }

    /// Takes a permit as of the moment that it came, where that lies within the
    /// nanosecond that ends now, and as of now otherwise: who comes in time
    /// loses no part of a nanosecond, and nobody saves any time.
    #[inline]
    pub(crate) fn take_in_turn(&self, mark: &mut u64, now: Instant) {
        let before = Instant::from_nanos(now.as_nanos().saturating_sub(1));
        if *mark > self.supply.at(before) {
            *mark = mark.saturating_add(self.cost.get()).min(LAST_MARK);
        } else {
            self.take(mark, now, 1);
        }
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
    pub(crate) fn undo(&self, mark: &mut u64, now: Instant, receipt: u128, n: u32) -> u32 {
        // A saturated mark no longer says how much was taken.
        if u128::from(*mark) != receipt || *mark == LAST_MARK {
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

impl<S: Supply> Meter<S> {
    /// Gives back what supply has not replaced since `taken`.
    ///
    /// Lowering a mark by a whole older grant could let through, once more, what
    /// has been supplied since: later grants may have found the meter full, and
    /// then owe nothing to the older one. They owe at most that supply less.
    pub(crate) fn cancel(&self, mark: &mut u64, now: Instant, taken: Instant, n: u32) -> u32 {
        if *mark == LAST_MARK {
            return 0; // as in `undo`
        }
        let supply = self.supply.at(now);
        let since = supply.saturating_sub(self.supply.at(taken));
        let left = self.cost.get().saturating_mul(u64::from(n)).saturating_sub(since);
        let lowered = mark.saturating_sub(left).max(supply.min(*mark));
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

        fn resume(&mut self, old: &Self, now: Instant) {
            self.$meter.supply.resume(&old.$meter.supply, now);
            self.$meter.unseen = self.carry(old, &old.$meter.unseen, now);
        }

        #[inline]
        fn unseen(&self) -> u64 {
            self.$meter.unseen
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
        fn is_possible(&self, mark: &u64, now: Instant, n: u32) -> bool {
            self.$meter.is_possible(*mark, now, n)
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
        fn receipt(&self, mark: &u64) -> u128 {
            (*mark).into()
        }
    };
}

pub(crate) use on_one_word;
