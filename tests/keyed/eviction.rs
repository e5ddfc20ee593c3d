//! Keys are forgotten in time, and nobody can notice.

use crate::common::*;
use crate::{Keyed, Keys, OnePart, bucket, keyed, ms, ns, ok, s, set};
use core::any::type_name;
use core::cell::Cell;
use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{Algorithm, FixedWindow, Instant, Locked, SlidingWindowLog};

every_algorithm! {
    forgetting_is_invisible,
    forgetting_is_invisible_behind_a_mutex,
    a_key_is_kept_until_it_is_fresh_and_no_longer,
    a_step_back_after_a_sweep_hands_out_nothing,
}

/// What happens to one of two limiters between calls.
#[derive(Clone, Copy, Debug)]
enum Upkeep {
    Nothing,
    Sweep,
    /// So many one-off keys, the many of which make the limiter sweep.
    Strangers(u32),
    /// Both get other parameters.
    Change(Setup),
}

fn upkeep() -> impl Strategy<Value = Upkeep> {
    prop_oneof![
        6 => Just(Upkeep::Nothing),
        8 => Just(Upkeep::Sweep),
        2 => (1..150_u32).prop_map(Upkeep::Strangers),
        1 => setups().prop_map(Upkeep::Change),
    ]
}

/// The same calls on two limiters, one of which is swept in between.
///
/// A log has one time for all that those never seen lack, which after a second
/// change is later than it would be for each change alone.
fn forgetting_is_invisible<A: Algorithm>(make: impl Make<A>) {
    const KEYS: usize = 3;
    let is_log = type_name::<A>().contains("SlidingWindowLog");
    let forgotten = Cell::new(0);
    let between = vec((0..KEYS, upkeep()), 40);
    proptest!(cases(96), |(setup in setups(), steps in schedules(), between in between)| {
        // They tell the times at which something happens, and amounts.
        let mut guides: Vec<_> = (0..KEYS).map(|_| Subject::new(&make, setup)).collect();
        let mut granted = [0; KEYS];
        let (mut swept, mut plain) = (Keys::new(&make, setup), Keys::new(&make, setup));
        let (mut now, mut strangers) = (setup.origin, KEYS as u32..);
        let mut is_changed = false;
        for (step, (key, upkeep)) in steps.into_iter().zip(between) {
            now = guides[key].time_after(step.jump, now).max(now);
            swept.set(now);
            plain.set(now);
            match upkeep {
                Upkeep::Nothing => {}
                Upkeep::Sweep => forgotten.set(forgotten.get() + swept.limiter.sweep()),
                Upkeep::Strangers(many) => {
                    for stranger in strangers.by_ref().take(many as usize) {
                        let _ = swept.limiter.try_acquire(&stranger);
                    }
                }
                Upkeep::Change(_) if is_log && is_changed => {}
                Upkeep::Change(other) => {
                    is_changed = true;
                    let algorithm = make(other.rate, other.burst);
                    swept.limiter.reconfigure(algorithm);
                    plain.limiter.reconfigure(algorithm);
                }
            }
            let act = guides[key].act(step.call, now);
            let reply = guides[key].perform(act, now)?;
            let replies = [&mut swept, &mut plain].map(|keys| {
                keys.perform(key as u32, act, granted[key])
            });
            prop_assert_eq!(replies[0], replies[1], "{:?} by {} at {}", act, key, now);
            if let (Act::Acquire(1..), Reply::Said(Said { granted: true, .. })) = (act, reply) {
                granted[key] += 1;
            }
        }
    });
    assert!(forgotten.get() > 0, "nothing was ever forgotten");
}

fn forgetting_is_invisible_behind_a_mutex<A: Algorithm>(make: impl Make<A>) {
    forgetting_is_invisible(|rate, burst| Locked(make(rate, burst)));
}

