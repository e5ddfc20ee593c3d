//! The longest calls: while keys are added, while idle keys are forgotten and
//! while the parameters change, by the thread that does it and by another.
//!
//! Each call is timed by itself. On a machine with other things to do the
//! longest of a million calls is often a pause of the machine's own. So there
//! are control runs, all is repeated, and of the longest calls not only the
//! median is printed but the least as well: what the limiter does is in each
//! repetition, what the machine does may be absent from one.

use super::{DEBT, GENEROUS, Key};
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::hint::black_box;
use std::thread;
use std::time::Instant;
use tollgate::{Clock, KeyedRateLimiter, ManualClock, TokenBucket, limit};

type Limiter<C> = KeyedRateLimiter<u64, TokenBucket, C>;

/// The other thread's keys, some in each part of the map.
const HOT: usize = 1_000;

/// Its calls before it is timed.
const WARM_UP: usize = 20_000;

/// More calls than it makes.
const MANY: usize = 1 << 22;

pub(crate) fn print(keys: usize, repetitions: usize) {
    println!("\n{keys} u64 keys, medians of {repetitions} repetitions");
    let mut table = Table::default();
    // Touched once, so that no timed call waits for a page of it.
    let mut times = vec![1; MANY];
    for _ in 0..repetitions {
        adding(keys, &mut times, &mut table);
    }
    for _ in 0..repetitions {
        clearing(keys, &mut times, &mut table);
    }
    for _ in 0..repetitions {
        sweeping(keys, &mut times, &mut table);
    }
    let limiters = [(); 2].map(|()| {
        let limiter = Limiter::new(GENEROUS);
        (0..keys).for_each(|n| _ = limiter.charge(&u64::numbered(n), DEBT));
        limiter
    });
    for repetition in 0..repetitions {
        changing(&limiters, repetition, &mut times, &mut table);
    }
    table.print();
}

/// Adding keys, of which none can be forgotten yet.
fn adding(keys: usize, times: &mut Vec<u32>, table: &mut Table) {
    let limiter = Limiter::new(limit!("1/d"));
    for name in ["a call that adds a key", "control: the same call once more"] {
        times.clear();
        let start = Instant::now();
        let mut last = start;
        for n in 0..keys {
            black_box(limiter.try_acquire(&u64::numbered(n)).is_granted());
            lap(&mut last, times);
        }
        table.add_total(&format!("{name}, all keys"), start.elapsed());
        table.add(name, times);
    }
    assert_eq!(limiter.len(), keys);
}

/// A flood has passed, and what traffic there is clears it: the longest call is
/// one that sweeps a part.
fn clearing(keys: usize, times: &mut Vec<u32>, table: &mut Table) {
    let clock = ManualClock::new();
    let limiter = Limiter::with_clock(limit!("1/s burst 10"), &clock);
    for n in 0..keys {
        let _ = limiter.try_acquire(&u64::numbered(n));
    }
    clock.advance(Duration::from_secs(60));
    times.clear();
    while limiter.len() > 1 {
        clock.advance(Duration::from_secs(1));
        let mut last = Instant::now();
        black_box(limiter.try_acquire(&0).is_granted());
        lap(&mut last, times);
    }
    table.add("a call that forgets a part of idle keys", times);
}

/// Another thread's calls while all keys but its own are forgotten.
fn sweeping(keys: usize, times: &mut Vec<u32>, table: &mut Table) {
    let clock = ManualClock::new();
    let limiters = [(); 2].map(|()| {
        let limiter = Limiter::with_clock(limit!("1/s burst 4000000000"), &clock);
        (0..keys).for_each(|n| _ = limiter.try_acquire(&u64::numbered(n)));
        (0..HOT).for_each(|n| _ = limiter.charge(&u64::numbered(n), DEBT));
        limiter
    });
    clock.advance(Duration::from_secs(60));
    beside(&limiters, "sweep()", times, table, |limiter| {
        black_box(limiter.sweep());
        assert_eq!(limiter.len(), HOT);
    });
}

