//! Each key has what a limiter of its own would have.

use crate::common::*;
use crate::{Answer, Keyed, Keys, bucket, full, keyed, ms, no, ns, ok, s, set};
use core::any::type_name;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use tollgate::{Algorithm, Full, Instant, Locked, ManualClock, RateLimiter, WhenFull};

every_algorithm! {
    a_key_is_a_limiter_of_its_own,
    a_key_is_a_limiter_of_its_own_behind_a_mutex,
    plans_and_changes_are_those_of_limiters_of_their_own,
}

/// Everything by every verb, the keys being forgotten in between.
fn a_key_is_a_limiter_of_its_own<A: Algorithm>(make: impl Make<A>) {
    const KEYS: usize = 3;
    let between = vec((0..KEYS, any::<bool>()), 40);
    proptest!(cases(96), |(setup in setups(), steps in schedules(), between in between)| {
        let mut own: Vec<_> = (0..KEYS).map(|_| Subject::new(&make, setup)).collect();
        let mut granted = [0; KEYS];
        let mut keys = Keys::new(&make, setup);
        let mut now = setup.origin;
        for (step, (key, sweeps)) in steps.into_iter().zip(between) {
            now = own[key].time_after(step.jump, now).max(now);
            keys.set(now);
            if sweeps {
                keys.limiter.sweep();
            }
            let act = own[key].act(step.call, now);
            let reply = own[key].perform(act, now)?;
            let by_key = keys.perform(key as u32, act, granted[key]);
            prop_assert_eq!(by_key, reply, "{:?} by {} at {}", act, key, now);
            if let (Act::Acquire(1..), Reply::Said(Said { granted: true, .. })) = (act, reply) {
                granted[key] += 1;
            }
            for (key, level) in keys.limiter.levels() {
                let left = own[key as usize].remaining(now);
                prop_assert_eq!(level, left, "the level of {} at {}", key, now);
            }
        }
    });
}

fn a_key_is_a_limiter_of_its_own_behind_a_mutex<A: Algorithm>(make: impl Make<A>) {
    a_key_is_a_limiter_of_its_own(|rate, burst| Locked(make(rate, burst)));
}

#[derive(Clone, Copy, Debug)]
enum Change {
    /// For everybody without a plan.
    All(Setup),
    Own(Setup),
    Back,
    Remove,
    None,
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => setups().prop_map(Change::All),
        2 => setups().prop_map(Change::Own),
        1 => Just(Change::Back),
        1 => Just(Change::Remove),
        12 => Just(Change::None),
    ]
}

