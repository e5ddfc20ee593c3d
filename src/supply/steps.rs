//! The supply of windows: all at once, at their edges.

use super::{AXIS, Supply, high};
use crate::clock::Instant;
use crate::rate::HORIZON_NANOS;
use core::num::NonZeroU64;

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

/// The identities that the documentation claims, by brute force against
/// arithmetic of 128 bits.
#[cfg(test)]
mod tests {
    use super::super::tried::{at, rates};
    use super::{HORIZON_NANOS, Steps, Supply};
    use core::num::{NonZeroU32, NonZeroU64};
    use proptest::prelude::*;

    proptest! {
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
    }
}
