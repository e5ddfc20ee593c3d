//! Rates and limits as numbers: a count per a period, kept as a fraction.

use crate::error::ConfigError;
use core::num::{NonZeroU32, NonZeroU64};
use core::time::Duration;

/// How long a limiter counts at least, from its creation: ten years (of 365.25
/// days).
///
/// The state of a limiter is 64 bits wide and never wraps. For this long they
/// count any rate and burst, and for up to 584 years those that need fewer
/// units: one a second. A limiter that is still running then fails closed: it
/// hands out what it still holds, gets no new supply, and refuses for good.
pub const HORIZON: Duration = Duration::from_nanos(HORIZON_NANOS);

pub(crate) const HORIZON_NANOS: u64 = 315_576_000 * NANOS_PER_SECOND;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// So many permits per so long, exactly: `count / period`.
///
/// The fraction is kept as it was given, so seven a minute stays seven a
/// minute and is never rounded to an interval. Windows read it as "at most
/// `count` in a `period`", buckets as a flow.
///
/// # Rounding
///
/// Reduce `period / count` to `p / q` nanoseconds per permit. If `q` is at most
/// 58, as it is wherever the interval is a whole number of nanoseconds and for
/// 3/s, 7/min, 29/s or 700,000,000/s, and 64 bits hold ten years of supply
/// beside a full bucket, a bucket decides exactly as rational arithmetic would,
/// on every nanosecond.
///
/// For all others it decides up to one unit of supply early or, rarely, one
/// nanosecond late, with no drift: in any span of `d` it grants at most
/// `burst + rate * (d + unit)`. Supply is rounded down and waits are rounded up;
/// a full bucket always holds exactly its burst, and a whole period brings
/// exactly its count. The unit is below a nanosecond, unless a full bucket takes
/// longer to fill than a limiter runs: the time to fill over 2^64. For a burst
/// of `u32::MAX` it is 20 us at one a day and 7 ms at one a year.
///
/// Two rates are equal when count and period are: one per second and sixty per
/// minute are the same flow, but different windows.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Rate, rate};
///
/// let seven = rate!("7/min"); // checked by the compiler
/// assert_eq!(seven, Rate::new(7, Duration::from_secs(60))?);
/// assert_eq!(seven, "7/min".parse()?); // checked at run time
/// assert_eq!(seven.to_string(), "7/min");
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rate {
    count: NonZeroU32,
    period: NonZeroU64,
}

impl Rate {
    /// The highest rate a limiter can follow, in permits per nanosecond.
    ///
    /// It follows from [`HORIZON`]: more could not be counted in 64 bits for
    /// so long. Any number of permits per second fits.
    pub const MAX_PER_NANOSECOND: u64 = 58;

    /// `count` permits per `period`.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Zero`] when the count or the period is zero,
    /// [`ConfigError::TooLarge`] when the period is above `u64::MAX`
    /// nanoseconds, [`ConfigError::RateTooHigh`] when the quotient is above
    /// [`MAX_PER_NANOSECOND`](Self::MAX_PER_NANOSECOND).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{ConfigError, Rate};
    ///
    /// assert_eq!(Rate::new(5, Duration::ZERO), Err(ConfigError::Zero("period")));
    /// ```
    pub const fn new(count: u32, period: Duration) -> Result<Self, ConfigError> {
        let nanos = period.as_nanos();
        if nanos > u64::MAX as u128 {
            return Err(ConfigError::TooLarge("period"));
        }
        Self::from_nanos(count, nanos as u64)
    }

    pub(crate) const fn from_nanos(count: u32, period: u64) -> Result<Self, ConfigError> {
        let Some(count) = NonZeroU32::new(count) else {
            return Err(ConfigError::Zero("count"));
        };
        let Some(period) = NonZeroU64::new(period) else {
            return Err(ConfigError::Zero("period"));
        };
        if count.get() as u128 > period.get() as u128 * Self::MAX_PER_NANOSECOND as u128 {
            return Err(ConfigError::RateTooHigh);
        }
        Ok(Self { count, period })
    }

    /// `count` permits per second.
    #[must_use]
    pub const fn per_second(count: NonZeroU32) -> Self {
        Self::per_seconds(count, 1)
    }

    /// `count` permits per minute.
    #[must_use]
    pub const fn per_minute(count: NonZeroU32) -> Self {
        Self::per_seconds(count, 60)
    }

    /// `count` permits per hour.
    #[must_use]
    pub const fn per_hour(count: NonZeroU32) -> Self {
        Self::per_seconds(count, 3_600)
    }

    /// `count` permits per day of 24 hours.
    #[must_use]
    pub const fn per_day(count: NonZeroU32) -> Self {
        Self::per_seconds(count, 86_400)
    }

    /// `seconds` is one of the few numbers above, and a second bears any count.
    const fn per_seconds(count: NonZeroU32, seconds: u64) -> Self {
        let period = NonZeroU64::MIN.saturating_add(seconds * NANOS_PER_SECOND - 1);
        Self { count, period }
    }

    /// The permits of one period.
    #[must_use]
    pub const fn count(self) -> NonZeroU32 {
        self.count
    }

    /// The period.
    #[must_use]
    pub const fn period(self) -> Duration {
        Duration::from_nanos(self.period.get())
    }

    pub(crate) const fn period_nanos(self) -> NonZeroU64 {
        self.period
    }
}

/// A rate, and how much may come at once: the text form `"10/s burst 20"`.
///
/// This is what configuration files hold. A bucket takes all of it; a window
/// has no burst and takes the [`rate`](Self::rate).
///
/// ```
/// use tollgate::{Limit, limit};
///
/// let limit = limit!("10/s burst 20"); // checked by the compiler
/// assert_eq!(limit.burst().get(), 20);
///
/// let limit: Limit = "3/10s".parse()?; // checked at run time
/// assert_eq!(limit.burst().get(), 3); // the default is the count
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limit {
    rate: Rate,
    burst: NonZeroU32,
}

impl Limit {
    /// `rate`, with a burst of the rate's count.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        let burst = rate.count;
        Self { rate, burst }
    }

    /// The same rate with another burst.
    #[must_use]
    pub const fn with_burst(self, burst: NonZeroU32) -> Self {
        Self { burst, ..self }
    }

    /// How fast.
    #[must_use]
    pub const fn rate(self) -> Rate {
        self.rate
    }

    /// How much at once.
    #[must_use]
    pub const fn burst(self) -> NonZeroU32 {
        self.burst
    }
}

impl From<Rate> for Limit {
    fn from(rate: Rate) -> Self {
        Self::new(rate)
    }
}
