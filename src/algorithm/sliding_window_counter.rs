use super::Algorithm;
use crate::clock::{Instant, nanos};
use crate::error::ConfigError;
use crate::rate::{HORIZON_NANOS, Rate};
use crate::shared::AtomicState;
use crate::supply::{Steps, Supply};
use core::num::{NonZeroU64, NonZeroU128};
use core::time::Duration;

/// Sliding-window counter: the permits of this window, and of the one before as
/// many as overlap one period back if they were spread evenly, are at most
/// `count`.
///
/// ```text
/// windows           |  42 granted   |  18 so far
/// one period back       [###########|####)          15 s into a minute:
///                       +-----------+----- s        42 * 45/60 + 18 = 49.5
/// ```
///
/// A call for `n` is granted if the estimate and `n` are at most `count`,
/// compared as fractions: nothing is rounded. The estimate falls steadily, and
/// without a jump at the edges of windows, which are as for
/// [`FixedWindow`](crate::FixedWindow).
///
/// * **Guarantee:** at most `count` in each window, and at most `2 * count - 1`
///   in any half-open span of one period: all of one window at its end, and
///   nearly as much when the next has nearly passed.
/// * **Weakness:** the error goes both ways. Who spent all at the start of a
///   window is refused after a period, at `e` into the next one up to
///   `count * (1 - e / period)` permits that a
///   [`SlidingWindowLog`](crate::SlidingWindowLog) would grant.
/// * **State:** one word, with the number of the window and both counts, for
///   each key as for [`TokenBucket`](crate::TokenBucket). They have to fit for
///   the [`HORIZON`](crate::HORIZON), which bounds the count: 241,000 a second,
///   1.8 million a minute, 14 million an hour, 71 million a day.
/// * **Cost:** constant time; a compare-exchange when granting, one load when
///   refusing. A division more than a bucket.
///
/// Where the clock steps back, what is granted counts in the newest window so
/// far, as at its start.
///
/// [`charge`](crate::RateLimiter::charge) books what a call could take.
/// [`refund`](crate::RateLimiter::refund) gives back in the window of the
/// grant, and nothing once that has ended. After a
/// [change](crate::RateLimiter::reconfigure) of the rate the counts are as
/// before, as far as that leaves what remained; what a higher limit adds counts
/// as granted in the present window, and comes with the next.
///
/// Source: Cloudflare, "How we built rate limiting capable of scaling to
/// millions of domains" (2017), whose example this is.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{ManualClock, RateLimiter, SlidingWindowCounter, rate};
///
/// let clock = ManualClock::new();
/// let counter = SlidingWindowCounter::new(rate!("50/min"))?;
/// let limiter = RateLimiter::with_clock(counter, clock.clone());
/// assert!(limiter.try_acquire_n(42).is_granted());
/// clock.advance(Duration::from_secs(60 + 15));
/// assert!(limiter.try_acquire_n(18).is_granted());
/// let decision = limiter.try_acquire(); // at 49.5 of 50
/// assert_eq!(decision.retry_after(), Some(Duration::from_nanos(714_285_715)));
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
#[doc(alias = "approximate")]
#[doc(alias = "weighted")]
#[derive(Clone, Copy, Debug)]
pub struct SlidingWindowCounter {
    rate: Rate,
    /// The supply is the word of an empty window, which is why a step is the
    /// square of the radix.
    windows: Steps,
    /// One more than the count, so that a digit can be all of it.
    radix: NonZeroU64,
    /// The word of a state that has never been used: zero, but for what was not
    /// there when these parameters took over.
    unseen: u64,
}

/// What a word says at a moment:
/// `word = (window * radix + previous) * radix + current`.
#[derive(Clone, Copy, Debug)]
struct Counts {
    /// The word of the window with both counts at zero.
    start: u64,
    previous: u64,
    current: u64,
    /// What is left of the window, from that moment on.
    rest: u64,
}

