//! The queue of items. Its ring is one with a lock in a model.
//!
//! Tried by hand, each caught:
//!
//! * `src/leaky_queue/lock_free.rs`: a claim by a plain store, or its failure
//!   ignored; a claim not put back, or put back by a plain store; the gate read
//!   after the ring; pushes inside not counted; leaving before the push, or
//!   without release;
//! * `src/leaky_queue/bell.rs`: no fence before the count of sleepers is read;
//!   ringing without the lock;
//! * `src/leaky_queue.rs`: sleeping without another look; not ringing after a
//!   push, a refused one, a close, a drain, the last item, a claim put back.

use super::{exhaust, preempt_three_times};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;
use tollgate::{
    Clock, Closed, Instant, LeakyQueue, ManualClock, NotReleased, RealTime, Refused, rate,
};

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
