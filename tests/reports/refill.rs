//! How a bucket fills and a queue drains.

use crate::subject::{Subject, everywhere};
use crate::{bucket, log, ms, no, ns, ok, queue, s, window};
use std::time::Duration;
use tollgate::{Algorithm, ConfigError, Instant, Locked, ManualClock, RateLimiter};

/// Time spent idle was credited without a cap, and passed at once.
#[test]
fn idle_time_turns_into_an_unlimited_burst() {
    everywhere(bucket(1, s(1), 1), |limiter| {
        assert_eq!(limiter.ask(s(0), 1), ok(0));
        assert_eq!(limiter.granted(s(30), 40), 1);
        assert_eq!(limiter.ask(s(30), 1), no(s(1)));
    });
    everywhere(bucket(1, s(1), 3), |limiter| {
        assert_eq!(limiter.ask(s(0), 1), ok(2));
        assert_eq!(limiter.granted(s(4), 100), 3);
    });
    everywhere(queue(s(1), 10), |limiter| {
        assert_eq!(departures(limiter, s(0), 1), [s(0)]);
        assert_eq!(departures(limiter, s(4), 3), [s(4), s(5), s(6)]);
    });
}

/// Calls made at `at`, and when those leave that have a place.
fn departures(limiter: &Subject, at: Duration, calls: u32) -> Vec<Duration> {
    limiter.set(at);
    let decisions = (0..calls).map(|_| limiter.call(1));
    decisions.filter(|d| d.is_granted()).map(|d| at + d.delay()).collect()
}

/// "N per period" was taken for a hard cap, which a bucket is not.
#[test]
fn a_bucket_admits_more_than_the_count_in_the_first_period() {
    let two_a_second = |limiter: &Subject| {
        (0..30).map(|k| limiter.granted(s(k), 1) + limiter.granted(s(k) + ms(250), 1)).sum::<u32>()
    };
    everywhere(bucket(17, s(30), 17), |limiter| assert_eq!(two_a_second(limiter), 33));
    everywhere(bucket(17, s(30), 1), |limiter| assert_eq!(two_a_second(limiter), 15));
    everywhere(log(17, s(30)), |limiter| assert_eq!(two_a_second(limiter), 17));
    everywhere(window(17, s(30)), |limiter| assert_eq!(two_a_second(limiter), 17));

    everywhere(bucket(1_200, s(60), 1_200), |limiter| {
        let (mut now, mut by_60, mut by_120) = (s(0), 0, 0);
        while now <= s(120) {
            limiter.set(now);
            let decision = limiter.call(10);
            by_60 += if decision.is_granted() && now <= s(60) { 10 } else { 0 };
            by_120 += if decision.is_granted() { 10 } else { 0 };
            now += decision.retry_after().expect("ten fit");
        }
        assert_eq!((by_60, by_120), (2_400, 3_600));
    });

    everywhere(bucket(3, s(60), 3), |limiter| {
        let answers = [0, 10, 20, 30, 40, 50].map(|at| limiter.ask(s(at), 1));
        assert_eq!(answers, [ok(2), ok(1), ok(1), ok(0), ok(0), no(s(10))]);
    });
    everywhere(log(3, s(60)), |limiter| {
        let answers = [0, 10, 20, 30, 40, 50].map(|at| limiter.ask(s(at), 1));
        assert_eq!(answers, [ok(2), ok(1), ok(0), no(s(30)), no(s(20)), no(s(10))]);
    });
}

/// The wait was a whole interval, whatever had come back of it.
#[test]
fn the_wait_ignores_what_has_been_refilled() {
    everywhere(bucket(1, s(1), 1), |limiter| {
        assert_eq!(limiter.ask(s(0), 1), ok(0));
        assert_eq!(limiter.ask(ms(200), 1), no(ms(800)));
    });
    everywhere(bucket(1, s(1), 10), |limiter| {
        assert_eq!(limiter.ask(s(0), 10), ok(0));
        assert_eq!(limiter.ask(s(0), 1), no(s(1)));
        assert_eq!(limiter.ask(s(0), 3), no(s(3)));
    });
    everywhere(log(10, s(60)), |limiter| {
        assert_eq!(limiter.ask(s(0), 3), ok(7));
        assert_eq!(limiter.ask(s(10), 7), ok(0));
        assert_eq!(limiter.ask(s(20), 3), no(s(40)));
        assert_eq!(limiter.ask(s(20), 5), no(s(50)));
    });
}

