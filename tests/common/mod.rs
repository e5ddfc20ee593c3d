//! What the property tests share: the list of all algorithms, the numbers they
//! are tried with, and [schedules](schedule) of calls.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    unreachable_pub,
    reason = "each test file takes a part"
)]

mod said;
mod schedule;

pub use said::*;
pub use schedule::*;

use core::num::NonZeroU32;
use core::time::Duration;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{FileFailurePersistence, RngAlgorithm};
use tollgate::{HORIZON, Rate};

// ---------------------------------------------------------------- the list

/// Turns each law, a function `fn law<A: Algorithm>(make: impl Make<A>)`, into
/// one test per algorithm: `law::token_bucket` and so on.
macro_rules! every_algorithm {
    ($($law:ident),+ $(,)?) => {$(
        mod $law {
            single_limits! { $law }
            several_limits! { $law }
        }
    )+};
}

/// The same for laws that only an algorithm with one limit has to obey.
macro_rules! every_single_algorithm {
    ($($law:ident),+ $(,)?) => {$(
        mod $law {
            single_limits! { $law }
        }
    )+};
}

/// All algorithms, each from a rate and a burst (or queue): a new one is one
/// new line.
macro_rules! single_limits {
    ($law:ident) => { one_test_each! { $law:
        token_bucket => |rate, burst| tollgate::TokenBucket::new(tollgate::Limit::new(rate).with_burst(burst)),
        leaky_bucket => |rate, queue| tollgate::LeakyBucket::new(rate, queue.get()),
        leaky_bucket_without_delay =>
            |rate, queue| tollgate::LeakyBucket::new(rate, queue.get()).without_delay(queue.get() / 2 + 1),
        fixed_window => |rate, _| tollgate::FixedWindow::new(rate),
        fixed_window_aligned => |rate, _| tollgate::FixedWindow::aligned(rate, rate.period() / 3),
        sliding_window_log => |rate, _| tollgate::SlidingWindowLog::new(rate),
        sliding_window_counter => |rate, _| crate::common::counter(rate, None),
        sliding_window_counter_aligned => |rate, _| crate::common::counter(rate, Some(rate.period() / 3)),
    } };
}

macro_rules! several_limits {
    ($law:ident) => {
        one_test_each! { $law:
            two => |rate, burst| (
                tollgate::FixedWindow::new(rate),
                tollgate::TokenBucket::new(tollgate::Limit::new(rate).with_burst(burst)),
            ),
            three => |rate, burst| (
                tollgate::TokenBucket::new(tollgate::Limit::new(rate).with_burst(burst)),
                tollgate::LeakyBucket::new(rate, burst.get() / 2),
                tollgate::SlidingWindowLog::new(rate),
            ),
            with_a_counter => |rate, burst| (
                crate::common::counter(rate, None),
                tollgate::TokenBucket::new(tollgate::Limit::new(rate).with_burst(burst)),
            ),
        }
    };
}

macro_rules! one_test_each {
    ($law:ident: $($name:ident => $make:expr,)+) => {$(
        #[test]
        fn $name() {
            super::$law($make);
        }
    )+};
}

/// How an algorithm is made from a rate and a burst.
pub trait Make<A>: Fn(Rate, NonZeroU32) -> A {}
impl<A, F: Fn(Rate, NonZeroU32) -> A> Make<A> for F {}

/// So many cases, unless `PROPTEST_CASES` says otherwise. A failing case is
/// kept beside the test and tried first from then on.
pub fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource(
            "proptest-regressions",
        ))),
        // Several times faster than the default where nothing is optimised.
        rng_algorithm: RngAlgorithm::XorShift,
        ..ProptestConfig::default()
    }
}

// ------------------------------------------------------------- the numbers

/// The horizon in nanoseconds.
pub const HORIZON_NANOS: u64 = HORIZON.as_nanos() as u64;
pub const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

pub fn rate(count: u32, period: u64) -> Rate {
    Rate::new(count, Duration::from_nanos(period)).unwrap()
}

