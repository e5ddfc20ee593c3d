//! Rounds by turns, and their medians.

use crate::keys::CALLS;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

const ROUNDS: usize = 41;

/// The calls of a round, of each thread.
const EACH: usize = 100_000;

/// The turns that each thread takes before it starts.
const TURNS: usize = 1_000;

#[derive(Clone, Copy)]
struct Round {
    number: usize,
    threads: usize,
    allowed: bool,
}

/// Nanoseconds a call of a round.
type Run<'a> = Box<dyn Fn(Round) -> f64 + 'a>;

pub(crate) struct Row<'a> {
    name: &'static str,
    run: Run<'a>,
}

impl<'a> Row<'a> {
    /// Asks for the keys of calls by their numbers, which are those of the other
    /// rows in the same round.
    pub(crate) fn new(name: &'static str, ask: impl Fn(usize) -> bool + Sync + 'a) -> Self {
        let run = move |Round { number, threads, allowed }| {
            on_threads(threads, |thread| {
                let from = number * EACH + thread * CALLS / threads;
                let mut granted = 0;
                let start = Instant::now();
                for call in from..from + EACH {
                    granted += usize::from(black_box(ask(call % CALLS)));
                }
                let time = start.elapsed();
                assert_eq!(granted, if allowed { EACH } else { 0 }, "{name}");
                time.as_secs_f64() * 1e9 / EACH as f64
            })
        };
        Self { name, run: Box::new(run) }
    }

    /// Fills a limiter, and says how long a key took.
    pub(crate) fn filling(name: &'static str, fill: impl Fn() -> f64 + 'a) -> Self {
        Self { name, run: Box::new(move |_| fill()) }
    }
}

/// The time of a key that is new to the limiter. It is dropped untimed.
pub(crate) fn filled<K, L>(
    new: &[K],
    limiter: L,
    ask: impl Fn(&L, &K) -> bool,
    len: impl Fn(&L) -> usize,
) -> f64 {
    let mut granted = 0;
    let start = Instant::now();
    for key in new {
        granted += usize::from(black_box(ask(&limiter, key)));
    }
    let time = start.elapsed();
    assert_eq!((granted, len(&limiter)), (new.len(), new.len()));
    time.as_secs_f64() * 1e9 / new.len() as f64
}

/// Does the same on each thread, and returns the time of the slowest.
///
/// They start once they have taken turns so fast that each must be running on a
/// core of its own: otherwise one might be done before the other is scheduled.
fn on_threads(threads: usize, work: impl Fn(usize) -> f64 + Sync) -> f64 {
    let turns = AtomicUsize::new(0);
    let together = |thread| {
        for turn in (thread..TURNS * threads).step_by(threads) {
            while turns.load(Ordering::Acquire) != turn {
                spin_loop();
            }
            turns.store(turn + 1, Ordering::Release);
        }
        work(thread)
    };
    thread::scope(|scope| {
        let together = &together;
        let others: Vec<_> = (1..threads).map(|n| scope.spawn(move || together(n))).collect();
        let first = together(0);
        others.into_iter().map(|other| other.join().unwrap()).fold(first, f64::max)
    })
}

pub(crate) fn compare(title: &str, threads: usize, allowed: bool, rows: Vec<Row<'_>>) {
    let threads_text = if threads == 1 { "1 thread" } else { "2 threads" };
    table(&format!("{title}, {threads_text}"), ROUNDS, rows, |number| Round {
        number,
        threads,
        allowed,
    });
}

/// As many rounds as make it last some seconds.
pub(crate) fn compare_fills(title: &str, keys: usize, rows: Vec<Row<'_>>) {
    let rounds = (4_000_000 / keys).clamp(11, 101);
    table(title, rounds, rows, |number| Round { number, threads: 1, allowed: true });
}

/// The first row is what the others are measured by.
fn table(title: &str, rounds: usize, rows: Vec<Row<'_>>, round: impl Fn(usize) -> Round) {
    let turn = |number| rows.iter().map(|row| (row.run)(round(number))).collect::<Vec<f64>>();
    // The first two are not counted: caches and branch predictors are cold.
    let found: Vec<_> = (0..rounds + 2).map(turn).skip(2).collect();
    println!("\n{title:44} {:>9} {:>9} {:>7}", "median ns", "least ns", "times");
    for (at, row) in rows.iter().enumerate() {
        let times = sorted(found.iter().map(|turn| turn[at]));
        let ratios = sorted(found.iter().map(|turn| turn[0] / turn[at]));
        let half = rounds / 2;
        println!("  {:42} {:9.1} {:9.1} {:7.2}", row.name, times[half], times[0], ratios[half]);
    }
}

fn sorted(found: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut found: Vec<f64> = found.collect();
    found.sort_by(f64::total_cmp);
    found
}
