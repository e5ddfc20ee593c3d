//! Parameters replaced while a limiter runs: levels are kept, nothing is handed
//! out, and the new rate holds from then on.

mod common;

use common::{SECOND, cases, counter, rate};
use core::num::NonZeroU32;
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tollgate::{
    Algorithm, FixedWindow, Instant, KeyedRateLimiter, LeakyBucket, Limit, Locked, ManualClock,
    Rate, RateLimiter, SlidingWindowCounter, SlidingWindowLog, TokenBucket, limit, rate,
};

const MILLI: Duration = Duration::from_millis(1);

/// One limiter and a keyed one, side by side.
struct Both<A: Algorithm> {
    clock: ManualClock,
    one: RateLimiter<A, ManualClock>,
    keyed: KeyedRateLimiter<u64, A, ManualClock>,
}

impl<A: Algorithm> Both<A> {
    fn new(algorithm: A) -> Self {
        let clock = ManualClock::new();
        let one = RateLimiter::with_clock(algorithm, clock.clone());
        let keyed = KeyedRateLimiter::with_clock(algorithm, clock.clone());
        Self { clock, one, keyed }
    }

    fn set(&self, algorithm: A) {
        self.one.reconfigure(algorithm);
        self.keyed.reconfigure(algorithm);
    }

    fn at(&self, millis: u64) {
        self.clock.set(Instant::ZERO + MILLI * millis as u32);
    }

    /// The permits left if `n` were granted, or the wait.
    fn ask(&self, n: u32) -> Result<u32, Option<Duration>> {
        let both = [self.one.try_acquire_n(n), self.keyed.try_acquire_n(&7, n)];
        let [one, keyed] = both.map(|decision| match decision.is_granted() {
            true => Ok(decision.remaining()),
            false => Err(decision.retry_after()),
        });
        assert_eq!(one, keyed);
        one
    }

    /// Of the one, of a key, and of a key never seen.
    fn levels(&self) -> [u32; 3] {
        let of = |key| self.keyed.peek(&key).remaining();
        [self.one.peek().remaining(), of(7), of(99)]
    }

    fn level(&self) -> u32 {
        let (one, keyed) = (self.one.peek().remaining(), self.keyed.peek(&7).remaining());
        assert_eq!(one, keyed);
        one
    }
}

const fn bucket(limit: Limit) -> TokenBucket {
    TokenBucket::new(limit)
}

fn wait(millis: u64) -> Result<u32, Option<Duration>> {
    Err(Some(Duration::from_millis(millis)))
}

/// No burst for free, no debt of the old rate, no numbers of the old limit.
#[test]
fn a_bucket_keeps_its_permits() {
    let both = Both::new(bucket(limit!("1/min burst 10")));
    assert_eq!(both.ask(10), Ok(0));
    both.set(bucket(limit!("10/s")));
    assert_eq!(both.ask(1), wait(100));
    both.at(100);
    assert_eq!(both.ask(1), Ok(0));

    let both = Both::new(bucket(limit!("1/min burst 10")));
    assert_eq!(both.ask(10), Ok(0));
    both.at(30_000);
    both.set(bucket(limit!("10/s")));
    assert_eq!(both.ask(1), wait(50)); // half a permit was there
    both.at(30_050);
    assert_eq!(both.ask(1), Ok(0));

    let both = Both::new(bucket(limit!("10/s burst 100")));
    both.set(bucket(limit!("10/s burst 5")));
    for left in [4, 3, 2, 1, 0] {
        assert_eq!(both.ask(1), Ok(left));
    }
    assert_eq!(both.ask(1), wait(100));

    let both = Both::new(bucket(limit!("10/20s burst 16")));
    assert_eq!(both.ask(3), Ok(13));
    both.set(bucket(limit!("1000/20s")));
    assert_eq!(both.ask(1), Ok(12));
}