/// Each call moved the time of the last refill and lost the fraction.
#[test]
fn asking_often_stops_the_refill() {
    everywhere(bucket(1, s(10), 1), |limiter| {
        for at in 0..=100 {
            assert_eq!(limiter.granted(s(at), 1), u32::from(at % 10 == 0), "at {at} s");
        }
    });
    everywhere(bucket(2, s(1), 10), |limiter| {
        assert_eq!(limiter.ask(s(0), 1), ok(9));
        assert_eq!(limiter.ask(ms(600), 10), ok(0));
    });
    everywhere(bucket(1_200, s(60), 1_200), |limiter| {
        assert_eq!(limiter.ask(s(0), 1_200), ok(0));
        let polls = (1..=1_500).map(|poll| limiter.granted(ms(40 * poll), 1));
        assert_eq!(polls.sum::<u32>(), 1_200);
    });
}

/// A moment taken for a span: once drained, nothing was ever left again.
#[test]
fn what_is_left_never_refills() {
    everywhere(bucket(5, s(60), 5), |limiter| {
        assert_eq!(limiter.ask(s(0), 4), ok(1));
        assert_eq!(limiter.ask(s(0), 1), ok(0));
        assert_eq!(limiter.ask(s(0), 1), no(s(12)));
        limiter.set(s(24));
        assert_eq!((limiter.left(), limiter.left()), (2, 2));
        assert_eq!(limiter.ask(s(24), 1), ok(1));
        assert_eq!(limiter.ask(s(144), 1), ok(4));
    });
}

/// A bucket that started empty denied the first burst after every deploy.
#[test]
fn a_limiter_starts_empty() {
    everywhere(bucket(10, s(1), 10), |limiter| assert_eq!(limiter.granted(s(0), 11), 10));

    initially(0, |limiter| {
        assert_eq!(limiter.ask(s(0), 1), no(ms(100)));
        assert_eq!(limiter.ask(ms(100), 1), ok(0));
    });
    initially(4, |limiter| assert_eq!(limiter.granted(s(0), 11), 4));
    initially(10, |limiter| assert_eq!(limiter.granted(s(0), 11), 10));

    let limiter = RateLimiter::with_clock(bucket(10, s(1), 10), ManualClock::new());
    assert_eq!(limiter.with_initial(11).err(), Some(ConfigError::InitialAboveCapacity));
}

/// Ten a second with a burst of ten, of which there are so many at first.
fn initially(permits: u32, test: impl Fn(&Subject)) {
    fn run<A: Algorithm + 'static>(start: Instant, of: A, permits: u32, test: impl Fn(&Subject)) {
        let clock = ManualClock::starting_at(start);
        let limiter = RateLimiter::with_clock(of, clock.clone());
        test(&Subject::of(limiter.with_initial(permits).expect("it fits"), clock));
    }
    for start in crate::subject::ORIGINS.map(Instant::from_nanos) {
        run(start, bucket(10, s(1), 10), permits, &test);
        run(start, Locked(bucket(10, s(1), 10)), permits, &test);
    }
}

