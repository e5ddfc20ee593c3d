//! Rates at the ends of the range.

use crate::subject::everywhere;
use crate::{Answer, bucket, no, ns, ok, rate, s};
use std::time::Duration;
use tollgate::{ConfigError, Rate};

/// Period divided by count with truncation: 700 a minute became 705.
#[test]
fn the_interval_is_kept_in_whole_units() {
    for (count, period, burst, after, expected) in [
        (750, s(1), 10_000, s(3), 2_250),
        (700, s(60), 1_000, s(60), 700),
        (120_000, s(60), 120_000, s(1), 2_000),
        (80_000, s(1), 100_000, s(1), 80_000),
        (1, s(1), 100, s(10), 10),
        (300_000_000, s(1), 1_000_000_000, s(1), 300_000_000),
        (700_000_000, s(1), 1_000_000_000, s(1), 700_000_000),
    ] {
        everywhere(bucket(count, period, burst), |limiter| {
            assert_eq!(limiter.ask(s(0), burst), ok(0));
            limiter.set(after);
            assert_eq!(limiter.left(), expected, "{count} per {period:?}");
            assert_eq!(limiter.ask(after, expected), ok(0));
        });
    }
}

/// Tokens times elapsed time overflowed, and everything was denied.
#[test]
fn long_idling_overflows_the_refill() {
    everywhere(bucket(1_000_000, s(3_600), 1_000_000), |limiter| {
        for jump in 1..=1_000 {
            assert_eq!(limiter.ask(s(12 * 3_600 * jump), 1), ok(999_999));
        }
    });
    everywhere(bucket(u32::MAX, s(1), u32::MAX), |limiter| {
        let ten_years = s(315_360_000);
        assert_eq!(limiter.ask(s(0), u32::MAX), ok(0));
        assert_eq!(limiter.ask(ten_years, u32::MAX), ok(0));
        assert_eq!(limiter.ask(ten_years, 1), no(ns(1)));
    });
}

/// A rate held as a whole number of permits a second rounded to nothing.
#[test]
fn a_rate_below_one_a_second_is_no_rate() {
    everywhere(bucket(1, s(86_400), 1), |limiter| {
        assert_eq!(limiter.ask(s(0), 1), ok(0));
        assert_eq!(limiter.ask(ns(86_399_999_999_999), 1), no(ns(1)));
        assert_eq!(limiter.ask(s(86_400), 1), ok(0));
    });
    everywhere(bucket(1, ns(u64::MAX - 2), 1), |limiter| {
        assert_eq!(limiter.ask(s(0), 1), ok(0));
        // With a clock that starts late, time ends before the permit comes.
        let answer = match limiter.start().as_nanos() <= 1 {
            true => no(ns(18_446_744_073_709_551_612)),
            false => Answer::Never,
        };
        assert_eq!(limiter.ask(ns(1), 1), answer);
    });
    let beyond = Duration::from_nanos(u64::MAX) + ns(1);
    assert_eq!(Rate::new(1, beyond), Err(ConfigError::TooLarge("period")));
}

/// An interval below a nanosecond rounded to nothing: no limit at all.
#[test]
fn a_rate_above_one_a_nanosecond_is_unlimited() {
    everywhere(bucket(u32::MAX, s(1), u32::MAX), |limiter| {
        assert_eq!(limiter.ask(s(0), u32::MAX), ok(0));
        assert_eq!(limiter.ask(s(0), 1), no(ns(1)));
        for nanos in 1..=2 {
            assert_eq!(limiter.ask(ns(nanos), 4), ok(0));
            assert_eq!(limiter.ask(ns(nanos), 1), no(ns(1)));
        }
    });
    everywhere(bucket(u32::MAX, s(1), u32::MAX), |limiter| {
        assert_eq!(limiter.ask(s(0), u32::MAX), ok(0));
        limiter.set(ns(999_999_999));
        assert_eq!(limiter.left(), 4_294_967_290);
        // Of a rate that no unit fits, a nanosecond late at most: at a second
        // there is no less than a nanosecond before, and all a nanosecond later.
        limiter.set(s(1));
        assert!((4_294_967_290..=u32::MAX).contains(&limiter.left()), "{}", limiter.left());
        limiter.set(ns(1_000_000_001));
        assert_eq!(limiter.left(), u32::MAX);
    });
    everywhere(bucket(2_000_000_000, s(1), 1), |limiter| {
        for nanos in 0..100 {
            assert_eq!(limiter.granted(ns(nanos), 3), 1, "at {nanos} ns");
        }
    });

    let highest = rate(58, ns(1));
    assert_eq!(highest.count().get(), 58);
    assert_eq!(Rate::new(59, ns(1)), Err(ConfigError::RateTooHigh));
}

/// A wait below a second was cut down to none, and the client came at once.
#[test]
fn a_wait_in_seconds_is_cut_down() {
    everywhere(bucket(5, s(1), 1), |limiter| {
        assert_eq!(limiter.ask(s(0), 1), ok(0));
        let decision = limiter.call(1);
        assert_eq!(
            (decision.retry_after_secs(), Answer::from(decision)),
            (Some(1), no(ns(200_000_000)))
        );
    });
    everywhere(bucket(1, s(10), 1), |limiter| {
        assert_eq!(limiter.ask(s(0), 1), ok(0));
        for (at, wait, seconds) in [
            (7_999_999_999, 2_000_000_001, 3),
            (8_000_000_000, 2_000_000_000, 2),
            (8_100_000_000, 1_900_000_000, 2),
            (9_999_999_999, 1, 1),
        ] {
            limiter.set(ns(at));
            let decision = limiter.call(1);
            assert_eq!(decision.retry_after_secs(), Some(seconds));
            assert_eq!(Answer::from(decision), no(ns(wait)));
        }
        // A granted call need not wait.
        limiter.set(s(10));
        assert_eq!(limiter.call(1).retry_after_secs(), Some(0));
    });
    everywhere(bucket(1, ns(9_997_000_000), 1), |limiter| {
        assert_eq!(limiter.ask(s(0), 1), ok(0));
        assert_eq!(limiter.call(1).retry_after_secs(), Some(10));
        assert_eq!(limiter.call(2).retry_after_secs(), None);
    });
}
