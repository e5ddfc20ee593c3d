//! The laws of the [`Algorithm`] trait, and what a limiter promises on top of
//! them, as properties of every algorithm.
//!
//! Schedules mix grants, looks, charges, refunds and resets with idling for
//! years, steps back of the clock and the very instants, give or take a
//! nanosecond, at which the limiter says that its answer will change.

#[macro_use]
mod common;
#[path = "laws/bounds.rs"]
mod bounds;
#[path = "laws/corners.rs"]
mod corners;

use common::*;
use core::cmp::Reverse;
use core::num::NonZeroU32;
use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{
    Algorithm, FixedWindow, Instant, LeakyBucket, Limit, Locked, Rate, SlidingWindowLog,
    TokenBucket,
};

/// The last moment at which anything is granted.
const LAST: u64 = u64::MAX - 1;

every_algorithm! {
    the_promised_wait_is_exactly_enough,
    once_possible_possible_from_then_on,
    from_fresh_at_on_as_good_as_never_used,
    refusals_and_looks_leave_no_trace,
    steps_back_create_nothing_and_lock_nobody_out,
    more_than_the_capacity_is_never,
    remaining_is_the_most_that_is_granted,
    lock_free_and_locked_say_the_same,
    refunds_give_back_what_was_granted_and_no_more,
    an_undone_grant_never_happened,
    nothing_panics_and_the_end_of_time_refuses,
}

every_single_algorithm! {
    from_the_reset_on_as_good_as_never_used,
}

type Checked = Result<(), TestCaseError>;
type Scenario = (Setup, Vec<Step>);

fn scenarios() -> impl Strategy<Value = Scenario> {
    (setups(), schedules())
}

/// Makes the calls of a schedule, up to the last moment of time, and looks at
/// the limiter before each of them and after the last.
fn before_each_call<A: Algorithm>(
    make: &impl Make<A>,
    (setup, steps): Scenario,
    look: impl Fn(&Subject<A>, u64) -> Checked,
) -> Checked {
    let mut subject = Subject::new(make, setup);
    let mut now = setup.origin;
    for step in steps {
        now = subject.time_after(step.jump, now).min(LAST);
        look(&subject, now)?;
        subject.perform(subject.act(step.call, now), now)?;
    }
    look(&subject, now)
}

/// A limiter after all the calls of a schedule, and the time then.
fn after<A: Algorithm>(
    make: &impl Make<A>,
    (setup, steps): Scenario,
) -> Result<(Subject<A>, u64), TestCaseError> {
    let mut subject = Subject::new(make, setup);
    let mut now = setup.origin;
    for step in steps {
        now = subject.time_after(step.jump, now);
        subject.perform(subject.act(step.call, now), now)?;
    }
    Ok((subject, now))
}

/// Numbers of permits worth asking for: from 1 to the capacity.
fn amounts_of<A: Algorithm>(subject: &Subject<A>, now: u64) -> impl Iterator<Item = u32> {
    let (capacity, left) = (subject.capacity(), subject.remaining(now));
    let amounts = [1, 2, left, left.saturating_add(1), capacity / 2, capacity];
    amounts.into_iter().filter(move |n| (1..=capacity).contains(n))
}

/// What can be told of a state at a moment.
fn looks<A: Algorithm>(subject: &Subject<A>, now: u64) -> [Said; 3] {
    [0, 1, subject.capacity()].map(|n| subject.peek(now, n))
}

// ------------------------------------------------------------ law 1: waits

/// A call at the promised moment succeeds, one a nanosecond before does not.
fn the_promised_wait_is_exactly_enough<A: Algorithm>(make: impl Make<A>) {
    proptest!(cases(256), |(scenario in scenarios())| {
        before_each_call(&make, scenario, |subject, now| {
            for n in amounts_of(subject, now) {
                let promised = subject.earliest(now, n);
                prop_assert!(promised >= now);
                // A promise for the end of time means never.
                prop_assert_eq!(subject.peek(promised, n).granted, promised <= LAST);
                if promised > now {
                    let retry_after = subject.peek(now, n).retry_after;
                    let told = |wait: u64| (promised <= LAST).then_some(wait);
                    prop_assert_eq!(retry_after, told(promised - now));
                    let before = subject.peek(promised - 1, n);
                    prop_assert!(!before.granted, "{n} are granted before {promised}");
                    prop_assert_eq!(before.retry_after, told(1));
                    prop_assert_eq!(before.retry_after_secs, told(1));
                }
            }
            Ok(())
        })?;
    });
}

