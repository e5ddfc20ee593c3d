//! Clocks that step back, and the clocks that come with the crate.

use crate::subject::{Subject, everywhere, everywhere_clamped};
use crate::{bucket, log, no, ok, s, window};
use std::time::{Duration, Instant as Std};
use tollgate::{Clock, Instant, MonotonicClock, RateLimiter, StdClock, WallClock, limit};

/// A step back was debt, a panic, or a window to spend once more.
#[test]
fn the_clock_steps_back() {
    everywhere_clamped(bucket(1, s(1), 5), |limiter| {
        assert_eq!([0; 3].map(|_| limiter.ask(s(100), 1)), [ok(4), ok(3), ok(2)]);
        assert_eq!(limiter.ask(s(89), 1), ok(1));
        assert_eq!(limiter.ask(s(89), 1), ok(0));
        assert_eq!(limiter.ask(s(89), 1), no(s(1)));
        assert_eq!(limiter.ask(s(100), 1), no(s(1)));
        assert_eq!(limiter.ask(s(101), 1), ok(0));
    });
    everywhere_clamped(window(2, s(10)), |limiter| steps_back(limiter, s(10)));
    everywhere_clamped(log(2, s(10)), |limiter| steps_back(limiter, s(10)));
}

/// Two in ten seconds. Under a clamped clock time stands still; otherwise the
/// step is waited out in addition.
fn steps_back(limiter: &Subject, wait: Duration) {
    assert_eq!(limiter.ask(s(100), 2), ok(0));
    assert_eq!(limiter.ask(s(89), 1), no(wait));
    assert_eq!(limiter.peek_n(1).reset_after(), wait);
    assert_eq!(limiter.ask(s(100), 1), no(s(10)));
    assert_eq!(limiter.ask(s(110), 1), ok(1));
}

/// The same when nobody clamps it: nothing is regained, and nobody is locked
/// out for longer than the step.
#[test]
fn the_clock_steps_back_unclamped() {
    everywhere(bucket(1, s(1), 5), |limiter| {
        assert_eq!([0; 3].map(|_| limiter.ask(s(100), 1)), [ok(4), ok(3), ok(2)]);
        assert_eq!(limiter.ask(s(89), 1), no(s(10)));
        assert_eq!([0; 3].map(|_| limiter.ask(s(100), 1)), [ok(1), ok(0), no(s(1))]);
        assert_eq!(limiter.ask(s(101), 1), ok(0));
    });
    everywhere(window(2, s(10)), |limiter| steps_back(limiter, s(21)));
    everywhere(log(2, s(10)), |limiter| steps_back(limiter, s(21)));
    // What was granted before the clock had caught up counts as granted then.
    everywhere(log(2, s(10)), |limiter| {
        assert_eq!(limiter.ask(s(100), 1), ok(1));
        assert_eq!(limiter.ask(s(89), 1), ok(0));
        assert_eq!(limiter.ask(s(105), 2), no(s(5)));
        assert_eq!(limiter.ask(s(110), 2), ok(0));
    });
}

/// Each limiter calibrated a clock of its own, for a second.
#[test]
fn a_fast_clock_is_slow_to_start() {
    let _calibrated = MonotonicClock::new();
    let start = Std::now();
    let limiters: Vec<_> = (0..10_000).map(|_| RateLimiter::new(limit!("10/s"))).collect();
    assert!(start.elapsed() < s(1), "{:?}", start.elapsed());
    assert!(limiters.iter().all(|limiter| limiter.try_acquire().is_granted()));
}

/// The time-stamp counters of two cores disagreed.
#[test]
fn a_fast_clock_runs_back() {
    fn rises(clock: &(impl Clock + ?Sized)) {
        let read_on = || {
            let mut latest = Instant::ZERO;
            for _ in 0..125_000 {
                let now = clock.now();
                assert!(now >= latest, "{latest:?}, then {now:?}");
                latest = now;
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(read_on);
            }
        });
    }
    rises(&MonotonicClock::new());
    rises(&StdClock::new());
    rises(&WallClock::new());
}

/// End to end, on real time for a second: the fast clock drifted from the
/// system's. What passes between the readings of the two is allowed for.
#[test]
fn a_fast_clock_drifts() {
    let clock = MonotonicClock::new();
    let read = || {
        let before = Std::now();
        let now = clock.now();
        (before, now, Std::now())
    };
    let first = read();
    std::thread::sleep(s(1));
    let second = read();

    let elapsed = second.1.since(first.1);
    let (least, most) = (second.0 - first.2, second.2 - first.0);
    assert!(elapsed >= least.mul_f64(0.99), "{elapsed:?} of at least {least:?}");
    assert!(elapsed <= most.mul_f64(1.01), "{elapsed:?} of at most {most:?}");
}
