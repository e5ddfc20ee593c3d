//! The sliding-window log under real threads, and what it takes of memory.
//!
//! The bound is checked by what the calls were told alone: a grant counts from a
//! period before it comes back, which is told with it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tollgate::{
    Algorithm, Clock, Instant, Locked, ManualClock, Rate, RateLimiter, SlidingWindowLog,
};

const PERIOD: u64 = 10_000;

fn log(count: u32) -> SlidingWindowLog {
    SlidingWindowLog::new(Rate::new(count, Duration::from_nanos(PERIOD)).expect("a rate"))
}

fn random(seed: &mut u64, below: u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 16) % below
}

/// Permits by the time at which they come back.
type Grants = BTreeMap<u64, u64>;

/// The most permits in a half-open span of a period.
fn most_in_a_period(grants: &Grants) -> u64 {
    let in_period = |(from, _): (&u64, _)| grants.range(*from..from + PERIOD).map(|(_, n)| n).sum();
    grants.iter().map(in_period).max().unwrap_or(0)
}

/// Threads take from one log, and give back some of it, while one of them moves
/// the clock. Returns what was granted and kept.
fn run<A: Algorithm>(algorithm: A, most_at_once: u64, gives_back: bool, seed: u64) -> Grants {
    const THREADS: u64 = 4;
    const CALLS: u64 = 6_000;
    let clock = ManualClock::starting_at(Instant::from_nanos(seed % 3 * (1 << 62)));
    let start = clock.now();
    let limiter = RateLimiter::with_clock(algorithm, clock.clone());
    let refused = AtomicU64::new(0);
    // About twice as many calls a period as are granted.
    let capacity = u64::from(limiter.algorithm().capacity());
    let tick = (PERIOD * 4 * (1 + most_at_once) / capacity).min(PERIOD / 2);
    let call = |mut seed: u64| {
        let mut own = Grants::new();
        for _ in 0..CALLS {
            if random(&mut seed, 8) == 0 {
                clock.advance(Duration::from_nanos(random(&mut seed, tick)));
            }
            let n = 1 + random(&mut seed, most_at_once) as u32;
            let now = clock.now();
            let decision = limiter.at(now).try_acquire_n(n);
            if decision.is_denied() {
                refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let back = (now + decision.reset_after()).since(start).as_nanos() as u64;
            let given = match gives_back && random(&mut seed, 3) == 0 {
                true => limiter.at(clock.now()).refund(decision),
                false => 0,
            };
            *own.entry(back).or_default() += u64::from(n - given);
        }
        own
    };
    let mut grants = Grants::new();
    std::thread::scope(|scope| {
        let call = &call;
        let threads: Vec<_> =
            (1..=THREADS).map(|thread| scope.spawn(move || call(seed * 31 + thread))).collect();
        for own in threads.into_iter().map(|thread| thread.join().expect("no panic")) {
            own.into_iter().for_each(|(back, n)| *grants.entry(back).or_default() += n);
        }
    });
    assert!(refused.into_inner() > 0, "never refused");
    let now = clock.now().since(start).as_nanos() as u64;
    let out: u64 = grants.range(now + 1..).map(|(_, n)| n).sum();
    assert_eq!(u64::from(limiter.peek().remaining()) + out, capacity, "lost or doubled");
    grants
}

#[test]
fn a_log_grants_never_more_than_its_count_in_any_period() {
    for (seed, count) in [1, 2, 3, 7, 64, 100, 1_000].into_iter().enumerate() {
        for at_once in [1, count] {
            let grants = run(log(count), at_once.into(), false, 1 + seed as u64);
            let most = most_in_a_period(&grants);
            assert!(most <= count.into(), "{most} of {count}, by up to {at_once}");
            assert!(most > u64::from(count) / 2, "only {most} of {count}");
        }
    }
}

#[test]
fn nor_does_a_log_where_permits_are_given_back() {
    for (seed, count) in [1, 2, 3, 7, 64, 1_000].into_iter().enumerate() {
        for at_once in [1, count.min(40)] {
            let grants = run(log(count), at_once.into(), true, 40 + seed as u64);
            let most = most_in_a_period(&grants);
            assert!(most <= count.into(), "{most} of {count}, by up to {at_once}");
        }
    }
}

#[test]
fn a_log_behind_a_mutex_does_not_either() {
    for gives_back in [false, true] {
        let grants = run(Locked(log(100)), 3, gives_back, 7);
        assert!(most_in_a_period(&grants) <= 100);
    }
}

/// A thread takes all there is and is put off by the system wherever it happens to
/// be; what the others may have is theirs meanwhile.
#[test]
fn a_thread_that_is_put_off_in_a_log_holds_up_nobody() {
    const ROUNDS: u64 = 2_000;
    let limiter = RateLimiter::with_clock(log(3), ManualClock::new());
    let is_over = AtomicBool::new(false);
    let others = AtomicU64::new(0);
    let own = std::thread::scope(|scope| {
        for _ in 0..6 {
            // More of them than there are processors.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let granted = limiter.try_acquire().is_granted();
                    others.fetch_add(granted.into(), Ordering::Relaxed);
                }
            });
        }
        let granted = (0..ROUNDS).filter(|_| {
            limiter.clock().advance(Duration::from_nanos(PERIOD));
            limiter.try_acquire().is_granted()
        });
        let granted = granted.count() as u64;
        is_over.store(true, Ordering::Relaxed);
        granted
    });
    // All comes back at the start of a round, so who is refused in it finds that
    // the others have had three.
    let all = own + others.into_inner();
    assert!((own + 3 * (ROUNDS - own)..=3 * (ROUNDS + 1)).contains(&all), "{own} of {all}");
    limiter.clock().advance(Duration::from_nanos(PERIOD));
    assert_eq!(limiter.peek().remaining(), 3);
}

