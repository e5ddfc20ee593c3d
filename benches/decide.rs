//! One decision by one thread: every algorithm and sharing, allowed and refused,
//! on the default, the coarse and the manual clock, beside the floors of the
//! same run: a raw `quanta` reading, a load and a compare-exchange, and both.
//!
//! `cargo bench --bench decide`; the ids read `allowed/token-bucket/lock-free/default`.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use tollgate::{
    Algorithm, Clock, CoarseClock, FixedWindow, LeakyBucket, Locked, ManualClock, MonotonicClock,
    Rate, RateLimiter, SlidingWindowCounter, SlidingWindowLog, TokenBucket, limit, rate,
};

/// Never refused at the pace of a benchmark. A log that is asked at ever new
/// times is kept short; at one time it is one entry, behind a mutex: without one
/// it would be full. A counter holds so many in windows of ten years.
macro_rules! generous {
    ($row:ident, $log:expr) => {
        $row!("token-bucket/lock-free", TokenBucket::new(limit!("1000000000/s burst 4000000000")));
        $row!(
            "token-bucket/mutex",
            Locked(TokenBucket::new(limit!("1000000000/s burst 4000000000")))
        );
        $row!("leaky-bucket/lock-free", LeakyBucket::new(rate!("1000000000/s"), 4_000_000_000));
        $row!("leaky-bucket/mutex", Locked(LeakyBucket::new(rate!("1000000000/s"), 4_000_000_000)));
        $row!("fixed-window/lock-free", FixedWindow::new(rate!("4000000000/s")));
        $row!("fixed-window/mutex", Locked(FixedWindow::new(rate!("4000000000/s"))));
        if $log.count().get() < 65_536 {
            $row!("sliding-log/lock-free", SlidingWindowLog::new($log));
        }
        $row!("sliding-log/mutex", Locked(SlidingWindowLog::new($log)));
        $row!("sliding-counter/lock-free", counter(rate!("2000000000/3660d")));
        $row!("sliding-counter/mutex", Locked(counter(rate!("2000000000/3660d"))));
    };
}

fn counter(rate: Rate) -> SlidingWindowCounter {
    SlidingWindowCounter::new(rate).expect("a count that fits")
}

/// Refused from the second call on, for the length of a benchmark.
macro_rules! strict {
    ($row:ident) => {
        $row!("token-bucket/lock-free", TokenBucket::new(limit!("1/d")));
        $row!("token-bucket/mutex", Locked(TokenBucket::new(limit!("1/d"))));
        $row!("leaky-bucket/lock-free", LeakyBucket::new(rate!("1/d"), 0));
        $row!("leaky-bucket/mutex", Locked(LeakyBucket::new(rate!("1/d"), 0)));
        $row!("fixed-window/lock-free", FixedWindow::new(rate!("1/d")));
        $row!("fixed-window/mutex", Locked(FixedWindow::new(rate!("1/d"))));
        $row!("sliding-log/lock-free", SlidingWindowLog::new(rate!("1/d")));
        $row!("sliding-log/mutex", Locked(SlidingWindowLog::new(rate!("1/d"))));
        $row!("sliding-counter/lock-free", counter(rate!("1/d")));
        $row!("sliding-counter/mutex", Locked(counter(rate!("1/d"))));
    };
}

fn floors(c: &mut Criterion) {
    let mut group = c.benchmark_group("floor");
    let clock = quanta::Clock::new();
    let word = AtomicU64::new(0);
    group.bench_function("raw quanta read", |b| b.iter(|| clock.raw()));
    group.bench_function("load + compare-exchange", |b| {
        b.iter(|| {
            let seen = word.load(Ordering::Relaxed);
            word.compare_exchange(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed)
        });
    });
    group.bench_function("raw quanta read + load + compare-exchange", |b| {
        b.iter(|| {
            let now = clock.raw();
            let seen = word.load(Ordering::Relaxed);
            word.compare_exchange(seen, seen + (now | 1), Ordering::Relaxed, Ordering::Relaxed)
        });
    });
    group.finish();
}

fn on_each_clock(c: &mut Criterion) {
    let coarse = CoarseClock::start(Duration::from_millis(1)).expect("a thread for the clock");
    on_clock(c, "default", &MonotonicClock::new(), rate!("1000/us"));
    on_clock(c, "coarse", &coarse, rate!("4000000000/s"));
    on_clock(c, "manual", &ManualClock::new(), rate!("4000000000/s"));
}

fn on_clock(c: &mut Criterion, name: &str, clock: &impl Clock, log: Rate) {
    let mut group = c.benchmark_group("allowed");
    macro_rules! row {
        ($row:literal, $algorithm:expr) => {
            let limiter = RateLimiter::with_clock($algorithm, clock);
            one(&mut group, BenchmarkId::new($row, name), &limiter, true);
        };
    }
    generous!(row, log);
    group.finish();

    let mut group = c.benchmark_group("refused");
    macro_rules! row {
        ($row:literal, $algorithm:expr) => {
            let limiter = RateLimiter::with_clock($algorithm, clock);
            assert!(limiter.try_acquire().is_granted());
            one(&mut group, BenchmarkId::new($row, name), &limiter, false);
        };
    }
    strict!(row);
    group.finish();

    let mut group = c.benchmark_group("told");
    let limiter = RateLimiter::with_clock(limit!("1000000000/s burst 4000000000"), clock);
    let id = BenchmarkId::new("token-bucket/lock-free/allowed + remaining + reset", name);
    group.bench_function(id, |b| {
        b.iter(|| {
            let decision = limiter.try_acquire();
            (decision.remaining(), decision.reset_after())
        });
    });
    let limiter = RateLimiter::with_clock(limit!("1/d"), clock);
    assert!(limiter.try_acquire().is_granted());
    let id = BenchmarkId::new("token-bucket/lock-free/refused + retry-after", name);
    group.bench_function(id, |b| b.iter(|| limiter.try_acquire().retry_after()));
    group.finish();
}

fn one<A: Algorithm, C: Clock>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    limiter: &RateLimiter<A, C>,
    allowed: bool,
) {
    group.bench_function(id, |b| b.iter(|| limiter.try_acquire().is_granted()));
    assert_eq!(limiter.try_acquire().is_granted(), allowed, "the wrong path was measured");
}

criterion_group!(benches, floors, on_each_clock);
criterion_main!(benches);
