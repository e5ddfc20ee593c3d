//! Models of the shared state, run over every interleaving by loom:
//!
//! ```text
//! RUSTFLAGS="--cfg tollgate_loom" cargo test --release --test loom
//! ```
//!
//! Each model asserts that no more is granted than the bound, and that nothing
//! that could be granted is refused. Models of two threads are exhausted, or
//! bounded to three preemptions as those of three are, unless they say else.
//!
//! That the models can fail: the last one runs a rule over a word that is
//! written back with a plain store, and must panic. Tried by hand on
//! `src/shared/atomic.rs`, each caught by all seven models of an unlocked word
//! with more than one thread:
//!
//! * the compare-exchange replaced by a store;
//! * the result of a failed exchange ignored;
//! * a retry that decides on the word seen first.
//!
//! And on replacing parameters, each caught by the model named after slots:
//!
//! * `src/generations.rs`: readers not waited for; not counted by an exchange
//!   that acquires and releases; not looking again whether their generation is
//!   current;
//! * `src/shared/atomic.rs`: setting aside without release, or finding a state
//!   aside without acquire.
//!
//! And on `src/clock/clamped.rs`, the maximum by load and store.
//!
//! Not caught, since the model holds parameters in a mutex: a relaxed end of a
//! read, a relaxed making current. They order the copies of the parameters.
#![cfg(tollgate_loom)]

#[path = "loom/log.rs"]
mod log;
#[path = "loom/queue.rs"]
mod queue;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::time::Duration;
use tollgate::{
    Algorithm, Clamped, Clock, FixedWindow, Instant, LeakyBucket, Locked, ManualClock, RateLimiter,
    SlidingWindowLog, TokenBucket, limit, rate,
};

fn exhaust(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = None;
    builder.check(model);
}

fn preempt(times: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(times);
    builder.check(model);
}

fn preempt_three_times(model: impl Fn() + Send + Sync + 'static) {
    preempt(3, model);
}

/// Threads of so many calls each take from one limiter, the clock standing
/// still; how many are granted in all.
fn grants<A: Algorithm + 'static>(
    limiter: RateLimiter<A, ManualClock>,
    calls: &'static [u32],
) -> u32 {
    let limiter = Arc::new(limiter);
    let threads: Vec<_> = calls
        .iter()
        .map(|&calls| {
            let limiter = limiter.clone();
            thread::spawn(move || {
                (0..calls).map(|_| u32::from(limiter.try_acquire().is_granted())).sum::<u32>()
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}

fn on_a_still_clock<A: Algorithm>(algorithm: A) -> RateLimiter<A, ManualClock> {
    RateLimiter::with_clock(algorithm, ManualClock::new())
}

#[test]
fn one_thread_alone() {
    exhaust(|| {
        let limiter = on_a_still_clock(TokenBucket::new(limit!("1/s burst 2")));
        assert_eq!(grants(limiter, &[3]), 2);
    });
}

#[test]
fn a_bucket_grants_what_it_holds() {
    exhaust(|| {
        let limiter = on_a_still_clock(TokenBucket::new(limit!("1/s burst 3")));
        assert_eq!(grants(limiter, &[2, 2]), 3);
    });
}

#[test]
fn a_bucket_grants_what_it_holds_to_three() {
    preempt_three_times(|| {
        let limiter = on_a_still_clock(TokenBucket::new(limit!("1/s burst 2")));
        assert_eq!(grants(limiter, &[1, 1, 1]), 2);
    });
}

#[test]
fn a_locked_bucket_grants_what_it_holds() {
    exhaust(|| {
        let limiter = on_a_still_clock(Locked(TokenBucket::new(limit!("1/s burst 3"))));
        assert_eq!(grants(limiter, &[2, 2]), 3);
    });
}

#[test]
fn a_locked_log_grants_its_count() {
    exhaust(|| {
        let limiter = on_a_still_clock(Locked(SlidingWindowLog::new(rate!("3/s"))));
        assert_eq!(grants(limiter, &[2, 2]), 3);
    });
}

#[test]
fn a_window_that_has_just_turned_grants_its_count() {
    exhaust(|| {
        let clock = ManualClock::new();
        let limiter = RateLimiter::with_clock(FixedWindow::new(rate!("1/s")), clock.clone());
        assert!(limiter.try_acquire().is_granted());
        clock.advance(Duration::from_secs(1));
        assert_eq!(grants(limiter, &[1, 1]), 1);
    });
}

#[test]
fn a_refill_is_neither_lost_nor_doubled() {
    exhaust(|| {
        let clock = ManualClock::new();
        let limiter = Arc::new(RateLimiter::with_clock(
            TokenBucket::new(limit!("1/s burst 1")),
            clock.clone(),
        ));
        assert!(limiter.try_acquire().is_granted());
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || u32::from(limiter.try_acquire().is_granted()))
        };
        // The second comes between any two steps of the other thread.
        clock.advance(Duration::from_secs(1));
        let own = u32::from(limiter.try_acquire().is_granted());
        assert_eq!(own + other.join().unwrap(), 1);
    });
}

#[test]
fn departures_are_spaced_and_none_is_given_twice() {
    exhaust(|| {
        let limiter = Arc::new(on_a_still_clock(LeakyBucket::new(rate!("1/s"), 2)));
        let departures = |limiter: &RateLimiter<_, _>| {
            let decision = limiter.try_acquire();
            assert!(decision.is_granted());
            decision.delay().as_secs()
        };
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || vec![departures(&limiter), departures(&limiter)])
        };
        let mut all = vec![departures(&limiter)];
        all.extend(other.join().unwrap());
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    });
}

