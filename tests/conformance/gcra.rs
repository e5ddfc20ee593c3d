//! The generic cell rate algorithm, bare and as redis-cell answers it.

use crate::subject::{Subject, everywhere};
use crate::vectors::{Fraction, Vector};
use serde::Deserialize;
use std::num::NonZeroU32;
use std::time::Duration;
use tollgate::{Decision, LeakyBucket, Limit, Rate, TokenBucket};

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Config {
    Gcra {
        #[serde(rename = "T")]
        interval: u32,
        tau: u32,
    },
    RedisCell {
        max_burst: u32,
        count: u32,
        period_s: u64,
    },
    Equivalence {
        #[serde(rename = "T")]
        interval: u32,
        capacity: u32,
    },
}

pub(crate) fn run(vector: &Vector) {
    if vector.group == "mbs" {
        return longest_bursts(vector);
    }
    match vector.config() {
        Config::Gcra { interval, tau } => cells(vector, interval, tau),
        Config::RedisCell { max_burst, count, period_s } => {
            redis_cell(vector, max_burst, count, period_s);
        }
        Config::Equivalence { interval, capacity } => equivalence(vector, interval, capacity),
    }
}

fn bucket(count: u32, period: u64, burst: u32) -> TokenBucket {
    let rate = Rate::new(count, Duration::from_nanos(period)).expect("a rate");
    TokenBucket::new(Limit::new(rate).with_burst(NonZeroU32::new(burst).expect("a burst")))
}

fn queue(period: u64, burst: u32) -> LeakyBucket {
    let rate = Rate::new(1, Duration::from_nanos(period)).expect("a rate");
    LeakyBucket::new(rate, burst - 1)
}

