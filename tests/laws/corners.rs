//! Corners that the properties have led to, one by one.

use crate::common::*;
use core::num::NonZeroU32;
use proptest::prelude::*;
use tollgate::{
    Algorithm, FixedWindow, Instant, LeakyBucket, Limit, ManualClock, Rate, RateLimiter,
    SlidingWindowLog, TokenBucket,
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
        }
    });
}
