//! Instructions per call, counted by valgrind: the one number that does not
//! depend on what else the machine is doing. Fails when a path has become
//! longer than its budget.
//!
//! `cargo bench --bench instructions`; without valgrind it says so and passes.

use std::hint::black_box;
use std::process::{Command, ExitCode};
use tollgate::{
    Algorithm, Clock, FixedWindow, KeyedRateLimiter, LeakyBucket, Locked, ManualClock,
    MonotonicClock, RateLimiter, SlidingWindowLog, TokenBucket, limit, rate,
};

/// Many calls of one kind.
type Case = fn();

/// Name, case, and the most instructions a call may take.
const CASES: &[(&str, Case, f64)] = &[
    (
        "token bucket, allowed, default clock",
        || allowed(token_bucket(), MonotonicClock::new()),
        80.0,
    ),
    ("token bucket, allowed", || allowed(token_bucket(), ManualClock::new()), 56.0),
    ("token bucket, refused", || refused(TokenBucket::new(limit!("1/d"))), 41.0),
    ("token bucket, allowed, mutex", || allowed(Locked(token_bucket()), ManualClock::new()), 59.0),
    (
        "leaky bucket, allowed",
        || allowed(LeakyBucket::new(rate!("1/s"), 1_000_000), ManualClock::new()),
        56.0,
    ),
    (
        "fixed window, allowed",
        || allowed(FixedWindow::new(rate!("1000000/s")), ManualClock::new()),
        63.0,
    ),
    ("fixed window, refused", || refused(FixedWindow::new(rate!("1/d"))), 49.0),
    (
        "sliding log, allowed",
        || allowed(SlidingWindowLog::new(rate!("60000/s")), ManualClock::new()),
        245.0,
    ),
    ("sliding log, refused", || refused(SlidingWindowLog::new(rate!("1/d"))), 130.0),
    (
        "sliding log, allowed, mutex",
        || allowed(Locked(SlidingWindowLog::new(rate!("60000/s"))), ManualClock::new()),
        240.0,
    ),
    ("sliding log, refused, mutex", || refused(Locked(SlidingWindowLog::new(rate!("1/d")))), 236.0),
    (
        "two limits, allowed",
        || allowed((token_bucket(), FixedWindow::new(rate!("1000000/s"))), ManualClock::new()),
        105.0,
    ),
    ("keyed token bucket, allowed", keyed, 155.0),
];

const CALLS: u64 = 10_000;

fn token_bucket() -> TokenBucket {
    TokenBucket::new(limit!("1000000/s"))
}

fn allowed<A: Algorithm, C: Clock>(algorithm: A, clock: C) {
    let limiter = RateLimiter::with_clock(algorithm, clock);
    counted(|| assert!(black_box(&limiter).try_acquire().is_granted()));
}

fn refused<A: Algorithm>(algorithm: A) {
    let limiter = RateLimiter::with_clock(algorithm, ManualClock::new());
    assert!(limiter.try_acquire().is_granted());
    counted(|| assert!(black_box(&limiter).try_acquire().is_denied()));
}

fn keyed() {
    let limiter = KeyedRateLimiter::with_clock(token_bucket(), ManualClock::new());
    counted(|| assert!(black_box(&limiter).try_acquire(&7_u64).is_granted()));
}

/// Valgrind counts what happens in here; it knows the place by its name.
#[inline(never)]
fn counted(call: impl Fn()) {
    for _ in 0..CALLS {
        call();
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some((_, case, _)) =
        CASES.iter().find(|case| arguments.get(1).is_some_and(|name| name == case.0))
    {
        case();
        return ExitCode::SUCCESS;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("valgrind is not installed: no instructions counted");
        return ExitCode::SUCCESS;
    }
    let mut code = ExitCode::SUCCESS;
    for &(name, _, budget) in CASES {
        let counted = count(&arguments[0], name) as f64 / CALLS as f64;
        let verdict = if counted > budget { "OVER BUDGET" } else { "" };
        println!("{name:40} {counted:8.1} of {budget:6.1} {verdict}");
        if counted > budget {
            code = ExitCode::FAILURE;
        }
    }
    code
}

fn count(program: &str, name: &str) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--toggle-collect=*instructions*counted*", program, name])
        .output()
        .expect("valgrind runs");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}");
    let collected = report.lines().find_map(|line| line.split_once("Collected : "));
    collected.and_then(|(_, n)| n.trim().parse().ok()).expect("a count of instructions")
}
