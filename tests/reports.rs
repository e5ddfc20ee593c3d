//! Faults that users of rate limiters have met in the field, each as a scenario
//! with exact numbers: on lock-free limiters and behind a mutex, with the
//! clock's origin at 0, 1 and 2^63.

#[path = "reports/calls.rs"]
mod calls;
#[path = "reports/clocks.rs"]
mod clocks;
#[path = "reports/config.rs"]
mod config;
#[path = "reports/numbers.rs"]
mod numbers;
#[path = "reports/refill.rs"]
mod refill;
#[path = "common/short.rs"]
mod short;
mod subject;
#[path = "reports/threads.rs"]
mod threads;
#[path = "reports/windows.rs"]
mod windows;

use short::{bucket, ms, ns, rate, s};
use std::time::Duration;
use subject::Subject;
use tollgate::{Decision, FixedWindow, LeakyBucket, SlidingWindowLog};

/// What a call was told.
#[derive(PartialEq, Debug)]
enum Answer {
    Granted {
        left: u32,
    },
    Denied {
        wait: Duration,
    },
    /// More than one call can ever take.
    Never,
}

fn ok(left: u32) -> Answer {
    Answer::Granted { left }
}

fn no(wait: Duration) -> Answer {
    Answer::Denied { wait }
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        match decision.retry_after() {
            None => Self::Never,
            Some(wait) if decision.is_denied() => Self::Denied { wait },
            Some(_) => Self::Granted { left: decision.remaining() },
        }
    }
}

impl Subject {
    /// Asks for `n` permits so long after the creation.
    fn ask(&self, at: Duration, n: u32) -> Answer {
        self.set(at);
        self.call(n).into()
    }

    /// How many of so many calls are granted.
    fn granted(&self, at: Duration, calls: u32) -> u32 {
        self.set(at);
        (0..calls).map(|_| u32::from(self.try_acquire_n(1).is_granted())).sum()
    }

    /// What is left, taking nothing.
    fn left(&self) -> u32 {
        self.peek_n(1).remaining()
    }
}

/// Windows that begin when the limiter is made.
fn window(count: u32, period: Duration) -> FixedWindow {
    FixedWindow::new(rate(count, period))
}

fn log(count: u32, period: Duration) -> SlidingWindowLog {
    SlidingWindowLog::new(rate(count, period))
}

/// Departures one `interval` apart, for `places` that wait.
fn queue(interval: Duration, places: u32) -> LeakyBucket {
    LeakyBucket::new(rate(1, interval), places)
}
