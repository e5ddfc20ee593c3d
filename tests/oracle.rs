//! Each algorithm against a naive [model](models) of its definition: a history of
//! what happened, and yes or no to whether a call fits.
//!
//! Rates whose interval is a fraction with a small denominator must agree with
//! the models on every nanosecond; so must windows and logs at any rate. For
//! the other rates the model is fed with the limiter's own grants, and the
//! limiter may be a nanosecond early or late.

mod common;
#[path = "oracle/models.rs"]
mod models;

use common::*;
use core::num::NonZeroU32;
use core::time::Duration;
use models::{Ahead, Bucket, Estimate, Grants, Model, Queue, Scale, Windows};
use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{
    Algorithm, FixedWindow, Instant, LeakyBucket, Limit, ManualClock, Rate, RateLimiter,
    SlidingWindowLog, TokenBucket,
};

// ----------------------------------------------------------- the comparison

/// Which way time goes. Where it steps back there are no refunds: what they
/// leave behind depends on the reading at which they are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Time {
    Forward,
    AlsoBack,
}

fn times() -> impl Strategy<Value = Time> {
    prop_oneof![Just(Time::Forward), Just(Time::AlsoBack)]
}

/// A limiter beside the model of it.
struct Trial<A: Algorithm, M> {
    subject: Subject<A>,
    model: M,
    new_model: Box<dyn Fn() -> M>,
    /// By how many nanoseconds the limiter may be early or late.
    grain: u64,
    granted: usize,
    /// The end of supply: until then the limiter follows its definition.
    last: u64,
}

impl<A: Algorithm, M: Model> Trial<A, M> {
    fn new(
        make: &impl Make<A>,
        setup: Setup,
        grain: u64,
        new_model: impl Fn() -> M + 'static,
    ) -> Self {
        let subject = Subject::new(make, setup);
        let (model, last) = (new_model(), subject.end_of_supply());
        Self { subject, model, new_model: Box::new(new_model), grain, granted: 0, last }
    }

    fn run(mut self, steps: Vec<Step>, time: Time) -> Result<(), TestCaseError> {
        let setup = self.subject.setup;
        let mut now = setup.origin;
        for step in steps {
            let then = self.subject.time_after(step.jump, now).min(self.last);
            now = if time == Time::Forward { then.max(now) } else { then };
            let act = self.subject.act(step.call, now);
            // Towards the end of its range a state no longer knows what was taken.
            let refunds = time == Time::Forward && self.has_room_for_debt(now);
            if !refunds && matches!(act, Act::Refund { .. }) {
                continue;
            }
            let (capacity, left) = (self.subject.capacity(), self.subject.remaining(now));
            for n in [0, 1, 2, left, left.saturating_add(1), capacity, capacity.saturating_add(1)] {
                self.compare(n, now, self.subject.peek(now, n))?;
            }
            self.perform(act, now)
                .map_err(|error| TestCaseError::fail(format!("{error}\nin {act:?} at {now}")))?;
        }
        Ok(())
    }

    /// By when the limiter must not be early any more. Before the creation time
    /// stands still.
    fn later(&self, at: u64) -> u64 {
        at.max(self.subject.setup.origin).saturating_add(self.grain)
    }

    fn perform(&mut self, act: Act, now: u64) -> Result<(), TestCaseError> {
        match act {
            Act::Acquire(n) => {
                let granted = self.subject.acquire(n, now)?;
                if granted.granted && n > 0 {
                    self.compare_delay(n, now, granted)?;
                    self.model.take(now, n, Some(self.granted));
                    self.granted += 1;
                }
                self.compare_numbers(now, granted)
            }
            Act::Peek(n) => {
                let Reply::Said(said) = self.subject.perform(act, now)? else { unreachable!() };
                self.compare(n, now, said)
            }
            Act::Charge(n) => {
                let Reply::Booked(booked) = self.subject.perform(act, now)? else { unreachable!() };
                prop_assert!(booked <= n);
                prop_assert!(
                    booked == 0 || self.model.may_book(self.later(now), booked),
                    "booked {booked}"
                );
                let more = booked < n && self.has_room_for_debt(now);
                prop_assert!(
                    !more || !self.model.may_book(now.saturating_sub(self.grain), booked + 1),
                    "booked {booked} only"
                );
                if booked > 0 {
                    self.model.take(now, booked, None);
                }
                Ok(())
            }
            Act::Refund { grant, n } => {
                let granted = self.subject.permits(grant).unwrap();
                let asked = n.unwrap_or(granted);
                let given = self.subject.refund(grant, n, now)?;
                let expected =
                    if asked > granted { 0 } else { self.model.give_back(now, grant, asked) };
                prop_assert_eq!(given, expected, "given back, and expected");
                Ok(())
            }
            Act::Reset => {
                self.subject.perform(act, now)?;
                self.model.reset((self.new_model)(), now);
                Ok(())
            }
        }
    }

