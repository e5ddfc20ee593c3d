//! Configuration: what was set is what is done.

use crate::subject::everywhere;
use crate::{bucket, ms, no, ok, queue, rate, s};
use std::num::NonZeroU32;
use std::time::Duration;
use tollgate::{
    ConfigError, FixedWindow, Limit, ManualClock, Rate, RateLimiter, SlidingWindowLog, TokenBucket,
    limit,
};

/// "per second, 2" was one in two seconds, and the burst was a surprise.
#[test]
fn a_rate_is_read_upside_down() {
    const TWO: NonZeroU32 = NonZeroU32::new(2).unwrap();
    const SIX: NonZeroU32 = NonZeroU32::new(6).unwrap();

    everywhere(TokenBucket::from(Rate::per_second(TWO)), |limiter| {
        assert_eq!(limiter.ask(s(0), 2), ok(0));
        assert_eq!(limiter.granted(s(1), 5), 2);
        assert_eq!(limiter.ask(s(1), 1), no(ms(500)));
    });
    everywhere(TokenBucket::from(Rate::per_minute(SIX)), |limiter| {
        assert_eq!(limiter.granted(s(0), 7), 6);
        assert_eq!(limiter.ask(s(0), 1), no(s(10)));
    });
    everywhere(TokenBucket::from(Rate::per_hour(SIX)), |limiter| {
        assert_eq!(limiter.granted(s(0), 7), 6);
        assert_eq!(limiter.ask(s(0), 1), no(s(600)));
    });
    everywhere(TokenBucket::from(Rate::per_day(SIX)), |limiter| {
        assert_eq!(limiter.granted(s(0), 7), 6);
        assert_eq!(limiter.ask(s(0), 1), no(s(14_400)));
    });
    let three_in_ten_seconds = Limit::new(rate(3, s(10)));
    everywhere(TokenBucket::new(three_in_ten_seconds), |limiter| {
        assert_eq!(limiter.granted(s(0), 5), 3);
    });
    let one_at_once = three_in_ten_seconds.with_burst(NonZeroU32::MIN);
    everywhere(TokenBucket::new(one_at_once), |limiter| {
        assert_eq!(limiter.granted(s(0), 5), 1);
    });
}

/// A part of a configuration was missing or misspelt, and nobody was told.
#[test]
fn a_setting_is_silently_not_used() {
    for (text, error) in [
        ("10", ConfigError::Malformed("period")),
        ("/s", ConfigError::Malformed("count")),
        ("10/s brust 5", ConfigError::Malformed("burst")),
        ("10/s burst", ConfigError::Malformed("burst")),
        ("10/s burst 0", ConfigError::Zero("burst")),
        ("10/s burst 5 warm-up 3", ConfigError::Malformed("burst")),
    ] {
        let refusal = text.parse::<Limit>().unwrap_err();
        assert_eq!(refusal, error, "{text}");
        assert!(refusal.to_string().starts_with(refusal.field()), "{refusal}");
    }

    // Two routes, each with a limit of its own.
    let clock = ManualClock::new();
    let routes = [limit!("1/min"), limit!("1/min burst 100")];
    let routes = routes.map(|limit| RateLimiter::with_clock(limit, clock.clone()));
    let granted =
        routes.each_ref().map(|route| (0..50).filter(|_| route.try_acquire().is_granted()).count());
    assert_eq!(granted, [1, 50]);

    // What was set can be read back.
    let limit = limit!("7/min burst 21");
    assert_eq!((limit.rate(), limit.burst().get()), (rate(7, s(60)), 21));
    assert_eq!(RateLimiter::new(limit).algorithm().limit(), limit);
    assert_eq!(bucket(7, s(60), 21).limit(), limit);
    assert_eq!(FixedWindow::new(limit.rate()).rate(), limit.rate());
    assert_eq!(FixedWindow::aligned(limit.rate(), Duration::ZERO).rate(), limit.rate());
    assert_eq!(SlidingWindowLog::new(limit.rate()).rate(), limit.rate());
    assert_eq!((queue(s(3), 4).rate(), queue(s(3), 4).queue()), (rate(1, s(3)), 4));
}

/// The same from a file: the error names the field.
#[cfg(feature = "serde")]
#[test]
fn a_setting_in_a_file_is_silently_not_used() {
    #[derive(serde::Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Route {
        limit: Limit,
    }
    let read = |json: &str| serde_json::from_str::<Route>(json);

    assert_eq!(read(r#"{"limit": "10/s burst 5"}"#).unwrap().limit, limit!("10/s burst 5"));
    for (json, named) in [
        (r#"{"limit": "10"}"#, "period "),
        (r#"{"limit": "10/s burst 0"}"#, "burst must not be zero"),
        (r#"{"limit": "10/s", "burst": 5}"#, "unknown field `burst`"),
        ("{}", "missing field `limit`"),
    ] {
        let error = read(json).unwrap_err().to_string();
        assert!(error.starts_with(named), "{json}: {error}");
    }
}
