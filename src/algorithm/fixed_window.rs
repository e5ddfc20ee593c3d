use super::{Algorithm, Report};
use crate::clock::{Instant, nanos};
use crate::meter::{Meter, on_one_word};
use crate::rate::Rate;
use crate::supply::{Steps, Supply};
use core::num::NonZeroU64;
use core::time::Duration;

/// Fixed window: at most `count` permits in each window of one period.
///
/// ```text
/// windows  |        |        |        |
/// limit 3  ##x#xx     #    #  ###xx       x: refused
///          +--------------------------- s
/// ```
///
/// A window holds its first instant and not its last. The windows are counted
/// from the creation of the limiter ([`new`](Self::new)) or from an edge on the
/// clock's own axis ([`aligned`](Self::aligned)).
///
/// * **Guarantee:** at most `count` in each window.
/// * **Weakness:** twice as much in a span across an edge: the whole of one
///   window at its end and of the next at its start. Where that matters, take a
///   [`SlidingWindowLog`](crate::SlidingWindowLog).
/// * **State, cost:** one word, as for [`TokenBucket`](crate::TokenBucket);
///   always exact.
///
/// [`reset_after`](crate::Decision::reset_after) is the end of the window.
/// [`charge`](crate::RateLimiter::charge) fills the window up to its limit;
/// [`refund`](crate::RateLimiter::refund) gives back in the window of the
/// grant, and nothing once that has ended.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{FixedWindow, ManualClock, RateLimiter, rate};
///
/// let clock = ManualClock::new();
/// let limiter = RateLimiter::with_clock(FixedWindow::new(rate!("100/min")), clock.clone());
/// assert!(limiter.try_acquire_n(100).is_granted());
/// clock.advance(Duration::from_secs(59));
/// assert_eq!(limiter.try_acquire().retry_after(), Some(Duration::from_secs(1)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow {
    rate: Rate,
    meter: Meter<Steps>,
}

impl FixedWindow {
    /// `rate.count()` permits in each window of `rate.period()`, the first of
    /// which begins when the limiter is made.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self::with_edges(rate, None)
    }

    /// The same with windows that begin at `offset` and at every period before
    /// and after it, counted from the clock's zero.
    ///
    /// On a [`WallClock`](crate::WallClock) a period of an hour makes these the
    /// hours of the calendar, and a day with an offset of 6 hours the days that
    /// begin at six, UTC.
    #[must_use]
    pub fn aligned(rate: Rate, offset: Duration) -> Self {
        Self::with_edges(rate, Some(nanos(offset)))
    }

    const fn with_edges(rate: Rate, offset: Option<u64>) -> Self {
        // A permit is one unit and a window brings all of them.
        let step = NonZeroU64::MIN.saturating_add(rate.count().get() as u64 - 1);
        let steps = Steps::new(rate.period_nanos(), step, offset);
        Self { rate, meter: Meter::new(steps, step.get(), NonZeroU64::MIN) }
    }

    /// Permits and length of a window.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }
}

impl From<Rate> for FixedWindow {
    fn from(rate: Rate) -> Self {
        Self::new(rate)
    }
}

impl Algorithm for FixedWindow {
    on_one_word!(meter);

    const STANDS: bool = false;

    fn carry(&self, old: &Self, mark: &u64, now: Instant) -> u64 {
        self.meter.carry(&old.meter, *mark, now)
    }

    fn charge(&self, mark: &mut u64, now: Instant, n: u32) -> u32 {
        self.meter.charge(mark, now, n, 0)
    }

    /// A mark within window `w` is `w * count` and the permits taken in it, so
    /// the mark before tells the window, even of a full one.
    fn refund(&self, mark: &mut u64, now: Instant, receipt: u128, n: u32) -> u32 {
        let count = u64::from(self.rate.count().get());
        let start = |mark: u64| mark.checked_sub(1).map(|last| last / count * count);
        let granted = u64::try_from(receipt).ok().and_then(start);
        match start(*mark) {
            Some(current) if granted == Some(current) && self.meter.supply.at(now) <= current => {
                let given = (*mark - current).min(n.into());
                *mark -= given;
                given as u32
            }
            _ => 0, // the window has ended
        }
    }

    /// Within its window a grant can always be given back.
    fn cancel(&self, mark: &mut u64, now: Instant, taken: Instant, n: u32) -> u32 {
        let start = self.meter.supply.at(now);
        if start != self.meter.supply.at(taken) || *mark < start {
            return 0;
        }
        let given = (*mark - start).min(n.into());
        *mark -= given;
        given as u32
    }

    #[inline]
    fn report(&self, mark: &u64, now: Instant, _: Option<u32>) -> Report {
        Report {
            limit: self.capacity(),
            remaining: self.remaining(mark, now),
            reset_at: self.meter.supply.next_edge(now).max(self.fresh_at(mark)),
            index: 0,
        }
    }
}
