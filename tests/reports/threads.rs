//! Real threads on one limiter, under a clock that stands still between steps.

use crate::subject::{Subject, everywhere};
use crate::{bucket, log, ms, ok, queue, s, window};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many of the calls of so many threads are granted, all told.
fn granted_in_parallel(limiter: &Subject, threads: u32, calls: u32) -> u32 {
    let barrier = Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        let run = || {
            barrier.wait();
            (0..calls).map(|_| u32::from(limiter.try_acquire_n(1).is_granted())).sum::<u32>()
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

/// A stale copy of the state was written back, and what was there was lost.
#[test]
fn the_state_is_lost_between_threads() {
    everywhere(bucket(10, s(1), 1_000), |limiter| {
        assert_eq!(granted_in_parallel(limiter, 8, 1_000), 1_000);
        limiter.set(s(1));
        assert_eq!(granted_in_parallel(limiter, 8, 1_000), 10);
    });
    everywhere(queue(ms(100), 999), |limiter| {
        assert_eq!(granted_in_parallel(limiter, 8, 1_000), 1_000);
        limiter.set(s(1));
        assert_eq!(granted_in_parallel(limiter, 8, 1_000), 10);
    });
    everywhere(log(1_000, s(1)), |limiter| {
        assert_eq!(granted_in_parallel(limiter, 8, 1_000), 1_000);
        limiter.set(s(1));
        assert_eq!(granted_in_parallel(limiter, 8, 1_000), 1_000);
    });
}

/// Two threads both turned the window, and hits of the new one vanished.
#[test]
fn the_window_turns_twice() {
    everywhere(window(100, s(60)), |limiter| {
        limiter.set(s(59));
        assert_eq!(granted_in_parallel(limiter, 8, 100), 100);
        limiter.set(s(60));
        assert_eq!(granted_in_parallel(limiter, 8, 100), 100);
    });
}

/// Threads that lost a race were refused what was there for them.
#[test]
fn contention_refuses_what_is_there() {
    const THREADS: usize = 16;
    const STEPS: u64 = 1_000;
    everywhere(bucket(1_000, s(1), 1_000), |limiter| {
        assert_eq!(limiter.ask(s(0), 1_000), ok(0));
        let barrier = Barrier::new(THREADS);
        let (granted, wrong) = (AtomicU32::new(1), AtomicU32::new(0));
        let settle = || {
            let grants = granted.swap(0, Ordering::Relaxed);
            wrong.fetch_add(u32::from(grants != 1), Ordering::Relaxed);
        };
        // Each step is counted, and the next one moved to, by whichever thread
        // the barrier picks, while all the others wait. No panic in here: the
        // others would wait for ever.
        let hammer = || {
            for step in 1..=STEPS {
                if barrier.wait().is_leader() {
                    settle();
                    limiter.set(ms(step));
                }
                barrier.wait();
                for _ in 0..3 {
                    let is_granted = limiter.try_acquire_n(1).is_granted();
                    granted.fetch_add(u32::from(is_granted), Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(hammer);
            }
        });
        settle();
        assert_eq!(wrong.into_inner(), 0, "steps without exactly one grant");
    });
}
