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

use crate::clock::Instant;
use crate::rate::{HORIZON_NANOS, Rate};
use core::fmt::Debug;
use core::num::NonZeroU64;

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

/// The units of a permit, where there is room for so many.
const FINE: u128 = 1_024;

/// What the axis is laid out for: the horizon, and a day for all rounding.
const LAID_OUT_NANOS: u64 = HORIZON_NANOS + 86_400_000_000_000;

/// A steady flow: the supply of a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    origin: Instant,
    /// How long supply grows, from the origin.
    lasts: u64,
    /// Units per nanosecond, integer part and 64 fraction bits.
    whole: u64,
    fraction: u64,
    /// Nanoseconds per unit, 64 fraction bits, rounded down and saturated.
    inverse: u64,
}

impl Flow {
    /// The flow of `rate`, and what a permit costs in its units, such that
    /// `capacity` permits fit on the axis.
    pub(crate) const fn new(rate: Rate, capacity: u64) -> (Self, NonZeroU64) {
        let divisor = gcd(rate.period_nanos().get(), rate.count().get() as u64);
        let p = (rate.period_nanos().get() / divisor) as u128;
        let q = (rate.count().get() as u64 / divisor) as u128;

        // Both sums stay below 2^97, both products below 2^128.
        let needed = q * LAID_OUT_NANOS as u128 + (capacity - 1) as u128 * p;
        let cost = if needed <= AXIS as u128 {
            let (room, fine) = (AXIS as u128 / needed, FINE.div_ceil(p));
            if room < fine { room * p } else { fine * p }
        } else {
            AXIS as u128 * p / needed
        };
        let slope = ((cost * q / p) << 64) + ((cost * q % p) << 64).div_ceil(p);

        let room = AXIS as u128 - (capacity - 1) as u128 * cost;
        let flow = Self {
            origin: Instant::ZERO,
            lasts: saturated((room << 64) / slope),
            whole: (slope >> 64) as u64,
            fraction: slope as u64,
            inverse: saturated(u128::MAX / slope),
        };
        // The highest rate allowed leaves a cost of at least one unit.
        let cost = NonZeroU64::MIN.saturating_add((cost as u64).saturating_sub(1));
        (flow, cost)
    }

    #[inline]
    fn units(&self, elapsed: u64) -> u64 {
        let units = elapsed * self.whole;
        // Most slopes are whole, and a branch the processor foresees is
        // cheaper than a multiplication it has to wait for.
        if self.fraction == 0 { units } else { units + high(elapsed, self.fraction) }
    }

    /// The same beyond the end, where units may not fit.
    #[inline]
    fn falls_short(&self, elapsed: u64, mark: u64) -> bool {
        let units = elapsed.saturating_mul(self.whole);
        units.saturating_add(high(elapsed, self.fraction)) < mark
    }
}

impl Supply for Flow {
    fn start(&mut self, now: Instant) {
        self.origin = now;
    }

    fn resume(&mut self, _: &Self, now: Instant) {
        self.start(now);
    }

    #[inline]
    fn at(&self, now: Instant) -> u64 {
        self.units(now.nanos_since(self.origin).min(self.lasts))
    }

    #[inline]
    fn when(&self, mark: u64) -> Instant {
        let elapsed = if self.whole == 0 {
            divide_up(mark, self.fraction)
        } else {
            // The product is less than two below the quotient, so its integer
            // part is at most two short of the least sufficient time.
            let mut elapsed = high(mark, self.inverse);
            elapsed += u64::from(self.falls_short(elapsed, mark));
            elapsed += u64::from(self.falls_short(elapsed, mark));
            elapsed
        };
        self.origin.after_nanos(elapsed)
    }

    #[inline]
    fn end(&self) -> Instant {
        self.origin.after_nanos(self.lasts)
    }
}

const fn saturated(value: u128) -> u64 {
    if value < u64::MAX as u128 { value as u64 } else { u64::MAX }
}

