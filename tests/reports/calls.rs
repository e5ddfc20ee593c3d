//! What a call may do to the state, and what it is told.

use crate::subject::{Subject, everywhere};
use crate::{Answer, bucket, log, ms, no, ok, queue, s, window};
use std::time::Duration;
use tollgate::{
    Algorithm, ConfigError, DenyAll, FixedWindow, Instant, LeakyBucket, Limit, Locked, ManualClock,
    Rate, RateLimiter, Unlimited, limit, rate,
};

/// The impossible was granted, or promised a wait that never helps.
#[test]
fn more_than_the_capacity_waits_for_ever() {
    everywhere(bucket(10, s(1), 10), |limiter| {
        assert_eq!(limiter.ask(s(0), 11), Answer::Never);
        assert_eq!(limiter.ask(s(0), 10), ok(0));
    });
    let windows = |limiter: &Subject| {
        assert_eq!(limiter.ask(s(0), 5), ok(5));
        assert_eq!(limiter.ask(s(0), 100), Answer::Never);
        assert_eq!(limiter.ask(s(0), 5), ok(0));
        assert_eq!(limiter.ask(s(0), 1), no(s(60)));
    };
    everywhere(log(10, s(60)), windows);
    everywhere(window(10, s(60)), windows);
    everywhere(bucket(1, s(1), 4), |limiter| {
        assert_eq!(limiter.ask(s(0), 1), ok(3));
        assert_eq!(limiter.ask(s(0), 4), no(s(1)));
        assert_eq!(limiter.ask(s(1), 4), ok(0));
    });
}

/// A client that kept asking kept its own window full.
#[test]
fn refused_calls_count() {
    everywhere(log(10, s(60)), |limiter| {
        assert_eq!(limiter.ask(s(0), 10), ok(0));
        for at in 1..60 {
            assert_eq!(limiter.ask(s(at), 1), no(s(60 - at)));
        }
        assert_eq!(limiter.granted(s(60), 11), 10);
        assert_eq!(limiter.ask(s(60), 1), no(s(60)));
    });
    for (wait, on) in [(60, 0), (60, 1), (18, 2)] {
        let test = |limiter: &Subject| {
            assert_eq!(limiter.ask(s(0), 8), ok(2));
            assert_eq!(limiter.ask(s(0), 5), no(s(wait)));
            assert_eq!(limiter.ask(s(0), 1), ok(1));
        };
        match on {
            0 => everywhere(window(10, s(60)), test),
            1 => everywhere(log(10, s(60)), test),
            _ => everywhere(bucket(10, s(60), 10), test),
        }
    }
}

/// A call for nothing overflowed, and broke the next answer.
#[test]
fn a_call_for_nothing_has_an_effect() {
    fn drained<A: Algorithm + 'static>(algorithm: A, wait: Duration, calls: u32) {
        everywhere(algorithm, |limiter| {
            let all = limiter.peek_n(0).limit();
            assert_eq!(limiter.ask(s(0), all), ok(0));
            for _ in 0..calls {
                let decision = limiter.try_acquire_n(0);
                assert!(decision.is_granted());
                assert_eq!((decision.remaining(), decision.delay()), (0, Duration::ZERO));
            }
            assert_eq!(limiter.ask(s(0), 1), no(wait));
        });
    }
    drained(bucket(1, s(1), 1), s(1), 1_000_000);
    drained(queue(s(1), 3), s(1), 1_000);
    drained(window(5, s(1)), s(1), 1_000);
    drained(log(5, s(1)), s(1), 1_000);

    // Nothing is remembered of it either.
    let unused = |limiter: &Subject| {
        assert_eq!(limiter.ask(s(7), 0), ok(limiter.left()));
        assert_eq!(limiter.peek_n(1).reset_after(), Duration::ZERO);
    };
    everywhere(bucket(1, s(1), 5), unused);
    everywhere(queue(s(1), 5), unused);
    everywhere(log(5, s(1)), unused);
    everywhere(window(5, s(2)), |limiter| {
        assert_eq!(limiter.ask(s(7), 0), ok(5));
        assert_eq!(limiter.peek_n(1).reset_after(), s(1));
    });
}