/// Callers never seen hold what callers seen and full held.
#[test]
fn a_higher_burst_is_not_there_at_once_for_anybody() {
    let both = Both::new(bucket(limit!("1/s burst 5")));
    both.set(bucket(limit!("10/s burst 100")));
    assert_eq!((both.level(), both.keyed.peek(&99).remaining()), (5, 5));
    both.at(1_000);
    assert_eq!((both.level(), both.keyed.peek(&99).remaining()), (15, 15));
    // Nor after the first has been forgotten, or asked to be.
    assert_eq!(both.ask(1), Ok(14));
    both.keyed.sweep();
    both.keyed.remove(&7);
    assert_eq!(both.keyed.peek(&7).remaining(), 15);
    both.set(bucket(limit!("10/s burst 20")));
    assert_eq!(both.keyed.peek(&99).remaining(), 15);
}

#[test]
fn debt_is_kept() {
    let both = Both::new(bucket(limit!("1/s burst 5")));
    assert_eq!((both.one.charge(8), both.keyed.charge(&7, 8)), (8, 8));
    both.set(bucket(limit!("10/s burst 5")));
    assert_eq!(both.ask(1), wait(400));
    both.set(bucket(limit!("10/s burst 50"))); // still three in debt
    assert_eq!(both.ask(1), wait(400));
}

#[test]
fn a_window_keeps_its_permits_to_its_end() {
    let both = Both::new(FixedWindow::new(rate!("10/s")));
    assert_eq!(both.ask(7), Ok(3));
    both.at(500);
    both.set(FixedWindow::new(rate!("100/s")));
    assert_eq!(both.level(), 3);
    assert_eq!(both.keyed.peek(&99).remaining(), 10);
    both.at(999);
    assert_eq!(both.level(), 3);
    both.at(1_000); // it ends when it would have
    assert_eq!(both.level(), 100);
    both.set(FixedWindow::new(rate!("2/s")));
    assert_eq!(both.level(), 2);
    // Shorter windows do not begin a new one at once.
    assert_eq!(both.ask(2), Ok(0));
    both.at(1_450);
    both.set(FixedWindow::new(rate!("5/100ms")));
    assert_eq!(both.ask(1), wait(100));
}

#[test]
fn a_log_keeps_its_permits_and_when_they_come_back() {
    let both = Both::new(SlidingWindowLog::new(rate!("10/s")));
    assert_eq!(both.ask(4), Ok(6));
    both.at(400);
    assert_eq!(both.ask(3), Ok(3));
    both.at(500);
    both.set(SlidingWindowLog::new(rate!("20/s")));
    assert_eq!((both.level(), both.keyed.peek(&99).remaining()), (3, 10));
    both.at(1_000);
    assert_eq!(both.level(), 7);
    both.at(1_400);
    assert_eq!(both.level(), 10);
    both.at(1_500); // what the higher limit adds counts from the change
    assert_eq!((both.level(), both.keyed.peek(&99).remaining()), (20, 20));

    assert_eq!(both.ask(20), Ok(0));
    both.at(2_000);
    // A shorter period brings nothing back at once that was gone.
    both.set(SlidingWindowLog::new(rate!("20/100ms")));
    assert_eq!(both.ask(1), wait(100));
    // Nor does a longer one keep away what is due, nor one after the other.
    both.at(2_050);
    both.set(SlidingWindowLog::new(rate!("20/min")));
    assert_eq!(both.ask(1), wait(50));
    both.set(SlidingWindowLog::new(rate!("20/100ms")));
    assert_eq!(both.ask(1), wait(50));
}

/// Changing back and forth faster than anything comes back does not put it off.
#[test]
fn changes_starve_nobody() {
    let buckets = [bucket(limit!("5/s")), bucket(limit!("50/min burst 10"))];
    starves_nobody(buckets);
    let windows = ["5/s", "10/s", "7/1500ms"].map(|rate| rate.parse::<Rate>().unwrap());
    starves_nobody(windows.map(FixedWindow::new));
    starves_nobody(windows.map(SlidingWindowLog::new));
    starves_nobody(windows.map(|rate| SlidingWindowCounter::new(rate).unwrap()));
    starves_nobody(windows.map(|rate| LeakyBucket::new(rate, 5)));
    let [fast, slow] = [rate!("5/s"), rate!("1/h")];
    starves_nobody([fast, slow, fast, fast, fast].map(|rate| LeakyBucket::new(rate, 5)));
}

