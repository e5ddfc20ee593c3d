//! Short names for what scenarios are written in.

use core::num::NonZeroU32;
use core::time::Duration;
use tollgate::{Limit, Rate, TokenBucket};

pub(crate) const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn ns(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

pub(crate) fn rate(count: u32, period: Duration) -> Rate {
    Rate::new(count, period).expect("a rate")
}

/// A token bucket, full at first, for `burst`.
pub(crate) fn bucket(count: u32, period: Duration, burst: u32) -> TokenBucket {
    let burst = NonZeroU32::new(burst).expect("a burst");
    TokenBucket::new(Limit::new(rate(count, period)).with_burst(burst))
}
