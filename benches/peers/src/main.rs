//! tollgate beside governor, in one process, by turns: whatever slows the
//! machine down meets both.
//!
//! ```text
//! cargo run --release --manifest-path benches/peers/Cargo.toml # four minutes
//! ```
//!
//! governor is as it comes. Where a row says `ahash` it has the hasher that
//! tollgate has by default, and tells apart what is due to that. Each allowed
//! call is counted and each call looked at, so that all rows do the same.

#[path = "../../keyed/keys.rs"]
mod keys;
mod memory;
mod rounds;

use governor::clock::DefaultClock;
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota};
use keys::{Spread, number, text};
use rounds::{Row, compare, compare_fills, filled};
use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;
use std::time::Duration;
use tollgate::{KeyedRateLimiter, Limit, MonotonicClock, RateLimiter, TokenBucket, limit};

type Foldhash = foldhash::fast::RandomState;
type Governor<K, S> = governor::RateLimiter<
    K,
    governor::state::keyed::DashMapStateStore<K, S>,
    DefaultClock,
    governor::middleware::NoOpMiddleware<governor::clock::QuantaInstant>,
>;
type Tollgate<K, S> = KeyedRateLimiter<K, TokenBucket, MonotonicClock, S>;

/// Not used up by all rounds.
const LIMIT: Limit = limit!("1000000/s burst 4000000000");

/// Refused from the second call on; and no key is forgotten while others come.
const STRICT: Limit = limit!("1/d");

const SPREADS: [Spread; 4] = [
    Spread { name: "1 key", keys: 1, zipf: false },
    Spread { name: "10k keys, uniform", keys: 10_000, zipf: false },
    Spread { name: "1M keys, uniform", keys: 1_000_000, zipf: false },
    Spread { name: "1M keys, zipf", keys: 1_000_000, zipf: true },
];

/// What each key is charged beforehand, so that it holds something for as long
/// as it is asked for.
const DEBT: u32 = 1_000_000_000;

fn quota() -> Quota {
    Quota::per_second(count(1_000_000)).allow_burst(count(4_000_000_000))
}

fn strict_quota() -> Quota {
    Quota::with_period(Duration::from_secs(86_400)).unwrap()
}