/// What was given back overfilled the bucket, or erased the hits of others.
#[test]
fn giving_back_makes_permits() {
    everywhere(bucket(1, s(1), 10), |limiter| {
        let grant = limiter.call(10);
        assert_eq!(limiter.refund_n(grant, 6), 6);
        assert_eq!(limiter.granted(s(0), 6), 6);
        assert_eq!(limiter.ask(s(0), 1), no(s(1)));
    });
    everywhere(bucket(1, s(1), 10), |limiter| {
        let grant = limiter.call(1);
        limiter.set(s(5));
        assert_eq!(limiter.refund_n(grant, 1), 0);
        assert_eq!(limiter.left(), 10);
        assert_eq!(limiter.granted(s(5), 11), 10);
    });
    everywhere(window(10, s(60)), |limiter| {
        limiter.set(s(59));
        let grant = limiter.call(5);
        limiter.set(s(61));
        assert_eq!(limiter.call(3).remaining(), 7);
        assert_eq!(limiter.refund_n(grant, 5), 0);
        assert_eq!(limiter.left(), 7);
    });
    // What has come back by itself, or lies under the grants of others.
    let too_late = |limiter: &Subject| {
        let (first, second) = (limiter.call(5), limiter.call(2));
        assert_eq!(limiter.refund_n(first, 5), 0);
        assert_eq!(limiter.left(), 3);
        assert_eq!(limiter.refund_n(second, 2), 2);
        assert_eq!(limiter.left(), 5);
        limiter.set(s(100));
        let third = limiter.call(4);
        limiter.set(s(200));
        assert_eq!(limiter.refund_n(third, 4), 0);
        assert_eq!(limiter.left(), 10);
    };
    everywhere(bucket(1, s(1), 10), too_late);
    everywhere(queue(s(1), 9), too_late);
    everywhere(log(10, s(60)), |limiter| {
        let first = limiter.call(5);
        limiter.set(s(1));
        let second = limiter.call(2);
        assert_eq!(limiter.refund_n(first, 5), 0);
        assert_eq!(limiter.left(), 3);
        assert_eq!(limiter.refund_n(second, 2), 2);
        assert_eq!(limiter.left(), 5);
        // Of one moment, it does not matter which is undone.
        let (third, fourth) = (limiter.call(1), limiter.call(2));
        assert_eq!(limiter.refund_n(third, 1), 1);
        assert_eq!(limiter.refund_n(fourth, 2), 2);
        limiter.set(s(100));
        let fifth = limiter.call(4);
        limiter.set(s(200));
        assert_eq!(limiter.refund_n(fifth, 4), 0);
        assert_eq!(limiter.left(), 10);
    });

    // More than was taken changes nothing; twice does not compile.
    let too_much = |limiter: &Subject| {
        assert!(limiter.call(5).is_granted());
        let grant = limiter.call(2);
        let left = limiter.left();
        assert_eq!(limiter.refund_n(grant, 3), 0);
        assert_eq!(limiter.left(), left);
        let refusal = limiter.call(left + 1);
        assert_eq!(limiter.refund_n(refusal, 1), 0);
        assert_eq!(limiter.left(), left);
    };
    everywhere(bucket(1, s(1), 10), too_much);
    everywhere(queue(s(1), 9), too_much);
    everywhere(window(10, s(60)), too_much);
    everywhere(log(10, s(60)), too_much);
}

/// The second of two limits refused, and the first had been charged.
#[test]
fn a_joint_refusal_has_charged_one_limit() {
    let (a, b) = (bucket(1, s(60), 10), bucket(1, s(60), 5));
    everywhere((a, b), |limiter| joint(limiter, 1));
    everywhere((b, a), |limiter| joint(limiter, 0));

    // The same where the tighter one refills at once, so that the other shows.
    let quick = bucket(5, s(1), 5);
    everywhere((a, quick), |limiter| first_shows(limiter, 0));
    everywhere((quick, a), |limiter| first_shows(limiter, 1));

    // The wait is the longest.
    everywhere((bucket(1, s(10), 1), bucket(1, s(60), 1)), |limiter| {
        assert_eq!(limiter.ask(s(0), 1), ok(0));
        assert_eq!(limiter.ask(s(0), 1), no(s(60)));
        assert_eq!(limiter.ask(s(10), 1), no(s(50)));
    });
}

fn joint(limiter: &Subject, tighter: usize) {
    assert_eq!(limiter.granted(s(0), 20), 5);
    let refusal = limiter.call(1);
    // Had the other been drained, it would ask for the same wait.
    assert_eq!((refusal.index(), refusal.remaining()), (tighter, 0));
    assert_eq!(Answer::from(refusal), no(s(60)));
    assert_eq!(limiter.ask(s(300), 5), ok(0));
}

fn first_shows(limiter: &Subject, slower: usize) {
    assert_eq!(limiter.granted(s(0), 20), 5);
    assert_eq!(limiter.granted(s(1), 20), 5);
    let refusal = limiter.call(1);
    assert_eq!((refusal.index(), refusal.remaining()), (slower, 0));
    assert_eq!(Answer::from(refusal), no(s(59)));
}