/// `mark / (fraction / 2^64)`, rounded up, for slopes below one unit a
/// nanosecond.
#[inline]
fn divide_up(mark: u64, fraction: u64) -> u64 {
    let quotient = (u128::from(mark) << 64).checked_div(u128::from(fraction));
    // Rounded down, it may be one short: the supply itself decides.
    let down = quotient.and_then(|quotient| u64::try_from(quotient).ok()).unwrap_or(u64::MAX);
    down.saturating_add(u64::from(high(down, fraction) < mark))
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A supply that comes in one piece at the start of each window.
///
/// Counting the windows from the one that holds the creation keeps the axis
/// short: counted from the Unix epoch, windows of a millisecond would need 41
/// bits for their number alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    origin: Instant,
    /// How far into its window the origin lies.
    lead: u64,
    window: NonZeroU64,
    /// Windows per nanosecond, 64 fraction bits, rounded down.
    inverse: u64,
    step: NonZeroU64,
    /// How long supply grows, from the first edge.
    lasts: u64,
    /// Distance of the windows' edges from the clock's zero; none: windows
    /// begin at the start.
    offset: Option<u64>,
}

impl Steps {
    /// `step` units at the start of each `window` after the first.
    pub(crate) const fn new(window: NonZeroU64, step: NonZeroU64, offset: Option<u64>) -> Self {
        Self {
            origin: Instant::ZERO,
            lead: 0,
            window,
            inverse: u64::MAX / window.get(),
            step,
            // The capacity is a step at most, so this leaves the reach.
            lasts: (AXIS / step.get()).saturating_sub(1).saturating_mul(window.get()),
            offset,
        }
    }

    /// The number of the window `into` nanoseconds after the first one's edge.
    #[inline]
    fn number(&self, into: u64) -> u64 {
        let number = high(into, self.inverse);
        // One short at most: the error of the inverse times `into` is below 1.
        number + u64::from(into - number * self.window.get() >= self.window.get())
    }

    /// Saturated, so no window begins later than 584 years after the first edge.
    #[inline]
    fn since_first_edge(&self, now: Instant) -> u64 {
        now.nanos_since(self.origin).saturating_add(self.lead).min(self.lasts)
    }

    /// How far `now` lies into its window; in the last one time stands still.
    #[inline]
    pub(crate) fn offset_of(&self, now: Instant) -> u64 {
        let since = self.since_first_edge(now);
        since - self.number(since) * self.window.get()
    }

    /// The end of the window that holds `now`; never, for the last one.
    #[inline]
    pub(crate) fn next_edge(&self, now: Instant) -> Instant {
        self.moment(self.number(self.since_first_edge(now)) + 1, 0)
    }

    /// So far into a window, by its number; never, after the end of supply.
    #[inline]
    pub(crate) fn moment(&self, number: u64, offset: u64) -> Instant {
        let moment = self.edge(number, offset);
        if moment <= self.end() { moment } else { Instant::MAX }
    }

    /// The same as though the axis had no end.
    #[inline]
    fn edge(&self, number: u64, offset: u64) -> Instant {
        let since = u128::from(number) * u128::from(self.window.get()) + u128::from(offset);
        let elapsed = since.saturating_sub(u128::from(self.lead));
        self.origin.after_nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// Whether supply grows up to the horizon, wherever in its window the origin
    /// lies.
    pub(crate) const fn reaches_horizon(&self) -> bool {
        self.lasts.saturating_sub(self.window.get()) >= HORIZON_NANOS
    }
}

impl Supply for Steps {
    /// Windows that are not aligned begin when the present one ends, if that is
    /// within one of their own length: or changes could put off the end for ever.
    fn resume(&mut self, old: &Self, now: Instant) {
        self.start(now);
        if self.offset.is_none() {
            let rest = old.next_edge(now).nanos_since(now);
            self.lead = self.window.get().saturating_sub(rest);
        }
    }

