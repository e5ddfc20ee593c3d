use super::Algorithm;
use crate::clock::Instant;
use crate::rate::Rate;
use crate::shared::MutexState;
use std::collections::VecDeque;

/// Sliding-window log: at most `count` permits in *any* span of one period.
///
/// ```text
/// window ending now   [---------------)      a grant counts for exactly one
/// limit 3     #  #     #     #x x  #         period and then comes back
///             +------------------------- s
/// ```
///
/// * **Guarantee:** exact. In no half-open span of one period are there more
///   than `count` permits, wherever it begins.
/// * **State:** 64 bytes, and an entry of 16 bytes for each moment in the window
///   that granted, never more entries than `count`. The buffer doubles when it
///   is full and halves when a grant finds three quarters of it empty, so it
///   takes 16 to 64 bytes an entry; a caller who is away keeps it until the next
///   grant, or until a keyed limiter forgets the caller.
/// * **Cost:** constant time, amortised; a look at what is left, and a refusal
///   of several permits, take a binary search. Behind a mutex.
/// * **Weakness:** memory, and a caller who spends all at once waits out the
///   whole period.
///
/// A call's time is the later of its clock reading and the newest grant's time,
/// so that a thread which read the clock before another and decides after it
/// finds the log sorted and the bound kept.
///
/// [`charge`](crate::RateLimiter::charge) fills the window up to its limit.
/// [`refund`](crate::RateLimiter::refund) undoes the newest grant, until someone
/// else has taken.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{ManualClock, RateLimiter, SlidingWindowLog, rate};
///
/// let clock = ManualClock::new();
/// let log = SlidingWindowLog::new(rate!("2/min"));
/// let limiter = RateLimiter::with_clock(log, clock.clone());
/// assert!(limiter.try_acquire().is_granted());
/// clock.advance(Duration::from_secs(10));
/// assert!(limiter.try_acquire().is_granted());
/// clock.advance(Duration::from_secs(10));
/// assert_eq!(limiter.try_acquire().retry_after(), Some(Duration::from_secs(40)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SlidingWindowLog {
    rate: Rate,
    /// Nothing is granted at an earlier time: when these parameters took over,
    /// what was to be back by then was.
    since: Instant,
    /// What callers never seen still lack after changes: so many permits come
    /// back then, soonest first.
    unseen: [(Instant, u32); CHANGES],
}

/// How many changes within a period callers never seen remember apart. When
/// there are more, the newest come back together.
const CHANGES: usize = 4;

impl SlidingWindowLog {
    /// `rate.count()` permits in any span of `rate.period()`.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self { rate, since: Instant::ZERO, unseen: [(Instant::ZERO, 0); CHANGES] }
    }

    /// Permits and length of the window.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }
}

impl From<Rate> for SlidingWindowLog {
    fn from(rate: Rate) -> Self {
        Self::new(rate)
    }
}

/// The grants that may still count, oldest first.
#[derive(Debug, Default)]
pub struct GrantLog {
    runs: VecDeque<Run>,
    /// Permits granted before the first run.
    before: u64,
    /// The latest time at which anything was granted. It outlives a refund:
    /// what had come back by then has been dropped.
    newest: Instant,
}

/// The permits granted at one moment. Running totals make a count of any
/// stretch a subtraction.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// When they come back.
    back_at: Instant,
    /// Permits granted up to and with this run.
    total: u64,
}

impl GrantLog {
    #[inline]
    fn total(&self) -> u64 {
        self.runs.back().map_or(self.before, |run| run.total)
    }

    /// Adds permits that come back no sooner than any other.
    #[inline]
    fn push(&mut self, back_at: Instant, permits: u64) {
        if permits == 0 {
            return;
        }
        let total = self.total().saturating_add(permits);
        match self.runs.back_mut() {
            Some(run) if run.back_at == back_at => run.total = total,
            _ => self.runs.push_back(Run { back_at, total }),
        }
    }

    /// The time is in it because totals begin anew when a keyed limiter has
    /// forgotten the log.
    #[inline]
    fn receipt(&self) -> u128 {
        let back_at = self.runs.back().map_or(self.newest, |run| run.back_at);
        u128::from(back_at.as_nanos()) << 64 | u128::from(self.total())
    }

    /// The grant time of a call that reads `now`; never the end of time, at which
    /// all would be back.
    #[inline]
    fn time(&self, now: Instant) -> Instant {
        const LAST: Instant = Instant::from_nanos(u64::MAX - 1);
        now.max(self.newest).min(LAST)
    }

    /// How many of the granted permits are back `at` a time.
    #[inline]
    fn back(&self, at: Instant) -> u64 {
        match self.runs.front() {
            Some(oldest) if oldest.back_at <= at => {
                let back = self.runs.partition_point(|run| run.back_at <= at);
                self.runs[back - 1].total
            }
            _ => self.before,
        }
    }

    #[inline]
    fn forget_until(&mut self, at: Instant) {
        while let Some(oldest) = self.runs.front()
            && oldest.back_at <= at
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
}

impl SlidingWindowLog {
    /// When a permit granted `at` comes back.
    #[inline]
    fn back_at(&self, at: Instant) -> Instant {
        at.after_nanos(self.rate.period_nanos().get())
    }