/// The same of limits that are not kept together: a user's and everybody's.
#[test]
fn a_refused_user_eats_the_budget_of_all() {
    fn run<A: Algorithm>(user: A, all: A, user_first: bool) {
        let clock = ManualClock::starting_at(Instant::from_nanos(1 << 63));
        let limiter = |of: &A| RateLimiter::with_clock(*of, clock.clone());
        let (alice, bob, all) = (limiter(&user), limiter(&user), limiter(&all));
        let call = |user: &RateLimiter<A, ManualClock>| {
            let (first, second) = if user_first { (user, &all) } else { (&all, user) };
            let receipt = first.try_acquire();
            let granted = receipt.is_granted() && second.try_acquire().is_granted();
            if !granted {
                first.refund(receipt);
            }
            granted
        };
        assert_eq!((0..20).filter(|_| call(&alice)).count(), 1);
        assert_eq!(all.peek().remaining(), 9);
        assert!(call(&bob));
        assert_eq!(all.peek().remaining(), 8);
    }
    for user_first in [true, false] {
        let (user, all): (FixedWindow, _) = (window(1, s(60)), window(10, s(60)));
        run(Locked(user), Locked(all), user_first);
        run(user, all, user_first);
    }
}

/// A zero meant unlimited here, and nothing at all there.
#[test]
fn a_zero_means_something() {
    assert_eq!(Rate::new(0, s(1)), Err(ConfigError::Zero("count")));
    assert_eq!(Rate::new(1, s(0)), Err(ConfigError::Zero("period")));
    assert_eq!("0/s".parse::<Limit>(), Err(ConfigError::Zero("count")));
    assert_eq!("1/0s".parse::<Limit>(), Err(ConfigError::Zero("period")));
    assert_eq!("1/s burst 0".parse::<Limit>(), Err(ConfigError::Zero("burst")));
    // In code, a burst is a type that cannot be zero.

    everywhere(DenyAll, |limiter| {
        assert_eq!(limiter.ask(s(0), 1), Answer::Never);
        assert_eq!(limiter.granted(s(0), 1_000), 0);
        assert_eq!(limiter.granted(s(1_000_000), 1_000), 0);
    });
    everywhere(Unlimited, |limiter| {
        assert_eq!(limiter.granted(s(0), 1_000), 1_000);
        assert_eq!(limiter.ask(s(0), u32::MAX), ok(u32::MAX));
    });
}

/// What is left was read before it was taken, or fell below nothing.
#[test]
fn what_is_left_is_one_too_high() {
    let test = |limiter: &Subject| {
        let five = [0; 5].map(|at| {
            limiter.set(s(at));
            let decision = limiter.call(1);
            (decision.is_granted(), decision.remaining(), decision.limit())
        });
        let expected = [(true, 2, 3), (true, 1, 3), (true, 0, 3), (false, 0, 3), (false, 0, 3)];
        assert_eq!(five, expected);
    };
    everywhere(window(3, s(60)), test);
    everywhere(log(3, s(60)), test);
    everywhere(bucket(1, s(60), 3), test);
    everywhere(queue(s(60), 2), test);
}

/// The configured window was given for a wait, and not what remained of it.
#[test]
fn the_wait_is_always_the_whole_window() {
    everywhere(window(2, s(20)), |limiter| {
        assert_eq!(limiter.ask(s(0), 2), ok(0));
        assert_eq!(limiter.ask(s(19), 1), no(s(1)));
        assert_eq!(limiter.ask(s(19) + ms(500), 1), no(ms(500)));
    });
    everywhere(log(10, s(60)), |limiter| {
        assert_eq!((0..10).map(|k| limiter.granted(s(2 * k), 1)).sum::<u32>(), 10);
        assert_eq!(limiter.ask(s(20), 1), no(s(40)));
    });
}

/// What a limiter is told in words, by the `?` operator or in a log.
#[test]
fn a_denial_says_why() {
    let limiter = RateLimiter::with_clock(limit!("1/s burst 2"), ManualClock::new());
    let say = |n| limiter.try_acquire_n(n).granted().unwrap_err().to_string();
    assert_eq!(say(3), "more permits than the limit of 2 per call");
    assert!(limiter.try_acquire_n(2).granted().is_ok());
    assert_eq!(say(1), "rate limit exceeded, retry in 1s");
    limiter.clock().set(Instant::MAX);
    assert_eq!(say(1), "rate limit exceeded for good");
}

/// Starting with some permits is starting anew.
#[test]
fn an_initial_level_replaces_what_was_there() {
    let limiter = RateLimiter::with_clock(limit!("1/s burst 10"), ManualClock::new());
    assert!(limiter.try_acquire_n(8).is_granted());
    let limiter = limiter.with_initial(9).unwrap();
    assert_eq!(limiter.peek().remaining(), 9);
    let longest = LeakyBucket::new(rate!("1/s"), u32::MAX);
    let limiter = RateLimiter::with_clock(longest, ManualClock::new()).with_initial(0).unwrap();
    assert!(limiter.try_acquire().is_denied());
}

/// A grant of everything gives everything back.
#[test]
fn no_limit_takes_its_permits_back() {
    let limiter = RateLimiter::with_clock(Unlimited, ManualClock::new());
    let grant = limiter.try_acquire_n(5);
    assert_eq!(limiter.refund(grant), 5);
    assert_eq!(limiter.charge(7), 7);
}