// ------------------------------------- law 2: possible once, possible later

fn once_possible_possible_from_then_on<A: Algorithm>(make: impl Make<A>) {
    proptest!(cases(192), |(scenario in scenarios(), later in magnitudes(63))| {
        before_each_call(&make, scenario, |subject, now| {
            let horizon = subject.setup.horizon();
            for n in amounts_of(subject, now) {
                let possible = subject.earliest(now, n);
                let (next, later) = (possible.saturating_add(1), possible.saturating_add(later));
                for at in [next, later, horizon, horizon / 2 + possible / 2, LAST] {
                    // Until then the promise stands, and from then on it is kept.
                    let at = at.max(now);
                    prop_assert_eq!(subject.earliest(at, n), possible.max(at));
                }
            }
            Ok(())
        })?;
    });
}

// ------------------------------------------------------ law 3: fresh again

/// The whole future of a limiter that was used, from `fresh` on, is that of one
/// that was made at the same time and not used.
fn same_future<A: Algorithm>(
    make: &impl Make<A>,
    mut used: Subject<A>,
    fresh: u64,
    steps: Vec<Step>,
) -> Checked {
    let mut unused = Subject::new(make, used.setup);
    // What was granted before is over: there is nothing to give back.
    for grant in used.held() {
        prop_assert_eq!(used.refund(grant, None, fresh)?, 0, "of grant {}", grant);
    }
    used.forget_receipts();
    let mut now = fresh;
    for step in steps {
        let act = unused.act(step.call, now);
        prop_assert_eq!(unused.perform(act, now)?, used.perform(act, now)?);
        now = unused.time_after(step.jump, now).max(fresh);
    }
    Ok(())
}

fn from_fresh_at_on_as_good_as_never_used<A: Algorithm>(make: impl Make<A>) {
    proptest!(cases(384), |(past in scenarios(), future in schedules())| {
        let (used, _) = after(&make, past)?;
        let fresh = used.fresh_at();
        if fresh <= LAST {
            same_future(&make, used, fresh, future)?;
        }
    });
}

/// `reset_after` is when that is, or the end of the window.
fn from_the_reset_on_as_good_as_never_used<A: Algorithm>(make: impl Make<A>) {
    proptest!(cases(256), |(past in scenarios(), future in schedules())| {
        let (used, now) = after(&make, past)?;
        let reset = now.saturating_add(used.peek(now, 1).reset_after);
        prop_assert!(reset >= used.fresh_at());
        if reset <= LAST {
            same_future(&make, used, reset, future)?;
        }
    });
}

// --------------------------------------------- law 4: refusals and looks

/// Of two limiters one is asked a great deal more, but given no more.
fn refusals_and_looks_leave_no_trace<A: Algorithm>(make: impl Make<A>) {
    proptest!(cases(256), |((setup, steps) in scenarios())| {
        let mut asked = Subject::new(&make, setup);
        let mut left_alone = Subject::new(&make, setup);
        let mut now = setup.origin;
        for step in steps {
            now = asked.time_after(step.jump, now);
            let (capacity, left) = (asked.capacity(), asked.remaining(now));
            for n in [0, 1, left, capacity, capacity.saturating_add(1)] {
                asked.perform(Act::Peek(n), now)?;
            }
            prop_assert!(asked.acquire(0, now)?.granted);
            prop_assert_eq!(asked.perform(Act::Charge(0), now)?, Reply::Booked(0));
            for n in [left.saturating_add(1), capacity.saturating_add(1)] {
                // At the highest capacity there is no more to ask for.
                prop_assert!(n == left || !asked.acquire(n, now)?.granted);
            }

            let act = asked.act(step.call, now);
            let foreseen = match act {
                Act::Acquire(n) | Act::Peek(n) => Some(asked.peek(now, n)),
                _ => None,
            };
            let reply = asked.perform(act, now)?;
            let refused = matches!(reply, Reply::Said(Said { granted: false, .. }));
            if !refused && !matches!(act, Act::Peek(_) | Act::Acquire(0)) {
                prop_assert_eq!(left_alone.perform(act, now)?, reply);
            }
            // A look foresees all but what the taking itself changes.
            if let (Reply::Said(said), Some(foreseen)) = (reply, foreseen) {
                let Said { limit, remaining, reset_after, index, .. } = said;
                let numbers_of_now = Said { limit, remaining, reset_after, index, ..foreseen };
                prop_assert_eq!(said, if refused { foreseen } else { numbers_of_now });
            }
        }
        prop_assert_eq!(looks(&asked, now), looks(&left_alone, now));
    });
}

