//! The crate in use: each algorithm decides on the same requests, on a clock
//! that stands where the log says.

use crate::traffic::Traffic;
use std::time::{self, Duration};
use tollgate::{
    Algorithm, ConfigError, FixedWindow, Instant, KeyedRateLimiter, LeakyBucket, Limit, Locked,
    ManualClock, SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};

/// What is replayed. A new algorithm, or another way to share one between
/// threads, is one line here.
pub(crate) const ROWS: &[Row] = &[
    Row("token-bucket", "lock-free", |limit, log| Ok(replay(TokenBucket::new(limit), log))),
    Row("token-bucket", "mutex", |limit, log| Ok(replay(Locked(TokenBucket::new(limit)), log))),
    Row("leaky-bucket", "lock-free", |limit, log| Ok(replay(LeakyBucket::from(limit), log))),
    Row("leaky-bucket", "mutex", |limit, log| Ok(replay(Locked(LeakyBucket::from(limit)), log))),
    Row("fixed-window", "lock-free", |limit, log| Ok(replay(windows(limit), log))),
    Row("fixed-window", "mutex", |limit, log| Ok(replay(Locked(windows(limit)), log))),
    // Above a count of 65,535 this one locks too.
    Row("sliding-log", "lock-free", |limit, log| Ok(replay(sliding_log(limit), log))),
    Row("sliding-log", "mutex", |limit, log| Ok(replay(Locked(sliding_log(limit)), log))),
    Row("sliding-counter", "lock-free", |limit, log| Ok(replay(counter(limit)?, log))),
    Row("sliding-counter", "mutex", |limit, log| Ok(replay(Locked(counter(limit)?), log))),
];

/// Windows of the calendar: the clock counts from the Unix epoch.
fn windows(limit: Limit) -> FixedWindow {
    FixedWindow::aligned(limit.rate(), Duration::ZERO)
}

fn sliding_log(limit: Limit) -> SlidingWindowLog {
    SlidingWindowLog::new(limit.rate())
}

/// The same windows. Its state has no room for every limit.
fn counter(limit: Limit) -> Result<SlidingWindowCounter, ConfigError> {
    SlidingWindowCounter::aligned(limit.rate(), Duration::ZERO)
}

/// An algorithm, how it is shared, and its replay.
pub(crate) struct Row(
    &'static str,
    &'static str,
    fn(Limit, &Traffic) -> Result<Replay, ConfigError>,
);

/// What an algorithm did with each request.
struct Replay {
    released: Vec<Option<Instant>>,
    took: Duration,
}

fn replay<A: Algorithm>(algorithm: A, traffic: &Traffic) -> Replay {
    let start = traffic.requests.first().map_or(Instant::ZERO, |request| request.at);
    let clock = ManualClock::starting_at(start);
    let limiter: KeyedRateLimiter<Vec<u8>, A, _> =
        KeyedRateLimiter::with_clock(algorithm, clock.clone());

    let began = time::Instant::now();
    let released = traffic
        .requests
        .iter()
        .map(|request| {
            clock.set(request.at);
            let decision = limiter.try_acquire(traffic.keys[request.key].as_slice());
            decision.is_granted().then(|| request.at + decision.delay())
        })
        .collect();
    Replay { released, took: began.elapsed() }
}

/// A row's answers.
pub(crate) struct Outcome {
    pub(crate) algorithm: &'static str,
    pub(crate) sharing: &'static str,
    pub(crate) limit: Limit,
    /// For each request when it may go on, if at all: at once, but where a
    /// leaky bucket makes it wait.
    pub(crate) released: Vec<Option<Instant>>,
    /// How long a decision took.
    pub(crate) nanos: Option<f64>,
}

impl Row {
    /// The answers, or why this algorithm has none under such a limit.
    pub(crate) fn replay(&self, limit: Limit, traffic: &Traffic) -> Result<Outcome, String> {
        let Self(algorithm, sharing, _) = *self;
        let Replay { released, .. } = self.answer(limit, traffic)?;
        Ok(Outcome { algorithm, sharing, limit, released, nanos: None })
    }

    /// The same with the time that a decision took: in the fastest of several
    /// replays, the first of which only warms up caches.
    pub(crate) fn timed(&self, limit: Limit, traffic: &Traffic) -> Result<Outcome, String> {
        const ENOUGH: Duration = Duration::from_millis(20);
        let outcome = self.replay(limit, traffic)?;
        let mut fastest = Duration::MAX;
        let began = time::Instant::now();
        loop {
            fastest = fastest.min(self.answer(limit, traffic)?.took);
            if began.elapsed() >= ENOUGH {
                break;
            }
        }
        let nanos = fastest.as_nanos() as f64 / traffic.requests.len() as f64;
        Ok(Outcome { nanos: Some(nanos), ..outcome })
    }

    fn answer(&self, limit: Limit, traffic: &Traffic) -> Result<Replay, String> {
        let Self(algorithm, _, replay) = self;
        replay(limit, traffic).map_err(|error| format!("{algorithm}: {error}, left out"))
    }
}
