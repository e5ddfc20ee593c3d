//! Real threads on one limiter by key, while keys come and go and everything is
//! changed: no key gets more than its limit allows, and nobody waits for ever.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use tollgate::{
    Algorithm, FixedWindow, KeyedRateLimiter, LeakyBucket, Limit, Locked, ManualClock, Rate,
    SlidingWindowLog, TokenBucket, WhenFull,
};

const KEYS: usize = 48;
/// The keys that a thread calls before it goes on to the next ones.
const AT_A_TIME: u32 = 8;
const CAP: usize = 32;
const STEPS: u32 = 200;
const STEP: Duration = Duration::from_millis(5);
const CALLS: u32 = 24_000;

fn random(state: &mut u32) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    *state
}

/// Three threads call, and one moves the clock by [`STEP`] and changes the
/// parameters [`STEPS`] times. Returns the most that a key was granted.
fn most_granted<A: Algorithm>(parameters: [A; 2], changes: bool) -> u32 {
    let limiter: KeyedRateLimiter<u32, A, _> =
        KeyedRateLimiter::with_clock(parameters[0], ManualClock::new());
    let limiter = limiter.with_max_keys(CAP, WhenFull::Refuse).expect("some keys");
    let granted = [const { AtomicU32::new(0) }; KEYS];
    let (full, most_left) = (AtomicU32::new(0), AtomicU32::new(0));
    let (calls, is_over) = (AtomicU32::new(0), AtomicBool::new(false));

    let call = |mut seed: u32| {
        for number in 0..CALLS {
            let first = number / 500 * 5;
            let key = (first + random(&mut seed) % AT_A_TIME) % KEYS as u32;
            let n = 1 + random(&mut seed) % 2;
            let decision = limiter.try_acquire_n(&key, n);
            full.fetch_add(u32::from(decision.is_full()), Ordering::Relaxed);
            if decision.is_granted() {
                // Some of it was not needed after all, perhaps.
                let back = if number % 7 == 0 { limiter.refund_n(&key, decision, 1) } else { 0 };
                granted[key as usize].fetch_add(n - back, Ordering::Relaxed);
            }
            if number % 64 == 0 {
                // Keys seen once, which take the places.
                let _ = limiter.try_acquire(&(1_000 + random(&mut seed) % 10_000));
                let _ = limiter.peek(&(1_000 + number));
            }
            calls.fetch_add(1, Ordering::Relaxed);
        }
    };
    let change = || {
        for step in 1..=STEPS {
            // In step with the calls, not with real time.
            while calls.load(Ordering::Relaxed) < 3 * CALLS / STEPS * (step - 1)
                && !is_over.load(Ordering::Relaxed)
            {
                std::thread::yield_now();
            }
            limiter.clock().advance(STEP);
            if changes {
                limiter.reconfigure(parameters[step as usize % 2]);
            }
            if step % 3 == 0 {
                limiter.sweep();
            }
            if step % 20 == 0 {
                let looked_at: u32 = limiter.levels().map(|(_, level)| level).sum();
                most_left.fetch_max(looked_at, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        let changing = scope.spawn(change);
        let calling: Vec<_> =
            (1..=3).map(|seed| scope.spawn(move || call(0x9E37_79B9 >> seed))).collect();
        let ends: Vec<_> = calling.into_iter().map(|thread| thread.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ends.into_iter().all(|end| end.is_ok()) && changing.join().is_ok());
    });

    assert!((1..=CAP).contains(&limiter.len()), "{} keys", limiter.len());
    assert!(most_left.into_inner() > 0, "no levels were seen");
    assert!(full.into_inner() > 0, "there was always room");
    // All places come free again, and no more than there were.
    limiter.clock().advance(Duration::from_secs(1_000));
    limiter.sweep();
    assert_eq!(limiter.len(), 0);
    let places = (50_000..50_100).filter(|key| limiter.try_acquire(key).is_granted()).count();
    assert_eq!(places, CAP);
    granted.into_iter().map(AtomicU32::into_inner).max().unwrap_or(0)
}

/// Runs a test that may hang on a thread of its own, and fails if it does.
fn in_time(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match is_done.recv_timeout(Duration::from_secs(60)) {
        Err(RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().expect("no panic"),
    }
}

fn rate(count: u32, period: Duration) -> Rate {
    Rate::new(count, period).expect("a rate")
}

fn bucket(count: u32, burst: u32) -> TokenBucket {
    let burst = NonZeroU32::new(burst).expect("a burst");
    TokenBucket::new(Limit::new(rate(count, Duration::from_secs(1))).with_burst(burst))
}

/// The clock moves by one second in all.
#[test]
fn buckets_hold_at_the_highest_rate_and_burst() {
    in_time(|| {
        for changes in [false, true] {
            let most = most_granted([bucket(50, 10), bucket(100, 5)], changes);
            assert!((5..=100 + 10).contains(&most), "{most}");
        }
    });
}

#[test]
fn buckets_behind_a_mutex_hold_too() {
    in_time(|| {
        let most = most_granted([Locked(bucket(50, 10)), Locked(bucket(100, 5))], true);
        assert!((5..=100 + 10).contains(&most), "{most}");
    });
}

#[test]
fn queues_hold() {
    in_time(|| {
        let queue = |count, places| LeakyBucket::new(rate(count, Duration::from_secs(1)), places);
        let most = most_granted([queue(100, 9), queue(100, 4)], true);
        assert!((5..=100 + 10).contains(&most), "{most}");
    });
}

/// A tenth of a second each: eleven have begun.
#[test]
fn windows_hold() {
    in_time(|| {
        let windows = |count| FixedWindow::new(rate(count, Duration::from_millis(100)));
        let most = most_granted([windows(10), windows(10)], false);
        assert!((10..=11 * 10).contains(&most), "{most}");
    });
}

#[test]
fn logs_hold() {
    in_time(|| {
        let log = |count| SlidingWindowLog::new(rate(count, Duration::from_millis(100)));
        let most = most_granted([log(10), log(10)], true);
        assert!((10..=11 * 10).contains(&most), "{most}");
    });
}
