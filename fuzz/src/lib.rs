//! What the fuzz targets share: limiters and [calls](Step) out of any bytes, and
//! small exact [models] of three algorithms.

pub mod models;
#[path = "../../tests/common/said.rs"]
mod said;

pub use said::*;

use core::num::NonZeroU32;
use core::time::Duration;
use libfuzzer_sys::arbitrary::{self, Arbitrary, Result, Unstructured};
use tollgate::{
    Algorithm, Clock, FixedWindow, HORIZON, Instant, LeakyBucket, Limit, ManualClock, Rate,
    RateLimiter, SlidingWindowLog, TokenBucket,
};

/// The horizon in nanoseconds.
pub const HORIZON_NANOS: u64 = HORIZON.as_nanos() as u64;

// -------------------------------------------------------------- the limiters

/// The algorithms.
#[derive(Arbitrary, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    TokenBucket,
    LeakyBucket,
    LeakyBucketWithoutDelay,
    FixedWindow,
    FixedWindowAligned,
    Log,
    Counter,
    CounterAligned,
    WindowAndBucket,
}

/// What a target does with limiters of one algorithm, made by `make`.
pub trait Trial {
    fn run<A: Algorithm>(self, make: impl Fn(Setup) -> A);
}

impl Kind {
    pub fn run(self, trial: impl Trial) {
        let third = |setup: Setup| setup.rate.period() / 3;
        let queue = |setup: Setup| LeakyBucket::new(setup.rate, setup.burst.get());
        match self {
            Self::TokenBucket => trial.run(|setup| TokenBucket::new(setup.limit())),
            Self::LeakyBucket => trial.run(queue),
            Self::LeakyBucketWithoutDelay => {
                trial.run(|setup| queue(setup).without_delay(setup.burst.get() / 2 + 1));
            }
            Self::FixedWindow => trial.run(|setup| FixedWindow::new(setup.rate)),
            Self::FixedWindowAligned => {
                trial.run(|setup| FixedWindow::aligned(setup.rate, third(setup)));
            }
            Self::Log => trial.run(|setup| SlidingWindowLog::new(setup.rate)),
            Self::Counter => trial.run(|setup| counter(setup.rate, None)),
            Self::CounterAligned => trial.run(|setup| counter(setup.rate, Some(third(setup)))),
            Self::WindowAndBucket => {
                trial.run(|setup| (FixedWindow::new(setup.rate), TokenBucket::new(setup.limit())))
            }
        }
    }
}

/// What a limiter is made with.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Setup {
    #[arbitrary(with = rate)]
    pub rate: Rate,
    #[arbitrary(with = burst)]
    pub burst: NonZeroU32,
    #[arbitrary(with = origin)]
    pub origin: u64,
}

impl Setup {
    pub fn limit(&self) -> Limit {
        Limit::new(self.rate).with_burst(self.burst)
    }

    pub fn period(&self) -> u64 {
        self.rate.period().as_nanos() as u64
    }

    pub fn count(&self) -> u64 {
        self.rate.count().get().into()
    }

    /// Nanoseconds in which so many permits come.
    pub fn fill(&self, permits: u64) -> u128 {
        u128::from(permits) * u128::from(self.period()) / u128::from(self.count())
    }

    /// A limiter, at the time that it counts from.
    pub fn limiter<A: Algorithm>(&self, algorithm: A) -> RateLimiter<A, ManualClock> {
        RateLimiter::with_clock(algorithm, self.clock())
    }

    pub fn clock(&self) -> ManualClock {
        ManualClock::starting_at(Instant::from_nanos(self.origin))
    }
}

/// Any number of so many bits, all magnitudes alike.
fn magnitude(bits: u32, u: &mut Unstructured) -> Result<u64> {
    let bits = u.int_in_range(0..=bits)?;
    u.int_in_range(0..=1_u64.checked_shl(bits).map_or(u64::MAX, |power| power - 1))
}

/// Half of them rates that buckets follow exactly.
fn rate(u: &mut Unstructured) -> Result<Rate> {
    let (bits, period_bits) = if u.arbitrary()? { (6, 44) } else { (32, 64) };
    let count = magnitude(bits, u)?.max(1) as u32;
    let least = u64::from(count).div_ceil(Rate::MAX_PER_NANOSECOND);
    let period = magnitude(period_bits, u)?.max(least);
    Ok(Rate::new(count, Duration::from_nanos(period)).expect("neither zero nor too high"))
}

