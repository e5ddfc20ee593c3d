//! Decisions by key: numbers and texts of 16 bytes; one, ten thousand and a
//! million keys, asked for evenly or as Zipf has it; by one thread and by two;
//! allowed, refused and at first sight; and the default hasher beside the
//! standard library's. Then the longest calls, as text: see `keyed/stalls.rs`.
//!
//! `cargo bench --bench keyed`; with `-- stalls` the longest calls alone, with
//! any other filter none of them. The ids read
//! `allowed/u64/10k uniform/2 threads`, and the times are those of one call of
//! each thread.

#[path = "keyed/keys.rs"]
mod keys;
#[path = "keyed/stalls.rs"]
mod stalls;

use core::hash::{BuildHasher, Hash};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use criterion::{BenchmarkId, Criterion, criterion_group};
use keys::{CALLS, Spread};
use std::cell::LazyCell;
use std::hint::black_box;
use std::thread;
use std::time::Instant;
use tollgate::{KeyedRateLimiter, Limit, Lookup, MonotonicClock, TokenBucket, limit};

type Limiter<K, S> = KeyedRateLimiter<K, TokenBucket, MonotonicClock, S>;

/// Not used up by a benchmark.
const GENEROUS: Limit = limit!("1000000/s burst 4000000000");

/// What each key is charged beforehand, or it would be fresh, and could be
/// forgotten, a microsecond after each call. It takes 1000 s to come back.
const DEBT: u32 = 1_000_000_000;

const STRICT: Limit = limit!("1/d");

trait Key: Eq + Hash + Send + Sync + Sized {
    type Query: Lookup<Self> + ?Sized;

    fn numbered(number: usize) -> Self;

    fn query(&self) -> &Self::Query;
}

impl Key for u64 {
    type Query = u64;

    fn numbered(number: usize) -> u64 {
        keys::number(number)
    }

    fn query(&self) -> &u64 {
        self
    }
}

impl Key for Box<str> {
    type Query = str;

    fn numbered(number: usize) -> Box<str> {
        keys::text(number).into()
    }

    fn query(&self) -> &str {
        self
    }
}

const ONE: Spread = Spread { name: "1", keys: 1, zipf: false };
const THOUSANDS: Spread = Spread { name: "10k uniform", keys: 10_000, zipf: false };
const SPREADS: [Spread; 5] = [
    ONE,
    THOUSANDS,
    Spread { name: "10k zipf", keys: 10_000, zipf: true },
    Spread { name: "1M uniform", keys: 1_000_000, zipf: false },
    Spread { name: "1M zipf", keys: 1_000_000, zipf: true },
];

/// The turns that each thread takes before it starts.
const TURNS: usize = 100;

/// The calls that criterion takes for one: that many at least are timed at once,
/// however long it takes two threads to start.
const BLOCK: usize = 1_000;

/// A limiter that knows the keys, which will be allowed or refused.
fn knowing<K: Key, S: BuildHasher>(keys: usize, allowed: bool, hasher: S) -> Limiter<K, S> {
    let limit = if allowed { GENEROUS } else { STRICT };
    let limiter = KeyedRateLimiter::new(limit).with_hasher(hasher);
    for key in (0..keys).map(K::numbered) {
        limiter.charge(key.query(), if allowed { DEBT } else { 1 });
    }
    assert_eq!(limiter.len(), keys);
    limiter
}

/// Does the same on each thread, and returns the time of the slowest.
///
/// They start once they have taken turns so fast that each must be running on a
/// core of its own: otherwise one might be done before the other is scheduled.
fn on_threads(threads: usize, work: impl Fn(usize) + Sync) -> Duration {
    let turns = AtomicUsize::new(0);
    let timed = |thread: usize| {
        for turn in (thread..TURNS * threads).step_by(threads) {
            while turns.load(Ordering::Acquire) != turn {
                core::hint::spin_loop();
            }
            turns.store(turn + 1, Ordering::Release);
        }
        let start = Instant::now();
        work(thread);
        start.elapsed()
    };
    thread::scope(|scope| {
        let timed = &timed;
        let others: Vec<_> = (1..threads).map(|n| scope.spawn(move || timed(n))).collect();
        let first = timed(0);
        others.into_iter().map(|other| other.join().unwrap()).fold(first, Duration::max)
    })
}

/// Asks for key after key, from where it was left off.
fn ask<K: Key, S: BuildHasher + Send + Sync>(
    limiter: &Limiter<K, S>,
    calls: &[K],
    from: &AtomicUsize,
    (threads, blocks): (usize, u64),
    allowed: bool,
) -> Duration {
    let each = blocks as usize * BLOCK;
    let from = from.fetch_add(each, Ordering::Relaxed);
    let time = on_threads(threads, |thread| {
        let from = from + thread * CALLS / threads;
        let mut granted = 0;
        for call in from..from + each {
            let key = calls[call % CALLS].query();
            granted += usize::from(black_box(limiter.try_acquire(key).is_granted()));
        }
        assert_eq!(granted, if allowed { each } else { 0 }, "the wrong path was measured");
    });
    time / BLOCK as u32
}

