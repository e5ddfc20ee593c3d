//! Exact in-process rate limiters.
//!
//! Five algorithms, lock-free and behind a mutex, for one caller or per key, on a
//! clock that a test can move. Every decision is integer arithmetic: exact for
//! common rates, within a stated unit, nearly always below a nanosecond, for all
//! others, and without drift for [ten years](HORIZON).
//!
//! # For a service: one line
//!
//! ```
//! use tollgate::{RateLimiter, limit};
//!
//! let limiter = RateLimiter::new(limit!("100/s burst 20"));
//!
//! if let Err(denied) = limiter.try_acquire().granted() {
//!     println!("429: {denied}"); // rate limit exceeded, retry in 10ms
//! }
//! ```
//!
//! # For a library: tests without sleeping
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Clock, ManualClock, RateLimiter, TokenBucket, limit};
//!
//! struct Mailer<C> {
//!     limiter: RateLimiter<TokenBucket, C>,
//! }
//!
//! impl<C: Clock> Mailer<C> {
//!     fn may_send(&self) -> bool {
//!         self.limiter.try_acquire().is_granted()
//!     }
//! }
//!
//! let clock = ManualClock::new();
//! let limiter = RateLimiter::with_clock(limit!("1/min"), clock.clone());
//! let mailer = Mailer { limiter };
//! assert!(mailer.may_send());
//! assert!(!mailer.may_send());
//! clock.advance(Duration::from_secs(60));
//! assert!(mailer.may_send());
//! ```
//!
//! # For a choice: which algorithm?
//!
//! | algorithm | never more than | for | beware |
//! |---|---|---|---|
//! | [`TokenBucket`] | `burst + rate * d` in any span `d` | most things | up to twice the count in the first period |
//! | [`LeakyBucket`] | one per interval | a steady flow to something fragile | callers wait |
//! | [`FixedWindow`] | `count` per window | quotas by the calendar | twice the count across an edge |
//! | [`SlidingWindowLog`] | `count` in any period | hard caps | memory for each grant in the period |
//! | [`SlidingWindowCounter`] | `count` per window, `2 * count - 1` in any period | smooth caps in one word | an estimate: also refuses what a log would not |
//!
//! Several at once are a tuple of them: `(TokenBucket, FixedWindow)`. [`Locked`]
//! puts any of them behind a mutex. [`Unlimited`] and [`DenyAll`] are named, so
//! that no number has to mean them. [`LeakyQueue`] is a leaky bucket that keeps
//! the items themselves and hands them out in their time.
//!
//! # Map of the crate
//!
//! ```text
//!   RateLimiter     KeyedRateLimiter       a clock reading, a key's state
//!            \         /
//!             Decision                     what the caller is told, decided once
//!                |
//!             Shared                       how threads share a state: word, ring, mutex
//!                |
//!            Algorithm                     pure: when could n permits be had?
//!                |
//!   Rate, Limit      Clock, Instant        numbers and time
//! ```
//!
//! What is lower knows nothing of what is above; the rules of an algorithm know
//! no clock, lock or key.
//!
//! # Features
//!
//! `serde`: [`Rate`] and [`Limit`] as text in any format. None is on by default.

mod algorithm;
mod clock;
mod decision;
mod error;
mod generations;
mod join;
mod keyed;
mod leaky_queue;
mod limiter;
mod meter;
mod rate;
mod shared;
mod supply;
mod sync;
mod text;
mod verb;

pub use algorithm::{
    Algorithm, DenyAll, FixedWindow, IntoAlgorithm, LeakyBucket, Locked, Report,
    SlidingWindowCounter, SlidingWindowLog, TokenBucket, Unlimited,
};
pub use clock::{
    Clamped, Clock, CoarseClock, Instant, ManualClock, MonotonicClock, RealTime, StdClock,
    WallClock,
};
pub use decision::{Decision, Denied};
pub use error::ConfigError;
pub use join::{JoinDenied, KeyedRequest, LimiterRequest, Request, join};
pub use keyed::{Full, KeyHasher, KeyedAt, KeyedRateLimiter, Lookup, Pair, RandomState, WhenFull};
pub use leaky_queue::{
    Closed, LeakyQueue, LockFreeItems, LockedLeakyQueue, MutexItems, NotInTime, NotReleased,
    Refused,
};
pub use limiter::{At, RateLimiter};
pub use rate::{HORIZON, Limit, Rate};
pub use shared::{AtomicState, MutexState, NoState, RingState, Shared};

/// The README's examples, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
