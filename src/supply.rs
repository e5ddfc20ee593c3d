//! The supply axis: how much a source has produced since a limiter was made.
//!
//! All one-word limiters measure on one axis, in *units*. `S(t)` is the number
//! of units produced by time `t`; a permit costs a whole number of units; a
//! limiter's state is one *mark* on the axis, the point up to which supply is
//! spoken for. Unlike a stored arrival time, a mark needs no whole interval
//! between permits, so three per second is three per second.
//!
//! ```text
//! units
//!   |                       S(t) ....
//!   |                   ....
//!   |- - - - - - mark ..          the mark lies above S(t): in debt to the
//!   |           ....              future until the line has reached it
//!   |       ....
//!   |   ....
//!   +------------------------------------ time since creation
//! ```
//!
//! # Rounding, stated once
//!
//! Let a permit come every `p/q` nanoseconds, in lowest terms. When the axis
//! bears `q` units a nanosecond for the whole [`HORIZON`](crate::HORIZON), a
//! permit costs `p` units, the slope is the integer `q`, and every decision is
//! exact on every nanosecond. That holds whenever `q` is at most 58 and a full
//! bucket holds little more than the horizon's supply: all rates of which the
//! interval is a whole number of nanoseconds, 3/s, 7/min, 29/s, 700,000,000/s.
//!
//! For the other rates the unit is the largest that fits, and the slope is
//! kept with 64 fraction bits, rounded up, so that what is due at a round time
//! is there at that time. Supply is rounded down to whole units, waits are
//! rounded up to whole nanoseconds. A decision is then early by little more than
//! one unit, or in rare cases one nanosecond late, and nothing adds up: the
//! slope's rounding gains less than a unit in 2^64 ns. A unit is below a
//! nanosecond unless a full bucket takes centuries to fill (one a day with a
//! burst of four thousand million: 20 us).
//!
//! # Range
//!
//! Supply stops when it has reached `2^64 - 3 - (c - 1) * cost` for capacity
//! `c`, at the horizon or later (after 584 years for a slope of one unit a
//! nanosecond). Marks saturate at `2^64 - 2`. A saturated mark therefore lies
//! above `S + (c - k) * cost` for every `k > 0`: it refuses, whatever was lost.
//! `2^64 - 1` is no mark: shared states use it to say that they have been
//! [set aside](crate::Shared::set_aside).
//!
//! # Change
//!
//! When the parameters change, the new axis begins at the change, in its own
//! units, and each mark is [carried](crate::Algorithm::carry) over: the permits
//! that are missing stay missing. A permit of a fast rate costs 1,024 units
//! where the horizon allows it (58 for one per nanosecond), so that rounding
//! them up loses next to nothing.

mod flow;
mod steps;

pub(crate) use flow::Flow;
pub(crate) use steps::Steps;

use crate::clock::Instant;
use core::fmt::Debug;

/// A non-decreasing supply of units.
pub(crate) trait Supply: Copy + Debug + Send + Sync {
    /// Counts from `now` on.
    fn start(&mut self, now: Instant);

    /// Counts from `now` on where `old` has counted until now. The supply of
    /// `now` is zero.
    fn resume(&mut self, old: &Self, now: Instant);

    /// Units produced by `now`; none before the start, no more once the axis
    /// is full.
    fn at(&self, now: Instant) -> u64;

    /// The first moment with `mark` units, as though the axis had no end.
    fn when(&self, mark: u64) -> Instant;

    /// The last moment of growth.
    fn end(&self) -> Instant;
}

#[inline]
const fn high(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> 64) as u64
}

/// The highest mark.
pub(crate) const LAST_MARK: u64 = u64::MAX - 1;

/// Supply and reach together stay within this.
const AXIS: u64 = LAST_MARK - 1;

/// What the tests of both supplies are tried with.
#[cfg(test)]
mod tried {
    use super::Instant;
    use crate::rate::Rate;
    use core::time::Duration;
    use proptest::prelude::*;

    /// Counts and periods of all magnitudes, within the highest rate.
    pub(super) fn rates() -> impl Strategy<Value = Rate> {
        let count = prop_oneof![1..=u32::MAX, 1..=1_000_u32, Just(1), Just(u32::MAX)];
        let period = prop_oneof![
            (0..64_u32, 1..=1_000_u64).prop_map(|(shift, many)| many.saturating_mul(1 << shift)),
            Just(1_000_000_000),
            Just(60_000_000_000),
            Just(u64::MAX),
        ];
        (count, period).prop_filter_map("within the highest rate", |(count, period)| {
            Rate::new(count, Duration::from_nanos(period)).ok()
        })
    }

    pub(super) fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }
}
