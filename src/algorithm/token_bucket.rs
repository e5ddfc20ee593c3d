use super::Algorithm;
use crate::clock::Instant;
use crate::meter::{Meter, on_one_word};
use crate::rate::{Limit, Rate};
use crate::supply::{Flow, Supply};

/// Token bucket: permits drip into a bucket at a steady rate, up to `burst`;
/// a call takes what it needs or is refused.
///
/// ```text
/// burst  5 |#         full after idling: 5 at once, then one a second
///          |##  #
///          |## ###  #
///          |#########  ...
///          +----------------- s
/// ```
///
/// * **Guarantee:** in any span of `d`, at most `burst + rate * d` permits. In
///   the first period that can be twice the rate's count; where that is too
///   much, lower the burst or take a
///   [`SlidingWindowLog`](crate::SlidingWindowLog).
/// * **State:** one 64-bit word, the mark up to which supply is spoken for.
///   Exact for common rates and within a unit for all others, nearly always
///   below 1 ns, see [`Rate`].
/// * **Cost:** constant time, one compare-exchange when granting, one load when
///   refusing.
/// * **Weakness:** a caller that saved up can spend the whole burst at once.
///
/// [`charge`](crate::RateLimiter::charge) may put it in debt by up to another
/// burst. [`refund`](crate::RateLimiter::refund) undoes the newest grant, until
/// someone else has taken.
///
/// Source: the virtual-scheduling form of ITU-T I.371, annex A, which is the
/// token bucket of RFC 2697 and RFC 3290 seen from the other side.
///
/// ```
/// use tollgate::{ManualClock, RateLimiter, limit};
///
/// let limiter = RateLimiter::with_clock(limit!("10/s burst 20"), ManualClock::new());
/// assert_eq!(limiter.try_acquire_n(20).remaining(), 0);
/// assert_eq!(limiter.try_acquire().retry_after().unwrap().as_millis(), 100);
/// ```
#[doc(alias = "gcra")]
#[doc(alias = "quota")]
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    limit: Limit,
    meter: Meter<Flow>,
}

impl TokenBucket {
    /// A bucket that fills at the limit's rate up to its burst.
    #[must_use]
    pub const fn new(limit: Limit) -> Self {
        let capacity = limit.burst().get() as u64;
        let (flow, cost) = Flow::new(limit.rate(), capacity);
        Self { limit, meter: Meter::new(flow, capacity, cost) }
    }

    /// Rate and burst.
    #[must_use]
    pub const fn limit(&self) -> Limit {
        self.limit
    }
}

impl From<Limit> for TokenBucket {
    fn from(limit: Limit) -> Self {
        Self::new(limit)
    }
}

impl From<Rate> for TokenBucket {
    fn from(rate: Rate) -> Self {
        Self::new(rate.into())
    }
}

impl Algorithm for TokenBucket {
    on_one_word!(meter);

    const STANDS: bool = false;

    fn carry(&self, old: &Self, mark: &u64, now: Instant) -> u64 {
        self.meter.carry(&old.meter, *mark, now)
    }

    fn charge(&self, mark: &mut u64, now: Instant, n: u32) -> u32 {
        self.meter.charge(mark, now, n, self.limit.burst().get())
    }

    fn refund(&self, mark: &mut u64, now: Instant, receipt: u128, n: u32) -> u32 {
        self.meter.undo(mark, now, receipt, n)
    }

    fn cancel(&self, mark: &mut u64, now: Instant, taken: Instant, n: u32) -> u32 {
        self.meter.cancel(mark, now, taken, n)
    }
}