fn a_key_is_kept_until_it_is_fresh_and_no_longer<A: Algorithm>(make: impl Make<A>) {
    let input = (setups(), schedules());
    proptest!(cases(96), |((setup, steps) in input)| {
        let mut subject = Subject::new(&make, setup);
        let mut keys = Keys::new(&make, setup);
        let mut now = setup.origin;
        for (number, step) in steps.into_iter().enumerate() {
            now = subject.time_after(step.jump, now).max(now);
            let n = match subject.act(step.call, now) {
                Act::Acquire(n) | Act::Charge(n) => n,
                _ => continue,
            };
            let act = if number % 3 == 0 { Act::Charge(n) } else { Act::Acquire(n) };
            keys.set(now);
            let reply = subject.perform(act, now)?;
            prop_assert_eq!(keys.perform(0, act, number), reply);
            if keys.limiter.is_empty() {
                continue;
            }
            let fresh_at = subject.fresh_at();
            if fresh_at > now {
                // At some time on the way, and at the last.
                for at in [now, now + (fresh_at - now) / 2, fresh_at - 1] {
                    keys.set(at);
                    prop_assert_eq!(keys.limiter.sweep(), 0, "at {}", at);
                }
            }
            keys.set(fresh_at);
            let gone = keys.limiter.sweep();
            prop_assert_eq!(gone, usize::from(fresh_at < u64::MAX));
            now = fresh_at;
        }
    });
}

/// A key is used up, and forgotten when it has all again. Then the clock is set
/// back: the key has all once, and not once more when the clock is back where
/// it was.
fn a_step_back_after_a_sweep_hands_out_nothing<A: Algorithm>(make: impl Make<A>) {
    let tried = Cell::new(0);
    proptest!(cases(256), |(setup in setups(), back in any::<u64>(), peeks in any::<bool>())| {
        let mut subject = Subject::new(&make, setup);
        let mut keys = Keys::new(&make, setup);
        let all = Act::Acquire(subject.capacity());
        prop_assert_eq!(keys.perform(0, all, 0), subject.perform(all, setup.origin)?);
        // All of it, unless there is more than a call can ask for.
        prop_assume!(subject.remaining(setup.origin) == 0);
        let fresh_at = subject.fresh_at();
        prop_assume!(fresh_at < u64::MAX);
        keys.set(fresh_at);
        prop_assert_eq!(keys.limiter.sweep(), 1);

        keys.set(fresh_at - back % (fresh_at - setup.origin + 1));
        if peeks {
            let Reply::Said(foreseen) = keys.perform(0, Act::Peek(1), 1) else { unreachable!() };
            prop_assert!(foreseen.remaining <= subject.capacity());
        }
        let Reply::Said(again) = keys.perform(0, all, 1) else { unreachable!() };
        prop_assert!(again.granted, "it is locked out");
        keys.set(fresh_at);
        let Reply::Said(more) = keys.perform(0, Act::Acquire(1), 2) else { unreachable!() };
        prop_assert!(!more.granted, "more than all at {}", fresh_at);
        tried.set(tried.get() + 1);
    });
    assert!(tried.get() > 0);
}

/// In the long run as well: a clock that goes to and fro, with a key that is
/// forgotten each time, hands out the burst and what the time to its latest
/// reading brings.
#[test]
fn a_clock_that_goes_to_and_fro_hands_out_no_more_than_its_latest_time() {
    let limiter: Keyed<u32> = keyed(bucket(10, s(1), 5));
    let take = || (0..20).filter(|_| limiter.try_acquire(&7).is_granted()).count() as u64;
    let mut granted = take();
    for latest in (500..20_000).step_by(500) {
        set(&limiter, ms(latest));
        assert_eq!(limiter.sweep(), 1);
        for millis in [0, latest / 2, latest] {
            set(&limiter, ms(millis));
            granted += take();
            assert!(granted <= 5 + latest / 100, "{granted} at {millis} of {latest} ms");
        }
    }
    assert_eq!(granted, 5 + 19_500 / 100);
}

/// Fresh keys are kept for 100 ms more, lest they be made again at once.
const GRACE: u64 = 100;

/// A thousand new keys a millisecond, each of which is as good as new after a
/// tenth of a second and kept for another. Those of these two tenths are active.
#[test]
fn one_off_keys_stay_within_twice_the_active_ones() {
    const PER_MILLI: u64 = 100;
    const SOME_THOUSANDS: u64 = 128 * 32;
    let active = PER_MILLI * (100 + GRACE);
    let limiter: Keyed<u64> = keyed(bucket(10, s(1), 10));
    let mut most = 0;
    for key in 0..PER_MILLI * 1_500 {
        set(&limiter, ms(key / PER_MILLI));
        assert!(limiter.try_acquire(&key).is_granted());
        if key % 1_000 == 0 {
            most = most.max(limiter.len() as u64);
        }
    }
    assert!(most >= active, "{most} of {active} active keys were remembered");
    assert!(most <= 2 * active + SOME_THOUSANDS, "{most} keys for {active} active ones");
}