/// Limiters that are changed as the keys are: a key without a plan by every
/// change for all, a key with one by its own.
///
/// A log has one time for all that those never seen lack, which after a second
/// change is later than it would be for each change alone.
fn plans_and_changes_are_those_of_limiters_of_their_own<A: Algorithm>(make: impl Make<A>) {
    const KEYS: usize = 3;
    let is_log = type_name::<A>().contains("SlidingWindowLog");
    let between = vec((0..KEYS, changes(), any::<bool>()), 40);
    proptest!(cases(96), |(setup in setups(), steps in schedules(), between in between)| {
        let guide = Subject::new(&make, setup);
        let clock = ManualClock::starting_at(Instant::from_nanos(setup.origin));
        let start = || RateLimiter::with_clock(make(setup.rate, setup.burst), clock.clone());
        // The last one is never used: what a key is that was never seen.
        let mut own: Vec<_> = (0..=KEYS).map(|_| start()).collect();
        let mut has_plan = [false; KEYS];
        let mut keys = Keys::new(&make, setup);
        let mut history = vec![];
        let mut now = setup.origin;
        for (step, (key, change, sweeps)) in steps.into_iter().zip(between) {
            now = guide.time_after(step.jump, now).max(now);
            keys.set(now);
            clock.set(Instant::from_nanos(now));
            let name = key as u32;
            match change {
                Change::None => {}
                Change::All(_) if is_log && !history.is_empty() => {}
                Change::All(other) => {
                    let base = make(other.rate, other.burst);
                    history.push((now, base));
                    keys.limiter.reconfigure(base);
                    let plans = has_plan.iter().chain([&false]);
                    own.iter().zip(plans).filter(|(_, plan)| !**plan).for_each(|(own, _)| {
                        own.reconfigure(base);
                    });
                }
                Change::Own(other) => {
                    let plan = make(other.rate, other.burst);
                    prop_assert_eq!(keys.limiter.set_own(&name, plan), Ok(()));
                    own[key].reconfigure(plan);
                    has_plan[key] = true;
                }
                Change::Back => {
                    prop_assert_eq!(keys.limiter.clear_own(&name), has_plan[key]);
                    if has_plan[key] {
                        // It is carried over to parameters that began at their
                        // last change, which no limiter of its own has: that is
                        // tested with numbers.
                        return Ok(());
                    }
                }
                Change::Remove => {
                    keys.limiter.remove(&name);
                    has_plan[key] = false;
                    own[key] = {
                        clock.set(Instant::from_nanos(setup.origin));
                        let anew = start();
                        for &(at, base) in &history {
                            clock.set(Instant::from_nanos(at));
                            anew.reconfigure(base);
                        }
                        clock.set(Instant::from_nanos(now));
                        anew
                    };
                }
            }
            if sweeps {
                keys.limiter.sweep();
            }
            let act = guide.act(step.call, now);
            let reply = match act {
                Act::Acquire(n) => Reply::Said(said(&own[key].try_acquire_n(n))),
                Act::Peek(n) => Reply::Said(said(&own[key].peek_n(n))),
                Act::Charge(n) => Reply::Booked(own[key].charge(n)),
                Act::Refund { .. } => continue,
                Act::Reset => {
                    own[key].reset();
                    Reply::Forgot
                }
            };
            prop_assert_eq!(keys.perform(name, act, 0), reply, "{:?} by {} at {}", act, key, now);
            let stranger = said(&keys.limiter.peek(&1_000));
            prop_assert_eq!(stranger, said(&own[KEYS].peek()), "never seen, at {}", now);
        }
    });
}

// ------------------------------------------------------------------ by hand