/// All is spent at first, and later something is there, for those who were seen
/// and for those who were not.
fn starves_nobody<A: Algorithm, const N: usize>(algorithms: [A; N]) {
    let both = Both::new(algorithms[0]);
    assert!(both.ask(5).is_ok());
    for change in 1..100 {
        both.at(change * 70);
        both.set(algorithms[change as usize % N]);
    }
    both.set(algorithms[0]);
    assert!(both.levels().into_iter().all(|level| level > 0), "{:?}", both.levels());
}

#[test]
fn a_counter_keeps_its_permits_and_how_they_come_back() {
    let of = |rate| SlidingWindowCounter::new(rate).unwrap();
    let both = Both::new(of(rate!("10/s")));
    assert_eq!(both.ask(8), Ok(2));
    both.at(1_500);
    assert_eq!(both.ask(3), Ok(3)); // 8 weigh 4
    // A change that changes nothing.
    both.set(of(rate!("10/s")));
    assert_eq!(both.level(), 3);
    both.at(1_625);
    assert_eq!(both.level(), 4);
    // What a higher limit adds comes with the next window.
    both.set(of(rate!("20/s")));
    assert_eq!((both.level(), both.keyed.peek(&99).remaining()), (4, 10));
    both.at(1_750);
    assert_eq!((both.level(), both.keyed.peek(&99).remaining()), (5, 10));
    both.at(2_000); // 13 count now, and 10
    assert_eq!((both.level(), both.keyed.peek(&99).remaining()), (7, 10));
    both.at(3_000);
    assert_eq!((both.level(), both.keyed.peek(&99).remaining()), (20, 20));
    // A lower one leaves what there was, if it allows so many.
    assert_eq!(both.ask(13), Ok(7));
    both.set(of(rate!("5/s")));
    assert_eq!(both.level(), 5);
    both.set(of(rate!("4/100ms")));
    assert_eq!(both.ask(4), Ok(0));
    assert_eq!(both.ask(1), wait(125));
    // A longer one begins when the present one ends.
    both.set(of(rate!("4/min")));
    assert_eq!(both.ask(1), wait(15_100));

    // Of two windows the older one is kept, at its new weight.
    let both = Both::new(of(rate!("10/s")));
    assert_eq!(both.ask(4), Ok(6));
    both.at(1_500);
    assert_eq!(both.ask(5), Ok(3)); // 4 weigh 2
    both.set(of(rate!("10/min")));
    assert_eq!(both.level(), 3);
    both.at(61_000);
    assert_eq!(both.level(), 9); // 7 weigh a sixtieth
}

#[test]
fn a_queue_keeps_its_length() {
    let both = Both::new(LeakyBucket::new(rate!("1/s"), 4));
    for delay in [0, 1, 2] {
        assert_eq!(both.one.try_acquire().delay(), Duration::from_secs(delay));
        assert_eq!(both.keyed.try_acquire(&7).delay(), Duration::from_secs(delay));
    }
    // Three are in it, of which one has left; they leave at the new rate.
    both.set(LeakyBucket::new(rate!("10/s"), 100));
    assert_eq!(both.one.peek().delay(), Duration::from_millis(300));
    assert_eq!(both.keyed.peek(&7).delay(), Duration::from_millis(300));
    assert_eq!(both.levels(), [98, 98, 101]);
    both.set(LeakyBucket::new(rate!("1/s"), 1));
    assert_eq!(both.ask(1), wait(2_000));
    // What was slow for a moment is not slow afterwards.
    both.set(LeakyBucket::new(rate!("1/d"), 4));
    both.set(LeakyBucket::new(rate!("10/s"), 4));
    assert_eq!(both.one.peek().delay(), Duration::from_millis(300));
}

fn a_change_hands_out_nothing<A: Algorithm>(make: impl Fn(Rate, NonZeroU32) -> A) {
    let steps = vec((rates(), 1..50_u32, 0..3 * SECOND, 0..12_u32), 1..12);
    proptest!(cases(256), |(start in rates(), steps in steps)| {
        let both = Both::new(make(start, NonZeroU32::new(10).unwrap()));
        for (rate, burst, passes, n) in steps {
            let _ = (both.one.try_acquire_n(n), both.keyed.try_acquire_n(&7, n));
            both.clock.advance(Duration::from_nanos(passes));
            let before = both.levels();
            let new = make(rate, NonZeroU32::new(burst).unwrap());
            both.set(new);
            prop_assert_eq!(both.levels(), before.map(|level| level.min(new.capacity())));
        }
    });
}