// -------------------------------------------------- law 5: the clock's steps

fn steps_back_create_nothing_and_lock_nobody_out<A: Algorithm>(make: impl Make<A>) {
    proptest!(cases(256), |(scenario in scenarios(), step in magnitudes(64))| {
        before_each_call(&make, scenario, |subject, now| {
            let interval = subject.setup.fill(1) as u64;
            for back in [1, step, interval, now].map(|step| now.saturating_sub(step)) {
                prop_assert!(subject.remaining(back) <= subject.remaining(now), "more at {back}");
                for n in amounts_of(subject, now) {
                    // Whoever could be served before the step is served at the
                    // latest when the clock has caught up, and a promise stands.
                    let promised = subject.earliest(now, n);
                    prop_assert!(subject.earliest(back, n) <= promised);
                    let granted = subject.peek(back, n).granted;
                    prop_assert!(!granted || promised == now, "{n} at {back}");
                }
            }
            Ok(())
        })?;
    });
}

// ------------------------------------------------------- law 6: the capacity

fn more_than_the_capacity_is_never<A: Algorithm>(make: impl Make<A>) {
    proptest!(cases(128), |(scenario in scenarios(), more in magnitudes(32))| {
        before_each_call(&make, scenario, |subject, now| {
            let capacity = subject.capacity();
            let at = subject.limiter.at(Instant::from_nanos(now));
            prop_assert!(!subject.peek(now, capacity).never);
            prop_assert!(subject.remaining(now) <= capacity);
            for more in [1, more as u32, u32::MAX] {
                let n = capacity.saturating_add(more);
                let foreseen = subject.peek(now, n);
                prop_assert_eq!(foreseen.never, n > capacity);
                if n > capacity {
                    let tried = said(&at.try_acquire_n(n));
                    prop_assert_eq!(tried, foreseen);
                    prop_assert!(!tried.granted);
                    prop_assert_eq!((tried.retry_after, tried.retry_after_secs), (None, None));
                }
            }
            Ok(())
        })?;
    });
}

// ------------------------------------------------------------ what is left

fn remaining_is_the_most_that_is_granted<A: Algorithm>(make: impl Make<A>) {
    proptest!(cases(256), |((setup, steps) in scenarios(), charged in any::<bool>())| {
        let mut subject = Subject::new(&make, setup);
        let mut now = setup.origin;
        for step in steps {
            now = subject.time_after(step.jump, now).min(LAST);
            subject.perform(subject.act(step.call, now), now)?;

            let left = subject.peek(now, 1).remaining;
            prop_assert_eq!(subject.remaining(now), left);
            prop_assert!(subject.peek(now, left).granted, "{left} remain");
            prop_assert_eq!(subject.peek(now, 1).granted, left >= 1);
            if left < u32::MAX {
                prop_assert!(!subject.acquire(left + 1, now)?.granted, "more than {left}");
            }
        }
        let left = subject.peek(now, 1).remaining;
        if charged {
            prop_assert_eq!(subject.perform(Act::Charge(left), now)?, Reply::Booked(left));
        } else {
            prop_assert!(subject.acquire(left, now)?.granted);
        }
        // There may have been more than one call can ask for.
        prop_assert!(left == u32::MAX || !subject.acquire(1, now)?.granted);
    });
}

// ----------------------------------------------------- lock-free and locked

fn lock_free_and_locked_say_the_same<A: Algorithm>(make: impl Make<A>) {
    let make_locked = |rate, burst| Locked(make(rate, burst));
    proptest!(cases(256), |((setup, steps) in scenarios())| {
        let mut lock_free = Subject::new(&make, setup);
        let mut locked = Subject::new(&make_locked, setup);
        let mut now = setup.origin;
        for step in steps {
            now = lock_free.time_after(step.jump, now);
            let act = lock_free.act(step.call, now);
            prop_assert_eq!(lock_free.perform(act, now)?, locked.perform(act, now)?);
            prop_assert_eq!(lock_free.fresh_at(), locked.fresh_at());
        }
    });
}

// ------------------------------------------------------------------ refunds

