//! The leaky bucket as a queue and as a meter, and a bucket's output.

use crate::subject::{Subject, everywhere, everywhere_clamped};
use crate::vectors::{Fraction, Vector};
use serde::Deserialize;
use std::num::NonZeroU32;
use std::time::Duration;
use tollgate::{LeakyBucket, Limit, Rate, TokenBucket};

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Config {
    Queue { capacity: u32, rate: u32, per_ns: u64 },
    Meter { capacity: u32, rate: u32, per_ns: u64 },
    QueueVsMeter { queue_capacity: u32, meter_capacity: u32, rate: u32, per_ns: u64 },
}

pub(crate) fn run(vector: &Vector) {
    if vector.group == "arithmetic" {
        return output_of_a_bucket(vector);
    }
    match vector.config() {
        Config::Queue { capacity, rate, per_ns } => queue(vector, rate_of(rate, per_ns), capacity),
        Config::Meter { capacity, rate, per_ns } => meter(vector, rate_of(rate, per_ns), capacity),
        Config::QueueVsMeter { queue_capacity, meter_capacity, rate, per_ns } => {
            side_by_side(vector, rate_of(rate, per_ns), queue_capacity, meter_capacity);
        }
    }
}

fn rate_of(count: u32, period: u64) -> Rate {
    Rate::new(count, Duration::from_nanos(period)).expect("a rate")
}

