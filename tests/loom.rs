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
//! And on queues, whose ring is one with a lock in a model:
//!
//! * `src/leaky_queue/lock_free.rs`: a claim by a plain store, or its failure
//!   ignored; a claim not put back, or put back by a plain store; the gate read
//!   after the ring; pushes inside not counted; leaving before the push, or
//!   without release;
//! * `src/leaky_queue/bell.rs`: no fence before the count of sleepers is read;
//!   ringing without the lock;
//! * `src/leaky_queue.rs`: sleeping without another look; not ringing after a
//!   push, a refused one, a close, a drain, the last item, a claim put back.
//!
//! Not caught, since the model holds parameters in a mutex: a relaxed end of a
//! read, a relaxed making current. They order the copies of the parameters.
#![cfg(tollgate_loom)]

#[path = "loom/log.rs"]
mod log;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::time::Duration;
use tollgate::{
    Algorithm, Clamped, Clock, Closed, FixedWindow, Instant, LeakyBucket, LeakyQueue, Locked,
    ManualClock, NotReleased, RateLimiter, RealTime, Refused, SlidingWindowLog, TokenBucket, limit,
    rate,
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

/// A queue of three places, one item a second, that holds so many.
fn queue_of(items: u32) -> (Arc<LeakyQueue<u32, ManualClock>>, ManualClock) {
    let clock = ManualClock::new();
    let queue = LeakyQueue::with_clock(rate!("1/s"), 3, clock.clone()).unwrap();
    (0..items).for_each(|item| queue.push(item).unwrap());
    (Arc::new(queue), clock)
}

fn try_pops<C: Clock + 'static>(
    queue: &Arc<LeakyQueue<u32, C>>,
) -> thread::JoinHandle<Result<u32, NotReleased>> {
    let queue = queue.clone();
    thread::spawn(move || queue.try_pop())
}

#[test]
fn a_release_hands_out_one_item() {
    exhaust(|| {
        let (queue, _) = queue_of(2);
        let other = try_pops(&queue);
        let (own, other) = (queue.try_pop(), other.join().unwrap());
        let wait = Err(NotReleased::NotYet(Duration::from_secs(1)));
        assert!((own, other) == (Ok(0), wait) || (own, other) == (wait, Ok(0)));
        assert_eq!(queue.len(), 1);
    });
}

#[test]
fn a_locked_release_hands_out_one_item() {
    exhaust(|| {
        let clock = ManualClock::new();
        let queue = Arc::new(LeakyQueue::locked_with_clock(rate!("1/s"), 3, clock).unwrap());
        (0..2).for_each(|item| queue.push(item).unwrap());
        let other = {
            let queue = queue.clone();
            thread::spawn(move || queue.try_pop().is_ok())
        };
        assert_ne!(queue.try_pop().is_ok(), other.join().unwrap());
        assert_eq!(queue.drain(), [1]);
    });
}

#[test]
fn a_release_hands_out_one_item_to_three() {
    preempt_three_times(|| {
        let (queue, _) = queue_of(3);
        let others = [try_pops(&queue), try_pops(&queue)];
        let mut popped = u32::from(queue.try_pop().is_ok());
        for other in others {
            popped += u32::from(other.join().unwrap().is_ok());
        }
        assert_eq!((popped, queue.len()), (1, 2));
    });
}

/// The second comes between any two steps of the other thread: two releases at
/// most, and what is left is released an interval after the last.
#[test]
fn releases_are_spaced_while_the_clock_moves() {
    exhaust(|| {
        let (queue, clock) = queue_of(3);
        let other = try_pops(&queue);
        clock.advance(Duration::from_secs(1));
        let popped = u32::from(queue.try_pop().is_ok()) + u32::from(other.join().unwrap().is_ok());
        assert!(popped == 1 || popped == 2, "{popped} in a second");
        assert_eq!(queue.len(), 3 - popped as usize);
        assert_eq!(queue.next_release(), Some(Duration::from_secs(1)));
    });
}

/// A claim that found its item drained is as though it had not been.
#[test]
fn a_claim_that_found_nothing_is_put_back() {
    exhaust(|| {
        let (queue, _) = queue_of(1);
        let other = try_pops(&queue);
        let drained = queue.drain().len();
        let popped = other.join().unwrap().is_ok();
        assert_eq!(drained + usize::from(popped), 1);
        queue.push(7).unwrap();
        let wait = if popped { Duration::from_secs(1) } else { Duration::ZERO };
        assert_eq!(queue.next_release(), Some(wait));
    });
}

/// Two claims for one item, the second an interval later: whoever is left with
/// none puts its claim back or lets it be, and never takes back the other's.
#[test]
fn a_claim_is_not_put_back_under_a_later_one() {
    exhaust(|| {
        let (queue, clock) = queue_of(1);
        let other = try_pops(&queue);
        clock.advance(Duration::from_secs(1));
        let (own, other) = (queue.try_pop().is_ok(), other.join().unwrap().is_ok());
        assert!(own != other, "lost or doubled");
        queue.push(7).unwrap();
        let wait = queue.next_release().unwrap();
        // Who claimed at the start may have taken, when nobody did later.
        let least = if own { 1 } else { 0 };
        assert!(wait >= Duration::from_secs(least), "the release was given twice");
        assert!(wait <= Duration::from_secs(1));
    });
}