impl SlidingWindowCounter {
    /// About `rate.count()` permits in any span of `rate.period()`, counted in
    /// windows the first of which begins when the limiter is made.
    ///
    /// # Errors
    ///
    /// [`ConfigError::TooLarge`] for a count, or for a period of more than 574
    /// years, that the state has no room for, see above.
    ///
    /// ```
    /// use tollgate::{ConfigError, SlidingWindowCounter, rate};
    ///
    /// let counter = SlidingWindowCounter::new(rate!("1000000/s"));
    /// assert_eq!(counter.unwrap_err(), ConfigError::TooLarge("count"));
    /// ```
    pub const fn new(rate: Rate) -> Result<Self, ConfigError> {
        Self::with_edges(rate, None)
    }

    /// The same with windows that begin at `offset` and at every period before
    /// and after it, counted from the clock's zero.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn aligned(rate: Rate, offset: Duration) -> Result<Self, ConfigError> {
        Self::with_edges(rate, Some(nanos(offset)))
    }

    const fn with_edges(rate: Rate, offset: Option<u64>) -> Result<Self, ConfigError> {
        // Time is measured from the first edge, which may be a period ago.
        if rate.period_nanos().get() > u64::MAX - HORIZON_NANOS {
            return Err(ConfigError::TooLarge("period"));
        }
        let radix = NonZeroU64::MIN.saturating_add(rate.count().get() as u64);
        let windows = Steps::new(rate.period_nanos(), radix.saturating_mul(radix), offset);
        if !windows.reaches_horizon() {
            return Err(ConfigError::TooLarge("count"));
        }
        Ok(Self { rate, windows, radix, unseen: 0 })
    }

    /// Permits and length of a window.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    #[inline]
    fn count(&self) -> u64 {
        u64::from(self.rate.count().get())
    }

    #[inline]
    fn period(&self) -> u64 {
        self.rate.period_nanos().get()
    }

    /// The words of a window. That it cannot be zero spares each division a
    /// branch.
    #[inline]
    fn step(&self) -> NonZeroU64 {
        self.radix.saturating_mul(self.radix)
    }

    /// One division, unless the clock has stepped back: most windows are this
    /// one or the one before.
    #[inline]
    fn counts(&self, word: u64, now: Instant) -> Counts {
        let (start, step) = (self.windows.at(now), self.step());
        let rest = self.period() - self.windows.offset_of(now);
        match word.checked_sub(start) {
            Some(counts) if counts < step.get() => self.split(start, counts, rest),
            Some(ahead) => {
                let counts = ahead % step;
                self.split(word - counts, counts, self.period())
            }
            None => {
                // Counts of the window before, or nothing in sight.
                let counts = step.get().saturating_sub(start - word);
                Counts { start, previous: counts % self.radix, current: 0, rest }
            }
        }
    }

    #[inline]
    fn split(&self, start: u64, counts: u64, rest: u64) -> Counts {
        Counts { start, previous: counts / self.radix, current: counts % self.radix, rest }
    }

    #[inline]
    fn word(&self, counts: Counts) -> u64 {
        counts.start + counts.previous * self.radix.get() + counts.current.min(self.count())
    }

    /// What `previous` permits weigh with `rest` left of the window, rounded up.
    #[inline]
    fn weight(&self, previous: u64, rest: u64) -> u64 {
        // At most what it is without a weight.
        let period = NonZeroU128::from(self.rate.period_nanos());
        ((product(previous, rest) + (period.get() - 1)) / period) as u64
    }

    /// The estimate, rounded up.
    #[inline]
    fn used(&self, counts: Counts) -> u64 {
        self.weight(counts.previous, counts.rest) + counts.current
    }

    /// Takes up to `n` permits out of the window of a grant, while it lasts.
    fn give_back(&self, word: &mut u64, now: Instant, granted: u64, n: u32) -> u32 {
        if granted / self.step() != *word / self.step() || self.windows.at(now) > *word {
            return 0;
        }
        let given = (*word % self.radix).min(n.into());
        *word -= given;
        given as u32
    }
}

#[inline]
fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

impl TryFrom<Rate> for SlidingWindowCounter {
    type Error = ConfigError;

    fn try_from(rate: Rate) -> Result<Self, ConfigError> {
        Self::new(rate)
    }
}