/// The last count that a ring is used for, and those beside it.
#[test]
fn a_log_of_a_count_at_the_edge_is_like_others() {
    for count in [65_534, 65_535, 65_536] {
        let clock = ManualClock::new();
        let limiter = RateLimiter::with_clock(log(count), clock.clone());
        assert!(limiter.try_acquire_n(count - 1).is_granted());
        assert_eq!(limiter.try_acquire().remaining(), 0);
        clock.advance(Duration::from_nanos(PERIOD - 1));
        assert_eq!(limiter.try_acquire().retry_after(), Some(Duration::from_nanos(1)));
        clock.advance(Duration::from_nanos(1));
        let grant = limiter.try_acquire_n(7);
        assert_eq!(grant.remaining(), count - 7);
        assert_eq!(limiter.refund(grant), 7);
        for other in [count - 9, 65_537, 3] {
            limiter.reconfigure(log(other));
            assert_eq!(limiter.peek().limit(), other);
            clock.advance(Duration::from_nanos(PERIOD));
            assert_eq!(limiter.try_acquire_n(2).remaining(), other - 2);
        }
    }
}

/// The head has room for 19 hours of a log with the largest ring.
#[test]
fn a_log_remembers_its_newest_time_over_gaps() {
    const DAYS: u64 = 2 * 86_400 * 1_000_000_000;
    let limiter = RateLimiter::with_clock(log(65_535), ManualClock::new());
    let at = |nanos| limiter.at(Instant::from_nanos(nanos));
    assert!(at(0).try_acquire().is_granted());
    let newest = |time| assert_eq!(at(0).peek().reset_after(), Duration::from_nanos(time));
    let grant = at(DAYS).try_acquire();
    newest(DAYS + PERIOD);
    assert_eq!(at(DAYS).refund(grant), 1);
    newest(DAYS);
    assert_eq!(at(3 * DAYS).charge(9), 9);
    newest(3 * DAYS + PERIOD);
    limiter.clock().set(Instant::from_nanos(7 * DAYS));
    limiter.reset();
    newest(7 * DAYS);
    // Time does not step back, so this is of then.
    let grant = at(0).try_acquire_n(3);
    newest(7 * DAYS + PERIOD);
    assert_eq!(at(7 * DAYS + PERIOD - 1).peek().remaining(), 65_532);
    assert_eq!(at(0).refund(grant), 3);
    assert_eq!(at(7 * DAYS).peek().remaining(), 65_535);
}
