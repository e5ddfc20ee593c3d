//! The grants that a sliding window looks back on, as runs on a line of time.

use crate::clock::Instant;
use core::num::NonZeroU64;
use std::collections::VecDeque;

/// The line of time of a log: nanoseconds since its parameters took over.
/// Nothing is granted before, and what was to be back by then was.
///
/// A permit granted at `at` comes back at `at + length`. The time of a call is
/// the later of its clock reading and the newest grant's time, so that come-back
/// times are sorted. After 146 years it stands still, and what was to come back
/// then does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    since: Instant,
    length: u64,
}

impl Span {
    /// The first time that does not come. Come-back times, at most twice it, have
    /// 63 bits.
    const END: u64 = 1 << 62;

    pub(crate) const fn new(since: Instant, length: NonZeroU64) -> Self {
        let length = length.get();
        Self { since, length: if length < Self::END { length } else { Self::END } }
    }

    /// The time of a call, where the newest grant comes back at `newest`.
    #[inline]
    pub(crate) fn at(self, now: Instant, newest: u64) -> u64 {
        self.offset(now).max(newest.saturating_sub(self.length))
    }

    /// When a permit granted at a time comes back.
    #[inline]
    pub(crate) fn back(self, at: u64) -> u64 {
        at + self.length
    }

    #[inline]
    pub(crate) fn offset(self, at: Instant) -> u64 {
        const LAST: Instant = Instant::from_nanos(u64::MAX - 1);
        at.min(LAST).nanos_since(self.since).min(Self::END - 1)
    }

    /// A come-back time of another line.
    pub(crate) fn moved(self, at: u64, from: Self) -> u64 {
        match from.instant(at) {
            Instant::MAX => u64::MAX, // never, so not on this line either
            at => self.offset(at),
        }
    }

    #[inline]
    pub(crate) fn instant(self, at: u64) -> Instant {
        if at < Self::END { self.since.after_nanos(at) } else { Instant::MAX }
    }
}

/// The grants that may still count, oldest first.
#[derive(Clone, Debug, Default)]
pub struct GrantLog {
    runs: VecDeque<Run>,
    /// Permits granted before the first run.
    before: u64,
    /// The latest time at which anything granted was to come back. It outlives a
    /// refund: what had come back by the time of that grant has been dropped.
    pub(crate) newest: u64,
}

/// The permits granted at one moment. Running totals make a count of any
/// stretch a subtraction.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// When they come back.
    back: u64,
    /// Permits granted up to and with this run.
    total: u64,
}

impl GrantLog {
    pub(crate) fn with_newest(newest: u64) -> Self {
        Self { newest, ..Self::default() }
    }

    #[inline]
    fn total(&self) -> u64 {
        self.runs.back().map_or(self.before, |run| run.total)
    }

    /// When the last of those that are out is back, or was.
    #[inline]
    pub(crate) fn last(&self) -> Option<u64> {
        self.runs.back().map(|run| run.back)
    }

    /// The runs, with the permits of each.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let before = core::iter::once(self.before).chain(self.runs.iter().map(|run| run.total));
        self.runs.iter().zip(before).map(|(run, before)| (run.back, run.total - before))
    }

    /// The permits that are out at a time.
    #[inline]
    pub(crate) fn out(&self, at: u64) -> u64 {
        self.total() - self.back(at)
    }

    /// How many of the granted permits are back at a time.
    #[inline]
    fn back(&self, at: u64) -> u64 {
        match self.runs.front() {
            Some(oldest) if oldest.back <= at => {
                let back = self.runs.partition_point(|run| run.back <= at);
                self.runs[back - 1].total
            }
            _ => self.before,
        }
    }

    /// When all but the newest `most` of the granted permits are back; none if
    /// they have been.
    #[inline]
    pub(crate) fn back_but(&self, most: u64) -> Option<u64> {
        let needed = self.total().saturating_sub(most);
        if needed <= self.before {
            return None;
        }
        match self.runs.front() {
            Some(oldest) if oldest.total >= needed => Some(oldest.back),
            _ => {
                let at = self.runs.partition_point(|run| run.total < needed);
                self.runs.get(at).map(|run| run.back)
            }
        }
    }

    /// Adds permits that come back no sooner than any other.
    #[inline]
    pub(crate) fn push(&mut self, back: u64, permits: u64) {
        if permits == 0 {
            return;
        }
        let total = self.total().saturating_add(permits);
        self.newest = self.newest.max(back);
        match self.runs.back_mut() {
            Some(run) if run.back == back => run.total = total,
            _ => self.runs.push_back(Run { back, total }),
        }
    }

    /// Drops what is back.
    #[inline]
    pub(crate) fn forget_until(&mut self, at: u64) {
        while let Some(oldest) = self.runs.front()
            && oldest.back <= at
        {
            self.before = oldest.total;
            self.runs.pop_front();
        }
        // Memory follows use: a burst long ago keeps no buffer.
        let (len, capacity) = (self.runs.len(), self.runs.capacity());
        if capacity > 16 && len < capacity / 4 {
            self.runs.shrink_to(2 * len);
        }
    }

    /// Takes up to `n` permits out of the newest run, if that is out.
    pub(crate) fn take_back(&mut self, at: u64, n: u32) -> u32 {
        match self.runs.len().checked_sub(1) {
            Some(newest) => self.take_out_of(newest, at, n),
            None => 0,
        }
    }

    /// Takes up to `n` permits out of the last run that is back by `back`, or out
    /// of the oldest: they come back no later.
    pub(crate) fn cancel(&mut self, at: u64, back: u64, n: u32) -> u32 {
        let end = self.runs.partition_point(|run| run.back <= back);
        self.take_out_of(end.saturating_sub(1), at, n)
    }

    fn take_out_of(&mut self, run: usize, at: u64, n: u32) -> u32 {
        let before = run.checked_sub(1).map_or(self.before, |run| self.runs[run].total);
        let Some(Run { total, .. }) = self.runs.get(run).filter(|run| run.back > at) else {
            return 0;
        };
        let given = (total - before).min(n.into());
        for run in self.runs.range_mut(run..) {
            run.total -= given;
        }
        if self.runs[run].total == before {
            self.runs.remove(run);
        }
        given as u32
    }
}
