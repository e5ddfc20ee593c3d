//! The bound that each algorithm publishes, on the grants of a schedule without
//! what was given back of them.

use crate::common::*;
use crate::{LAST, Scenario};
use core::num::NonZeroU32;
use core::ops::RangeInclusive;
use core::time::Duration;
use proptest::prelude::*;
use std::collections::HashMap;
use tollgate::{
    Algorithm, FixedWindow, Instant, LeakyBucket, Limit, ManualClock, Rate, RateLimiter,
    SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};

/// What is left of a grant when its refund is over.
///
/// Without steps back of the clock its three times are the same.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// The clock's reading.
    reading: u64,
    /// The latest reading at which anything was taken so far,
    latest: u64,
    /// leaving out what had been given back by then.
    latest_kept: u64,
    departure: u64,
    n: u32,
    given_back: u32,
}

/// The grants of a schedule, in order, on a clock confined to `life`.
fn kept<A: Algorithm>(
    make: &impl Make<A>,
    (setup, steps): Scenario,
    life: RangeInclusive<u64>,
) -> Result<Vec<Kept>, TestCaseError> {
    let mut subject = Subject::new(make, setup);
    let mut now = setup.origin;
    let mut grants: Vec<Kept> = Vec::new();
    let (mut latest, mut latest_charge) = (*life.start(), *life.start());
    for step in steps {
        now = subject.time_after(step.jump, now).min(*life.end());
        let act = subject.act(step.call, now);
        if act == Act::Reset {
            continue; // nothing is bounded across it
        }
        match (act, subject.perform(act, now)?) {
            (Act::Acquire(n @ 1..), Reply::Said(Said { granted: true, delay, .. })) => {
                latest = latest.max(now);
                let others = grants.iter().filter(|grant| grant.n > 0);
                let latest_kept = others.map(|grant| grant.latest_kept).max().unwrap_or(0);
                grants.push(Kept {
                    reading: now,
                    latest,
                    latest_kept: latest_kept.max(latest_charge).max(now),
                    departure: now.saturating_add(delay),
                    n,
                    given_back: 0,
                });
            }
            (Act::Charge(_), Reply::Booked(1..)) => {
                latest = latest.max(now);
                latest_charge = latest_charge.max(now);
            }
            (Act::Refund { grant, .. }, Reply::GaveBack(n)) => {
                grants[grant].given_back = n;
                grants[grant].n -= n;
            }
            _ => {}
        }
    }
    grants.retain(|grant| grant.n > 0);
    Ok(grants)
}

/// Limits that a schedule fills.
fn crowds() -> impl Strategy<Value = Scenario> {
    let small = (1..=12_u32).prop_map(|burst| NonZeroU32::new(burst).unwrap());
    (setups_with(rates(), small), schedules())
}

fn bucket(rate: Rate, burst: NonZeroU32) -> TokenBucket {
    TokenBucket::new(Limit::new(rate).with_burst(burst))
}

// ------------------------------------------------------------ token buckets

/// At most `burst + rate * (d + 1 ns)` in any span of `d`. Before the creation
/// time stands still.
fn within_the_burst_and_the_rate(setup: Setup, grants: &[Kept]) -> Result<(), TestCaseError> {
    let (count, period) = (u128::from(setup.rate.count().get()), u128::from(period(setup.rate)));
    let (burst, grain) = (u128::from(setup.burst.get()), u128::from(setup.grain()));
    let time = |grant: &Kept| u128::from(grant.latest_kept.max(setup.origin));
    for first in 0..grants.len() {
        let mut permits = 0;
        for last in first..grants.len() {
            permits += u128::from(grants[last].n);
            let span = time(&grants[last]) - time(&grants[first]);
            let bound = burst * period + count * (span + grain);
            prop_assert!(permits * period <= bound, "{:?}", &grants[first..=last]);
        }
    }
    Ok(())
}

#[test]
fn of_a_token_bucket() {
    proptest!(cases(1024), |(scenario in crowds())| {
        let setup = scenario.0;
        within_the_burst_and_the_rate(setup, &kept(&bucket, scenario, 0..=LAST)?)?;
    });
}

// --------------------------------------------------------------------- logs