fn known(c: &mut Criterion) {
    known_keys::<u64>(c, "u64");
    known_keys::<Box<str>>(c, "str");
}

fn known_keys<K: Key>(c: &mut Criterion, kind: &str) {
    for spread in SPREADS {
        // Not made when the filter leaves it out.
        let calls = LazyCell::new(|| spread.calls(K::numbered));
        for (case, allowed) in [("allowed", true), ("refused", false)] {
            let mut group = c.benchmark_group(format!("{case}/{kind}"));
            let hasher = tollgate::RandomState::default();
            let limiter = LazyCell::new(|| knowing::<K, _>(spread.keys, allowed, hasher));
            let from = AtomicUsize::new(0);
            for threads in [1, 2] {
                let id = BenchmarkId::new(spread.name, plural(threads));
                group.bench_function(id, |b| {
                    // Made before the time of the warm-up starts.
                    let (limiter, calls) = (&*limiter, &*calls);
                    b.iter_custom(|n| ask(limiter, calls, &from, (threads, n), allowed));
                });
            }
        }
    }
}

fn plural(threads: usize) -> &'static str {
    if threads == 1 { "1 thread" } else { "2 threads" }
}

fn hashers(c: &mut Criterion) {
    hashed::<u64, _>(c, "u64", "default", tollgate::RandomState::default());
    hashed::<u64, _>(c, "u64", "std", std::hash::RandomState::default());
    hashed::<Box<str>, _>(c, "str", "default", tollgate::RandomState::default());
    hashed::<Box<str>, _>(c, "str", "std", std::hash::RandomState::default());
}

fn hashed<K: Key, S>(c: &mut Criterion, kind: &str, name: &str, hasher: S)
where
    S: BuildHasher + Clone + Send + Sync,
{
    let mut group = c.benchmark_group(format!("hasher/{kind}"));
    for spread in [ONE, THOUSANDS] {
        let calls = LazyCell::new(|| spread.calls(K::numbered));
        let limiter = LazyCell::new(|| knowing::<K, _>(spread.keys, true, hasher.clone()));
        let from = AtomicUsize::new(0);
        group.bench_function(BenchmarkId::new(spread.name, name), |b| {
            let (limiter, calls) = (&*limiter, &*calls);
            b.iter_custom(|n| ask(limiter, calls, &from, (1, n), true));
        });
    }
}

fn first_sight(c: &mut Criterion) {
    first_sights::<u64>(c, "u64");
    first_sights::<Box<str>>(c, "str");
}

/// A limiter is filled as a whole, since the cost of a key depends on how many
/// there are; an iteration is still one key.
fn first_sights<K: Key>(c: &mut Criterion, kind: &str) {
    let mut group = c.benchmark_group(format!("first-sight/{kind}"));
    group.sample_size(10);
    for (name, keys) in [("10k", 10_000), ("1M", 1_000_000)] {
        let new = LazyCell::new(|| (0..keys).map(K::numbered).collect::<Vec<K>>());
        for threads in [1, 2] {
            group.bench_function(BenchmarkId::new(name, plural(threads)), |b| {
                let new = &*new;
                b.iter_custom(|n| {
                    let fills = n.div_ceil(keys as u64);
                    let time: Duration = (0..fills).map(|_| fill(new, threads)).sum();
                    let calls_of_each = (fills * keys as u64) as f64 / threads as f64;
                    time.mul_f64(n as f64 / calls_of_each)
                });
            });
        }
    }
}

fn fill<K: Key>(new: &[K], threads: usize) -> Duration {
    let limiter: KeyedRateLimiter<K> = KeyedRateLimiter::new(STRICT);
    let time = on_threads(threads, |thread| {
        for key in &new[new.len() / threads * thread..][..new.len() / threads] {
            black_box(limiter.try_acquire(key.query()).is_granted());
        }
    });
    assert_eq!(limiter.len(), new.len());
    time
}

/// Short measurements of many cases.
fn quick() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30)
}

criterion_group!(name = benches; config = quick(); targets = known, hashers, first_sight);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Run by `cargo test` there is no `--bench`; then criterion tests as well.
    let tests = !arguments.iter().any(|argument| argument == "--bench")
        || arguments.iter().any(|argument| argument == "--test");
    let mut others = arguments.iter().filter(|argument| *argument != "--bench");
    let (first, more) = (others.next().map(String::as_str), others.next().is_some());
    if first != Some("stalls") {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
    match first {
        _ if tests && !more => stalls::print(10_000, 1),
        None | Some("stalls") => stalls::print(1_000_000, 9),
        Some(_) => {}
    }
}
