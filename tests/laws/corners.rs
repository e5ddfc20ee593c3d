//! Corners that the properties have led to, one by one.

use crate::common::*;
use core::num::NonZeroU32;
use core::time::Duration;
use proptest::prelude::*;
use tollgate::{
    Algorithm, ConfigError, FixedWindow, Instant, LeakyBucket, Limit, ManualClock, Rate,
    RateLimiter, SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};

fn bucket(rate: Rate, burst: u32) -> TokenBucket {
    TokenBucket::new(Limit::new(rate).with_burst(NonZeroU32::new(burst).unwrap()))
}

fn limiter<A: Algorithm>(algorithm: A, origin: u64) -> RateLimiter<A, ManualClock> {
    RateLimiter::with_clock(algorithm, ManualClock::starting_at(at(origin)))
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// Half a permit has flown in again when the grant is given back. What that
/// makes room for is what the refund says.
#[test]
fn a_refund_makes_room_for_no_more_than_it_says() {
    let limiter = limiter(bucket(rate(1, 10), 1), 0);
    let grant = limiter.at(at(0)).try_acquire();
    assert_eq!(limiter.at(at(5)).peek().remaining(), 0);
    let given_back = limiter.at(at(5)).refund(grant);
    assert_eq!(limiter.at(at(5)).peek().remaining(), given_back);
}

#[test]
fn nothing_is_given_back_of_a_window_that_has_ended() {
    let limiter = limiter(FixedWindow::new(rate(3, 10)), 0);
    let grant = limiter.at(at(0)).try_acquire_n(3);
    assert_eq!(limiter.at(at(10)).refund(grant), 0);
}

/// A permit takes 104 days. The state counts for 83.5 years, of which a month is
/// left, so the next permit never comes.
#[test]
fn nothing_is_promised_after_the_end_of_supply() {
    let period = 2 * 365 * 86_400 * SECOND + 1;
    let limiter = limiter(bucket(rate(7, period), 1), 0);
    let late = at(u64::MAX / 7 - period / 24);
    assert!(limiter.at(late).try_acquire().is_granted());
    let refused = limiter.at(late).try_acquire();
    assert!(refused.is_denied() && !refused.is_never());
    assert_eq!(refused.retry_after(), None);
}

/// Several limits take back only what was given last, not even the one that
/// had nothing to do with what came after.
#[test]
fn a_charge_on_one_of_several_limits_makes_a_grant_final() {
    let both = (FixedWindow::new(rate(3, 10)), bucket(rate(1, 10), 10));
    let limiter = limiter(both, 0);
    let grant = limiter.at(at(0)).try_acquire_n(3);
    assert_eq!(limiter.at(at(0)).charge(1), 1); // the window is full
    assert_eq!(limiter.at(at(0)).refund(grant), 0);
}

/// The state of a counter ends with the last window that it can tell: there it
/// hands out what is left, and refuses for good. Windows of a second with the
/// highest count that fits last for little more than ten years.
#[test]
fn a_counter_refuses_after_its_last_window() {
    let rate = |count| rate(count, SECOND);
    let fits = |count: &u32| SlidingWindowCounter::new(rate(*count)).is_ok();
    let most = (241_000..242_000).take_while(fits).last().unwrap();
    assert!(!fits(&(most + 1)));
    // Nothing counts at first, then the window before.
    for taken in [0, most / 3, most] {
        let counter = SlidingWindowCounter::new(rate(most)).unwrap();
        let limiter = limiter(counter, 7);
        let windows = (u64::MAX - 2) / (u64::from(most) + 1).pow(2) - 1;
        let end = 7 + windows * SECOND;
        assert!(end > HORIZON_NANOS && end < HORIZON_NANOS + HORIZON_NANOS / 1_000);
        assert!(limiter.at(at(end - SECOND)).try_acquire_n(taken).is_granted());
        for now in [end, end + SECOND / 2, end + 10 * SECOND, u64::MAX - 1] {
            assert_eq!(limiter.at(at(now)).peek().remaining(), most - taken);
        }
        assert!(limiter.at(at(end + SECOND)).try_acquire_n(most - taken).is_granted());
        for now in [end, end + 10 * SECOND, u64::MAX - 1] {
            let refused = limiter.at(at(now)).try_acquire();
            assert!(refused.is_denied() && !refused.is_never());
            assert_eq!(refused.retry_after(), None);
        }
    }
}

/// The highest count that fits still loses its weight at the horizon, wherever
/// in a window a counter begins, and one more would not.
#[test]
fn a_counter_uses_all_room_and_reaches_the_horizon() {
    let periods = prop_oneof![
        (0..59_u32, 1..=1_000_u64).prop_map(|(shift, many)| many.saturating_mul(1 << shift)),
        magnitudes(64).prop_map(|period| period.max(1)),
        Just(HORIZON_NANOS),
        Just(u64::MAX - HORIZON_NANOS),
    ];
    proptest!(cases(1024), |(period in periods, origin in origins(), offset in magnitudes(64))| {
        let of = |count| {
            let rate = Rate::new(count, Duration::from_nanos(period)).unwrap();
            SlidingWindowCounter::aligned(rate, Duration::from_nanos(offset))
        };
        if period > u64::MAX - HORIZON_NANOS {
            prop_assert_eq!(of(1).unwrap_err(), ConfigError::TooLarge("period"));
            return Ok(());
        }
        // The highest rate, or count, does not fit.
        let (mut most, mut more) = (1, period.saturating_mul(58).min(u32::MAX.into()) as u32);
        while more - most > 1 {
            let middle = most + (more - most) / 2;
            if of(middle).is_ok() { most = middle } else { more = middle }
        }
        prop_assert_eq!(of(more).unwrap_err(), ConfigError::TooLarge("count"));
        // The window that holds the creation, the one that holds the horizon,
        // and one for what is counted at the end of both.
        let windows = 2 + u128::from(HORIZON_NANOS.div_ceil(period));
        let needed = |count: u32| (u128::from(count) + 1).pow(2) * windows;
        prop_assert!(needed(most) <= u128::from(u64::MAX - 2), "{most}");
        prop_assert!(needed(more) > u128::from(u64::MAX - 2), "{more}");

        let horizon = origin.saturating_add(HORIZON_NANOS);
        if let Some(before) = horizon.checked_sub(period).filter(|before| *before >= origin) {
            let limiter = limiter(of(most).unwrap(), origin);
            prop_assert!(limiter.at(at(before)).try_acquire_n(most).is_granted());
            let into = (i128::from(horizon) - i128::from(offset)).rem_euclid(period.into());
            let rest = u128::from(period) - into as u128;
            let left = u128::from(most) - (u128::from(most) * rest).div_ceil(period.into());
            let ended = horizon == u64::MAX;
            prop_assert!(ended || u128::from(limiter.at(at(horizon)).peek().remaining()) == left);
        }
    });
}

/// A grant while the clock is back counts in the newest window, and is given
/// back there.
#[test]
fn a_counter_gives_back_in_the_window_that_was_charged() {
    let limiter = limiter(counter(rate(4, 10), None), 0);
    assert!(limiter.at(at(12)).try_acquire().is_granted());
    let back = limiter.at(at(5)).try_acquire_n(2);
    assert_eq!(limiter.at(at(19)).peek().remaining(), 1);
    assert_eq!(limiter.at(at(19)).refund(back), 2);
    let late = limiter.at(at(19)).try_acquire_n(2);
    assert_eq!(limiter.at(at(20)).refund(late), 0);
}

/// From the end of the range back to its start is a step back, not ahead.
#[test]
fn a_step_back_does_not_wrap_around() {
    let limiter = limiter(bucket(rate(1, 10), 1), u64::MAX - 100);
    assert!(limiter.at(at(u64::MAX - 100)).try_acquire().is_granted());
    assert!(limiter.at(at(0)).try_acquire().is_denied());
}

/// Even where the clock steps back afterwards.
#[test]
fn a_charge_of_nothing_changes_nothing() {
    let limiter = limiter(bucket(rate(1, 10), 1), 0);
    assert_eq!(limiter.at(at(100)).charge(0), 0);
    assert!(limiter.at(at(0)).try_acquire().is_granted());
}

/// Also in a bucket that takes longer to fill than there is time.
#[test]
fn an_initial_level_is_what_can_be_taken_at_once() {
    let slow = limiter(bucket(rate(1, u64::MAX), 2), 0).with_initial(0).unwrap();
    assert!(slow.at(at(0)).try_acquire().is_denied());

    fn starts_with<A: Algorithm>(
        algorithm: A,
        setup: Setup,
        level: u32,
    ) -> Result<(), TestCaseError> {
        let capacity = algorithm.capacity();
        let limiter = limiter(algorithm, setup.origin).with_initial(level);
        prop_assert_eq!(limiter.is_ok(), level <= capacity);
        prop_assert!(limiter.is_err() || limiter.unwrap().peek().remaining() == level);
        Ok(())
    }
    proptest!(cases(1024), |(setup in setups(), few in 0..=13_u32, many in any::<u32>())| {
        for level in [few, many, setup.burst.get(), setup.rate.count().get()] {
            starts_with(bucket(setup.rate, setup.burst.get()), setup, level)?;
            starts_with(LeakyBucket::new(setup.rate, setup.burst.get() - 1), setup, level)?;
            starts_with(FixedWindow::new(setup.rate), setup, level)?;
            starts_with(SlidingWindowLog::new(setup.rate), setup, level)?;
            starts_with(counter(setup.rate, None), setup, level)?;
        }
    });
}

/// A log to which something has happened at the end of time has nothing back
/// when the clock returns.
#[test]
fn the_end_of_time_brings_nothing_back() {
    let limiter = limiter(SlidingWindowLog::new(rate(5, SECOND)), 0);
    assert_eq!(limiter.at(Instant::MAX).charge(5), 5);
    for now in [at(0), at(SECOND), Instant::MAX] {
        assert!(limiter.at(now).try_acquire().is_denied());
    }
    limiter.clock().set(Instant::MAX);
    limiter.reconfigure(SlidingWindowLog::new(rate(5, 1)));
    limiter.clock().set(at(0));
    assert!(limiter.try_acquire().is_denied());
}