/// At most `count` in any half-open period.
fn within_the_count(rate: Rate, grants: &[Kept]) -> Result<(), TestCaseError> {
    for first in grants {
        let span = first.latest..first.latest.saturating_add(period(rate));
        let within = grants.iter().filter(|grant| span.contains(&grant.latest));
        let permits: u64 = within.map(|grant| u64::from(grant.n)).sum();
        prop_assert!(permits <= rate.count().get().into(), "{permits} from {first:?} on");
    }
    Ok(())
}

#[test]
fn of_a_sliding_window_log() {
    let log = |rate, _| SlidingWindowLog::new(rate);
    proptest!(cases(1024), |(scenario in crowds())| {
        let rate = scenario.0.rate;
        within_the_count(rate, &kept(&log, scenario, 0..=LAST)?)?;
    });
}

// ------------------------------------------------------------------ windows

/// At most `count` in each window, the clock's reading telling which.
fn within_each_window(setup: Setup, first_edge: u64, grants: &[Kept]) -> Result<(), TestCaseError> {
    let mut windows = HashMap::new();
    for grant in grants {
        // Time stands still before the creation.
        let time = grant.reading.max(setup.origin);
        let into = i128::from(time) - i128::from(first_edge);
        let window = into.div_euclid(period(setup.rate).into());
        let permits = windows.entry(window).or_insert(0_u64);
        *permits += u64::from(grant.n);
        prop_assert!(*permits <= setup.rate.count().get().into(), "{permits} with {grant:?}");
    }
    Ok(())
}

#[test]
fn of_a_fixed_window() {
    let window = |rate, _| FixedWindow::new(rate);
    proptest!(cases(1024), |(scenario in crowds())| {
        let setup = scenario.0;
        within_each_window(setup, setup.origin, &kept(&window, scenario, 0..=LAST)?)?;
    });
}

#[test]
fn of_an_aligned_fixed_window() {
    let window = |rate: Rate, _| FixedWindow::aligned(rate, rate.period() / 3);
    proptest!(cases(1024), |(scenario in crowds())| {
        let setup = scenario.0;
        let edge = period(setup.rate) / 3;
        within_each_window(setup, edge, &kept(&window, scenario, 0..=LAST)?)?;
    });
}

// ----------------------------------------------------------------- counters

/// At most `count` in each window, in which a grant counts that is made when the
/// clock has stepped back from it, and one less than twice as many in any
/// half-open period.
fn within_the_estimate(
    setup: Setup,
    counter: SlidingWindowCounter,
    first_edge: u64,
    grants: &[Kept],
) -> Result<(), TestCaseError> {
    // The rate that fits.
    let setup = Setup { rate: counter.rate(), ..setup };
    let at_latest = |grant: &Kept| Kept { reading: grant.latest, ..*grant };
    let charged: Vec<Kept> = grants.iter().map(at_latest).collect();
    within_each_window(setup, first_edge, &charged)?;
    let twice = 2 * u64::from(counter.capacity()) - 1;
    for first in grants {
        let span = first.latest..first.latest.saturating_add(period(setup.rate));
        let within = grants.iter().filter(|grant| span.contains(&grant.latest));
        let permits: u64 = within.map(|grant| u64::from(grant.n)).sum();
        prop_assert!(permits <= twice, "{permits} from {first:?} on");
    }
    Ok(())
}

#[test]
fn of_a_sliding_window_counter() {
    let make = |rate, _| counter(rate, None);
    proptest!(cases(1024), |(scenario in crowds())| {
        let setup = scenario.0;
        let grants = kept(&make, scenario, 0..=LAST)?;
        within_the_estimate(setup, make(setup.rate, setup.burst), setup.origin, &grants)?;
    });
}

#[test]
fn of_an_aligned_sliding_window_counter() {
    proptest!(cases(1024), |(scenario in crowds(), edge in magnitudes(64))| {
        let setup = scenario.0;
        let make = |rate, _| counter(rate, Some(Duration::from_nanos(edge)));
        let grants = kept(&make, scenario, 0..=LAST)?;
        within_the_estimate(setup, make(setup.rate, setup.burst), edge, &grants)?;
    });
}