fn bucket(rate: Rate, burst: u32) -> TokenBucket {
    TokenBucket::new(Limit::new(rate).with_burst(NonZeroU32::new(burst).expect("a burst")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    t_ns: u64,
    expect: Departure,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Departure {
    accepted: bool,
    /// Exact; departures are rounded up to whole nanoseconds.
    departs_at_ns: Option<Fraction>,
    wait_ns: Option<Fraction>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Derived {
    interval_ns: Fraction,
    max_wait_ns: Fraction,
}

fn queue(vector: &Vector, rate: Rate, places: u32) {
    let steps: Vec<Item> = vector.steps();
    let Derived { interval_ns, max_wait_ns } = vector.derived();

    everywhere(LeakyBucket::new(rate, places), |subject| {
        let mut last_departure = None;
        for Item { t_ns, expect } in &steps {
            subject.set(Duration::from_nanos(*t_ns));
            let decision = subject.call(1);
            assert_eq!(decision.is_granted(), expect.accepted, "at {t_ns}");
            let (Some(departs), Some(wait)) = (expect.departs_at_ns, expect.wait_ns) else {
                continue;
            };

            let delay = decision.delay().as_nanos();
            assert_eq!(delay, u128::from(wait.up()), "wait at {t_ns}");
            assert_eq!(u128::from(*t_ns) + delay, u128::from(departs.up()), "departure at {t_ns}");
            assert!(delay <= u128::from(max_wait_ns.up()));

            let departs = departs.up();
            if let Some(last) = last_departure.replace(departs) {
                // Of two departures that were rounded up, one less at most.
                assert!(departs - last + 1 >= interval_ns.up(), "departures {last}, {departs}");
            }
        }
    });
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arrival {
    t_ns: u64,
    amount: u32,
    expect: Level,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Level {
    conforming: bool,
    level: Fraction,
    /// Absent for conforming ones; null for never.
    #[serde(default, with = "serde_with_presence")]
    retry_after_ns: Option<Option<u64>>,
}

/// Keeps an absent field apart from a null one.
mod serde_with_presence {
    use serde::{Deserialize, Deserializer};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Option<u64>>, D::Error> {
        Option::deserialize(deserializer).map(Some)
    }
}

/// A meter's level is what a token bucket lacks. It is exact when the time in
/// which it drains, rounded up, is right.
fn meter(vector: &Vector, rate: Rate, capacity: u32) {
    let steps: Vec<Arrival> = vector.steps();
    let test = |subject: &Subject| {
        for Arrival { t_ns, amount, expect } in &steps {
            subject.set(Duration::from_nanos(*t_ns));
            let decision = subject.call(*amount);
            assert_eq!(decision.is_granted(), expect.conforming, "at {t_ns}");
            assert_eq!(decision.delay(), Duration::ZERO);
            check_level(&decision, rate, capacity, expect.level);
            if let Some(retry) = expect.retry_after_ns {
                assert_eq!(decision.retry_after(), retry.map(Duration::from_nanos), "at {t_ns}");
            }
        }
    };
    // In the source, too, time is the latest that was seen.
    let steps_back = steps.windows(2).any(|pair| pair[1].t_ns < pair[0].t_ns);
    let nobody_waits = LeakyBucket::new(rate, capacity - 1).without_delay(capacity);
    if steps_back {
        everywhere_clamped(bucket(rate, capacity), test);
        everywhere_clamped(nobody_waits, test);
    } else {
        everywhere(bucket(rate, capacity), test);
        everywhere(nobody_waits, test);
    }
}

fn check_level(decision: &tollgate::Decision, rate: Rate, capacity: u32, level: Fraction) {
    let interval =
        Fraction { numerator: rate.period().as_nanos(), denominator: rate.count().get().into() };
    let drained = Duration::from_nanos(level.times_up(interval));
    assert_eq!(decision.reset_after(), drained, "level {level:?}");
    assert_eq!(u64::from(capacity - decision.remaining()), level.up(), "level {level:?}");
    assert_eq!(decision.limit(), capacity);
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Both {
    t_ns: u64,
    expect: Passes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Passes {
    accepted: bool,
    queue_departs_at_ns: Option<Fraction>,
    meter_passes_at_ns: Option<u64>,
    meter_level: Fraction,
}

/// A queue of `c` places accepts what a meter of `c + 1` lets pass; the one
/// moves the departures and the other does not.
fn side_by_side(vector: &Vector, rate: Rate, places: u32, capacity: u32) {
    let steps: Vec<Both> = vector.steps();
    let replay = |subject: &Subject, departs: fn(&Passes) -> Option<u64>| {
        for Both { t_ns, expect } in &steps {
            subject.set(Duration::from_nanos(*t_ns));
            let decision = subject.call(1);
            assert_eq!(decision.is_granted(), expect.accepted, "at {t_ns}");
            check_level(&decision, rate, capacity, expect.meter_level);
            let delay = departs(expect).map_or(0, |at| at - t_ns);
            assert_eq!(decision.delay(), Duration::from_nanos(delay), "at {t_ns}");
        }
    };
    everywhere(LeakyBucket::new(rate, places), |subject| {
        replay(subject, |expect| expect.queue_departs_at_ns.map(Fraction::up));
    });
    everywhere(bucket(rate, capacity), |subject| {
        replay(subject, |expect| expect.meter_passes_at_ns);
    });
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Transfer {
    bucket_bytes: u32,
    max_rate_bytes_per_s: u64,
    token_rate_bytes_per_s: u32,
    total_bytes: u32,
    expect: Phases,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Phases {
    /// At full speed until the bucket is empty,
    burst_s: Fraction,
    burst_ms_rounded: f64,
    /// then as the tokens come,
    then_at_token_rate_s: Fraction,
    /// in all.
    total_s: Fraction,
}

/// Bytes offered at full speed through a bucket, in small packets. The formula
/// is of a fluid, so the end of the burst is known to a packet's time.
fn output_of_a_bucket(vector: &Vector) {
    const PACKET: u32 = 10;
    for transfer in vector.steps() {
        let Transfer { bucket_bytes, max_rate_bytes_per_s, .. } = transfer;
        let rate = rate_of(transfer.token_rate_bytes_per_s, 1_000_000_000);
        let packets = transfer.total_bytes / PACKET;
        let packet_ns = u64::from(PACKET) * 1_000_000_000 / max_rate_bytes_per_s;
        let nanos = |seconds: Fraction| {
            seconds.times_up(Fraction { numerator: 1_000_000_000, denominator: 1 })
        };
        let close = |seen: u64, wanted: u64| seen.abs_diff(wanted) <= 2 * packet_ns;

        everywhere(bucket(rate, bucket_bytes), |subject| {
            let mut burst_end = None;
            let mut now = 0;
            for _ in 0..packets {
                subject.set(Duration::from_nanos(now));
                let decision = subject.try_acquire_n(PACKET);
                if let Some(wait) = decision.retry_after().filter(|wait| !wait.is_zero()) {
                    burst_end.get_or_insert(now);
                    now += u64::try_from(wait.as_nanos()).expect("64 bits");
                    subject.set(Duration::from_nanos(now));
                    assert!(subject.try_acquire_n(PACKET).is_granted());
                }
                now += packet_ns;
            }
            let (burst, total) = (burst_end.expect("a refusal"), now - packet_ns);
            let Phases { burst_s, burst_ms_rounded, then_at_token_rate_s, total_s } =
                transfer.expect;
            assert!(close(burst, nanos(burst_s)), "burst {burst}");
            assert!((burst as f64 / 1e6 - burst_ms_rounded).abs() < 0.01);
            assert!(close(total - burst, nanos(then_at_token_rate_s)), "then {}", total - burst);
            assert_eq!(total, nanos(total_s));
        });
    }
}