    /// Everything that was said, before any permit of it is taken.
    fn compare(&self, n: u32, now: u64, said: Said) -> Result<(), TestCaseError> {
        let all = format!("{n} at {now}: {said:?}");
        prop_assert_eq!(said.never, n > self.model.capacity(), "{}", all);
        if said.granted {
            prop_assert!(n == 0 || self.model.fits(self.later(now), n), "early: {all}");
            prop_assert_eq!(said.retry_after, Some(0));
            if n > 0 {
                self.compare_delay(n, now, said)?;
            }
        } else if !said.never {
            prop_assert!(n > 0);
            // No wait will do where it would have to reach the end of time.
            let wait = said.retry_after.unwrap_or(u64::MAX - now);
            self.compare_wait(now, wait, |at| self.model.fits(at, n), "wait", said)?;
            let seconds = said.retry_after.map(|wait| wait.div_ceil(1_000_000_000));
            prop_assert_eq!(said.retry_after_secs, seconds);
        }
        self.compare_numbers(now, said)
    }

    fn compare_delay(&self, n: u32, now: u64, said: Said) -> Result<(), TestCaseError> {
        let at = now.saturating_add(said.delay);
        let may_act = |at| self.model.may_act(now, n, at);
        // The clock cannot show the end of time.
        let later = self.later(at);
        prop_assert!(later == u64::MAX || may_act(later), "delayed too little: {said:?}");
        let before = at.saturating_sub(1 + self.grain);
        prop_assert!(said.delay == 0 || before < now || !may_act(before), "delayed: {said:?}");
        Ok(())
    }

    /// What describes the state.
    fn compare_numbers(&self, now: u64, said: Said) -> Result<(), TestCaseError> {
        let (left, capacity) = (said.remaining, self.model.capacity());
        prop_assert_eq!(said.limit, capacity);
        prop_assert!(left <= capacity);
        prop_assert!(left == 0 || self.model.fits(self.later(now), left), "{left} left at {now}");
        let before = now.saturating_sub(self.grain);
        prop_assert!(
            left == capacity || !self.model.fits(before, left + 1),
            "{left} left at {now}"
        );
        self.compare_wait(now, said.reset_after, |at| self.model.is_reset(now, at), "reset", said)
    }

    /// That something is the case after the wait and not before, as far as that
    /// is within the life of the limiter.
    fn compare_wait(
        &self,
        now: u64,
        wait: u64,
        is_so: impl Fn(u64) -> bool,
        what: &str,
        said: Said,
    ) -> Result<(), TestCaseError> {
        let then = now.saturating_add(wait);
        if then <= self.last {
            prop_assert!(is_so(self.later(then)), "{what} too short at {now}: {said:?}");
        }
        let before = then.min(self.last + 1).saturating_sub(1 + self.grain);
        let first = now.max(self.subject.setup.origin);
        prop_assert!(
            wait == 0 || before < first || !is_so(before),
            "{what} too long at {now}: {said:?}"
        );
        Ok(())
    }

    /// Whether the debt that a charge may make still fits into the state, which
    /// at the end of supply has room for one capacity.
    fn has_room_for_debt(&self, now: u64) -> bool {
        let setup = self.subject.setup;
        let left = self.last - now.clamp(setup.origin, self.last);
        u128::from(left) > setup.fill(u64::from(self.model.capacity()) + 2)
    }
}

