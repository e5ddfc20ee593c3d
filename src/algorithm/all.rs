//! Several limits on one caller: a tuple of algorithms is an algorithm.
//!
//! ```
//! use tollgate::{ManualClock, RateLimiter, TokenBucket, limit};
//!
//! let both = (TokenBucket::new(limit!("10/s")), TokenBucket::new(limit!("1000/h")));
//! let limiter = RateLimiter::with_clock(both, ManualClock::new());
//! assert!(limiter.try_acquire_n(10).is_granted());
//! assert_eq!(limiter.try_acquire().index(), 0); // the first of them refuses
//! ```
//!
//! All are decided and taken together under one lock, all or nothing. A refusal
//! carries the longest wait and names the limit that asks for it; a grant
//! describes the limit with the least left.
//!
//! The [delay](crate::Decision::delay) is the longest too. Each of two leaky
//! buckets spaces its own departures; where a charge has put one of them behind,
//! the calls leave at its pace, which may be closer than the other's.
//! [`charge`](crate::RateLimiter::charge) books on each what it can, and returns
//! the most that one could.

use super::{Algorithm, Report};
use crate::clock::Instant;
use crate::shared::MutexState;

macro_rules! all {
    ($($part:ident $at:tt),+) => {
        impl<$($part: Algorithm),+> Algorithm for ($($part,)+) {
            type State = ($($part::State,)+);
            type Shared = MutexState<Self::State>;

            const STANDS: bool = $($part::STANDS)||+;

            fn start(&mut self, now: Instant) {
                $(self.$at.start(now);)+
            }

            fn unseen(&self) -> Self::State {
                ($(self.$at.unseen(),)+)
            }

            fn resume(&mut self, old: &Self, now: Instant) {
                $(self.$at.resume(&old.$at, now);)+
            }

            fn carry(&self, old: &Self, state: &Self::State, now: Instant) -> Self::State {
                ($(self.$at.carry(&old.$at, &state.$at, now),)+)
            }

            /// The most that all of them allow.
            #[inline]
            fn capacity(&self) -> u32 {
                u32::MAX$(.min(self.$at.capacity()))+
            }

            /// Once possible, possible from then on: so the latest will do.
            #[inline]
            fn earliest(&self, state: &Self::State, now: Instant, n: u32) -> Instant {
                now$(.max(self.$at.earliest(&state.$at, now, n)))+
            }

            #[inline]
            fn is_possible(&self, state: &Self::State, now: Instant, n: u32) -> bool {
                $(self.$at.is_possible(&state.$at, now, n))&&+
            }

            #[inline]
            fn departure(&self, state: &Self::State, now: Instant, n: u32) -> Instant {
                now$(.max(self.$at.departure(&state.$at, now, n)))+
            }

            #[inline]
            fn take(&self, state: &mut Self::State, now: Instant, n: u32) {
                $(self.$at.take(&mut state.$at, now, n);)+
            }

            #[inline]
            fn remaining(&self, state: &Self::State, now: Instant) -> u32 {
                u32::MAX$(.min(self.$at.remaining(&state.$at, now)))+
            }

            #[inline]
            fn fresh_at(&self, state: &Self::State) -> Instant {
                Instant::ZERO$(.max(self.$at.fresh_at(&state.$at)))+
            }

            /// Each books what it can.
            #[inline]
            fn charge(&self, state: &mut Self::State, now: Instant, n: u32) -> u32 {
                0$(.max(self.$at.charge(&mut state.$at, now, n)))+
            }

            /// Every take moves a part's receipt up or leaves it, so their sum moves
            /// if any does.
            #[inline]
            fn receipt(&self, state: &Self::State) -> u128 {
                0u128$(.wrapping_add(self.$at.receipt(&state.$at)))+
            }

            /// Each gives back what it can, if nothing was taken since.
            #[inline]
            fn refund(&self, state: &mut Self::State, now: Instant, receipt: u128, n: u32) -> u32 {
                if receipt != self.receipt(state) {
                    return 0;
                }
                0$(.max({
                    let own = self.$at.receipt(&state.$at);
                    self.$at.refund(&mut state.$at, now, own, n)
                }))+
            }

            fn cancel(&self, state: &mut Self::State, now: Instant, taken: Instant, n: u32) -> u32 {
                0$(.max(self.$at.cancel(&mut state.$at, now, taken, n)))+
            }

            fn reset(&self, state: &mut Self::State, now: Instant) {
                $(self.$at.reset(&mut state.$at, now);)+
            }

            #[inline]
            fn report(&self, state: &Self::State, now: Instant, refused: Option<u32>) -> Report {
                let parts = [$({
                    let report = self.$at.report(&state.$at, now, refused);
                    let wait = refused.map(|n| match n > self.$at.capacity() {
                        true => Instant::MAX,
                        false => self.$at.earliest(&state.$at, now, n),
                    });
                    (wait, Report { index: $at, ..report })
                }),+];
                let [mut chosen, others @ ..] = parts;
                for other in others {
                    let rather = match refused {
                        // Of several that never allow it, the strictest.
                        Some(_) if other.0 == chosen.0 => other.1.limit < chosen.1.limit,
                        Some(_) => other.0 > chosen.0,
                        None => other.1.remaining < chosen.1.remaining,
                    };
                    if rather {
                        chosen = other;
                    }
                }
                chosen.1
            }
        }
    };
}

all!(A 0, B 1);
all!(A 0, B 1, C 2);
all!(A 0, B 1, C 2, D 3);
