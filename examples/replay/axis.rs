//! A time axis in steps that people count time in.

use jiff::{Timestamp, tz::TimeZone};
use tollgate::Instant;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Steps for bins and for labels, in seconds. The last covers all time there is.
const STEPS: [u64; 32] = [
    1,
    2,
    5,
    10,
    15,
    30,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    5 * DAY,
    10 * DAY,
    20 * DAY,
    50 * DAY,
    100 * DAY,
    200 * DAY,
    500 * DAY,
    1_000 * DAY,
    2_000 * DAY,
    5_000 * DAY,
    10_000 * DAY,
    20_000 * DAY,
    50_000 * DAY,
];

/// Bins of equal width, and labels at round times; all in seconds.
pub(crate) struct Axis {
    pub(crate) start: u64,
    pub(crate) width: u64,
    pub(crate) bins: u64,
    label_step: u64,
}

impl Axis {
    pub(crate) const MAX_BINS: u64 = 120;
    const MIN_BINS: u64 = 12;
    /// Labels with dates are wide.
    const MAX_LABELS: u64 = 10;
    const MAX_DATED_LABELS: u64 = 6;

    /// An axis that shows both times and what lies between.
    pub(crate) fn covering(first: Instant, last: Instant) -> Self {
        let (first, last) = (seconds(first), seconds(last));
        let bins = |width| last / width - first / width + 1;
        let width = step(|width| bins(width) <= Self::MAX_BINS);
        let start = first / width * width;
        let bins = bins(width).max(Self::MIN_BINS);
        let axis = Self { start, width, bins, label_step: width };
        let labels = if axis.within_a_day() { Self::MAX_LABELS } else { Self::MAX_DATED_LABELS };
        Self { label_step: step(|step| bins * width / step <= labels), ..axis }
    }

    pub(crate) fn bin(&self, at: Instant) -> usize {
        ((seconds(at) - self.start) / self.width) as usize
    }

    pub(crate) fn end(&self) -> u64 {
        self.start + self.bins * self.width
    }

    /// Where labels stand.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = u64> {
        let first = self.start.next_multiple_of(self.label_step);
        (first..=self.end()).step_by(self.label_step as usize)
    }

    pub(crate) fn label(&self, second: u64) -> String {
        let format = if self.label_step < MINUTE {
            "%H:%M:%S"
        } else if self.within_a_day() {
            "%H:%M"
        } else if self.label_step < DAY {
            "%-d %b %H:%M"
        } else {
            "%-d %b %Y"
        };
        clock_time(second, format)
    }

    /// How wide a bin is, as "5 s".
    pub(crate) fn bin_width(&self) -> String {
        let units = [(DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (1, "s")];
        let fitting = units.into_iter().find(|(unit, _)| self.width >= *unit);
        let (unit, name) = fitting.unwrap_or((1, "s"));
        format!("{} {name}", self.width / unit)
    }

    /// The day or days, to go with the labels.
    pub(crate) fn days(&self) -> String {
        let day = |second| clock_time(second, "%-d %B %Y");
        let (first, last) = (day(self.start), day(self.end() - 1));
        if self.within_a_day() {
            format!("{first}, UTC")
        } else {
            format!("{first} to {last}, UTC")
        }
    }

    fn within_a_day(&self) -> bool {
        self.start / DAY == (self.end() - 1) / DAY
    }
}

fn step(fits: impl Fn(u64) -> bool) -> u64 {
    STEPS.into_iter().find(|step| fits(*step)).unwrap_or(STEPS[STEPS.len() - 1])
}

fn seconds(at: Instant) -> u64 {
    at.as_nanos() / 1_000_000_000
}

fn clock_time(second: u64, format: &str) -> String {
    let time = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
    time.map_or(String::new(), |time| time.to_zoned(TimeZone::UTC).strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_780_315_200; // 1 June 2026

    fn axis(first: u64, last: u64) -> Axis {
        let at = |second: u64| Instant::from_nanos(second * 1_000_000_000);
        Axis::covering(at(first), at(last))
    }

    #[test]
    fn ten_minutes() {
        let axis = axis(NOON + 1, NOON + 599);
        assert_eq!((axis.start, axis.width, axis.bins), (NOON, 5, 120));
        assert_eq!(axis.bin_width(), "5 s");
        assert_eq!(axis.days(), "1 June 2026, UTC");
        let labels: Vec<_> = axis.ticks().map(|tick| axis.label(tick)).collect();
        assert_eq!(labels.len(), 11);
        assert_eq!(labels[0], "12:00");
        assert_eq!(labels[10], "12:10");
    }

    #[test]
    fn from_one_instant_to_all_time() {
        for (first, last) in [
            (0, 0),
            (NOON, NOON),
            (NOON, NOON + 3),
            (NOON - 1, NOON),
            (NOON, NOON + 4 * DAY),
            (NOON + 86_399, NOON + 20 * 365 * DAY),
            (0, u64::MAX / 1_000_000_000),
        ] {
            let axis = axis(first, last);
            assert!(axis.bins <= Axis::MAX_BINS, "{first} {last}");
            assert!(axis.start <= first && last < axis.end(), "{first} {last}");
            let ticks: Vec<_> = axis.ticks().collect();
            assert!((1..=11).contains(&ticks.len()), "{first} {last}: {}", ticks.len());
            assert!(ticks.iter().all(|tick| !axis.label(*tick).is_empty()));
        }
    }
}
