//! nginx's `limit_req`: a leaky bucket of `burst` places that lets the first
//! `delay` of them go at once.
//!
//! nginx counts in thousandths of a request and in whole milliseconds. Each
//! accepted request loses it less than a thousandth, so that its excess lies
//! above the exact one by less than so many; delays are cut to milliseconds.

use crate::subject::{Subject, everywhere, everywhere_clamped};
use crate::vectors::Vector;
use serde::Deserialize;
use std::collections::HashMap;
use std::time::Duration;
use tollgate::{
    Algorithm, Clamped, Decision, Instant, KeyedRateLimiter, LeakyBucket, Locked, ManualClock, Rate,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    zones: Vec<Zone>,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Zone {
    rate: String,
    #[serde(default)]
    burst: u32,
    #[serde(default)]
    delay: Delay,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Delay {
    Permits(u32),
    Text(String),
}

impl Default for Delay {
    fn default() -> Self {
        Self::Permits(0)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Derived {
    rate_milli_per_s: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    t_ms: u64,
    #[serde(default)]
    key: String,
    expect: Expect,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    outcome: String,
    excess_milli: i128,
    delay_ms: i128,
    zone: Option<usize>,
    /// What becomes of a refusal is not the limiter's business.
    #[serde(rename = "http_status")]
    _http_status: Option<u16>,
}

impl Zone {
    fn bucket(&self, milli_per_s: u32) -> LeakyBucket {
        let rate = Rate::new(milli_per_s, Duration::from_secs(1_000)).expect("a rate");
        let at_once = match &self.delay {
            Delay::Permits(permits) => *permits,
            Delay::Text(text) => {
                assert_eq!(text, "nodelay");
                u32::MAX
            }
        };
        LeakyBucket::new(rate, self.burst).without_delay(at_once)
    }

    /// Whole thousandths of a request a second, which is what nginx keeps:
    /// 7r/m is 116 and not 116.67, and so it is here.
    fn milli_per_s(&self) -> u32 {
        let (count, unit) = self.rate.split_once("r/").expect("a rate");
        let count: u32 = count.parse().expect("a rate");
        match unit {
            "s" => count * 1_000,
            "m" => count * 1_000 / 60,
            _ => panic!("unit {unit}"),
        }
    }
}

pub(crate) fn run(vector: &Vector) {
    let Config { zones, dry_run } = vector.config();
    let rates: Vec<u32> = zones.iter().map(Zone::milli_per_s).collect();
    assert_eq!(rates, vector.derived::<Derived>().rate_milli_per_s);

    let script =
        Script { id: vector.id.clone(), steps: vector.steps(), rates: rates.clone(), dry_run };
    let bucket = |zone: usize| zones[zone].bucket(rates[zone]);
    match zones.len() {
        1 => script.replay(bucket(0)),
        2 => script.replay((bucket(0), bucket(1))),
        zones => panic!("{zones} zones"),
    }
}

struct Script {
    id: String,
    steps: Vec<Step>,
    rates: Vec<u32>,
    dry_run: bool,
}

impl Script {
    /// Where there is one key, on a limiter of one's own; and always by key.
    fn replay<A: Algorithm + 'static>(&self, algorithm: A) {
        let test = |subject: &Subject| {
            self.check(|step| {
                subject.set(Duration::from_millis(step.t_ms));
                subject.call(1)
            });
        };
        match (self.steps.iter().all(|step| step.key.is_empty()), self.steps_back()) {
            (true, true) => everywhere_clamped(algorithm, test),
            (true, false) => everywhere(algorithm, test),
            (false, _) => {}
        }
        for start in crate::subject::ORIGINS.map(Instant::from_nanos) {
            self.by_key(start, algorithm);
            self.by_key(start, Locked(algorithm));
        }
    }

    fn by_key<A: Algorithm>(&self, start: Instant, algorithm: A) {
        let clock = ManualClock::starting_at(start);
        let limiter: KeyedRateLimiter<String, A, _> =
            KeyedRateLimiter::with_clock(algorithm, Clamped::new(clock.clone()));
        self.check(|step| {
            clock.set(start + Duration::from_millis(step.t_ms));
            limiter.try_acquire(&*step.key)
        });
    }

    fn steps_back(&self) -> bool {
        self.steps.windows(2).any(|pair| pair[1].t_ms < pair[0].t_ms)
    }

    fn check(&self, decide: impl Fn(&Step) -> Decision) {
        let mut accepted = HashMap::new();
        for (at, step) in self.steps.iter().enumerate() {
            let decision = decide(step);
            let accepted = accepted.entry(&*step.key).or_insert(0);
            self.check_step(&format!("{} step {at}", self.id), at, step, &decision, *accepted);
            *accepted += i128::from(decision.is_granted());
        }
    }

    fn check_step(&self, name: &str, at: usize, step: &Step, decision: &Decision, accepted: i128) {
        let expect = &step.expect;

        // On a dry run nginx refuses and delays nobody, and says what it would
        // have done: as does one who asks and goes on.
        let outcome = match (decision.is_granted(), decision.delay().is_zero()) {
            (false, _) => "REJECTED",
            (true, true) => "PASSED",
            (true, false) => "DELAYED",
        };
        let dry_run = if self.dry_run && outcome != "PASSED" { "_DRY_RUN" } else { "" };
        assert_eq!(format!("{outcome}{dry_run}"), expect.outcome, "{name}");

        // For a request that passes, nginx names its last zone and the crate
        // the one with the least left.
        if let Some(zone) = expect.zone.filter(|_| outcome != "PASSED") {
            assert_eq!(decision.index(), zone, "{name}");
        }

        // Thousand-millionths of a thousandth, to be exact. The time in which a
        // bucket drains is that of the excess and of the request itself, unless
        // it has been refused; it is rounded up to a nanosecond.
        let exact = 1_000_000_000;
        let rate = i128::from(self.rates[decision.index()]);
        let drain = i128::try_from(decision.reset_after().as_nanos()).expect("nanoseconds");
        let own = if decision.is_granted() { 1_000 } else { 0 };
        let excess = drain * rate - own * exact;
        let rounding = (accepted + 1) * exact;

        // nginx takes more than a minute back for a millisecond on; here the
        // clock stands still until the time it had reached has come again.
        let moved = match (&*self.id, at) {
            ("nginx-018", 2..=3) => 1,
            ("nginx-018", 4) => 1_001,
            _ => 0,
        };
        let above = (expect.excess_milli + moved) * exact - excess;
        assert!((-rate..rounding).contains(&above), "{name}: excess {excess}");

        if !self.dry_run {
            let delay = i128::try_from(decision.delay().as_nanos()).expect("nanoseconds");
            let below = delay - expect.delay_ms * 1_000_000;
            let later = rounding / rate;
            assert!((-later..1_000_000).contains(&below), "{name}: delay {delay}");
        }
    }
}