/// The definition speaks of time alone, so any unit will do.
const UNITS: [u64; 3] = [1, 1_000, 999_983];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cell {
    t: u64,
    expect: Conforming,
    after: After,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Conforming {
    conforming: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    /// The theoretical arrival time of the next cell.
    tat: u64,
    /// The same in the leaky-bucket form: the level at the last conforming cell.
    bucket: Fraction,
    lct: u64,
}

/// A cell costs `T` permits of a bucket for `tau + T`, of which one comes in
/// each unit of time: so `tau` need not be a multiple of `T`. Where it is, a
/// bucket for `1 + tau / T` whole cells must answer the same.
fn cells(vector: &Vector, interval: u32, tau: u32) {
    let steps: Vec<Cell> = vector.steps();
    for unit in UNITS {
        let scaled =
            |subject: &Subject| check_cells(subject, &steps, unit, interval, tau + interval, 1);
        everywhere(bucket(1, unit, tau + interval), scaled);
        everywhere(queue(unit, tau + interval), scaled);
        if tau.is_multiple_of(interval) {
            let (period, burst) = (u64::from(interval) * unit, 1 + tau / interval);
            let whole = |subject: &Subject| {
                check_cells(subject, &steps, unit, 1, burst, u64::from(interval));
            };
            everywhere(bucket(1, period, burst), whole);
            everywhere(queue(period, burst), whole);
        }
    }
}

/// `cost` permits for each cell, of `capacity`; one permit is worth `worth`
/// units of time.
fn check_cells(subject: &Subject, steps: &[Cell], unit: u64, cost: u32, capacity: u32, worth: u64) {
    for Cell { t, expect, after } in steps {
        subject.set(Duration::from_nanos(t * unit));
        let decision = subject.call(cost);
        assert_eq!(decision.is_granted(), expect.conforming, "at {t}");

        assert_eq!(after.tat, after.lct + after.bucket.up());
        let ahead = after.tat.saturating_sub(*t);
        assert_eq!(decision.reset_after(), Duration::from_nanos(ahead * unit), "at {t}");
        assert_eq!(u64::from(decision.remaining()), u64::from(capacity) - ahead.div_ceil(worth));
        assert_eq!(decision.limit(), capacity);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Formula {
    #[serde(rename = "T")]
    interval: u32,
    tau: u32,
    delta: u32,
    expect: LongestBurst,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongestBurst {
    max_burst: usize,
}

/// From idle, cells spaced `delta` apart conform so many times in a row.
fn longest_bursts(vector: &Vector) {
    for Formula { interval, tau, delta, expect } in vector.steps() {
        for unit in UNITS {
            everywhere(bucket(1, unit, tau + interval), |subject| {
                let conforms = |cell: &u64| {
                    subject.set(Duration::from_nanos(cell * u64::from(delta) * unit));
                    subject.call(interval).is_granted()
                };
                let burst = (0..).take_while(conforms).count();
                assert_eq!(burst, expect.max_burst, "T {interval} tau {tau} delta {delta}");
            });
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    t: u64,
    quantity: u32,
    expect: Allowed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    ok: bool,
}

/// A token bucket, a meter and the cell algorithm decide alike.
fn equivalence(vector: &Vector, interval: u32, capacity: u32) {
    let steps: Vec<Request> = vector.steps();
    let period = u64::from(interval);
    let decides = |subject: &Subject, worth: u32| {
        for Request { t, quantity, expect } in &steps {
            subject.set(Duration::from_nanos(*t));
            assert_eq!(subject.call(quantity * worth).is_granted(), expect.ok, "at {t}");
        }
    };
    everywhere(bucket(1, period, capacity), |subject| decides(subject, 1));
    everywhere(queue(period, capacity), |subject| decides(subject, 1));
    everywhere(bucket(1, 1, capacity * interval), |subject| decides(subject, interval));
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Throttle {
    t_ns: u64,
    quantity: u32,
    expect: Reply,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    limited: bool,
    limit: u32,
    remaining: u32,
    /// Absent where it does not apply: when allowed, or never possible.
    retry_after_ns: Option<u64>,
    reset_after_ns: u64,
    /// What the command answers: limited, limit, remaining, retry and reset in
    /// seconds.
    reply: [i64; 5],
    ceil_s: WholeSeconds,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WholeSeconds {
    retry_after: Option<u64>,
    reset_after: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Derived {
    emission_interval_ns: u64,
    tolerance_ns: u64,
}

/// A bucket for `max_burst + 1`. The source rounds the interval down to whole
/// nanoseconds, and so is this limiter's rate; its own would be exact.
fn redis_cell(vector: &Vector, max_burst: u32, count: u32, period_s: u64) {
    let Derived { emission_interval_ns: interval, tolerance_ns } = vector.derived();
    assert_eq!(interval, period_s * 1_000_000_000 / u64::from(count));
    assert_eq!(tolerance_ns, interval * (u64::from(max_burst) + 1));

    let steps: Vec<Throttle> = vector.steps();
    let test = |subject: &Subject| {
        for Throttle { t_ns, quantity, expect } in &steps {
            // Some vectors let the clock run back; the state is not pulled back.
            subject.set(Duration::from_nanos(*t_ns));
            check_reply(&subject.call(*quantity), expect, &vector.id);
        }
    };
    everywhere(bucket(1, interval, max_burst + 1), test);
    everywhere(queue(interval, max_burst + 1), test);
}

fn check_reply(decision: &Decision, expect: &Reply, id: &str) {
    let nanos = |wait: Duration| u64::try_from(wait.as_nanos()).expect("64 bits");
    let reset = nanos(decision.reset_after());
    // Here the source does not apply a wait of nothing.
    let retry = decision.retry_after().filter(|_| decision.is_denied()).map(nanos);

    // The source counts in whole microseconds and says that one is left a
    // nanosecond before it is; a call for it is refused, and so the law is none.
    let early = id == "gcra-017" && expect.limited && expect.remaining == 1;
    let remaining = if early { 0 } else { expect.remaining };

    assert_eq!(decision.is_denied(), expect.limited, "{id}: limited");
    assert_eq!(decision.limit(), expect.limit, "{id}: limit");
    assert_eq!(decision.remaining(), remaining, "{id}: remaining");
    assert_eq!(retry, expect.retry_after_ns, "{id}: retry");
    assert_eq!(reset, expect.reset_after_ns, "{id}: reset");

    let whole = decision.retry_after_secs().filter(|_| decision.is_denied());
    assert_eq!(whole, expect.ceil_s.retry_after, "{id}: retry in seconds");
    assert_eq!(reset.div_ceil(1_000_000_000), expect.ceil_s.reset_after, "{id}: reset in seconds");

    // The command's own seconds leave out what is below a millisecond.
    let seconds = |nanos: u64| (nanos / 1_000_000).div_ceil(1_000).cast_signed();
    let retry = retry.map_or(-1, seconds);
    let [limited, limit, left] = [u32::from(expect.limited), expect.limit, expect.remaining];
    let reply = [limited.into(), limit.into(), left.into(), retry, seconds(reset)];
    assert_eq!(reply, expect.reply, "{id}: reply");
}
