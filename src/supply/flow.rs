//! The supply of a rate: a steady flow.

use super::{AXIS, Supply, high};
use crate::clock::Instant;
use crate::rate::{HORIZON_NANOS, Rate};
use core::num::NonZeroU64;

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

/// The identities that the module's documentation claims, by brute force
/// against arithmetic of 128 bits.
#[cfg(test)]
mod tests {
    use super::super::tried::{at, rates};
    use super::{Flow, HORIZON_NANOS, Supply};
    use crate::rate::Rate;
    use core::time::Duration;
    use proptest::prelude::*;

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
        fn supply_never_falls(rate in rates(), capacity in capacities(), (a, b) in (times(1_000), times(1_000))) {
            let (flow, _) = Flow::new(rate, capacity);
            prop_assert!(flow.at(at(a.min(b))) <= flow.at(at(a.max(b))));
        }
    }
}