fn refunds_give_back_what_was_granted_and_no_more<A: Algorithm>(make: impl Make<A>) {
    proptest!(cases(384), |((setup, steps) in scenarios())| {
        let mut subject = Subject::new(&make, setup);
        let mut now = setup.origin;
        for step in steps {
            now = subject.time_after(step.jump, now).min(LAST);
            let before = looks(&subject, now);

            // A denial gives back nothing, nor does a grant of nothing.
            let at = subject.limiter.at(Instant::from_nanos(now));
            prop_assert_eq!(at.refund(at.try_acquire_n(0)), 0);
            if let Some(more) = subject.remaining(now).checked_add(1) {
                prop_assert_eq!(at.refund(at.try_acquire_n(more)), 0);
                prop_assert_eq!(at.refund_n(at.try_acquire_n(more), 1), 0);
            }
            prop_assert_eq!(before, looks(&subject, now));

            match subject.act(step.call, now) {
                Act::Refund { grant, n } => {
                    let granted = subject.permits(grant).unwrap();
                    let asked = n.unwrap_or(granted);
                    let given = subject.refund(grant, n, now)?;
                    prop_assert!(given <= asked);
                    prop_assert!(given == 0 || asked <= granted, "more than the grant");

                    let after = looks(&subject, now);
                    let (before_it, after_it) = (before[1].remaining, after[1].remaining);
                    prop_assert!((before_it..=before_it.saturating_add(given)).contains(&after_it));
                    prop_assert!(given > 0 || before == after, "not nothing was given back");
                }
                other => drop(subject.perform(other, now)?),
            }
        }
    });
}

/// Whole refunds at once, in reverse order, leave all as it was.
fn an_undone_grant_never_happened<A: Algorithm>(make: impl Make<A>) {
    proptest!(cases(256), |(scenario in scenarios(), amounts in vec(1..4_u32, 1..4))| {
        let (mut subject, now) = after(&make, scenario)?;
        let now = now.min(LAST);
        let before = looks(&subject, now);
        subject.forget_receipts();
        let mut granted = Vec::new();
        for n in amounts {
            if subject.acquire(n, now)?.granted {
                granted.push(n);
            }
        }
        // A state at the end of its range no longer knows what was taken.
        if granted.is_empty() || subject.fresh_at() < u64::MAX {
            for (grant, n) in granted.into_iter().enumerate().rev() {
                prop_assert_eq!(subject.refund(grant, None, now)?, n);
            }
            prop_assert_eq!(before, looks(&subject, now));
        }
    });
}

// --------------------------------------------------- the ends of the range

fn nothing_panics_and_the_end_of_time_refuses<A: Algorithm>(make: impl Make<A>) {
    let origins = prop_oneof![origins(), magnitudes(64), magnitudes(60).prop_map(|n| u64::MAX - n)];
    proptest!(cases(256), |(setup in setups(), origin in origins, steps in schedules())| {
        let mut subject = Subject::new(&make, Setup { origin, ..setup });
        let mut now = origin;
        for step in steps {
            now = subject.time_after(step.jump, now);
            subject.perform(subject.act(step.call, now), now)?;
            for n in [1, subject.capacity(), u32::MAX] {
                prop_assert!(!subject.peek(u64::MAX, n).granted);
                prop_assert!(!subject.acquire(n, u64::MAX)?.granted);
            }
        }
    });
}

/// After the end of supply a limiter hands out what it held there, and what had
/// not quite become a permit, but no more.
fn fails_closed_after_the_end_of_supply<A: Algorithm>(make: impl Make<A>) {
    proptest!(cases(256), |((setup, past) in scenarios(), beyond in schedules())| {
        let mut subject = Subject::new(&make, setup);
        let end = subject.end_of_supply();
        let mut now = setup.origin;
        for step in past {
            now = subject.time_after(step.jump, now).min(end);
            subject.perform(subject.act(step.call, now), now)?;
        }
        let held = u64::from(subject.remaining(end));
        let mut handed_out = 0;
        for step in beyond {
            now = subject.time_after(step.jump, now).max(end);
            if let Act::Acquire(n) = subject.act(step.call, now)
                && subject.acquire(n, now)?.granted
            {
                handed_out += u64::from(n);
            }
        }
        // It may have held more than one call can ask for.
        if held < u32::MAX.into() {
            prop_assert!(handed_out <= held + 1, "{handed_out} of {held}");
            let rest = held.saturating_sub(handed_out) as u32;
            prop_assert!(subject.acquire(rest, LAST)?.granted);
        }
    });
}

/// The supply of a log never ends: it counts from each grant.
mod fails_closed_after_the_end_of_supply {
    use super::*;

    one_test_each! { fails_closed_after_the_end_of_supply:
        token_bucket => |rate, burst| TokenBucket::new(Limit::new(rate).with_burst(burst)),
        leaky_bucket => |rate, queue| LeakyBucket::new(rate, queue.get()),
        fixed_window => |rate, _| FixedWindow::new(rate),
        fixed_window_aligned => |rate, _| FixedWindow::aligned(rate, rate.period() / 3),
    }
}