/// After closed has been told nothing comes, and a push that was let in is there
/// to be taken.
#[test]
fn closed_is_the_last_word() {
    exhaust(|| {
        let (queue, _) = queue_of(0);
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || queue.push(5))
        };
        queue.close();
        let told = queue.try_pop();
        let pushed = producer.join().unwrap();
        match (told, pushed) {
            (Ok(5), Ok(())) => assert_eq!(queue.len(), 0),
            (Err(NotReleased::Closed), Err(Refused::Closed(5))) => assert_eq!(queue.len(), 0),
            // The push was under way.
            (Err(NotReleased::Empty), Ok(())) => assert_eq!(queue.try_pop(), Ok(5)),
            other => panic!("{other:?}"),
        }
        assert_eq!(queue.try_pop(), Err(NotReleased::Closed));
    });
}

/// A clock on which it is always time.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Instant {
        Instant::from_nanos(5)
    }
}

impl RealTime for Still {}

/// No wake-up is missed: a model ends only if nobody sleeps for good.
#[test]
fn who_waits_for_an_item_is_woken() {
    exhaust(|| {
        let queue = Arc::new(LeakyQueue::with_clock(rate!("1/s"), 3, Still).unwrap());
        let consumer = {
            let queue = queue.clone();
            thread::spawn(move || queue.pop())
        };
        queue.push(5).unwrap();
        assert_eq!(consumer.join().unwrap(), Ok(5));
    });
}

#[test]
fn who_waits_hears_of_the_close() {
    exhaust(|| {
        let queue = Arc::new(LeakyQueue::<u32, _>::with_clock(rate!("1/s"), 3, Still).unwrap());
        let consumer = {
            let queue = queue.clone();
            thread::spawn(move || queue.pop())
        };
        queue.close();
        assert_eq!(consumer.join().unwrap(), Err(Closed));
    });
}

#[test]
fn who_waits_is_told_of_the_end() {
    preempt_three_times(|| {
        let queue = Arc::new(LeakyQueue::with_clock(rate!("1/s"), 3, Still).unwrap());
        let consumer = {
            let queue = queue.clone();
            thread::spawn(move || queue.pop())
        };
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || queue.push(5))
        };
        queue.close();
        match producer.join().unwrap() {
            Ok(()) => assert_eq!(consumer.join().unwrap(), Ok(5)),
            Err(_) => assert_eq!(consumer.join().unwrap(), Err(Closed)),
        }
    });
}

/// Who sleeps until a release hears that the item is gone.
#[test]
fn who_waits_for_a_release_is_told_of_the_end() {
    exhaust(|| {
        let queue = Arc::new(LeakyQueue::with_clock(rate!("1/s"), 3, Still).unwrap());
        (0..2).for_each(|item| queue.push(item).unwrap());
        assert_eq!(queue.try_pop(), Ok(0));
        queue.close();
        let consumer = {
            let queue = queue.clone();
            thread::spawn(move || queue.pop())
        };
        assert_eq!(queue.drain(), [1]);
        assert_eq!(consumer.join().unwrap(), Err(Closed));
    });
}

/// One takes the last item while the other may have gone to sleep over the
/// release after it.
#[test]
fn who_waits_for_the_last_item_is_told_that_it_is_gone() {
    exhaust(|| {
        let queue = Arc::new(LeakyQueue::with_clock(rate!("1/s"), 3, Still).unwrap());
        queue.push(5).unwrap();
        queue.close();
        let other = {
            let queue = queue.clone();
            thread::spawn(move || queue.pop())
        };
        let (own, other) = (queue.pop(), other.join().unwrap());
        assert!((own, other) == (Ok(5), Err(Closed)) || (own, other) == (Err(Closed), Ok(5)));
    });
}

/// A push that is refused keeps the end from being told while it is under way.
#[test]
fn the_end_of_a_refused_push_is_heard() {
    exhaust(|| {
        let queue = Arc::new(LeakyQueue::with_clock(rate!("1/s"), 1, Still).unwrap());
        queue.push(5).unwrap();
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || queue.push(6).is_ok())
        };
        queue.close();
        let drained = queue.drain().len();
        let popped = queue.pop().is_ok();
        let pushed = producer.join().unwrap();
        assert_eq!(drained + usize::from(popped), 1 + usize::from(pushed));
    });
}

/// Who sleeps over a release that has been claimed hears when it is put back.
#[test]
fn a_release_put_back_is_heard_of() {
    preempt_three_times(|| {
        let queue = Arc::new(LeakyQueue::with_clock(rate!("1/s"), 3, Still).unwrap());
        queue.push(5).unwrap();
        let claims = try_pops(&queue);
        let waits = {
            let queue = queue.clone();
            thread::spawn(move || queue.pop())
        };
        queue.drain();
        queue.push(6).unwrap();
        if claims.join().unwrap().is_ok() {
            queue.close();
            queue.drain();
            waits.join().unwrap().ok();
        } else {
            assert!(waits.join().unwrap().is_ok());
        }
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