fn levels<A: Algorithm>(limiter: &Keyed<&'static str, A>) -> HashMap<&'static str, u32> {
    limiter.levels().collect()
}

#[test]
fn levels_are_what_each_has_left() {
    let limiter: Keyed<&str> = keyed(bucket(10, s(1), 10));
    assert_eq!(levels(&limiter), HashMap::new());
    let _ = limiter.try_acquire_n(&"a", 3);
    let _ = limiter.try_acquire_n(&"b", 10);
    let _ = limiter.charge(&"c", 15);
    let _ = limiter.peek(&"d");
    assert_eq!(levels(&limiter), HashMap::from([("a", 7), ("b", 0), ("c", 0)]));
    set(&limiter, ms(600));
    assert_eq!(levels(&limiter), HashMap::from([("a", 10), ("b", 6), ("c", 1)]));
    limiter.set_own(&"b", bucket(100, s(1), 50)).expect("room");
    assert_eq!(levels(&limiter)["b"], 6);
    set(&limiter, ms(700));
    assert_eq!(levels(&limiter), HashMap::from([("a", 10), ("b", 16), ("c", 2)]));
}

/// Each part is copied when the iterator comes to it.
#[test]
fn levels_are_a_snapshot() {
    let limiter: Keyed<&str> = keyed(bucket(10, s(1), 10));
    let limiter = limiter.with_hasher(crate::OnePart::default());
    for key in ["a", "b", "c"] {
        let _ = limiter.try_acquire(&key);
    }
    let mut levels = limiter.levels();
    let first = levels.next().expect("three keys");
    for key in ["a", "b", "c"] {
        let _ = limiter.try_acquire_n(&key, 5);
        limiter.remove(&key);
    }
    let rest: Vec<_> = levels.collect();
    assert_eq!(rest.len(), 2);
    assert!(rest.into_iter().chain([first]).all(|(_, level)| level == 9));
}

#[test]
fn a_removed_key_starts_anew() {
    let limiter: Keyed<&str> = keyed(bucket(1, s(60), 3));
    assert!(!limiter.remove(&"a"));
    assert_eq!(limiter.charge(&"a", 6), 6);
    let _ = limiter.try_acquire(&"b");
    assert!(limiter.remove(&"a"));
    assert!(!limiter.remove(&"a"));
    assert_eq!((limiter.len(), limiter.is_empty()), (1, false));
    assert_eq!(Answer::from(limiter.try_acquire(&"a")), ok(2));
    assert_eq!(Answer::from(limiter.try_acquire(&"b")), ok(1));
}

#[test]
fn a_reset_key_is_as_good_as_new() {
    let limiter: Keyed<&str> = keyed(bucket(1, s(60), 3));
    limiter.reset(&"a");
    assert_eq!(limiter.len(), 0);
    let grant = limiter.try_acquire_n(&"a", 3);
    let _ = limiter.try_acquire_n(&"b", 3);
    limiter.reset(&"a");
    assert_eq!(limiter.len(), 2);
    assert_eq!(limiter.refund(&"a", grant), 0);
    assert_eq!(Answer::from(limiter.try_acquire_n(&"a", 3)), ok(0));
    assert_eq!(Answer::from(limiter.try_acquire(&"b")), no(s(60)));
}

#[test]
fn clear_forgets_all() {
    let limiter: Keyed<&str> = keyed(bucket(1, s(60), 3));
    let _ = limiter.try_acquire_n(&"a", 3);
    limiter.set_own(&"b", bucket(1, s(60), 9)).expect("room");
    let _ = limiter.try_acquire_n(&"b", 3);
    limiter.clear();
    assert_eq!((limiter.len(), limiter.is_empty()), (0, true));
    assert_eq!(levels(&limiter), HashMap::new());
    for key in ["a", "b"] {
        assert_eq!(limiter.peek(&key).limit(), 3);
        assert_eq!(Answer::from(limiter.try_acquire_n(&key, 3)), ok(0));
    }
    assert!(!limiter.clear_own(&"b"));
}

#[test]
fn shrinking_changes_nothing() {
    let limiter: Keyed<u32> = keyed(bucket(1, s(60), 3));
    for key in 0..10_000 {
        let _ = limiter.try_acquire_n(&key, 1 + key % 3);
    }
    (5_000..10_000).for_each(|key| assert!(limiter.remove(&key)));
    limiter.shrink_to_fit();
    assert_eq!(limiter.len(), 5_000);
    for key in 0..10_000 {
        let left = if key < 5_000 { 2 - key % 3 } else { 3 };
        assert_eq!(limiter.peek_n(&key, 0).remaining(), left);
    }
}

#[test]
fn a_plan_keeps_the_level_and_clamps_it() {
    let limiter: Keyed<&str> = keyed(bucket(10, s(1), 10));
    let _ = limiter.try_acquire_n(&"a", 4);
    limiter.set_own(&"a", bucket(100, s(1), 50)).expect("room");
    assert_eq!((limiter.peek(&"a").limit(), limiter.peek(&"a").remaining()), (50, 6));
    set(&limiter, ms(10));
    assert_eq!(limiter.peek(&"a").remaining(), 7); // at its own rate
    limiter.set_own(&"a", bucket(1, s(1), 5)).expect("room");
    assert_eq!((limiter.peek(&"a").limit(), limiter.peek(&"a").remaining()), (5, 5));
    assert_eq!(Answer::from(limiter.try_acquire_n(&"a", 5)), ok(0));
    assert_eq!(Answer::from(limiter.try_acquire(&"a")), no(s(1)));
    assert_eq!(Answer::from(limiter.try_acquire_n(&"a", 6)), Answer::Never);
    // Others have what they had.
    assert_eq!((limiter.peek(&"b").limit(), limiter.peek(&"b").remaining()), (10, 10));
    // Debt stays debt, both ways.
    assert_eq!(limiter.charge(&"a", 2), 2);
    assert!(limiter.clear_own(&"a"));
    assert!(!limiter.clear_own(&"a"));
    assert_eq!(limiter.peek(&"a").limit(), 10);
    assert_eq!(Answer::from(limiter.try_acquire(&"a")), no(ms(300)));
    limiter.set_own(&"a", bucket(1, s(1), 5)).expect("room");
    assert_eq!(Answer::from(limiter.try_acquire(&"a")), no(s(3)));
}

#[test]
fn a_plan_for_a_key_never_seen_is_no_gift() {
    let limiter: Keyed<&str> = keyed(bucket(10, s(1), 10));
    limiter.set_own(&"a", bucket(1, s(1), 50)).expect("room");
    assert_eq!(limiter.len(), 1);
    assert_eq!(Answer::from(limiter.try_acquire_n(&"a", 11)), no(s(1)));
    assert_eq!(Answer::from(limiter.try_acquire_n(&"a", 10)), ok(0));
    assert!(limiter.clear_own(&"a"));
    assert_eq!(Answer::from(limiter.try_acquire(&"a")), no(ms(100)));
}

#[test]
fn a_key_with_a_plan_has_every_verb() {
    let limiter: Keyed<&str> = keyed(bucket(10, s(1), 10));
    let before = limiter.try_acquire_n(&"a", 4);
    limiter.set_own(&"a", bucket(1, s(1), 10)).expect("room");
    assert_eq!(limiter.refund(&"a", before), 0); // of another era
    let grant = limiter.try_acquire_n(&"a", 4);
    assert_eq!(grant.remaining(), 2);
    assert_eq!(limiter.refund_n(&"a", grant, 3), 3);
    assert_eq!(limiter.peek_n(&"a", 6).retry_after(), Some(s(1)));
    assert_eq!(limiter.charge(&"a", 6), 6);
    assert_eq!(Answer::from(limiter.try_acquire(&"a")), no(s(2)));
    assert_eq!(levels(&limiter), HashMap::from([("a", 0)]));
    limiter.reset(&"a");
    assert_eq!(limiter.peek(&"a").remaining(), 10);
    let grant = limiter.at(Instant::from_nanos(0)).try_acquire_n(&"a", 10);
    assert_eq!(limiter.at(Instant::from_nanos(0)).refund(&"a", grant), 10);
    // A grant of one plan is none of the next.
    let grant = limiter.try_acquire_n(&"a", 10);
    limiter.set_own(&"a", bucket(1, s(1), 10)).expect("room");
    assert_eq!(limiter.refund(&"a", grant), 0);
    let grant = limiter.try_acquire_n(&"b", 10);
    limiter.set_own(&"b", bucket(1, s(1), 10)).expect("room");
    limiter.clear_own(&"b");
    assert_eq!(limiter.refund(&"b", grant), 0); // nor of those it comes back to
}

/// However fresh, until its plan is taken away.
#[test]
fn a_key_with_a_plan_is_remembered() {
    let limiter: Keyed<&str> = keyed(bucket(10, s(1), 10));
    limiter.set_own(&"a", bucket(1, s(1), 5)).expect("room");
    set(&limiter, s(3_600));
    assert_eq!(limiter.sweep(), 0);
    assert_eq!((limiter.len(), limiter.peek(&"a").limit()), (1, 5));
    // Changes for all are not for it.
    limiter.reconfigure(bucket(20, s(1), 20));
    assert_eq!((limiter.peek(&"a").limit(), limiter.peek(&"b").limit()), (5, 20));
    assert!(limiter.clear_own(&"a"));
    assert_eq!(limiter.peek(&"a").limit(), 20);
    assert_eq!(limiter.sweep(), 0); // it has 5 of 20
    limiter.clock().advance(ms(750));
    assert_eq!(limiter.sweep(), 1);

    limiter.set_own(&"a", bucket(1, s(1), 5)).expect("room");
    assert!(limiter.remove(&"a"));
    assert!(!limiter.clear_own(&"a"));
    assert_eq!((limiter.len(), limiter.peek(&"a").limit()), (0, 20));
}

/// Nor is it forgotten while it has more than one never seen, who would have to
/// wait for that since a change.
#[test]
fn what_a_plan_has_brought_is_remembered() {
    let limiter: Keyed<&str> = keyed(bucket(1, s(1), 5));
    limiter.reconfigure(bucket(1, s(1), 50)); // 45 of which are to come yet
    limiter.set_own(&"a", bucket(1_000, s(1), 50)).expect("room");
    set(&limiter, s(1));
    assert!(limiter.clear_own(&"a"));
    assert_eq!((limiter.peek(&"a").remaining(), limiter.peek(&"b").remaining()), (50, 6));
    set(&limiter, s(45) - ns(1));
    assert_eq!(limiter.sweep(), 0);
    assert_eq!((limiter.peek(&"a").remaining(), limiter.peek(&"b").remaining()), (50, 49));
    set(&limiter, s(45));
    assert_eq!(limiter.sweep(), 1);
}

#[test]
fn a_plan_needs_a_place() {
    let limiter: Keyed<&str> = keyed(bucket(1, s(1), 2));
    let limiter = limiter.with_max_keys(1, WhenFull::Refuse).expect("some keys");
    assert!(limiter.try_acquire(&"a").is_granted());
    let plan = bucket(1, s(1), 5);
    assert_eq!(limiter.set_own(&"b", plan), Err(Full));
    assert_eq!(Full.to_string(), "the limiter holds as many keys as it may");
    assert_eq!(Answer::from(limiter.try_acquire(&"b")), full(s(1)));
    assert_eq!(limiter.set_own(&"a", plan), Ok(())); // it has one
    assert_eq!(limiter.set_own(&"a", plan), Ok(()));
    assert_eq!(limiter.len(), 1);
    set(&limiter, s(3_600));
    assert!(limiter.try_acquire(&"b").is_full());
    assert_eq!(limiter.set_own(&"b", plan), Err(Full));
    assert!(limiter.clear_own(&"a"));
    assert_eq!(limiter.peek(&"a").remaining(), 2);
    assert_eq!(limiter.set_own(&"b", plan), Ok(()));
    assert!(limiter.remove(&"b"));
    assert_eq!(Answer::from(limiter.try_acquire(&"a")), ok(1));
}

/// The caller's time counts and the clock's does not.
#[test]
fn at_a_time_of_the_callers() {
    let limiter: Keyed<&str> = keyed(bucket(10, s(1), 10));
    let at = |millis: u64| limiter.at(Instant::ZERO + ms(millis));
    set(&limiter, s(3_600));
    let grant = at(0).try_acquire_n(&"a", 10);
    assert_eq!(grant.remaining(), 0);
    assert_eq!(Answer::from(at(99).try_acquire(&"a")), no(ms(1)));
    assert_eq!(Answer::from(at(99).peek_n(&"a", 2)), no(ms(101)));
    assert_eq!(Answer::from(at(100).peek(&"a")), ok(1));
    assert_eq!(Answer::from(at(100).try_acquire(&"a")), ok(0));
    assert_eq!(at(100).refund(&"a", grant), 0);
    assert_eq!(at(100).charge(&"a", 3), 3);
    assert_eq!(Answer::from(at(100).try_acquire(&"a")), no(ms(400)));
    let grant = at(0).try_acquire_n(&"b", 4);
    assert_eq!(at(0).refund_n(&"b", grant, 3), 3);
    assert_eq!(at(0).peek(&"b").remaining(), 9);
}

#[test]
fn the_parameters_are_those_of_the_last_change() {
    let limiter: Keyed<&str> = keyed(bucket(10, s(1), 10));
    let burst = |limiter: &Keyed<&str>| limiter.algorithm().limit().burst().get();
    assert_eq!(burst(&limiter), 10);
    for new in [20, 5, 7] {
        limiter.reconfigure(bucket(10, s(1), new));
        assert_eq!(burst(&limiter), new);
    }
    let grant = limiter.try_acquire(&"a");
    assert_eq!(limiter.refund(&"a", grant), 1);
}

#[test]
fn another_hasher_keeps_the_parameters() {
    let limiter: Keyed<&str> = keyed(bucket(10, s(1), 10));
    limiter.reconfigure(bucket(10, s(1), 7));
    let limiter = limiter.with_hasher(crate::OnePart::default());
    assert_eq!(limiter.peek(&"a").limit(), 7);
}