/// Without any call to sweep, whatever the calls that come are.
fn a_flood_is_cleared_by(call: impl Fn(&Keyed<u64>)) {
    const FLOOD: u64 = 100_000;
    const KNOWN: u64 = u64::MAX;
    let limiter: Keyed<u64> = keyed(bucket(10, s(1), 10));
    for key in 0..FLOOD {
        assert!(limiter.try_acquire(&key).is_granted());
    }
    assert_eq!(limiter.charge(&KNOWN, 20), 20);
    assert_eq!(limiter.len() as u64, FLOOD + 1);
    // Until they are fresh none goes.
    limiter.clock().advance(ms(99));
    for _ in 0..1_000 {
        call(&limiter);
    }
    assert_eq!(limiter.len() as u64, FLOOD + 1);
    limiter.clock().advance(ms(1 + GRACE));
    // A part at a time, in little more than the two seconds that it takes a key
    // to fill which is as deep in debt as can be.
    for _ in 0..270 {
        limiter.clock().advance(ms(10));
        call(&limiter);
    }
    assert!(limiter.len() <= 1, "{} keys are left", limiter.len());
}

#[test]
fn hits_of_one_key_clear_a_flood() {
    a_flood_is_cleared_by(|limiter| {
        let _ = limiter.try_acquire(&u64::MAX);
    });
}

#[test]
fn refusals_of_one_key_clear_a_flood() {
    let granted = Cell::new(0);
    a_flood_is_cleared_by(|limiter| {
        // It has ten but once in the time.
        let is_granted = limiter.try_acquire_n(&u64::MAX, 10).is_granted();
        granted.set(granted.get() + u32::from(is_granted));
    });
    assert!(granted.get() <= 1);
}

#[test]
fn looks_at_keys_never_seen_clear_a_flood() {
    a_flood_is_cleared_by(|limiter| assert!(limiter.peek(&123_456_789).is_granted()));
}

#[test]
fn calls_at_times_of_their_own_clear_a_flood() {
    a_flood_is_cleared_by(|limiter| {
        let now = tollgate::Clock::now(limiter.clock());
        assert_eq!(limiter.at(now).try_acquire_n(&123_456_789, 10).remaining(), 0);
        limiter.remove(&123_456_789);
    });
}

/// One call looks through one part of 128 at most.
#[test]
fn no_call_clears_more_than_a_part() {
    const FLOOD: usize = 50_000;
    let limiter: Keyed<u64> = keyed(bucket(10, s(1), 10));
    for key in 0..FLOOD as u64 {
        assert!(limiter.try_acquire(&key).is_granted());
    }
    limiter.clock().advance(ms(100 + GRACE));
    let mut before = FLOOD;
    for _ in 0..270 {
        limiter.clock().advance(ms(10));
        assert!(limiter.peek(&u64::MAX).is_granted());
        let gone = before - limiter.len();
        assert!(gone < 2 * FLOOD / 128, "{gone} keys at once");
        before -= gone;
    }
    assert_eq!(before, 0);
}

/// A part that has doubled is swept, but a key that has just become fresh stays
/// for the grace.
#[test]
fn a_fresh_key_is_kept_for_the_grace() {
    let limiter: Keyed<u32> = keyed(bucket(10, s(1), 10));
    let limiter = limiter.with_hasher(OnePart::default());
    let is_known = |key| limiter.levels().any(|(other, _)| other == key);
    assert!(limiter.try_acquire(&0).is_granted()); // fresh at 100 ms
    set(&limiter, ms(100 + GRACE) - ns(1));
    for stranger in 1..=40 {
        assert!(limiter.try_acquire(&stranger).is_granted());
    }
    assert!(is_known(0));
    set(&limiter, ms(100 + GRACE));
    for stranger in 41..=120 {
        assert!(limiter.try_acquire(&stranger).is_granted());
    }
    assert!(!is_known(0));
    assert_eq!(limiter.len(), 120);
}

#[test]
fn a_key_in_debt_is_never_dropped() {
    let limiter: Keyed<u64> = keyed(bucket(1, s(1), 10));
    let debtor = u64::MAX;
    assert_eq!(limiter.charge(&debtor, 20), 20); // 10 in debt
    for second in 0..20 {
        set(&limiter, s(second + 1) - ns(1));
        limiter.sweep();
        for key in 0..200 {
            let _ = limiter.try_acquire(&(second * 200 + key)); // strangers
        }
        let left = limiter.peek_n(&debtor, 0).remaining();
        assert_eq!(u64::from(left), second.saturating_sub(10));
        assert!(limiter.levels().any(|level| level == (debtor, left)), "forgotten at {second} s");
    }
    set(&limiter, s(20));
    limiter.sweep();
    assert!(limiter.levels().all(|(key, _)| key != debtor));
    assert_eq!(limiter.peek_n(&debtor, 10).remaining(), 10);
}