/// Nanoseconds of the period.
pub fn period(rate: Rate) -> u64 {
    rate.period().as_nanos() as u64
}

/// Any number, all magnitudes alike.
pub fn magnitudes(bits: u32) -> impl Strategy<Value = u64> {
    (any::<u64>(), 64 - bits..=64)
        .prop_map(|(number, shift)| number.checked_shr(shift).unwrap_or(0))
}

/// Rates that buckets follow exactly.
pub fn common_rates() -> impl Strategy<Value = Rate> {
    let chosen = select(vec![
        rate(3, SECOND),
        rate(7, 60 * SECOND),
        rate(1, DAY),
        rate(100, SECOND),
        rate(SECOND as u32, SECOND),
        rate(29, SECOND),
        rate(700_000_000, SECOND),
        rate(58, 1),
        rate(10, 100),
        rate(5, 13),
    ]);
    // An interval of p/q ns with q up to 58, not always in lowest terms.
    let any = (1..=58_u32, magnitudes(44), 1..=5_u32).prop_filter_map("a period", |(q, p, k)| {
        Rate::new(q * k, Duration::from_nanos(p * u64::from(k))).ok()
    });
    prop_oneof![chosen, any]
}

/// Rates that have to be rounded, and extreme ones.
pub fn awkward_rates() -> impl Strategy<Value = Rate> {
    let chosen = select(vec![
        rate(1093, SECOND),
        rate(61, SECOND),
        rate(1_000_003, SECOND),
        rate(u32::MAX, SECOND),
        rate(u32::MAX, 74_051_161), // 58 per nanosecond, but for a trifle
        rate(59, u64::MAX),
        rate(1, u64::MAX),
        rate(97, 211),
    ]);
    let any = (magnitudes(32), magnitudes(64)).prop_filter_map("58 per ns", |(count, period)| {
        Rate::new(count as u32, Duration::from_nanos(period)).ok()
    });
    prop_oneof![chosen, any]
}

pub fn rates() -> impl Strategy<Value = Rate> {
    prop_oneof![3 => common_rates(), 2 => awkward_rates()]
}

pub fn bursts() -> impl Strategy<Value = NonZeroU32> {
    let any = magnitudes(32).prop_map(|burst| burst as u32);
    let burst = prop_oneof![3 => Just(1), 6 => 2..=12_u32, 2 => any, 1 => Just(u32::MAX)];
    burst.prop_map(|burst| NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN))
}

/// Readings of the clock at which a limiter is made: on a new clock, on the
/// wall clock, far off, and within a horizon of the end of time.
pub fn origins() -> impl Strategy<Value = u64> {
    select(vec![0, 1, 1_764_000_000 * SECOND, 1 << 63, u64::MAX - HORIZON_NANOS / 2])
}

/// What a limiter is made with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub rate: Rate,
    pub burst: NonZeroU32,
    pub origin: u64,
}

impl Setup {
    /// Until when the limiter counts at least.
    pub fn horizon(&self) -> u64 {
        self.origin.saturating_add(HORIZON_NANOS)
    }

    /// Nanoseconds in which so many permits come.
    pub fn fill(&self, permits: u64) -> u128 {
        u128::from(permits) * u128::from(period(self.rate)) / u128::from(self.rate.count().get())
    }

    /// By how many nanoseconds a bucket of a rate that has to be rounded may be
    /// early or late: one, but where a full bucket takes centuries to fill, the
    /// unit of its state.
    pub fn grain(&self) -> u64 {
        let capacity = u64::from(self.burst.get()) + 1; // a leaky bucket has one more
        1 + ((u128::from(HORIZON_NANOS) + 2 * self.fill(capacity)) >> 64) as u64
    }
}

pub fn setups() -> impl Strategy<Value = Setup> {
    setups_with(rates(), bursts())
}

pub fn setups_with(
    rates: impl Strategy<Value = Rate>,
    bursts: impl Strategy<Value = NonZeroU32>,
) -> impl Strategy<Value = Setup> {
    (rates, bursts, origins()).prop_map(|(rate, burst, origin)| Setup { rate, burst, origin })
}