/// Rounding added up from grant to grant, and the limit crept over the hours.
#[test]
fn the_long_run_rate_drifts() {
    let poll_each_100_ms = |limiter: &Subject, until: u64| {
        let polls = (0..=until * 10).map(|poll| {
            limiter.set(ms(100 * poll));
            let taken = (0..).take_while(|_| limiter.try_acquire_n(1).is_granted());
            u32::try_from(taken.count()).expect("a few")
        });
        polls.sum::<u32>()
    };
    everywhere(bucket(7, s(60), 7), |limiter| {
        assert_eq!(poll_each_100_ms(limiter, 60_000), 7_007);
    });
    everywhere(bucket(3, s(1), 3), |limiter| {
        assert_eq!(poll_each_100_ms(limiter, 3_600), 10_803);
    });
    everywhere(bucket(3, s(1), 1), |limiter| {
        assert_eq!(limiter.ask(s(0), 1), ok(0));
        assert_eq!(limiter.ask(ns(333_333_333), 1), no(ns(1)));
        assert_eq!(limiter.ask(ns(333_333_334), 1), ok(0));
    });
}

/// A burst of fifteen meant sixteen, and large ones did not count at first.
#[test]
fn the_capacity_is_one_more_than_was_asked_for() {
    everywhere(bucket(1, s(1), 15), |limiter| assert_eq!(limiter.granted(s(0), 20), 15));
    everywhere(bucket(1_000, s(60), 1_001), |limiter| {
        let answers = [0; 3].map(|at| limiter.ask(s(at), 1));
        assert_eq!(answers, [ok(1_000), ok(999), ok(998)]);
    });
    everywhere(bucket(6_000, s(1), 6_001), |limiter| {
        for left in (0..=6_000).rev() {
            let decision = limiter.try_acquire_n(1);
            assert!(decision.is_granted());
            assert_eq!(decision.remaining(), left);
        }
        assert_eq!(limiter.ask(s(0), 1), no(ns(166_667)));
    });
}

/// Far fewer were granted than the limit allows, which is as wrong as more.
#[test]
fn under_load_the_limit_is_far_too_strict() {
    everywhere(bucket(1_000, s(1), 1_000), |limiter| {
        let calls = (0..=50_000).map(|call| limiter.granted(Duration::from_micros(200 * call), 1));
        assert_eq!(calls.sum::<u32>(), 11_000);
    });
    everywhere(bucket(600, s(1), 1_000), |limiter| {
        for call in 0..36_000 {
            assert_eq!(limiter.granted(ns(call * 1_000_000_000 / 600), 1), 1, "call {call}");
        }
    });
}

/// Callers queued without a bound and without being told, and a burst meant
/// one thing when it was accepted and another when it was spaced.
#[test]
fn a_queue_is_neither_bounded_nor_honest_about_the_delay() {
    // Three at once and five that wait: all but the very first take places.
    everywhere(queue(ms(100), 7).without_delay(2), |limiter| {
        let left = departures(limiter, s(0), 10);
        assert_eq!(left, [0, 0, 0, 100, 200, 300, 400, 500].map(ms));
        assert_eq!(limiter.ask(s(0), 1), no(ms(100)));
    });
    everywhere(queue(ms(100), 20), |limiter| {
        let left = departures(limiter, s(0), 25);
        assert_eq!(left, (0..=20).map(|place| ms(100 * place)).collect::<Vec<_>>());
        assert_eq!(limiter.ask(s(0), 1), no(ms(100)));
    });
    everywhere(queue(ms(100), 20), |limiter| {
        assert_eq!(departures(limiter, s(0), 1), [s(0)]);
        assert_eq!(departures(limiter, s(10), 3), [10_000, 10_100, 10_200].map(ms));
    });
}

/// After a suspend everything that had been missed went out in a burst.
#[test]
fn a_long_suspend_is_caught_up_with() {
    let later = s(8 * 3_600);
    everywhere(bucket(10, s(1), 10), |limiter| {
        assert_eq!(limiter.ask(s(0), 10), ok(0));
        assert_eq!(limiter.granted(later, 20), 10);
        assert_eq!(limiter.ask(later, 1), no(ms(100)));
    });
    everywhere(queue(ms(100), 19), |limiter| {
        let due = departures(limiter, s(0), 6);
        assert_eq!(due, [0, 100, 200, 300, 400, 500].map(ms));
        let due = departures(limiter, later, 20);
        assert_eq!(due, (0..20).map(|place| later + ms(100 * place)).collect::<Vec<_>>());
    });
}