/// Whether a bucket is exact: the interval is p/q, and the 64 bits of the state
/// hold q units for each nanosecond up to the horizon, and above it p for each
/// permit of a full bucket and of as much debt.
fn is_exact(rate: Rate, capacity: u64) -> bool {
    let (mut p, mut q) = (period(rate), u64::from(rate.count().get()));
    let divisor = {
        let (mut a, mut b) = (p, q);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (p, q) = (p / divisor, q / divisor);
    let needed =
        u128::from(q) * u128::from(HORIZON_NANOS) + 2 * u128::from(capacity) * u128::from(p);
    q <= 58 && needed < 1 << 64
}

fn exact_setups(bursts: impl Strategy<Value = NonZeroU32>) -> impl Strategy<Value = Setup> {
    setups_with(common_rates(), bursts).prop_filter("an exact bucket", |setup| {
        is_exact(setup.rate, u64::from(setup.burst.get()) + 1)
    })
}

fn small_bursts() -> impl Strategy<Value = NonZeroU32> {
    (1..=12_u32).prop_map(|burst| NonZeroU32::new(burst).unwrap())
}

fn token_bucket(rate: Rate, burst: NonZeroU32) -> TokenBucket {
    TokenBucket::new(Limit::new(rate).with_burst(burst))
}

// ------------------------------------------------------ exact on every nanosecond

proptest! {
    #![proptest_config(cases(1024))]

    #[test]
    fn a_token_bucket_is_a_bucket(setup in exact_setups(bursts()), steps in schedules()) {
        Trial::new(&token_bucket, setup, 0, move || Bucket::new(setup)).run(steps, Time::Forward)?;
    }

    #[test]
    fn a_token_bucket_is_a_schedule(
        setup in exact_setups(bursts()),
        steps in schedules(),
        time in times(),
    ) {
        Trial::new(&token_bucket, setup, 0, move || Ahead::new(setup)).run(steps, time)?;
    }

    #[test]
    fn a_leaky_bucket_is_a_queue(
        setup in exact_setups(small_bursts()),
        without_delay in prop_oneof![Just(0), 0..=14_u32],
        steps in schedules(),
        time in times(),
    ) {
        let places = setup.burst.get() - 1;
        let make = |rate, _| LeakyBucket::new(rate, places).without_delay(without_delay);
        let model = move || Queue::new(setup, places, without_delay);
        Trial::new(&make, setup, 0, model).run(steps, time)?;
    }

    #[test]
    fn a_fixed_window_counts(setup in setups(), steps in schedules(), time in times()) {
        let make = |rate, _| FixedWindow::new(rate);
        Trial::new(&make, setup, 0, move || Windows::new(setup, setup.origin)).run(steps, time)?;
    }

    /// Also when it is made before the first edge.
    #[test]
    fn an_aligned_fixed_window_counts(
        setup in setups(),
        offset in magnitudes(64),
        steps in schedules(),
        time in times(),
    ) {
        let make = |rate, _| FixedWindow::aligned(rate, Duration::from_nanos(offset));
        Trial::new(&make, setup, 0, move || Windows::new(setup, offset)).run(steps, time)?;
    }

    #[test]
    fn a_sliding_window_counter_estimates(setup in setups(), steps in schedules(), time in times()) {
        let make = |rate, _| counter(rate, None);
        let rate = counter(setup.rate, None).rate();
        let model = move || Estimate::new(Setup { rate, ..setup }, setup.origin);
        Trial::new(&make, setup, 0, model).run(steps, time)?;
    }

    #[test]
    fn an_aligned_sliding_window_counter_estimates(
        setup in setups(),
        offset in magnitudes(64),
        steps in schedules(),
        time in times(),
    ) {
        let make = move |rate, _| counter(rate, Some(Duration::from_nanos(offset)));
        let rate = make(setup.rate, setup.burst).rate();
        let model = move || Estimate::new(Setup { rate, ..setup }, offset);
        Trial::new(&make, setup, 0, model).run(steps, time)?;
    }

    #[test]
    fn a_sliding_window_log_remembers(setup in setups(), steps in schedules(), time in times()) {
        let make = |rate, _| SlidingWindowLog::new(rate);
        Trial::new(&make, setup, 0, move || Grants::new(setup)).run(steps, time)?;
    }
}

// ------------------------------------------------------ within a nanosecond

/// Refunds are for the exact rates: whether a mark is still that of a grant is
/// no question of nearly.
fn without_refunds(steps: Vec<Step>) -> Vec<Step> {
    steps.into_iter().filter(|step| !matches!(step.call, Call::Refund(..))).collect()
}

proptest! {
    #![proptest_config(cases(1024))]

    #[test]
    fn a_token_bucket_is_within_a_nanosecond(
        setup in setups_with(awkward_rates(), bursts()),
        steps in schedules(),
    ) {
        let model = move || Ahead::new(setup);
        Trial::new(&token_bucket, setup, setup.grain(), model)
            .run(without_refunds(steps), Time::AlsoBack)?;
    }

    #[test]
    fn a_leaky_bucket_is_within_a_nanosecond(
        setup in setups_with(awkward_rates(), small_bursts()),
        without_delay in prop_oneof![Just(0), 0..=14_u32],
        steps in schedules(),
    ) {
        let places = setup.burst.get() - 1;
        let make = |rate, _| LeakyBucket::new(rate, places).without_delay(without_delay);
        let model = move || Queue::new(setup, places, without_delay);
        Trial::new(&make, setup, setup.grain(), model)
            .run(without_refunds(steps), Time::AlsoBack)?;
    }

    /// For queues too long for a list: the same answers, but for the delay.
    #[test]
    fn a_leaky_bucket_accepts_what_a_token_bucket_grants(setup in setups(), steps in schedules()) {
        let make = |rate, burst: NonZeroU32| LeakyBucket::new(rate, burst.get() - 1);
        let mut leaky = Subject::new(&make, setup);
        let mut bucket = Subject::new(&token_bucket, setup);
        let mut now = setup.origin;
        for step in steps {
            now = bucket.time_after(step.jump, now);
            let act = bucket.act(step.call, now);
            let at_once = |reply| match reply {
                Reply::Said(said) => Reply::Said(Said { delay: 0, ..said }),
                other => other,
            };
            prop_assert_eq!(at_once(leaky.perform(act, now)?), bucket.perform(act, now)?);
        }
    }

    /// In single permits, all at one instant, after any idle time.
    #[test]
    fn a_full_bucket_holds_exactly_its_burst(
        rate in rates(),
        burst in 1..=200_u32,
        origin in origins(),
        idle in magnitudes(58),
    ) {
        let burst = NonZeroU32::new(burst).unwrap();
        let start = || ManualClock::starting_at(Instant::from_nanos(origin));
        let now = Instant::from_nanos(origin.saturating_add(idle).min(u64::MAX - 1));

        let bucket = RateLimiter::with_clock(token_bucket(rate, burst), start());
        let granted = (0..=burst.get()).filter(|_| bucket.at(now).try_acquire().is_granted());
        prop_assert_eq!(granted.count(), burst.get() as usize);

        let queue = RateLimiter::with_clock(LeakyBucket::new(rate, burst.get()), start());
        let accepted = (0..=burst.get() + 1).filter(|_| queue.at(now).try_acquire().is_granted());
        prop_assert_eq!(accepted.count(), burst.get() as usize + 1);
    }
}

proptest! {
    #![proptest_config(cases(1024))]

    /// Not even a nanosecond late, whatever the rate.
    #[test]
    fn whole_periods_bring_what_is_due(
        rate in rates(),
        origin in origins(),
        idle in prop_oneof![Just(0), magnitudes(57)],
        periods in magnitudes(32).prop_map(|periods| periods.max(1)),
    ) {
        let bucket = token_bucket(rate, NonZeroU32::MAX);
        let limiter =
            RateLimiter::with_clock(bucket, ManualClock::starting_at(Instant::from_nanos(origin)));
        let start = origin.saturating_add(idle);
        let end = period(rate).checked_mul(periods).and_then(|span| start.checked_add(span));
        let horizon = origin.saturating_add(HORIZON_NANOS).min(u64::MAX - 1);
        if let Some(end) = end.filter(|end| *end <= horizon) {
            let all = limiter.at(Instant::from_nanos(start)).try_acquire_n(u32::MAX);
            prop_assert!(all.is_granted());
            let due = periods.saturating_mul(rate.count().get().into()).min(u32::MAX.into());
            let left = limiter.at(Instant::from_nanos(end)).peek().remaining();
            prop_assert!(u64::from(left) >= due, "{left} of {due}");
        }
    }
}

// ------------------------------------------------ the published bound, no drift

proptest! {
    #![proptest_config(cases(128))]

    /// Whoever takes all there is before the bucket is full again has got the
    /// burst and what has flown in since, to the nanosecond, after any time.
    #[test]
    fn nothing_drifts(
        rate in rates(),
        burst in prop_oneof![Just(u32::MAX), magnitudes(32).prop_map(|burst| burst.max(2) as u32)],
        origin in origins(),
        idle in magnitudes(58),
        parts in vec(1..=256_u64, 200),
    ) {
        let setup = Setup { rate, burst: NonZeroU32::new(burst).unwrap(), origin };
        let (scale, grain) = (Scale::of(setup), u128::from(setup.grain()));
        let limiter = RateLimiter::with_clock(
            token_bucket(rate, setup.burst),
            ManualClock::starting_at(Instant::from_nanos(origin)),
        );
        let last = setup.horizon().min(u64::MAX - 1);
        // Less than a permit is left each time. So long until all of it overflows,
        // or so long that 200 of them reach the horizon.
        let longest = setup.fill(u64::from(burst) - 1).min(u128::from(HORIZON_NANOS) / 100) as u64;
        let start = origin.saturating_add(idle).min(last);
        let (mut now, mut granted) = (start, 0_u128);
        for part in parts {
            let at = limiter.at(Instant::from_nanos(now));
            let left = at.peek().remaining();
            prop_assert!(at.try_acquire_n(left).is_granted());
            granted += u128::from(left);

            let span = u128::from(now - start) * scale.count;
            let exact = scale.permits(setup.burst.get()) + span;
            let most = exact + grain * scale.count;
            prop_assert!(granted * scale.interval <= most, "{granted} at {now}");
            let least = (exact - span.min(grain * scale.count)) / scale.interval;
            prop_assert!(granted >= least, "{granted} at {now}, not {least}");
            let pause = (u128::from(longest) * u128::from(part) / 256) as u64;
            now = now.saturating_add(pause).min(last);
        }
    }

    /// At most `burst + rate * (d + 1 ns)` in any span of `d`: every span of
    /// some hundred nanoseconds, at rates of about one permit in each of them.
    #[test]
    fn the_published_bound_holds_in_every_span(
        // From a permit in 64 nanoseconds to 58 in one.
        (count, period) in (1..=58 * 64_u64, 1..=70_000_000_u64)
            .prop_map(|(parts, period)| ((parts * period).div_ceil(64), period)),
        extra in 2..=9_u32,
        idle in magnitudes(58),
        greed in vec(prop_oneof![4 => Just(256_u64), 1 => 0..256_u64], 200),
    ) {
        let rate = rate(count as u32, period);
        let burst = NonZeroU32::new(2 * count.div_ceil(period) as u32 + extra).unwrap();
        let setup = Setup { rate, burst, origin: 0 };
        let limiter = RateLimiter::with_clock(token_bucket(rate, burst), ManualClock::new());
        let scale = Scale::of(setup);

        // What was granted before each nanosecond.
        let mut before = vec![0_u128];
        for (nanos, greed) in greed.iter().enumerate() {
            let at = limiter.at(Instant::from_nanos(idle.min(HORIZON_NANOS - 200) + nanos as u64));
            let n = (u64::from(at.peek().remaining()) * greed / 256) as u32;
            prop_assert!(at.try_acquire_n(n).is_granted());
            before.push(before[nanos] + u128::from(n));
        }
        for from in 0..greed.len() {
            for to in from..greed.len() {
                let bound = scale.permits(burst.get()) + (to - from + 1) as u128 * scale.count;
                let granted = before[to + 1] - before[from];
                prop_assert!(granted * scale.interval <= bound, "{granted} from {from} to {to}");
            }
        }
    }
}
