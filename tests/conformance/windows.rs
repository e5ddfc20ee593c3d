//! Fixed windows on a grid, the log of a half-open sliding window, and the
//! weighted counter.

use crate::subject::{Subject, on_both};
use crate::vectors::{Fraction, Vector};
use serde::Deserialize;
use std::time::Duration;
use tollgate::{
    Algorithm, FixedWindow, Instant, Locked, Rate, SlidingWindowCounter, SlidingWindowLog,
};

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Config {
    FixedWindow {
        limit: u32,
        window_ns: u64,
        #[serde(default)]
        offset_ns: u64,
    },
    SlidingLog {
        limit: u32,
        window_ns: u64,
    },
    SlidingCounter {
        limit: u32,
        window_ns: u64,
        rounding: Rounding,
    },
}

/// Of the estimate; other vectors are not covered.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rounding {
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step<E = Expect> {
    t_ns: u64,
    cost: u32,
    expect: E,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    ok: bool,
    #[serde(alias = "count")]
    used: u32,
    remaining: u32,
    /// The end of the window; a log has none.
    reset_after_ns: Option<u64>,
    /// Absent for never.
    retry_after_ns: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Estimate {
    ok: bool,
    estimate_before: Fraction,
    /// In the newest window, this call included.
    current_count: u32,
    retry_after_ns: u64,
}

#[derive(Deserialize, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
struct Summary {
    allowed: u32,
    max_allowed_in_any_window: u32,
}

pub(crate) fn run(vector: &Vector) {
    match vector.config() {
        Config::FixedWindow { limit, window_ns, offset_ns } => {
            let rate = rate(limit, window_ns);
            let windows = FixedWindow::aligned(rate, Duration::from_nanos(offset_ns));
            replay(vector, limit, window_ns, windows);
        }
        Config::SlidingLog { limit, window_ns } => {
            replay(vector, limit, window_ns, SlidingWindowLog::new(rate(limit, window_ns)));
        }
        Config::SlidingCounter { limit, window_ns, rounding: Rounding::None } => {
            replay_counter(vector, limit, window_ns);
        }
    }
}

fn rate(limit: u32, window_ns: u64) -> Rate {
    Rate::new(limit, Duration::from_nanos(window_ns)).expect("a rate")
}

/// The times are those of the wall clock, and once more as many whole windows
/// later as reach 2^63. The limiter is made a while before the first call, in
/// the midst of a window.
fn replay<A: Algorithm + 'static>(vector: &Vector, limit: u32, window: u64, algorithm: A) {
    let steps: Vec<Step> = vector.steps();
    let first = steps[0].t_ns;
    let made = first.saturating_sub(window + window / 3);
    let steps_back = steps.windows(2).any(|pair| pair[1].t_ns < pair[0].t_ns);

    for shift in [0, (1 << 63) / window * window] {
        let start = Instant::from_nanos(made + shift);
        let test = |subject: &Subject| check(subject, &steps, made, limit, window, vector);
        if steps_back {
            test(&Subject::clamped(start, algorithm));
            test(&Subject::clamped(start, Locked(algorithm)));
        } else {
            on_both(start, algorithm, test);
        }
    }
}

fn check(subject: &Subject, steps: &[Step], made: u64, limit: u32, window: u64, vector: &Vector) {
    let mut grants = Vec::new();
    let mut latest = 0;
    for (at, Step { t_ns, cost, expect }) in steps.iter().enumerate() {
        let step = format!("{} step {at}", vector.id);
        subject.set(Duration::from_nanos(t_ns - made));
        let decision = subject.call(*cost);

        // Of a clamped clock that has gone back: it stands still, so a wait
        // counts from the latest time seen.
        latest = latest.max(*t_ns);
        let wait = |nanos: u64| Duration::from_nanos(nanos.saturating_sub(latest - t_ns));

        assert_eq!(decision.is_granted(), expect.ok, "{step}: outcome");
        assert_eq!(decision.limit(), limit, "{step}: limit");
        assert_eq!(decision.remaining(), expect.remaining, "{step}: remaining");
        assert_eq!(limit - decision.remaining(), expect.used, "{step}: used");
        assert_eq!(decision.retry_after(), expect.retry_after_ns.map(wait), "{step}: retry");
        if let Some(reset) = expect.reset_after_ns {
            assert_eq!(decision.reset_after(), wait(reset), "{step}: reset");
        }
        if decision.is_granted() {
            grants.push((*t_ns, *cost));
        }
    }

    assert_eq!(summary(&grants, window), vector.summary(), "{}", vector.id);
}

/// Of grants as (time, cost).
fn summary(grants: &[(u64, u32)], window: u64) -> Summary {
    let within = |end: u64| {
        let inside = |at: u64| at <= end && at + window > end;
        grants.iter().filter(|(at, _)| inside(*at)).map(|(_, cost)| cost).sum::<u32>()
    };
    Summary {
        allowed: grants.iter().map(|(_, cost)| cost).sum(),
        max_allowed_in_any_window: grants.iter().map(|(at, _)| within(*at)).max().unwrap_or(0),
    }
}

/// As [`replay`], but where the clock goes back it is not clamped: the vectors
/// say what a counter does then.
fn replay_counter(vector: &Vector, limit: u32, window: u64) {
    let steps: Vec<Step<Estimate>> = vector.steps();
    let made = steps[0].t_ns - (window + window / 3);
    let counter = SlidingWindowCounter::aligned(rate(limit, window), Duration::ZERO).expect("room");
    for shift in [0, (1 << 63) / window * window] {
        let start = Instant::from_nanos(made + shift);
        on_both(start, counter, |subject| {
            check_counter(subject, &steps, made, limit, window, vector);
        });
    }
}

fn check_counter(
    subject: &Subject,
    steps: &[Step<Estimate>],
    made: u64,
    limit: u32,
    window: u64,
    vector: &Vector,
) {
    let mut grants = Vec::new();
    let mut latest = 0;
    for (at, Step { t_ns, cost, expect }) in steps.iter().enumerate() {
        let step = format!("{} step {at}", vector.id);
        let left_at = |t_ns: u64| {
            subject.set(Duration::from_nanos(t_ns - made));
            subject.peek_n(1).remaining()
        };
        let estimate = expect.estimate_before.up() as u32;
        assert_eq!(left_at(*t_ns), limit.saturating_sub(estimate), "{step}: estimate");
        let decision = subject.call(*cost);
        assert_eq!(decision.is_granted(), expect.ok, "{step}: outcome");
        let wait = Some(Duration::from_nanos(expect.retry_after_ns));
        assert_eq!(decision.retry_after(), wait, "{step}: retry");
        // At the end of its window the current count is all that counts.
        latest = latest.max(*t_ns);
        let edge = latest / window * window + window;
        assert_eq!(limit - left_at(edge), expect.current_count, "{step}: count");
        if expect.ok {
            grants.push((*t_ns, *cost));
        }
    }
    assert_eq!(summary(&grants, window), vector.summary(), "{}", vector.id);
}