    fn start(&mut self, now: Instant) {
        self.origin = now;
        self.lead = match self.offset {
            None => 0,
            Some(offset) => {
                let window = self.window.get();
                let (now, edge) = (now.as_nanos() % window, offset % window);
                if now >= edge { now - edge } else { window - (edge - now) }
            }
        };
    }

    #[inline]
    fn at(&self, now: Instant) -> u64 {
        self.number(self.since_first_edge(now)) * self.step.get()
    }

    #[inline]
    fn when(&self, mark: u64) -> Instant {
        self.edge(mark.div_ceil(self.step.get()), 0)
    }

    #[inline]
    fn end(&self) -> Instant {
        self.origin.after_nanos(self.lasts - self.lead)
    }
}

/// The identities that the module's documentation claims, by brute force
/// against arithmetic of 128 bits.
#[cfg(test)]
mod tests {
    use super::{Flow, HORIZON_NANOS, Steps, Supply};
    use crate::clock::Instant;
    use crate::rate::Rate;
    use core::num::{NonZeroU32, NonZeroU64};
    use core::time::Duration;
    use proptest::prelude::*;

    /// Counts and periods of all magnitudes, within the highest rate.
    fn rates() -> impl Strategy<Value = Rate> {
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

    fn capacities() -> impl Strategy<Value = u64> {
        prop_oneof![1..=100_u64, 1..=1_u64 << 32, Just(1), Just(1 << 32)]
    }

    /// Times near multiples of something, and anywhere.
    fn times(near: u64) -> impl Strategy<Value = u64> {
        prop_oneof![
            (0..1_000_u64, 0..3_u64)
                .prop_map(move |(many, by)| near.saturating_mul(many).saturating_add(by) - by / 2),
            0..=HORIZON_NANOS,
            Just(HORIZON_NANOS),
            any::<u64>(),
        ]
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    proptest! {
        #[test]
        fn a_flow_fits_its_axis(rate in rates(), capacity in capacities()) {
            let (flow, cost) = Flow::new(rate, capacity);
            let most = u128::from(flow.at(at(u64::MAX))) + u128::from(capacity - 1) * u128::from(cost.get());
            prop_assert!(most <= (1 << 64) - 3, "{most}");
            prop_assert!(flow.lasts >= HORIZON_NANOS, "{}", flow.lasts);
        }

        /// The slope is the rate's, or higher by less than a unit in 2^64 ns.
        #[test]
        fn a_flow_follows_its_rate(
            rate in rates(), capacity in capacities(), elapsed in 0..=HORIZON_NANOS,
        ) {
            let (flow, cost) = Flow::new(rate, capacity);
            let (count, period) = (u128::from(rate.count().get()), rate.period().as_nanos());
            let slope = (u128::from(flow.whole) << 64) + u128::from(flow.fraction);
            // count * cost / period, with 64 fraction bits, rounded up
            let units = count * u128::from(cost.get());
            let exact = ((units / period) << 64) + ((units % period) << 64).div_ceil(period);
            prop_assert_eq!(slope, exact);

            let supply = flow.at(at(elapsed));
            let wide = u128::from(elapsed) * u128::from(flow.whole)
                + ((u128::from(elapsed) * u128::from(flow.fraction)) >> 64);
            prop_assert_eq!(u128::from(supply), wide);
        }

        /// What is due after whole periods is there on the nanosecond.
        #[test]
        fn whole_periods_bring_their_count(
            count in 1..=u32::MAX, seconds in 1..=60_u64, periods in 1..=1_000_u64,
        ) {
            let rate = Rate::new(count, Duration::from_secs(seconds)).unwrap();
            let (flow, cost) = Flow::new(rate, count.into());
            let supply = flow.at(at(periods * seconds * 1_000_000_000));
            prop_assert_eq!(supply / cost, periods * u64::from(count));
        }

        #[test]
        fn common_rates_are_whole(count in 1..=58_u32, period in 1..=86_400_000_000_000_u64) {
            let rate = Rate::new(count, Duration::from_nanos(period)).unwrap();
            prop_assert_eq!(Flow::new(rate, u64::from(count)).0.fraction, 0);
        }

        /// The time a mark is reached is the least that suffices.
        #[test]
        fn when_is_least_and_sufficient(
            rate in rates(), capacity in capacities(), mark in any::<u64>(), small in 0..64_u32,
        ) {
            let (flow, _) = Flow::new(rate, capacity);
            let slope = (u128::from(flow.whole) << 64) + u128::from(flow.fraction);
            for mark in [mark, mark >> small, u64::MAX] {
                let reached = |elapsed: u64| {
                    let low = (u128::from(elapsed) * u128::from(flow.fraction)) >> 64;
                    u128::from(elapsed) * u128::from(flow.whole) + low >= u128::from(mark)
                };
                let when = flow.when(mark).as_nanos();
                if when < u64::MAX {
                    prop_assert!(reached(when), "{mark} is not reached at {when}, slope {slope}");
                }
                prop_assert!(when == 0 || !reached(when - 1), "{mark} is reached before {when}");
            }
        }

        #[test]
        fn windows_are_counted_by_division(
            window in prop_oneof![1..=u64::MAX, 1..=100_u64, Just(1 << 32), Just(1 << 63)],
            seed in any::<u64>(),
            offset in proptest::option::of(any::<u64>()),
            origin in prop_oneof![Just(0), Just(1), Just(1 << 63), any::<u64>()],
        ) {
            let window = NonZeroU64::new(window).unwrap();
            let mut steps = Steps::new(window, NonZeroU64::MIN, offset);
            steps.start(at(origin));
            let first_edge = match offset {
                None => i128::from(origin),
                Some(offset) => {
                    let (window, offset) = (i128::from(window.get()), i128::from(offset));
                    (i128::from(origin) - offset).div_euclid(window) * window + offset
                }
            };
            for now in [seed, origin, origin.saturating_add(window.get()), origin.saturating_add(seed % 1_000)] {
                let clamped = now.max(origin);
                if i128::from(clamped) - first_edge > i128::from(u64::MAX) {
                    continue; // the axis ends 584 years after the first edge
                }
                let number = (i128::from(clamped) - first_edge) / i128::from(window.get());
                prop_assert_eq!(i128::from(steps.at(at(now))), number);
                let offset = (i128::from(clamped) - first_edge) % i128::from(window.get());
                prop_assert_eq!(i128::from(steps.offset_of(at(now))), offset);
                prop_assert_eq!(steps.moment(number as u64, offset as u64), at(clamped));
                let end = first_edge + (number + 1) * i128::from(window.get());
                let last = i128::from(steps.end().as_nanos());
                let end = if end <= last { end } else { i128::from(u64::MAX) };
                prop_assert_eq!(i128::from(steps.next_edge(at(now)).as_nanos()), end);
                let start = first_edge + number * i128::from(window.get());
                prop_assert_eq!(
                    i128::from(steps.when(number as u64).as_nanos()), start.max(i128::from(origin))
                );
            }
        }

        #[test]
        fn the_highest_step_supply_fits(rate in rates(), offset in any::<u64>()) {
            let step = NonZeroU64::from(NonZeroU32::from(rate.count()));
            let mut steps = Steps::new(NonZeroU64::new(rate.period().as_nanos() as u64).unwrap(), step, Some(offset));
            steps.start(at(offset / 2));
            let most = u128::from(steps.at(at(u64::MAX))) + u128::from(step.get()) - 1;
            prop_assert!(most <= (1 << 64) - 3, "{most}");
            prop_assert!(steps.lasts >= HORIZON_NANOS, "{}", steps.lasts);
        }

        #[test]
        fn supply_never_falls(rate in rates(), capacity in capacities(), (a, b) in (times(1_000), times(1_000))) {
            let (flow, _) = Flow::new(rate, capacity);
            prop_assert!(flow.at(at(a.min(b))) <= flow.at(at(a.max(b))));
        }
    }
}