/// Taking some or all there is at many moments of a few short windows: every
/// span of one period, wherever it begins.
#[test]
fn of_a_sliding_window_counter_at_every_nanosecond() {
    let greed = prop_oneof![4 => Just(0_u32), 2 => 1..=3_u32, 1 => Just(u32::MAX)];
    let greed = proptest::collection::vec(greed, 120);
    proptest!(cases(1024), |(count in 1..=20_u32, period in 1..=40_usize, greed in greed)| {
        let algorithm = counter(rate(count, period as u64), None);
        let count = u64::from(algorithm.capacity()); // no more fit where windows are short
        let limiter = RateLimiter::with_clock(algorithm, ManualClock::new());
        // What was granted before each nanosecond.
        let mut before = vec![0_u64];
        for (nanos, greed) in greed.iter().enumerate() {
            let at = limiter.at(Instant::from_nanos(nanos as u64));
            let n = at.peek().remaining().min(*greed);
            prop_assert!(at.try_acquire_n(n).is_granted());
            before.push(before[nanos] + u64::from(n));
        }
        for from in 0..greed.len() {
            let to = (from + period).min(greed.len());
            let granted = before[to] - before[from];
            prop_assert!(granted < 2 * count, "{granted} from {from} on");
            prop_assert!(from % period > 0 || granted <= count, "{granted} in a window");
        }
    });
}

/// The bound is one that is reached.
#[test]
fn of_a_sliding_window_counter_is_the_least() {
    for count in [1, 2, 10, 1_000] {
        let period = 10 * SECOND;
        let limiter =
            RateLimiter::with_clock(counter(rate(count, period), None), ManualClock::new());
        let at = |nanos: u64| limiter.at(Instant::from_nanos(nanos));
        assert!(at(period - 1).try_acquire_n(count).is_granted());
        assert!(at(2 * period - 2).try_acquire_n(count - 1).is_granted());
        assert!(at(2 * period - 2).try_acquire().is_denied());
    }
}

// ------------------------------------------------------------ leaky buckets

/// Departures are an interval apart for each permit that leaves with them, but
/// for the rounding of each to a nanosecond.
///
/// A call that gave back a part leaves when it was told to. Its place in the
/// queue is earlier than that, and from there on the others follow.
#[test]
fn of_a_leaky_bucket() {
    let queue = |rate, queue: NonZeroU32| LeakyBucket::new(rate, queue.get());
    proptest!(cases(1024), |(scenario in crowds())| {
        let setup = scenario.0;
        // Beyond the horizon there is no rate to be spaced at.
        let grants = kept(&queue, scenario, 0..=setup.horizon().min(LAST))?;
        // Time is measured times the count, so that an interval is a period.
        let (count, interval) = (setup.rate.count().get(), i128::from(period(setup.rate)));
        let exact = |nanos: u64| i128::from(nanos) * i128::from(count);
        let slack = exact(1 + setup.grain());
        for first in 0..grants.len() {
            let given_back = i128::from(grants[first].given_back);
            let mut due = exact(grants[first].departure) - given_back * interval;
            for later in &grants[first + 1..] {
                due += i128::from(later.n) * interval;
                // The clock cannot show the end of time.
                let shown = later.departure < u64::MAX;
                let spaced = exact(later.departure) > due - slack;
                prop_assert!(!shown || spaced, "{later:?} after {:?}", grants[first]);
            }
        }
        // Nobody waits for longer than the queue.
        for grant in &grants {
            let waited = grant.departure.saturating_sub(grant.reading.max(setup.origin));
            let longest = i128::from(setup.burst.get()) * interval;
            prop_assert!(exact(waited) < longest + slack, "{grant:?}");
        }
    });
}

// ----------------------------------------------------------- several limits

/// Each of several limits keeps its bound, whatever the others say.
#[test]
fn of_several_limits() {
    let all =
        |rate, burst| (FixedWindow::new(rate), bucket(rate, burst), SlidingWindowLog::new(rate));
    proptest!(cases(1024), |(scenario in crowds())| {
        let setup = scenario.0;
        let grants = kept(&all, scenario, 0..=LAST)?;
        within_each_window(setup, setup.origin, &grants)?;
        within_the_burst_and_the_rate(setup, &grants)?;
        within_the_count(setup.rate, &grants)?;
    });
}