/// Of all magnitudes, by factors of a thousand million.
fn rates() -> impl Strategy<Value = Rate> {
    let period = prop_oneof![Just(1), 1..1_000_000_u64, Just(SECOND), Just(86_400 * SECOND)];
    (1..50_u32, period).prop_map(|(count, period)| rate(count, period))
}

#[test]
fn a_change_hands_out_nothing_of_a_token_bucket() {
    let make = |rate, burst| bucket(Limit::new(rate).with_burst(burst));
    a_change_hands_out_nothing(make);
    a_change_hands_out_nothing(move |rate, burst| Locked(make(rate, burst)));
}

#[test]
fn a_change_hands_out_nothing_of_a_window() {
    a_change_hands_out_nothing(|rate, _| FixedWindow::new(rate));
    a_change_hands_out_nothing(|rate, _| FixedWindow::aligned(rate, MILLI));
}

#[test]
fn a_change_hands_out_nothing_of_a_log() {
    a_change_hands_out_nothing(|rate, _| SlidingWindowLog::new(rate));
}

#[test]
fn a_change_hands_out_nothing_of_a_counter() {
    a_change_hands_out_nothing(|rate, _| counter(rate, None));
    a_change_hands_out_nothing(|rate, _| counter(rate, Some(MILLI)));
}

#[test]
fn a_change_leaves_a_queue_as_full() {
    let steps = vec((rates(), 0..50_u32, 0..3 * SECOND, 0..12_u32), 1..12);
    proptest!(cases(256), |(start in rates(), steps in steps)| {
        let both = Both::new(LeakyBucket::new(start, 10));
        for (rate, queue, passes, n) in steps {
            let _ = both.ask(n);
            both.clock.advance(Duration::from_nanos(passes));
            let before = both.one.algorithm();
            let full = before.capacity() - both.level();
            let new = LeakyBucket::new(rate, queue);
            both.set(new);
            let level = new.capacity().saturating_sub(full);
            // One that is full may be longer than it should: a change did that.
            let is_sure = full < before.capacity();
            prop_assert!(both.level() == level || !is_sure && both.level() <= level);
            prop_assert_eq!(both.keyed.peek(&99).remaining(), new.capacity());
        }
    });
}

/// Many changes in a row, and no time between: a level is worth the same
/// permits after them, whole and broken ones, at the finest unit of the rates.
#[test]
fn changes_do_not_add_up() {
    let both = Both::new(bucket(limit!("1/s burst 10")));
    assert_eq!(both.ask(9), Ok(1));
    both.at(500); // and a half
    for _ in 0..1_000 {
        both.set(bucket(limit!("1000000/s burst 10")));
        both.set(bucket(limit!("1/s burst 10")));
    }
    assert_eq!(both.ask(1), Ok(0));
    let Err(Some(wait)) = both.ask(1) else { panic!() };
    // Each pair rounds half a permit up to less than 1,024 parts of one.
    assert!(wait >= Duration::from_millis(500) && wait < Duration::from_millis(503), "{wait:?}");
}