fn count(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

fn main() {
    println!(
        "Medians of rounds by turns; `times` is the median of governor's time over the row's,"
    );
    println!("round by round. With 2 threads, the time is that of a call of each thread.");
    for threads in [1, 2] {
        unkeyed(threads);
    }
    for threads in [1, 2] {
        for spread in SPREADS {
            numbers(spread, threads);
        }
    }
    for threads in [1, 2] {
        for spread in SPREADS {
            texts(spread, threads);
        }
    }
    for keys in [10_000, 100_000, 1_000_000] {
        new_numbers(keys);
    }
    for keys in [10_000, 100_000, 1_000_000] {
        new_texts(keys);
    }
    memory::print();
}

fn unkeyed(threads: usize) {
    let governor = DefaultDirectRateLimiter::direct(quota());
    let tollgate = RateLimiter::new(LIMIT);
    let changed = RateLimiter::new(LIMIT);
    changed.reconfigure(LIMIT);
    let rows = vec![
        Row::new("governor", |_| governor.check().is_ok()),
        Row::new("tollgate", |_| tollgate.try_acquire().is_granted()),
        Row::new("tollgate, reconfigured", |_| changed.try_acquire().is_granted()),
    ];
    compare("no keys, allowed", threads, true, rows);

    let governor = DefaultDirectRateLimiter::direct(strict_quota());
    let tollgate = RateLimiter::new(STRICT);
    assert!(governor.check().is_ok() && tollgate.try_acquire().is_granted());
    let rows = vec![
        Row::new("governor", |_| governor.check().is_ok()),
        Row::new("tollgate", |_| tollgate.try_acquire().is_granted()),
    ];
    compare("no keys, refused", threads, false, rows);
}

/// A governor that knows the keys.
fn governor<K, S>(keys: usize, key: impl Fn(usize) -> K, hasher: S) -> Governor<K, S>
where
    K: Hash + Eq + Clone,
    S: BuildHasher + Default + Clone,
{
    let limiter = Governor::dashmap_with_clock_and_hasher(quota(), DefaultClock::default(), hasher);
    for key in (0..keys).map(key) {
        assert!(limiter.check_key_n(&key, count(DEBT)).unwrap().is_ok());
    }
    assert_eq!(limiter.len(), keys);
    limiter
}

/// A tollgate that knows the keys.
fn tollgate<K, S>(keys: usize, key: impl Fn(usize) -> K, hasher: S) -> Tollgate<K, S>
where
    K: Hash + Eq + Clone,
    S: BuildHasher,
{
    let limiter = KeyedRateLimiter::new(LIMIT).with_hasher(hasher);
    for key in (0..keys).map(key) {
        assert!(limiter.try_acquire_n(&key, DEBT).is_granted());
    }
    assert_eq!(limiter.len(), keys);
    limiter
}

fn numbers(spread: Spread, threads: usize) {
    let calls = spread.calls(number);
    let keys = spread.keys;
    let standard: DefaultKeyedRateLimiter<u64> =
        governor(keys, number, std::hash::RandomState::new());
    let same_hasher = governor(keys, number, ahash::RandomState::new());
    let default = tollgate(keys, number, tollgate::RandomState::default());
    let changed = tollgate(keys, number, tollgate::RandomState::default());
    changed.reconfigure(LIMIT);
    let foldhash = tollgate(keys, number, Foldhash::default());
    let sip = tollgate(keys, number, std::hash::RandomState::new());
    let rows = vec![
        Row::new("governor", |n| standard.check_key(&calls[n]).is_ok()),
        Row::new("tollgate", |n| default.try_acquire(&calls[n]).is_granted()),
        Row::new("tollgate, reconfigured", |n| changed.try_acquire(&calls[n]).is_granted()),
        Row::new("tollgate, foldhash", |n| foldhash.try_acquire(&calls[n]).is_granted()),
        Row::new("tollgate, standard hasher", |n| sip.try_acquire(&calls[n]).is_granted()),
        Row::new("governor, ahash", |n| same_hasher.check_key(&calls[n]).is_ok()),
    ];
    compare(&format!("u64, {}", spread.name), threads, true, rows);
}

/// The caller has a `&str`. governor is asked with a `&String`, so one is made;
/// another row shows it with a `String` at hand.
fn texts(spread: Spread, threads: usize) {
    let calls = spread.calls(text);
    let keys = spread.keys;
    let boxed = |n| text(n).into_boxed_str();
    let standard: DefaultKeyedRateLimiter<String> =
        governor(keys, text, std::hash::RandomState::new());
    let same_hasher = governor(keys, text, ahash::RandomState::new());
    let default = tollgate(keys, boxed, tollgate::RandomState::default());
    let changed = tollgate(keys, boxed, tollgate::RandomState::default());
    changed.reconfigure(LIMIT);
    let foldhash = tollgate(keys, boxed, Foldhash::default());
    let sip = tollgate(keys, boxed, std::hash::RandomState::new());
    let call = |n: usize| calls[n].as_str();
    let rows = vec![
        Row::new("governor", |n| standard.check_key(&call(n).to_string()).is_ok()),
        Row::new("governor, String at hand", |n| standard.check_key(&calls[n]).is_ok()),
        Row::new("tollgate", |n| default.try_acquire(call(n)).is_granted()),
        Row::new("tollgate, reconfigured", |n| changed.try_acquire(call(n)).is_granted()),
        Row::new("tollgate, foldhash", |n| foldhash.try_acquire(call(n)).is_granted()),
        Row::new("tollgate, standard hasher", |n| sip.try_acquire(call(n)).is_granted()),
        Row::new("governor, ahash, String at hand", |n| same_hasher.check_key(&calls[n]).is_ok()),
    ];
    compare(&format!("16-byte text, {}", spread.name), threads, true, rows);
}

/// Keys at first sight, until there are so many.
fn new_numbers(keys: usize) {
    let new: Vec<u64> = (0..keys).map(number).collect();
    let rows = vec![
        Row::filling("governor", || {
            let limiter = DefaultKeyedRateLimiter::keyed(strict_quota());
            filled(&new, limiter, |limiter, key| limiter.check_key(key).is_ok(), |l| l.len())
        }),
        Row::filling("tollgate", || fill(&new, tollgate::RandomState::default())),
        Row::filling("tollgate, foldhash", || fill(&new, Foldhash::default())),
        Row::filling("tollgate, standard hasher", || fill(&new, std::hash::RandomState::new())),
    ];
    compare_fills(&format!("u64, {keys} new keys"), keys, rows);
}

fn new_texts(keys: usize) {
    let new: Vec<String> = (0..keys).map(text).collect();
    let governor = |ask: fn(&DefaultKeyedRateLimiter<String>, &String) -> bool| {
        let limiter = DefaultKeyedRateLimiter::keyed(strict_quota());
        filled(&new, limiter, ask, |limiter| limiter.len())
    };
    let rows = vec![
        Row::filling("governor", || {
            governor(|limiter, key| limiter.check_key(&key.as_str().to_string()).is_ok())
        }),
        Row::filling("governor, String at hand", || {
            governor(|limiter, key| limiter.check_key(key).is_ok())
        }),
        Row::filling("tollgate", || fill_boxes(&new, tollgate::RandomState::default())),
        Row::filling("tollgate, foldhash", || fill_boxes(&new, Foldhash::default())),
        Row::filling("tollgate, standard hasher", || {
            fill_boxes(&new, std::hash::RandomState::new())
        }),
    ];
    compare_fills(&format!("16-byte text, {keys} new keys"), keys, rows);
}

fn fill<S: BuildHasher>(new: &[u64], hasher: S) -> f64 {
    let limiter: Tollgate<u64, S> = KeyedRateLimiter::new(STRICT).with_hasher(hasher);
    let ask = |limiter: &Tollgate<u64, S>, key: &u64| limiter.try_acquire(key).is_granted();
    filled(new, limiter, ask, |limiter| limiter.len())
}

fn fill_boxes<S: BuildHasher>(new: &[String], hasher: S) -> f64 {
    let limiter: Tollgate<Box<str>, S> = KeyedRateLimiter::new(STRICT).with_hasher(hasher);
    let ask = |limiter: &Tollgate<Box<str>, S>, key: &String| {
        limiter.try_acquire(key.as_str()).is_granted()
    };
    filled(new, limiter, ask, |limiter| limiter.len())
}