/// Another thread's calls while the parameters change.
fn changing<C: Clock>(
    limiters: &[Limiter<C>; 2],
    repetition: usize,
    times: &mut Vec<u32>,
    table: &mut Table,
) {
    let new =
        if repetition.is_multiple_of(2) { limit!("2000000/s burst 4000000000") } else { GENEROUS };
    beside(limiters, "reconfigure()", times, table, |limiter| limiter.reconfigure(new));
    limiters[0].reconfigure(new);
    times.clear();
    let mut last = Instant::now();
    black_box(limiters[0].try_acquire(&u64::numbered(0)).is_granted());
    lap(&mut last, times);
    table.add("the first call after reconfigure()", times);
}

/// Another thread's calls to the first limiter while `work` is done to it, and
/// before that, as controls, while it is done to the second limiter, which
/// disturbs the machine as much but shares no lock, and while nothing is done.
fn beside<C: Clock>(
    [limiter, second]: &[Limiter<C>; 2],
    name: &str,
    times: &mut Vec<u32>,
    table: &mut Table,
    work: impl Fn(&Limiter<C>),
) {
    let mut took = Duration::ZERO;
    during(limiter, times, || {
        let start = Instant::now();
        work(second);
        took = start.elapsed();
    });
    table.add_total(&format!("{name}, all keys"), took);
    table.add(&format!("control: a call beside {name} of another limiter"), times);
    during(limiter, times, || {
        let start = Instant::now();
        while start.elapsed() < took {
            spin_loop();
        }
    });
    table.add(&format!("control: a call for as long as {name} takes"), times);
    during(limiter, times, || work(limiter));
    table.add(&format!("a call beside {name}"), times);
}

/// Times another thread's calls for the keys that it keeps while `work` goes on.
fn during<C: Clock>(limiter: &Limiter<C>, times: &mut Vec<u32>, work: impl FnOnce()) {
    let (started, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let call = |n: usize| assert!(limiter.try_acquire(&u64::numbered(n % HOT)).is_granted());
    times.clear();
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..WARM_UP).for_each(call);
            started.store(true, Ordering::SeqCst);
            let mut last = Instant::now();
            for n in 0..MANY {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                call(n);
                lap(&mut last, times);
            }
        });
        while !started.load(Ordering::SeqCst) {
            spin_loop();
        }
        work();
        done.store(true, Ordering::Relaxed);
    });
}

/// One reading for each call: the end of one is the start of the next.
fn lap(last: &mut Instant, times: &mut Vec<u32>) {
    let now = Instant::now();
    times.push(now.duration_since(*last).as_nanos().try_into().unwrap_or(u32::MAX));
    *last = now;
}

/// What was found in each repetition, by what was measured.
#[derive(Default)]
struct Table {
    totals: Vec<(String, Vec<Duration>)>,
    /// Half, all but one in ten thousand, and the longest, in nanoseconds.
    calls: Vec<(String, [Vec<u32>; 3])>,
}

impl Table {
    fn add_total(&mut self, name: &str, total: Duration) {
        row(&mut self.totals, name).push(total);
    }

    fn add(&mut self, name: &str, times: &mut [u32]) {
        times.sort_unstable();
        let last = times.len() - 1;
        let found = [times[last / 2], times[last - times.len() / 10_000], times[last]];
        for (column, found) in row(&mut self.calls, name).iter_mut().zip(found) {
            column.push(found);
        }
    }

    fn print(&mut self) {
        println!("\n{:62} {:>10}", "", "ms");
        for (name, totals) in &mut self.totals {
            println!("{name:62} {:10.1}", median(totals).as_secs_f64() * 1e3);
        }
        println!(
            "\n{:62} {:>10} {:>10} {:>10} {:>10}",
            "", "p50 ns", "99.99% us", "max us", "least max"
        );
        for (name, [half, most, longest]) in &mut self.calls {
            let least = f64::from(longest.iter().copied().min().unwrap()) / 1e3;
            let [half, most, longest] = [half, most, longest].map(|found| f64::from(median(found)));
            let [most, longest] = [most, longest].map(|nanos| nanos / 1e3);
            println!("{name:62} {half:10} {most:10.1} {longest:10.1} {least:10.1}");
        }
    }
}

fn row<'a, T: Default>(rows: &'a mut Vec<(String, T)>, name: &str) -> &'a mut T {
    let at = rows.iter().position(|row| row.0 == name).unwrap_or(rows.len());
    if at == rows.len() {
        rows.push((name.to_string(), T::default()));
    }
    &mut rows[at].1
}

fn median<T: Ord + Copy>(found: &mut [T]) -> T {
    found.sort_unstable();
    found[found.len() / 2]
}
