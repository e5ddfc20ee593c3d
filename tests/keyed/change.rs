//! New parameters for all keys while threads take: the levels stay exact.

use crate::{Keyed, bucket, keyed, ns, s, set};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tollgate::{TokenBucket, limit};

const KEYS: u32 = 20_000;

/// By factors of 10^6 to 10^14, and back. The clock stands still, so all that
/// changes a level is what a thread was granted.
#[test]
fn sixty_changes_beside_two_threads_leave_every_level_exact() {
    const DAY: core::time::Duration = s(86_400);
    let limiter: Keyed<u32> = keyed(bucket(1, DAY, 1_000));
    let mut levels: Vec<u32> = (0..KEYS)
        .map(|key| {
            let taken = key.wrapping_mul(2_654_435_761) % 1_000 + 1;
            assert!(limiter.try_acquire_n(&key, taken).is_granted());
            1_000 - taken
        })
        .collect();
    let stop = AtomicBool::new(false);
    let take = |mut seed: u32| {
        let mut granted = Vec::new();
        loop {
            seed ^= seed << 13;
            seed ^= seed >> 17;
            seed ^= seed << 5;
            let key = seed % KEYS;
            if limiter.try_acquire(&key).is_granted() {
                granted.push(key);
            }
            if stop.load(Ordering::Relaxed) {
                return granted;
            }
        }
    };
    thread::scope(|scope| {
        let threads = [1, 8].map(|seed| scope.spawn(move || take(seed)));
        for round in 0..20 {
            let count = if round % 2 == 0 { 1_000_000 } else { 1 };
            limiter.reconfigure(bucket(count, DAY, 1_000));
            limiter.reconfigure(bucket(1_000_000_000, s(1), 1_000));
            limiter.reconfigure(bucket(1, DAY, 1_000));
        }
        stop.store(true, Ordering::Relaxed);
        let granted = threads.map(|thread| thread.join().expect("no panic"));
        assert!(granted.iter().all(|keys| !keys.is_empty()), "both took");
        for key in granted.into_iter().flatten() {
            levels[key as usize] -= 1;
        }
    });
    for (key, level) in (0..).zip(&levels) {
        assert_eq!(limiter.peek(&key).remaining(), *level, "{key}");
    }

    // The clamp to a smaller burst, and the new supply.
    limiter.reconfigure(TokenBucket::new(limit!("1000000/s burst 500")));
    set(&limiter, ns(100_000));
    for (key, level) in (0..).zip(&levels) {
        assert_eq!(limiter.peek(&key).remaining(), (level.min(&500) + 100).min(500), "{key}");
    }
}