// ------------------------------------------------------------ several limits

/// One of several limits, by itself.
trait Part {
    fn peek(&self, now: u64, n: u32) -> Said;
    fn perform(&mut self, act: Act, now: u64) -> Result<Reply, TestCaseError>;
}

impl<A: Algorithm> Part for Subject<A> {
    fn peek(&self, now: u64, n: u32) -> Said {
        self.peek(now, n)
    }

    fn perform(&mut self, act: Act, now: u64) -> Result<Reply, TestCaseError> {
        self.perform(act, now)
    }
}

/// What several limits have to say together on `n` permits.
fn together(parts: &[Box<dyn Part>], now: u64, n: u32) -> Said {
    let each: Vec<Said> = parts.iter().map(|part| part.peek(now, n)).collect();
    let granted = each.iter().all(|said| said.granted);
    let never = each.iter().any(|said| said.never);
    // The numbers are those of the first with the least left, or with the
    // longest wait and of those with the smallest limit.
    let wait = |said: &Said| said.retry_after.map_or(u64::MAX, |wait| now.saturating_add(wait));
    let index = match granted {
        true => (0..each.len()).min_by_key(|part| each[*part].remaining),
        false => {
            (0..each.len()).min_by_key(|part| (Reverse(wait(&each[*part])), each[*part].limit))
        }
    };
    let index = index.unwrap();
    let delay = if granted { each.iter().map(|said| said.delay).max().unwrap() } else { 0 };
    let Said { retry_after, retry_after_secs, .. } = each[index];
    let (retry_after, retry_after_secs) =
        if never { (None, None) } else { (retry_after, retry_after_secs) };
    Said { granted, never, delay, retry_after, retry_after_secs, index, ..each[index] }
}

fn several_limits_say_what_their_parts_say<A: Algorithm>(
    make: impl Make<A>,
    parts: impl Fn(Setup) -> Vec<Box<dyn Part>>,
) {
    proptest!(cases(512), |((setup, steps) in scenarios())| {
        let mut all = Subject::new(&make, setup);
        let mut parts = parts(setup);
        let mut now = setup.origin;
        for step in steps {
            now = all.time_after(step.jump, now).min(LAST);
            let act = all.act(step.call, now);
            for n in [0, 1, all.remaining(now), all.capacity(), all.capacity().saturating_add(1)] {
                prop_assert_eq!(all.peek(now, n), together(&parts, now, n));
            }
            match act {
                // A refund depends on all of them, see the bound of both.
                Act::Peek(_) | Act::Refund { .. } => {}
                Act::Acquire(n) => {
                    let expected = together(&parts, now, n);
                    let said = all.acquire(n, now)?;
                    prop_assert_eq!(said.granted, expected.granted);
                    if said.granted {
                        for part in &mut parts {
                            part.perform(act, now)?;
                        }
                        let delay = expected.delay;
                        prop_assert_eq!(said, Said { delay, ..together(&parts, now, 0) });
                    }
                }
                Act::Charge(_) => {
                    let mut most = 0;
                    for part in &mut parts {
                        let Reply::Booked(n) = part.perform(act, now)? else { unreachable!() };
                        most = most.max(n);
                    }
                    prop_assert_eq!(all.perform(act, now)?, Reply::Booked(most));
                }
                Act::Reset => {
                    all.perform(act, now)?;
                    for part in &mut parts {
                        part.perform(act, now)?;
                    }
                }
            }
        }
    });
}

#[test]
fn two_limits_say_what_their_parts_say() {
    let window = |rate, _| FixedWindow::new(rate);
    let log = |rate: Rate, _| SlidingWindowLog::new(rate);
    let bucket = |rate, burst| TokenBucket::new(Limit::new(rate).with_burst(burst));
    let queue = |rate, burst: NonZeroU32| LeakyBucket::new(rate, burst.get() / 2);
    several_limits_say_what_their_parts_say(
        |rate, burst| (window(rate, burst), queue(rate, burst)),
        |setup| vec![Box::new(Subject::new(&window, setup)), Box::new(Subject::new(&queue, setup))],
    );
    several_limits_say_what_their_parts_say(
        |rate, burst| (queue(rate, burst), bucket(rate, burst), log(rate, burst)),
        |setup| {
            vec![
                Box::new(Subject::new(&queue, setup)),
                Box::new(Subject::new(&bucket, setup)),
                Box::new(Subject::new(&log, setup)),
            ]
        },
    );
}