/// A grant from before a key was forgotten is none of the key's that is there
/// now: not even of a log, which counts from nothing again.
#[test]
fn a_grant_does_not_outlive_its_key() {
    let limiter: Keyed<u32, _> = keyed(SlidingWindowLog::new(rate(2, SECOND)));
    let old = limiter.try_acquire(&1);
    set(&limiter, s(1));
    assert_eq!(limiter.sweep(), 1);
    let new = limiter.try_acquire(&1);
    assert_eq!(limiter.refund(&1, old), 0);
    assert_eq!(limiter.peek(&1).remaining(), 1);
    assert_eq!(limiter.refund(&1, new), 1);
}

/// What a refund has made fresh is found.
#[test]
fn a_key_that_was_given_back_is_forgotten() {
    let limiter: Keyed<u32> = keyed(bucket(1, s(3_600), 10));
    let grant = limiter.try_acquire_n(&1, 10);
    let _ = limiter.try_acquire_n(&2, 10);
    assert_eq!(limiter.sweep(), 0);
    assert_eq!(limiter.refund(&1, grant), 10);
    limiter.reset(&2);
    assert_eq!(limiter.len(), 2);
    for _ in 0..256 {
        limiter.clock().advance(s(600)); // by calls alone
        let _ = limiter.peek(&3);
    }
    assert_eq!(limiter.len(), 0);
    assert_eq!(crate::Answer::from(limiter.try_acquire(&1)), ok(9));
}

#[test]
fn an_idle_limiter_is_empty_after_one_sweep() {
    let limiter: Keyed<u32> = keyed(bucket(10, s(1), 10));
    for key in 0..10_000 {
        assert!(limiter.at(Instant::ZERO).try_acquire(&key).is_granted());
    }
    set(&limiter, ms(100) - ns(1));
    assert_eq!(limiter.sweep(), 0);
    set(&limiter, ms(100));
    assert_eq!(limiter.sweep(), 10_000);
    assert!(limiter.is_empty());
}

/// A look at what will be is not taken for the present.
#[test]
fn a_look_into_the_future_forgets_nobody() {
    let limiter: Keyed<u32> = keyed(bucket(1, s(1), 5));
    assert!(limiter.try_acquire_n(&1, 5).is_granted());
    for second in 0..256 {
        let later = Instant::ZERO + s(3_600 + second);
        assert_eq!(limiter.at(later).peek(&1).remaining(), 5);
        assert_eq!(limiter.at(Instant::MAX).peek(&2).remaining(), 5);
    }
    assert_eq!(limiter.try_acquire(&1).retry_after(), Some(s(1)));
    assert_eq!(crate::Answer::from(limiter.try_acquire_n(&2, 5)), ok(0));
}

/// However deep a key could be in debt, what is fresh goes when it is fresh.
#[test]
fn a_deep_bucket_does_not_keep_what_is_fresh() {
    let limiter: Keyed<u64> = keyed(bucket(100, s(3_600), 1_000));
    for key in 0..50_000 {
        assert!(limiter.try_acquire(&key).is_granted());
    }
    for call in 0..150 {
        limiter.clock().advance(s(36));
        let _ = limiter.try_acquire(&(call % 3));
    }
    assert!(limiter.len() <= 3, "{} keys are left", limiter.len());
}

/// What was granted to a key that was removed, or had a plan in between, is not
/// given back by those who were granted later.
#[test]
fn a_grant_does_not_outlive_what_its_key_has_been_through() {
    let limiter: Keyed<u32, _> = keyed(FixedWindow::new(rate(10, 3_600 * SECOND)));
    let take = || limiter.try_acquire_n(&1, 10);
    let old = take();
    assert!(limiter.remove(&1));
    let new = take();
    assert_eq!(limiter.refund(&1, old), 0);
    assert_eq!(limiter.refund(&1, new), 10);
    let old = take();
    limiter.clear();
    let new = take();
    assert_eq!(limiter.refund(&1, old), 0);
    limiter.set_own(&1, FixedWindow::new(rate(10, 3_600 * SECOND))).unwrap();
    limiter.clear_own(&1);
    assert_eq!(limiter.refund(&1, new), 0);
}