/// Once without a pause, threads take all there is while the parameters change
/// under them: the permits there are, none twice and none lost.
#[test]
fn grants_beside_changes_are_exact() {
    let clock = ManualClock::new();
    let one = RateLimiter::with_clock(limit!("1/d burst 30000"), clock.clone());
    let keyed: KeyedRateLimiter<u64, _, _> =
        KeyedRateLimiter::with_clock(limit!("1/d burst 3000"), clock);
    let done = AtomicBool::new(false);
    let granted: (u32, u32) = thread::scope(|scope| {
        let takers: Vec<_> = (0..3_u64)
            .map(|taker| {
                let (one, keyed) = (&one, &keyed);
                scope.spawn(move || {
                    let mut granted = (0, 0);
                    for call in 0..20_000 {
                        let key = (call * 7 + taker) % 10;
                        granted.0 += u32::from(one.try_acquire().is_granted());
                        granted.1 += u32::from(keyed.try_acquire(&key).is_granted());
                    }
                    granted
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                one.reconfigure(limit!("1000000/d burst 40000"));
                keyed.reconfigure(limit!("1/h burst 3000"));
                one.reconfigure(limit!("1/d burst 30000"));
                keyed.reconfigure(limit!("1000000/d burst 3000"));
            }
        });
        let all = takers.into_iter().map(|taker| taker.join().unwrap());
        let granted = all.fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
        done.store(true, Ordering::Relaxed);
        granted
    });
    assert_eq!(granted, (30_000, 30_000));
}

#[test]
fn a_receipt_does_not_outlive_a_change() {
    let both = Both::new(bucket(limit!("1/s burst 5")));
    let (one, keyed) = (both.one.try_acquire_n(2), both.keyed.try_acquire_n(&7, 2));
    both.set(bucket(limit!("1/s burst 5")));
    assert_eq!((both.one.refund(one), both.keyed.refund(&7, keyed)), (0, 0));
    let (one, keyed) = (both.one.try_acquire_n(2), both.keyed.try_acquire_n(&7, 2));
    assert_eq!((both.one.refund(one), both.keyed.refund(&7, keyed)), (2, 2));
    // Of one that was never changed, to one that was.
    let other = RateLimiter::with_clock(limit!("1/s burst 5"), ManualClock::new());
    assert_eq!(both.one.refund(other.try_acquire_n(2)), 0);
}

/// The wait that is told after a change, from the change on.
#[test]
fn the_new_rate_holds_from_the_change_on() {
    let both = Both::new(bucket(limit!("1/d burst 2")));
    assert_eq!(both.ask(2), Ok(0));
    both.at(86_400_000 / 4);
    both.set(bucket(limit!("2/s burst 2")));
    assert_eq!(both.ask(1), wait(375)); // three quarters of a permit are missing
    both.at(86_400_000 / 4 + 375);
    both.set(bucket(limit!("1/d burst 2")));
    assert_eq!(both.ask(1), Ok(0));
    assert_eq!(both.ask(1), wait(86_400_000));
}

/// A clock that steps back, or a thread that comes late with its reading, does
/// not bring the time between twice.
#[test]
fn a_change_at_an_earlier_time_brings_no_supply_twice() {
    let both = Both::new(bucket(limit!("1/s burst 10")));
    both.at(100_000);
    assert_eq!(both.ask(10), Ok(0));
    let plan = |key| both.keyed.set_own(&key, limit!("1/s burst 10")).unwrap();
    assert!(both.keyed.try_acquire_n(&8, 10).is_granted());
    plan(8);
    both.set(bucket(limit!("1/s burst 10")));
    for back in [50_000, 60_000, 40_000, 99_000] {
        both.at(back);
        both.set(bucket(limit!("1/s burst 10")));
        plan(8);
        assert_eq!((both.level(), both.keyed.peek(&8).remaining()), (0, 0), "at {back}");
    }
    both.keyed.clear_own(&8);
    both.at(101_000);
    assert_eq!((both.level(), both.keyed.peek(&8).remaining()), (1, 1));
}

/// Nor does it bring back early what was granted at an earlier time than the
/// last change, nor is what a later sweep has forgotten worth the new rate.
#[test]
fn a_change_at_an_earlier_time_brings_nothing_back() {
    let log = SlidingWindowLog::new(rate!("5/s"));
    let both = Both::new(log);
    both.at(10_000);
    both.set(log);
    both.at(5_000);
    assert_eq!(both.ask(5), Ok(0));
    both.set(log);
    assert_eq!(both.level(), 0);

    let late = ManualClock::starting_at(Instant::ZERO + MILLI * 10_000);
    let limiter = RateLimiter::with_clock(log, late.clone());
    late.set(Instant::ZERO);
    assert!(limiter.try_acquire_n(5).is_granted());
    limiter.reconfigure(log);
    assert_eq!(limiter.peek().remaining(), 0);

    let both = Both::new(bucket(limit!("1/h")));
    assert_eq!(both.ask(1), Ok(0));
    both.at(3_600_000);
    assert_eq!(both.keyed.sweep(), 1);
    both.at(60_000);
    both.keyed.reconfigure(limit!("1000/s burst 100000"));
    assert_eq!(both.keyed.peek(&7).remaining(), 1);
}
