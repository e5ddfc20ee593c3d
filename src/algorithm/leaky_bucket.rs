use super::Algorithm;
use crate::clock::Instant;
use crate::meter::{Meter, on_one_word};
use crate::rate::{Limit, Rate};
use crate::supply::{Flow, Supply};

/// Leaky bucket as a queue: permits leave evenly spaced at the rate, at most
/// `queue` of them wait, and the decision says for how long.
///
/// ```text
/// arrivals    |||||              five at once, queue 3
/// departures  |    |    |    |   one at once, three wait, the fifth is refused
///             +--------------------- one interval apart
/// ```
///
/// A granted call has a place in the queue and must itself wait out
/// [`delay`](crate::Decision::delay) before it acts. A call for several permits
/// leaves with its last one. Time that nobody used is not saved.
///
/// * **Guarantee:** one permit leaves in each interval, and nobody waits longer
///   than `queue` intervals. Exceptions: the first `without_delay`, below, and
///   the permits of one call, which leave together with the last. Departures
///   are rounded up to whole nanoseconds; one that would come after the end of
///   supply, at the [`HORIZON`](crate::HORIZON) or later, is told as the end of
///   time.
/// * **State, cost:** one word, as for [`TokenBucket`](crate::TokenBucket). It
///   accepts what a token bucket of `queue + 1` grants; only the departures
///   differ.
/// * **Weakness:** latency in place of refusals: a steady overload keeps the
///   queue full and everybody late.
///
/// nginx's `limit_req` is this: `burst=5` is `queue` 5, `delay=3` is
/// [`without_delay(3)`](Self::without_delay), `nodelay` is
/// [`without_delay`](Self::without_delay) of the queue or more.
///
/// [`refund`](crate::RateLimiter::refund) gives a place back while nobody has
/// queued behind it: a departure once promised stands. So does that of a grant
/// of which only some permits are given back; the next one may leave beside it.
///
/// After [`reconfigure`](crate::RateLimiter::reconfigure) as many are in the
/// queue as before; new departures are counted from the change, and those that
/// were promised before it may come among them.
///
/// Source: the leaky bucket as a queue of RFC 3290, appendix A; departures
/// `d[k] = max(arrival, d[k-1] + interval)`.
///
/// ```
/// use tollgate::{LeakyBucket, ManualClock, RateLimiter, rate};
///
/// let shaper = LeakyBucket::new(rate!("10/s"), 1);
/// let limiter = RateLimiter::with_clock(shaper, ManualClock::new());
/// assert_eq!(limiter.try_acquire().delay().as_millis(), 0);
/// assert_eq!(limiter.try_acquire().delay().as_millis(), 100);
/// assert!(limiter.try_acquire().is_denied());
/// ```
#[doc(alias = "shaper")]
#[doc(alias = "throttle")]
#[derive(Clone, Copy, Debug)]
pub struct LeakyBucket {
    rate: Rate,
    queue: u32,
    without_delay: u32,
    meter: Meter<Flow>,
}

impl LeakyBucket {
    /// A queue of `queue` places that drains at `rate`. With no place nobody
    /// ever waits: a permit leaves at once or is refused. The longest queue,
    /// `u32::MAX`, counts as one place less.
    #[must_use]
    pub const fn new(rate: Rate, queue: u32) -> Self {
        // One leaves at once, the others wait.
        let capacity = queue.saturating_add(1) as u64;
        let (flow, cost) = Flow::new(rate, capacity);
        Self { rate, queue, without_delay: 0, meter: Meter::new(flow, capacity, cost) }
    }

    /// Lets the first `permits` of the queue leave without delay; they still
    /// take their places.
    #[must_use]
    pub const fn without_delay(self, permits: u32) -> Self {
        Self { without_delay: permits, ..self }
    }

    /// How fast it drains.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// How many may wait.
    #[must_use]
    pub const fn queue(&self) -> u32 {
        self.queue
    }
}

/// The burst becomes the length of the queue.
impl From<Limit> for LeakyBucket {
    fn from(limit: Limit) -> Self {
        Self::new(limit.rate(), limit.burst().get())
    }
}

impl Algorithm for LeakyBucket {
    on_one_word!(meter);

    /// As many are in the queue as were, and leave at the new rate.
    fn carry(&self, old: &Self, mark: &u64, now: Instant) -> u64 {
        self.meter.carry_ahead(&old.meter, *mark, now)
    }

    #[inline]
    fn departure(&self, mark: &u64, now: Instant, n: u32) -> Instant {
        self.meter.departure(*mark, now, n, self.without_delay)
    }

    fn charge(&self, mark: &mut u64, now: Instant, n: u32) -> u32 {
        self.meter.charge(mark, now, n, self.meter.capacity())
    }

    fn refund(&self, mark: &mut u64, now: Instant, receipt: u128, n: u32) -> u32 {
        self.meter.undo(mark, now, receipt, n)
    }
}
