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
//! kept with 64 fraction bits, rounded down. Supply is rounded down to whole
//! units, waits are rounded up to whole nanoseconds. A decision is then early
//! by less than one unit or late by at most one nanosecond, and nothing adds
//! up: the slope's rounding costs less than a unit in 2^64 ns. A unit is below
//! a nanosecond unless a full bucket takes centuries to fill (one a day with a
//! burst of four thousand million: 20 us).
//!
//! # Range
//!
//! `S` stops at the horizon, at most `2^64 - 2 - (c - 1) * cost` for capacity
//! `c`. Marks saturate at `2^64 - 1`. A saturated mark therefore lies above
//! `S + (c - k) * cost` for every `k > 0`: it refuses, whatever was lost.

use crate::clock::Instant;
use crate::rate::{HORIZON_NANOS, Rate};
use core::fmt::Debug;
use core::num::NonZeroU64;

/// A non-decreasing supply of units.
pub(crate) trait Supply: Clone + Debug + Send + Sync {
    /// Counts from `now` on.
    fn start(&mut self, now: Instant);

    /// Units produced by `now`; none before the start, no more after the
    /// horizon.
    fn at(&self, now: Instant) -> u64;

    /// The first moment with `mark` units, as though there were no horizon.
    fn when(&self, mark: u64) -> Instant;

    /// The last moment of growth.
    fn horizon(&self) -> Instant;
}

#[inline]
const fn high(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> 64) as u64
}

#[inline]
const fn elapsed(origin: Instant, now: Instant) -> u64 {
    let elapsed = now.nanos_since(origin);
    if elapsed < HORIZON_NANOS { elapsed } else { HORIZON_NANOS }
}

/// A steady flow: the supply of a rate.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    origin: Instant,
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
        const AXIS: u128 = (1 << 64) - 2;

        let divisor = gcd(rate.period_nanos().get(), rate.count().get() as u64);
        let p = (rate.period_nanos().get() / divisor) as u128;
        let q = (rate.count().get() as u64 / divisor) as u128;

        // Both sums stay below 2^97, both products below 2^128.
        let needed = q * HORIZON_NANOS as u128 + (capacity - 1) as u128 * p;
        let cost = if needed <= AXIS { p } else { AXIS * p / needed };
        let whole = cost * q / p;
        let fraction = ((cost * q % p) << 64) / p;

        let slope = (whole << 64) | fraction;
        let inverse = match u128::MAX.checked_div(slope) {
            Some(inverse) if inverse < u64::MAX as u128 => inverse as u64,
            _ => u64::MAX,
        };
        let flow =
            Self { origin: Instant::ZERO, whole: whole as u64, fraction: fraction as u64, inverse };
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

    /// The same beyond the horizon, where units may not fit.
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

    #[inline]
    fn at(&self, now: Instant) -> u64 {
        self.units(elapsed(self.origin, now))
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
    fn horizon(&self) -> Instant {
        self.origin.after_nanos(HORIZON_NANOS)
    }
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
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    origin: Instant,
    /// How far into its window the origin lies.
    lead: u64,
    window: NonZeroU64,
    /// Windows per nanosecond, 64 fraction bits, rounded down.
    inverse: u64,
    step: NonZeroU64,
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

    #[inline]
    fn since_first_edge(&self, now: Instant) -> u64 {
        // Saturation matters only to windows too long to be followed by a
        // second edge within 64 bits.
        elapsed(self.origin, now).saturating_add(self.lead)
    }

    /// The end of the window that holds `now`.
    #[inline]
    pub(crate) fn end(&self, now: Instant) -> Instant {
        self.edge(self.number(self.since_first_edge(now)).saturating_add(1))
    }

    /// The start of a window, by its number.
    #[inline]
    fn edge(&self, number: u64) -> Instant {
        let into = number.saturating_mul(self.window.get());
        self.origin.after_nanos(into.saturating_sub(self.lead))
    }
}

impl Supply for Steps {
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
        self.edge(mark.div_ceil(self.step.get()))
    }

    #[inline]
    fn horizon(&self) -> Instant {
        self.origin.after_nanos(HORIZON_NANOS)
    }
}
