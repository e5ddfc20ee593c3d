//! Several limiters with different keys, all or none.

mod common;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::thread;
use std::time::Duration;
use tollgate::{
    Algorithm, FixedWindow, Instant, KeyedRateLimiter, LeakyBucket, Locked, ManualClock,
    RateLimiter, SlidingWindowLog, TokenBucket, join, limit, rate,
};

type Users = KeyedRateLimiter<Box<str>, TokenBucket, ManualClock>;

#[test]
fn all_are_taken_or_none() {
    let clock = ManualClock::new();
    let users: Users = KeyedRateLimiter::with_clock(limit!("1/min burst 3"), clock.clone());
    let everybody = RateLimiter::with_clock(limit!("1/s burst 4"), clock.clone());
    let ask = |user| join([&users.request(user, 1), &everybody.request(1)]);

    for left in [2, 1, 0] {
        let [user, all] = ask("alice").unwrap();
        assert_eq!((user.remaining(), all.remaining()), (left, left + 1));
    }
    let denied = ask("alice").unwrap_err();
    assert_eq!(denied.index(), 0);
    assert_eq!(denied.decision().retry_after(), Some(Duration::from_secs(60)));
    assert_eq!(everybody.peek().remaining(), 1, "a refused caller has paid elsewhere");

    assert!(ask("bob").is_ok());
    let denied = ask("bob").unwrap_err();
    assert_eq!((denied.index(), users.peek("bob").remaining()), (1, 2));
    assert_eq!(denied.to_string(), "limit 1: rate limit exceeded, retry in 1s");
    // Both refuse: the longer wait is told, wherever it is.
    assert_eq!(ask("alice").unwrap_err().index(), 0);
    let swapped = join([&everybody.request(1), &users.request("alice", 1)]).unwrap_err();
    assert_eq!(swapped.index(), 1);
    // Never is longer than any wait.
    let never = join([&users.request("alice", 1), &everybody.request(9)]).unwrap_err();
    assert_eq!((never.index(), never.decision().retry_after()), (1, None));

    clock.advance(Duration::from_secs(60));
    assert!(ask("alice").is_ok());
}

/// Threads race for a shared limit that is nearly spent. Who loses gives back
/// what it had of its own, although others of the same user have taken since.
fn no_permit_is_lost<A, B>(own: A, all: B, permits: (u32, u32))
where
    A: Algorithm + 'static,
    B: Algorithm + 'static,
{
    for _ in 0..200 {
        let clock = ManualClock::new();
        let users: KeyedRateLimiter<&str, A, _> = KeyedRateLimiter::with_clock(own, clock.clone());
        let everybody = RateLimiter::with_clock(all, clock);
        let granted: u32 = thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let tries = (0..4).map(|_| {
                            join([&users.request(&"alice", 1), &everybody.request(1)]).is_ok()
                        });
                        tries.map(u32::from).sum::<u32>()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let (own, all) = permits;
        assert!(granted > 0 && granted <= all);
        assert_eq!(users.peek(&"alice").remaining(), own - granted);
        assert_eq!(everybody.peek().remaining(), all - granted);
    }
}

#[test]
fn no_permit_of_a_token_bucket_is_lost() {
    let all = TokenBucket::new(limit!("1/d burst 5"));
    no_permit_is_lost(TokenBucket::new(limit!("1/d burst 100")), all, (100, 5));
    no_permit_is_lost(Locked(TokenBucket::new(limit!("1/d burst 100"))), all, (100, 5));
}

#[test]
fn no_permit_of_a_window_is_lost() {
    let all = FixedWindow::new(rate!("5/d"));
    no_permit_is_lost(FixedWindow::new(rate!("100/d")), all, (100, 5));
}

#[test]
fn no_permit_of_a_log_is_lost() {
    let [own, all] = [rate!("100/d"), rate!("5/d")].map(SlidingWindowLog::new);
    no_permit_is_lost(Locked(own), Locked(all), (100, 5));
    // Taken last, without being asked to.
    no_permit_is_lost(own, TokenBucket::new(limit!("5/d")), (100, 5));
    no_permit_is_lost(TokenBucket::new(limit!("100/d")), all, (100, 5));
}

#[test]
fn no_permit_beside_a_queue_is_lost() {
    let all = LeakyBucket::new(rate!("1/d"), 4);
    no_permit_is_lost(TokenBucket::new(limit!("1/d burst 100")), all, (100, 5));
    let all = TokenBucket::new(limit!("1/d burst 5"));
    no_permit_is_lost(LeakyBucket::new(rate!("1/d"), 99), all, (100, 5));
}

/// What a cancelled grant leaves behind never allows more than if it had not
/// been made, whoever has taken since and whatever else is cancelled.
fn what_is_given_back_was_taken<A: Algorithm>(mut algorithm: A) {
    algorithm.start(Instant::ZERO);
    let acts = prop_oneof![
        (0..400_u64).prop_map(Act::Wait),
        (1..4_u32).prop_map(Act::Take),
        any::<Index>().prop_map(Act::Cancel),
    ];
    proptest!(common::cases(512), |(acts in vec(acts, 1..40))| {
        let (mut state, mut now) = (algorithm.unseen(), Instant::ZERO);
        let mut grants = Vec::new();
        for act in acts {
            match act {
                Act::Wait(millis) => now = now + Duration::from_millis(millis),
                Act::Take(n) if algorithm.is_possible(&state, now, n) => {
                    algorithm.take(&mut state, now, n);
                    grants.push((now, n));
                }
                Act::Cancel(which) if !grants.is_empty() => {
                    let (taken, n) = grants.remove(which.index(grants.len()));
                    prop_assert!(algorithm.cancel(&mut state, now, taken, n) <= n);
                }
                _ => {}
            }
            let mut without = algorithm.unseen();
            for (at, n) in &grants {
                algorithm.take(&mut without, *at, *n);
            }
            let left = algorithm.remaining(&without, now);
            prop_assert!(algorithm.remaining(&state, now) <= left);
            for n in 1..=algorithm.capacity() {
                let (is, ought) =
                    (algorithm.earliest(&state, now, n), algorithm.earliest(&without, now, n));
                prop_assert!(is >= ought, "{n} at {is:?}, not before {ought:?}");
            }
        }
    });
}

#[derive(Clone, Debug)]
enum Act {
    Wait(u64),
    Take(u32),
    Cancel(Index),
}

#[test]
fn what_is_given_back_to_a_token_bucket_was_taken() {
    what_is_given_back_was_taken(TokenBucket::new(limit!("5/s burst 4")));
    what_is_given_back_was_taken(TokenBucket::new(limit!("61/10s burst 3")));
}

#[test]
fn what_is_given_back_to_a_window_was_taken() {
    what_is_given_back_was_taken(FixedWindow::new(rate!("4/s")));
}

#[test]
fn what_is_given_back_to_a_log_was_taken() {
    what_is_given_back_was_taken(SlidingWindowLog::new(rate!("4/s")));
}

#[test]
fn what_is_given_back_to_a_counter_was_taken() {
    what_is_given_back_was_taken(common::counter(rate!("4/s"), None));
}
