//! The clocks themselves. The manual clock aside these read real time, but none
//! waits for more than some milliseconds of it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tollgate::{
    Clamped, Clock, CoarseClock, Instant, ManualClock, MonotonicClock, RateLimiter, StdClock,
    TokenBucket, WallClock, limit,
};

fn never_falls(clock: impl Clock) {
    let mut last = clock.now();
    for _ in 0..100_000 {
        let now = clock.now();
        assert!(now >= last);
        last = now;
    }
}

#[test]
fn no_clock_falls() {
    never_falls(MonotonicClock::new());
    never_falls(StdClock::new());
    never_falls(WallClock::new());
    never_falls(CoarseClock::start(Duration::from_micros(50)).unwrap());
}

/// Readings from whichever clock, one after the other in real time, rise.
#[test]
fn monotonic_clocks_of_a_process_share_their_zero() {
    let (one, other) = (MonotonicClock::new(), MonotonicClock::default());
    for _ in 0..1_000 {
        let (first, second, third) = (one.now(), other.now(), one.now());
        assert!(first <= second && second <= third);
    }
}

#[test]
fn a_coarse_clock_follows_the_default_one() {
    let (fine, coarse) =
        (MonotonicClock::new(), CoarseClock::start(Duration::from_millis(1)).unwrap());
    let start = coarse.now();
    assert!(start <= fine.now());
    let mut last = start;
    while last == start {
        last = coarse.now(); // ends only because the clock ticks
        std::thread::yield_now();
    }
    assert!(start < last && last <= fine.now());
}

#[cfg(target_os = "linux")]
#[test]
fn the_thread_of_a_coarse_clock_ends_with_its_last_clone() {
    // Twenty, so that the few of other tests do not disturb.
    fn ticking() -> usize {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
        let names = tasks.filter_map(|task| name(task.ok()?));
        names.filter(|name| name.trim() == "tollgate-clock").count()
    }
    let clocks: Vec<_> =
        (0..20).map(|_| CoarseClock::start(Duration::from_millis(1)).unwrap()).collect();
    let clones = clocks.clone();
    drop(clocks);
    while ticking() < 20 {
        std::thread::yield_now(); // a thread takes its name when it first runs
    }
    drop(clones);
    while ticking() >= 20 {
        std::thread::yield_now(); // ends only because the threads do
    }
}

#[test]
fn the_wall_clock_counts_from_1970() {
    let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let now = WallClock::new().now().since(Instant::ZERO);
    let after = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert!(before <= now && now <= after);
}

#[test]
fn a_clamped_clock_stands_still_after_a_step_back() {
    let source = ManualClock::starting_at(Instant::from_nanos(50));
    let clock = Clamped::new(source.clone());
    let readings = [60, 40, 59, 60, 61].map(|nanos| {
        source.set(Instant::from_nanos(nanos));
        clock.now().as_nanos()
    });
    assert_eq!(readings, [60, 60, 60, 60, 61]);
}

#[test]
fn a_manual_clock_is_shared_and_saturates() {
    let clock = ManualClock::starting_at(Instant::from_nanos(u64::MAX - 5));
    let clone = clock.clone();
    clock.advance(Duration::from_nanos(3));
    assert_eq!(clone.now(), Instant::from_nanos(u64::MAX - 2));
    clock.advance(Duration::MAX);
    assert_eq!(clone.now(), Instant::MAX);
    clone.set(Instant::ZERO);
    assert_eq!(clock.now(), Instant::ZERO);
}

#[test]
fn instants_saturate() {
    let second = Duration::from_secs(1);
    assert_eq!(Instant::MAX + second, Instant::MAX);
    assert_eq!(Instant::ZERO - second, Instant::ZERO);
    assert_eq!(Instant::ZERO + Duration::MAX, Instant::MAX);
    assert_eq!(Instant::ZERO.since(Instant::MAX), Duration::ZERO);
    assert_eq!((Instant::ZERO + second).since(Instant::ZERO), second);
}

#[test]
fn an_erased_clock_needs_no_type_parameter() {
    struct Service {
        limiter: RateLimiter<TokenBucket, Arc<dyn Clock>>,
    }
    let clock = ManualClock::new();
    let service =
        Service { limiter: RateLimiter::with_clock(limit!("1/s"), Arc::new(clock.clone())) };
    assert!(service.limiter.try_acquire().is_granted());
    assert!(service.limiter.try_acquire().is_denied());
    clock.advance(Duration::from_secs(1));
    assert!(service.limiter.try_acquire().is_granted());
    assert!(format!("{:?}", service.limiter).contains("dyn Clock"));
}

#[test]
fn a_borrowed_clock_is_a_clock() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(limit!("1/s"), &clock);
    assert!(limiter.try_acquire().is_granted());
    clock.advance(Duration::from_secs(1));
    assert!(limiter.try_acquire().is_granted());
}

/// Marked: on real time. Both clocks advance as the operating system's does, to
/// within what a busy machine puts between two readings.
#[test]
fn real_clocks_keep_pace() {
    let (own, fast) = (StdClock::new(), MonotonicClock::new());
    // Readings are nested, so that a pause between two of them does not count.
    let outer = std::time::Instant::now();
    let began = [own.now(), fast.now()];
    let inner = std::time::Instant::now();
    while inner.elapsed() < Duration::from_millis(50) {
        std::thread::yield_now();
    }
    let least = inner.elapsed();
    let ended = [own.now(), fast.now()];
    let most = outer.elapsed();
    for (began, ended) in began.into_iter().zip(ended) {
        let passed = ended.since(began);
        assert!(
            passed > least * 9 / 10 && passed < most * 11 / 10,
            "{least:?} {passed:?} {most:?}"
        );
    }
}

/// Marked: on real time. A slow tick leaves time standing.
#[test]
fn a_coarse_clock_ticks_as_told() {
    let (slow, quick) = (Duration::from_secs(3_600), Duration::from_millis(1));
    let [slow, quick] = [slow, quick].map(|tick| CoarseClock::start(tick).unwrap());
    // Its thread writes once when it begins, whenever that is.
    let stands_still = (0..10).any(|_| {
        let (before, until) = (slow.now(), quick.now() + Duration::from_millis(20));
        while quick.now() < until {
            std::thread::yield_now();
        }
        slow.now() == before
    });
    assert!(stands_still);
}

/// At the end of time nothing is granted, rather than everything.
#[test]
fn the_end_of_time_fails_closed() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(limit!("1/s"), clock.clone());
    clock.set(Instant::MAX);
    assert!(limiter.try_acquire().is_denied());
}

#[test]
fn everything_is_send_sync_and_debug() {
    fn check<T: Send + Sync + std::fmt::Debug>() {}
    use tollgate::*;
    check::<RateLimiter>();
    check::<RateLimiter<Locked<SlidingWindowLog>, Arc<dyn Clock>>>();
    check::<RateLimiter<(TokenBucket, FixedWindow, LeakyBucket, SlidingWindowLog), WallClock>>();
    check::<KeyedRateLimiter<String, (TokenBucket, FixedWindow), CoarseClock>>();
    check::<At<'_, TokenBucket>>();
    check::<(Decision, Denied, ConfigError, Rate, Limit, Instant, Report)>();
    check::<(Unlimited, DenyAll, ManualClock, StdClock, MonotonicClock, Clamped<ManualClock>)>();
    fn error<T: std::error::Error + Send + Sync + 'static>() {}
    error::<ConfigError>();
    error::<Denied>();
}
