use super::Algorithm;
use super::grant_log::{GrantLog, Span};
use crate::clock::Instant;
use crate::rate::Rate;
use crate::shared::RingState;

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
/// * **State:** a ring with 8 bytes and more for each permit that is out at once,
///   see [`RingState`]. Behind a mutex, as [`Locked`](crate::Locked) or for a count
///   above 65,535: 64 bytes (the latter 200), and an entry of 16 bytes for each
///   moment in the window that granted, never more entries than `count`. The
///   buffer doubles when it is full and halves when a grant finds three quarters
///   of it empty, so it takes 16 to 64 bytes an entry; a caller who is away keeps
///   it until the next grant, or until a keyed limiter forgets the caller.
/// * **Cost:** a step for each permit taken, four loads to refuse one; a look at
///   what is left takes a binary search, which mostly ends where it begins.
///   Locked: constant time, amortised, for any number of permits.
/// * **Weakness:** memory, and a caller who spends all at once waits out the
///   whole period.
///
/// A call's time is the later of its clock reading and the newest grant's time,
/// so that a thread which read the clock before another and decides after it
/// finds the log sorted and the bound kept.
///
/// 146 years after it was made a log's time stands still: what would come back
/// later does not.
///
/// [`charge`](crate::RateLimiter::charge) fills the window up to its limit.
/// [`refund`](crate::RateLimiter::refund) undoes a grant of the newest moment,
/// until someone else has taken later.
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
    span: Span,
    /// What everybody lacks after changes that raised the count: so many permits
    /// come then, soonest first.
    lacking: [(u64, u32); CHANGES],
    /// When all of them have come.
    whole_from: u64,
}

/// How many changes within a period are remembered apart. When there are more,
/// what the newest add comes together.
const CHANGES: usize = 4;

impl SlidingWindowLog {
    /// `rate.count()` permits in any span of `rate.period()`.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            span: Span::new(Instant::ZERO, rate.period_nanos()),
            lacking: [(0, 0); CHANGES],
            whole_from: 0,
        }
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

impl SlidingWindowLog {
    #[inline]
    pub(crate) fn span(&self) -> Span {
        self.span
    }

    #[inline]
    fn count(&self) -> u64 {
        u64::from(self.rate.count().get())
    }

    #[inline]
    fn at(&self, log: &GrantLog, now: Instant) -> u64 {
        self.span.at(now, log.newest)
    }

    /// Whether there are as many permits as `count`, from a time on.
    #[inline]
    pub(crate) fn is_whole(&self, at: u64) -> bool {
        at >= self.whole_from
    }

    /// The permits that everybody lacks at a time.
    #[inline(always)]
    pub(crate) fn lacking(&self, at: u64) -> u32 {
        if self.is_whole(at) { 0 } else { self.lacking_now(at) }
    }

    #[cold]
    fn lacking_now(&self, at: u64) -> u32 {
        let to_come = self.lacking.iter().filter(|(then, _)| *then > at);
        to_come.map(|(_, permits)| permits).sum()
    }

    /// The first time, not before `at`, when there are `n` permits; `back` says when
    /// so many are not out.
    #[cold]
    pub(crate) fn when(&self, at: u64, n: u32, back: impl Fn(u32) -> u64) -> u64 {
        let mut from = at;
        for (then, _) in self.lacking.into_iter().filter(|(then, _)| *then > at) {
            let needed = u64::from(n) + u64::from(self.lacking(from));
            if needed <= self.count() {
                let when = back(needed as u32).max(from);
                if when < then {
                    return when;
                }
            }
            from = then;
        }
        back(n).max(from)
    }

    #[cold]
    fn earliest_of_lacking(&self, log: &GrantLog, now: Instant, n: u32) -> Instant {
        let at = self.at(log, now);
        let back = |n| log.back_but(self.count() - u64::from(n)).unwrap_or(0);
        let when = self.when(at, n, back);
        if when > at { self.span.instant(when) } else { now }
    }

    /// Adds what comes no sooner than all others.
    fn lack(&mut self, change: usize, then: u64, permits: u32) {
        if permits > 0 {
            let (last, all) = &mut self.lacking[change.min(CHANGES - 1)];
            (*last, self.whole_from) = (then, then);
            *all += permits;
        }
    }
}

impl Algorithm for SlidingWindowLog {
    type State = GrantLog;
    type Shared = RingState;