    #[inline]
    fn count(&self) -> u64 {
        u64::from(self.rate.count().get())
    }

    #[inline]
    fn left(&self, log: &GrantLog, at: Instant) -> u64 {
        self.count() - (log.total() - log.back(at))
    }
}

impl Algorithm for SlidingWindowLog {
    type State = GrantLog;
    type Shared = MutexState<GrantLog>;

    /// A log counts from each grant, but not before the start.
    fn start(&mut self, now: Instant) {
        self.since = now;
        self.unseen = [(Instant::ZERO, 0); CHANGES];
    }

    fn unseen(&self) -> GrantLog {
        let mut log = GrantLog { newest: self.since, ..GrantLog::default() };
        for (back_at, permits) in self.unseen {
            log.push(back_at, permits.into());
        }
        log
    }

    fn resume(&mut self, old: &Self, now: Instant) {
        let log = self.carry(old, &old.unseen(), now);
        self.start(now);
        let mut before = 0;
        for (at, run) in log.runs.iter().enumerate() {
            let (back_at, permits) = &mut self.unseen[at.min(CHANGES - 1)];
            *back_at = run.back_at;
            *permits += (run.total - before) as u32;
            before = run.total;
        }
    }

    /// What is out comes back when it would have, or a new period from now if
    /// that is sooner: never later, or changes could put it off for ever. Of
    /// what is out, as much counts as is missing, the soonest back; what else is
    /// missing comes back a period from now.
    fn carry(&self, old: &Self, log: &GrantLog, now: Instant) -> GrantLog {
        let now = log.time(now);
        let missing = self.count() - old.left(log, now).min(self.count());
        let (back, at_latest) = (log.back(now), self.back_at(now));
        let mut carried = GrantLog { newest: now, ..GrantLog::default() };
        for run in log.runs.iter().filter(|run| run.total > back) {
            let out = (run.total - back).min(missing) - carried.total();
            carried.push(run.back_at.min(at_latest), out);
        }
        carried.push(at_latest, missing - carried.total());
        carried
    }

    #[inline]
    fn capacity(&self) -> u32 {
        self.rate.count().get()
    }

    #[inline]
    fn earliest(&self, log: &GrantLog, now: Instant, n: u32) -> Instant {
        // All permits but the last `count` must be back, this call's included.
        let Some(total) = log.total().checked_add(n.into()) else {
            return Instant::MAX; // as at the horizon of the other algorithms
        };
        let needed = total.saturating_sub(self.count());
        if needed <= log.before {
            return now;
        }
        let last = match log.runs.front() {
            Some(oldest) if oldest.total >= needed => oldest,
            _ => match log.runs.get(log.runs.partition_point(|run| run.total < needed)) {
                Some(run) => run,
                None => return now,
            },
        };
        if last.back_at <= log.time(now) { now } else { last.back_at }
    }

    #[inline]
    fn take(&self, log: &mut GrantLog, now: Instant, n: u32) {
        let at = log.time(now);
        log.forget_until(at);
        log.push(self.back_at(at), n.into());
        log.newest = at;
    }

    #[inline]
    fn remaining(&self, log: &GrantLog, now: Instant) -> u32 {
        self.left(log, log.time(now)) as u32
    }

    #[inline]
    fn fresh_at(&self, log: &GrantLog) -> Instant {
        log.runs.back().map_or(log.newest, |run| run.back_at)
    }

    #[inline]
    fn charge(&self, log: &mut GrantLog, now: Instant, n: u32) -> u32 {
        let booked = n.min(self.remaining(log, now));
        if booked > 0 {
            self.take(log, now, booked);
        }
        booked
    }

    #[inline]
    fn receipt(&self, log: &GrantLog) -> u128 {
        log.receipt()
    }

    #[inline]
    fn refund(&self, log: &mut GrantLog, now: Instant, receipt: u128, n: u32) -> u32 {
        let (is_last, now) = (log.receipt() == receipt, log.time(now));
        let Some(Run { back_at, total }) = log.runs.pop_back() else {
            return 0;
        };
        let own = total - log.total();
        let given = if is_last && back_at > now { own.min(n.into()) } else { 0 };
        if given < own {
            log.runs.push_back(Run { back_at, total: total - given });
        }
        given as u32
    }

    /// Takes the permits out of the last run that is not after the grant, or out
    /// of the oldest, which cannot be while the grant counts: they come back no
    /// later.
    fn cancel(&self, log: &mut GrantLog, now: Instant, taken: Instant, n: u32) -> u32 {
        let (now, back_at) = (log.time(now), self.back_at(taken));
        if back_at <= now {
            return 0;
        }
        let end = log.runs.partition_point(|run| run.back_at <= back_at);
        let at = end.saturating_sub(1);
        let before = at.checked_sub(1).map_or(log.before, |run| log.runs[run].total);
        let Some(run) = log.runs.get(at).filter(|run| run.back_at > now) else {
            return 0;
        };
        let given = (run.total - before).min(n.into());
        for run in log.runs.range_mut(at..) {
            run.total -= given;
        }
        if log.runs[at].total == before {
            log.runs.remove(at);
        }
        given as u32
    }
}