impl Algorithm for SlidingWindowCounter {
    type State = u64;
    type Shared = AtomicState;

    const STANDS: bool = false;

    fn start(&mut self, now: Instant) {
        self.windows.start(now);
        self.unseen = 0;
    }

    #[inline]
    fn unseen(&self) -> u64 {
        self.unseen
    }

    fn resume(&mut self, old: &Self, now: Instant) {
        self.windows.resume(&old.windows, now);
        self.unseen = self.carry(old, &old.unseen, now);
    }

    /// Keeps of the previous count what its new weight has room for; what else is
    /// missing counts as granted now. So what a raise adds to the current count,
    /// the next lowering takes away, and changes put nothing off for ever.
    fn carry(&self, old: &Self, word: &u64, now: Instant) -> u64 {
        let counted = old.counts(*word, now);
        let missing = (self.count() + old.used(counted)).saturating_sub(old.count());
        let new = self.counts(0, now);
        let most = product(missing, self.period()) / u128::from(new.rest);
        let most = u64::try_from(most).unwrap_or(u64::MAX).min(self.count());
        let previous = counted.previous.min(most);
        let current = missing - self.weight(previous, new.rest);
        self.word(Counts { previous, current, ..new })
    }

    #[inline]
    fn capacity(&self) -> u32 {
        self.rate.count().get()
    }

    #[inline]
    fn earliest(&self, word: &u64, now: Instant, n: u32) -> Instant {
        if self.is_possible(word, now, n) {
            return now;
        }
        let Counts { start, previous, current, .. } = self.counts(*word, now);
        let window = start / self.step();
        let free = self.count().saturating_sub(n.into());
        // In the next window the current count is the previous one.
        let (window, previous, free) = match free.checked_sub(current) {
            Some(free) => (window, previous, free),
            None => (window + 1, current, free),
        };
        // The weight has to fall to `free`. It is above that now, so the
        // quotient is below the period.
        let rest = product(free, self.period()).checked_div(previous.into()).unwrap_or(0) as u64;
        self.windows.moment(window, self.period() - rest)
    }

    #[inline(always)]
    fn is_possible(&self, word: &u64, now: Instant, n: u32) -> bool {
        let Counts { previous, current, rest, .. } = self.counts(*word, now);
        let free = self.count().checked_sub(current + u64::from(n));
        free.is_some_and(|free| product(previous, rest) <= product(free, self.period()))
    }

    #[inline]
    fn take(&self, word: &mut u64, now: Instant, n: u32) {
        let counts = self.counts(*word, now);
        *word = self.word(Counts { current: counts.current + u64::from(n), ..counts });
    }

    #[inline]
    fn remaining(&self, word: &u64, now: Instant) -> u32 {
        self.count().saturating_sub(self.used(self.counts(*word, now))) as u32
    }

    /// When both counts are out of sight.
    #[inline]
    fn fresh_at(&self, word: &u64) -> Instant {
        let (window, counts) = (*word / self.step(), *word % self.step());
        let windows = match (counts / self.radix, counts % self.radix) {
            (0, 0) => 0,
            (_, 0) => 1,
            _ => 2,
        };
        self.windows.moment(window + windows, 0)
    }

    fn charge(&self, word: &mut u64, now: Instant, n: u32) -> u32 {
        let booked = n.min(self.remaining(word, now));
        if booked > 0 {
            self.take(word, now, booked);
        }
        booked
    }

    /// In a window the current count rises, and a later window is a higher word.
    #[inline]
    fn receipt(&self, word: &u64) -> u128 {
        (*word).into()
    }

    fn refund(&self, word: &mut u64, now: Instant, receipt: u128, n: u32) -> u32 {
        match u64::try_from(receipt) {
            Ok(granted) => self.give_back(word, now, granted, n),
            Err(_) => 0,
        }
    }

    /// Where the clock has stepped back, the window of a grant may be a later one
    /// than that of its time: then it stands.
    fn cancel(&self, word: &mut u64, now: Instant, taken: Instant, n: u32) -> u32 {
        self.give_back(word, now, self.windows.at(taken), n)
    }
}