fn burst(u: &mut Unstructured) -> Result<NonZeroU32> {
    Ok(NonZeroU32::new(magnitude(32, u)? as u32).unwrap_or(NonZeroU32::MIN))
}

/// On a new clock, on the wall clock, far off, and close to the end of time.
fn origin(u: &mut Unstructured) -> Result<u64> {
    let wall = 1_764_000_000_000_000_000;
    Ok(*u.choose(&[0, 1, wall, 1 << 63, u64::MAX - HORIZON_NANOS / 2])?)
}

// ----------------------------------------------------------------- the calls

/// A time, and a call at it.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Step {
    pub jump: Jump,
    pub call: Call,
}

/// A number of permits, most of them close to where the answer changes.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Amount {
    Of(u8),
    Any(#[arbitrary(with = |u: &mut Unstructured| magnitude(32, u))] u64),
    /// What is left, and so many more.
    Left(#[arbitrary(with = beside)] i64),
    /// The capacity, and so many more.
    Capacity(#[arbitrary(with = beside)] i64),
    /// So many parts in 256 of the capacity.
    Share(u8),
}

/// How the time moves before a call.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Jump {
    Stay,
    Ahead(#[arbitrary(with = |u: &mut Unstructured| magnitude(58, u))] u64),
    Back(#[arbitrary(with = |u: &mut Unstructured| magnitude(64, u))] u64),
    /// By so many eighths of the time between two permits.
    Intervals(i8),
    /// By so many eighths of the period.
    Periods(i8),
    /// To when the amount is promised, and a nanosecond beside it.
    Retry(Amount, #[arbitrary(with = beside)] i64),
    /// To when the limiter says that all is as new, and beside it.
    Reset(#[arbitrary(with = beside)] i64),
    /// To so long before the end of time.
    EndOfTime(u8),
}

/// A call, before its numbers are known.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Call {
    Acquire(Amount),
    Peek(Amount),
    Charge(Amount),
    /// Of the grant so many back, all of it or an amount.
    Refund(u8, Option<Amount>),
    Reset,
}

fn beside(u: &mut Unstructured) -> Result<i64> {
    u.int_in_range(-1..=1)
}

impl Amount {
    pub fn of(self, capacity: u32, left: u32) -> u32 {
        let amount = match self {
            Self::Of(n) => n.into(),
            Self::Any(n) => n as i64,
            Self::Left(more) => i64::from(left) + more,
            Self::Capacity(more) => i64::from(capacity) + more,
            Self::Share(parts) => i64::from(capacity) * i64::from(parts) / 256,
        };
        amount.clamp(0, u32::MAX.into()) as u32
    }

    /// The amount for this limiter, now.
    pub fn resolve<A: Algorithm>(self, limiter: &RateLimiter<A, ManualClock>) -> u32 {
        self.of(limiter.algorithm().capacity(), limiter.peek_n(0).remaining())
    }
}

impl Jump {
    /// The time after it, on the limiter's clock.
    pub fn lands<A: Algorithm>(self, setup: Setup, limiter: &RateLimiter<A, ManualClock>) -> u64 {
        let now = limiter.clock().now().as_nanos();
        let eighths = |of: u128, many: i8| {
            let by = of as i128 * i128::from(many) / 8;
            (i128::from(now) + by).clamp(0, u64::MAX.into()) as u64
        };
        let after = |wait: Duration, by| {
            now.saturating_add(wait.as_nanos() as u64).saturating_add_signed(by)
        };
        match self {
            Self::Stay => now,
            Self::Ahead(nanos) => now.saturating_add(nanos),
            Self::Back(nanos) => now.saturating_sub(nanos),
            Self::Intervals(many) => eighths(setup.fill(1), many),
            Self::Periods(many) => eighths(setup.period().into(), many),
            Self::Retry(amount, by) => {
                let promised = limiter.peek_n(amount.resolve(limiter)).retry_after();
                after(promised.unwrap_or_default(), by)
            }
            Self::Reset(by) => after(limiter.peek().reset_after(), by),
            Self::EndOfTime(nanos) => u64::MAX - u64::from(nanos),
        }
    }
}