    const STANDS: bool = false;

    /// A log counts from each grant, but not before the start.
    fn start(&mut self, now: Instant) {
        *self = Self { span: Span::new(now, self.rate.period_nanos()), ..Self::new(self.rate) };
    }

    fn unseen(&self) -> GrantLog {
        GrantLog::default()
    }

    /// What is lacking comes when it would have, or a new period from now if that
    /// is sooner: never later, or changes could put it off for ever. What a higher
    /// count adds comes a period from now; a lower one has no room for the last.
    fn resume(&mut self, old: &Self, now: Instant) {
        self.start(now);
        let at_latest = self.span.back(0);
        let at = old.span.at(now, 0);
        let mut missing = (self.count() + u64::from(old.lacking(at))).saturating_sub(old.count());
        let to_come = old.lacking.into_iter().filter(|(then, _)| *then > at);
        let mut change = 0;
        for (then, permits) in to_come {
            let kept = u64::from(permits).min(missing) as u32;
            self.lack(change, self.span.moved(then, old.span).min(at_latest), kept);
            missing -= u64::from(kept);
            change += 1;
        }
        self.lack(change, at_latest, missing as u32);
    }

    /// What is out comes back when it would have, or a new period from now if
    /// that is sooner, as with what is lacking. Of what is out a lower count takes
    /// the last, as much as it takes from somebody who had all.
    fn carry(&self, old: &Self, log: &GrantLog, now: Instant) -> GrantLog {
        let at = old.at(log, now);
        let at_latest = self.span.back(self.span.offset(old.span.instant(at)));
        let had = old.count() - u64::from(old.lacking(at));
        let mut kept = log.out(at).saturating_sub(had.saturating_sub(self.count()));
        let mut carried = GrantLog::with_newest(at_latest);
        for (back, permits) in log.runs().filter(|(back, _)| *back > at) {
            let out = permits.min(kept);
            carried.push(self.span.moved(back, old.span).min(at_latest), out);
            kept -= out;
        }
        carried
    }

    #[inline]
    fn capacity(&self) -> u32 {
        self.rate.count().get()
    }

    #[inline]
    fn earliest(&self, log: &GrantLog, now: Instant, n: u32) -> Instant {
        let at = self.at(log, now);
        if !self.is_whole(at) {
            return self.earliest_of_lacking(log, now, n);
        }
        // All permits but the last of them must be back, this call's included.
        match log.back_but(self.count() - u64::from(n)) {
            Some(back) if back > at => self.span.instant(back),
            _ => now,
        }
    }

    #[inline]
    fn take(&self, log: &mut GrantLog, now: Instant, n: u32) {
        let at = self.at(log, now);
        log.forget_until(at);
        log.push(self.span.back(at), n.into());
    }

    #[inline]
    fn remaining(&self, log: &GrantLog, now: Instant) -> u32 {
        let at = self.at(log, now);
        (self.count() - log.out(at)).saturating_sub(self.lacking(at).into()) as u32
    }

    #[inline]
    fn fresh_at(&self, log: &GrantLog) -> Instant {
        let settled = self.span.at(Instant::ZERO, log.newest);
        self.span.instant(log.last().map_or(settled, |back| back.max(settled)))
    }

    #[inline]
    fn charge(&self, log: &mut GrantLog, now: Instant, n: u32) -> u32 {
        let booked = n.min(self.remaining(log, now));
        if booked > 0 {
            self.take(log, now, booked);
        }
        booked
    }

    /// Of several grants of one moment it does not matter which is undone.
    #[inline]
    fn receipt(&self, log: &GrantLog) -> u128 {
        log.last().unwrap_or(log.newest).into()
    }

    #[inline]
    fn refund(&self, log: &mut GrantLog, now: Instant, receipt: u128, n: u32) -> u32 {
        if self.receipt(log) == receipt { log.take_back(self.at(log, now), n) } else { 0 }
    }

    fn cancel(&self, log: &mut GrantLog, now: Instant, taken: Instant, n: u32) -> u32 {
        let (at, back) = (self.at(log, now), self.span.back(self.span.offset(taken)));
        if back <= at { 0 } else { log.cancel(at, back, n) }
    }

    /// Keeps the time.
    fn reset(&self, log: &mut GrantLog, now: Instant) {
        *log = GrantLog::with_newest(self.span.back(self.at(log, now)));
    }
}
