use super::{Algorithm, Report};
use crate::clock::Instant;
use crate::shared::NoState;

/// No limit: every call is granted.
///
/// Named, because a zero in a configuration never means this.
///
/// ```
/// use tollgate::{RateLimiter, Unlimited};
///
/// let limiter = RateLimiter::new(Unlimited);
/// assert_eq!(limiter.try_acquire_n(u32::MAX).remaining(), u32::MAX);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Unlimited;

/// Nothing passes: every call for a permit is refused, for ever.
///
/// ```
/// use tollgate::{DenyAll, RateLimiter};
///
/// let limiter = RateLimiter::new(DenyAll);
/// assert_eq!(limiter.try_acquire().retry_after(), None); // never
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DenyAll;

macro_rules! constant {
    ($type:ty, $capacity:expr) => {
        impl Algorithm for $type {
            type State = ();
            type Shared = NoState;

            const STANDS: bool = false;

            fn start(&mut self, _: Instant) {}

            fn unseen(&self) {}

            fn resume(&mut self, _: &Self, _: Instant) {}

            fn carry(&self, _: &Self, (): &(), _: Instant) {}

            #[inline]
            fn capacity(&self) -> u32 {
                $capacity
            }

            #[inline]
            fn earliest(&self, (): &(), now: Instant, _: u32) -> Instant {
                now
            }

            #[inline]
            fn take(&self, (): &mut (), _: Instant, _: u32) {}

            #[inline]
            fn remaining(&self, (): &(), _: Instant) -> u32 {
                $capacity
            }

            fn fresh_at(&self, (): &()) -> Instant {
                Instant::ZERO
            }

            fn charge(&self, (): &mut (), _: Instant, n: u32) -> u32 {
                n.min($capacity)
            }

            fn receipt(&self, (): &()) -> u128 {
                0
            }

            fn refund(&self, (): &mut (), _: Instant, _: u128, n: u32) -> u32 {
                n.min($capacity)
            }

            fn cancel(&self, (): &mut (), _: Instant, _: Instant, n: u32) -> u32 {
                n.min($capacity)
            }

            #[inline]
            fn report(&self, (): &(), now: Instant, _: Option<u32>) -> Report {
                Report { limit: $capacity, remaining: $capacity, reset_at: now, index: 0 }
            }
        }
    };
}

constant!(Unlimited, u32::MAX);
constant!(DenyAll, 0);