/// Of a grant's permits, a refund gives back all or none, and what it gives
/// back can be had again.
#[test]
fn a_refund_beside_a_grant_keeps_the_count() {
    exhaust(|| {
        let limiter = Arc::new(on_a_still_clock(TokenBucket::new(limit!("1/s burst 2"))));
        let grant = limiter.try_acquire();
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || u32::from(limiter.try_acquire().is_granted()))
        };
        let back = limiter.refund(grant);
        let taken = 1 - back + other.join().unwrap();
        assert_eq!(limiter.peek().remaining(), 2 - taken);
    });
}

#[test]
fn charges_add_up() {
    exhaust(|| {
        let limiter = Arc::new(on_a_still_clock(TokenBucket::new(limit!("1/s burst 2"))));
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.charge(3))
        };
        let booked = limiter.charge(2) + other.join().unwrap();
        assert_eq!(booked, 4, "the capacity and as much debt");
        assert_eq!(limiter.peek().retry_after(), Some(Duration::from_secs(3)));
    });
}

/// Grants beside changes that keep the level: the two permits there are, none
/// twice and none lost, by the old parameters or by the new.
fn grants_beside_changes<A: Algorithm + 'static>(algorithm: A, changes: &'static [A]) {
    preempt_three_times(move || {
        let limiter = Arc::new(on_a_still_clock(algorithm));
        let changer = {
            let limiter = limiter.clone();
            thread::spawn(move || changes.iter().for_each(|change| limiter.reconfigure(*change)))
        };
        let granted = (0..2).map(|_| u32::from(limiter.try_acquire().is_granted())).sum::<u32>();
        changer.join().unwrap();
        assert_eq!(granted, 2, "a permit was lost");
        assert!(limiter.try_acquire().is_denied(), "more than it holds");
        assert_eq!(limiter.algorithm().capacity(), changes.last().unwrap().capacity());
    });
}

#[test]
fn a_change_keeps_the_level_of_a_bucket() {
    const CHANGES: &[TokenBucket] = &[TokenBucket::new(limit!("1/d burst 5"))];
    grants_beside_changes(TokenBucket::new(limit!("1/s burst 2")), CHANGES);
}

#[test]
fn a_change_keeps_the_level_of_a_log() {
    const CHANGES: &[SlidingWindowLog] = &[SlidingWindowLog::new(rate!("3/d"))];
    grants_beside_changes(SlidingWindowLog::new(rate!("2/s")), CHANGES);
}

#[test]
fn a_change_keeps_the_level_of_a_locked_bucket() {
    const CHANGES: &[Locked<TokenBucket>] = &[Locked(TokenBucket::new(limit!("1/d burst 5")))];
    grants_beside_changes(Locked(TokenBucket::new(limit!("1/s burst 2"))), CHANGES);
}

/// The third change writes the slot that a slow reader of the first may be in.
#[test]
fn a_slot_is_not_written_while_it_is_read() {
    const CHANGES: &[TokenBucket] = &[
        TokenBucket::new(limit!("1/s burst 3")),
        TokenBucket::new(limit!("1/d burst 4")),
        TokenBucket::new(limit!("5/h burst 5")),
    ];
    grants_beside_changes(TokenBucket::new(limit!("1/s burst 2")), CHANGES);
}

#[test]
fn two_changes_at_once_keep_the_level() {
    preempt_three_times(|| {
        let limiter = Arc::new(on_a_still_clock(TokenBucket::new(limit!("1/s burst 2"))));
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || {
                limiter.reconfigure(limit!("1/d burst 3"));
                u32::from(limiter.try_acquire().is_granted())
            })
        };
        limiter.reconfigure(limit!("1/h burst 4"));
        let granted = u32::from(limiter.try_acquire().is_granted()) + other.join().unwrap();
        assert_eq!(granted, 2);
        assert!(limiter.try_acquire().is_denied());
    });
}

/// A receipt of before a change gives nothing back after it.
#[test]
fn a_refund_beside_a_change_gives_no_more_than_was_taken() {
    preempt_three_times(|| {
        let limiter = Arc::new(on_a_still_clock(TokenBucket::new(limit!("1/s burst 2"))));
        let grant = limiter.try_acquire();
        let changer = {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.reconfigure(limit!("1/d burst 2")))
        };
        let given = limiter.refund(grant);
        changer.join().unwrap();
        assert_eq!(limiter.peek().remaining(), 1 + given);
    });
}

/// Who has learnt of a reading never reads an earlier one.
#[test]
fn clamped_readings_are_one_rising_sequence() {
    exhaust(|| {
        let source = ManualClock::starting_at(Instant::from_nanos(10));
        let clock = Arc::new(Clamped::new(source.clone()));
        let told = Arc::new(AtomicU64::new(0));
        let other = {
            let (clock, told) = (clock.clone(), told.clone());
            thread::spawn(move || {
                source.set(Instant::from_nanos(20));
                let reading = clock.now();
                source.set(Instant::from_nanos(5));
                told.store(reading.as_nanos(), Ordering::Release);
            })
        };
        let first = clock.now().as_nanos();
        let told = told.load(Ordering::Acquire);
        assert!(clock.now().as_nanos() >= told.max(first), "a reading has fallen");
        other.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "more than it holds")]
fn a_plain_store_is_caught() {
    exhaust(|| {
        let taken = Arc::new(AtomicU64::new(0));
        let take = |taken: &AtomicU64| {
            let seen = taken.load(Ordering::Relaxed);
            if seen == 1 {
                return 0;
            }
            taken.store(seen + 1, Ordering::Relaxed);
            1
        };
        let other = {
            let taken = taken.clone();
            thread::spawn(move || take(&taken))
        };
        assert_eq!(take(&taken) + other.join().unwrap(), 1, "more than it holds");
    });
}
