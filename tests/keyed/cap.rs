//! No more keys than there may be, and nobody gains by filling the place.

use crate::{Answer, Keyed, bucket, full, keyed, ms, no, ns, ok, s, set};
use tollgate::{ConfigError, FixedWindow, SlidingWindowLog, WhenFull, rate};

fn capped(max: usize, when_full: WhenFull) -> Keyed<String> {
    keyed(bucket(1, s(1), 2)).with_max_keys(max, when_full).expect("some keys")
}

fn ask(limiter: &Keyed<String>, key: &str, n: u32) -> Answer {
    limiter.try_acquire_n(key, n).into()
}

#[test]
fn no_keys_at_all_is_a_mistake() {
    let limiter: Keyed<u32> = keyed(bucket(1, s(1), 1));
    let error = limiter.with_max_keys(0, WhenFull::Refuse).expect_err("refused");
    assert_eq!(error, ConfigError::Zero("max_keys"));
    assert_eq!(error.field(), "max_keys");
    assert_eq!(error.to_string(), "max_keys must not be zero");
}

/// An attacker with many keys freed himself, or lost the limiter the one that
/// was blocked.
#[test]
fn a_flood_frees_nobody() {
    let limiter: Keyed<u32> =
        keyed(bucket(1, s(3_600), 5)).with_max_keys(1_000, WhenFull::Refuse).expect("some keys");
    let ask = |key: u32, n: u32| Answer::from(limiter.try_acquire_n(&key, n));
    assert_eq!(ask(0, 5), ok(0));
    for key in 1..=5_000 {
        let expected = if key < 1_000 { ok(4) } else { full(s(3_600)) };
        assert_eq!(ask(key, 1), expected, "key {key}");
        assert!(limiter.len() <= 1_000);
    }
    assert_eq!(ask(0, 1), no(s(3_600)));
    set(&limiter, s(3_599));
    assert_eq!(ask(0, 1), no(s(1)));
    // Those that are known go on as if nothing had happened.
    for key in 1..1_000 {
        assert_eq!(ask(key, 1), ok(3));
    }
    assert!(limiter.try_acquire(&5_001).is_full());
    assert_eq!(limiter.len(), 1_000);
}

/// The empty key was never forgotten.
#[test]
fn the_empty_key_takes_one_place_as_any_other() {
    let limiter = capped(2, WhenFull::Refuse);
    for round in 0..3 {
        for key in ["", "one", "two", "three"] {
            assert_eq!(ask(&limiter, key, 1), ok(1), "{key:?} in round {round}");
            assert!(limiter.len() <= 2);
            limiter.clock().advance(s(1)); // all have all again
        }
    }
}

#[test]
fn a_new_key_is_refused_until_there_is_room() {
    let limiter = capped(2, WhenFull::Refuse);
    assert_eq!(ask(&limiter, "one", 1), ok(1));
    assert_eq!(ask(&limiter, "two", 2), ok(0));
    let refused = limiter.try_acquire("three");
    assert!(refused.is_denied() && refused.is_full() && !refused.is_never());
    assert_eq!(refused.retry_after(), Some(s(1))); // "one" is fresh by then
    assert_eq!(refused.retry_after_secs(), Some(1));
    assert_eq!((refused.limit(), refused.remaining()), (2, 0));
    let shown = refused.granted().expect_err("a refusal").to_string();
    assert_eq!(shown, "too many keys, retry in 1s");

    set(&limiter, s(1) - ns(1));
    assert_eq!(ask(&limiter, "three", 1), full(ns(1)));
    assert_eq!(Answer::from(limiter.peek("three")), full(ns(1)));
    assert_eq!(limiter.charge("three", 1), 0);
    set(&limiter, s(1));
    assert_eq!(ask(&limiter, "three", 1), ok(1));
    assert_eq!(limiter.len(), 2);
}

/// What needs no room is answered as ever.
#[test]
fn what_takes_nothing_needs_no_room() {
    let limiter = capped(1, WhenFull::Refuse);
    assert_eq!(ask(&limiter, "one", 1), ok(1));
    assert_eq!(ask(&limiter, "two", 0), ok(2));
    assert_eq!(ask(&limiter, "two", 3), Answer::Never);
    assert_eq!(Answer::from(limiter.peek_n("two", 0)), ok(2));
    assert_eq!(Answer::from(limiter.peek_n("two", 3)), Answer::Never);
    limiter.reset("two");
    assert_eq!(limiter.len(), 1);
    // And it takes no place, however often.
    let limiter = capped(1, WhenFull::Refuse);
    for _ in 0..10 {
        assert_eq!(ask(&limiter, "two", 0), ok(2));
        assert_eq!(ask(&limiter, "two", 3), Answer::Never);
        assert_eq!(limiter.charge("two", 0), 0);
    }
    assert_eq!(ask(&limiter, "one", 1), ok(1));
}

#[test]
fn known_keys_do_not_notice_that_all_places_are_taken() {
    for when_full in [WhenFull::Refuse, WhenFull::Share] {
        let limiter = capped(1, when_full);
        let grant = limiter.try_acquire_n("one", 2);
        for stranger in ["two", "three", "four"] {
            let _ = limiter.try_acquire(stranger);
            assert_eq!(ask(&limiter, "one", 1), no(s(1)));
        }
        assert_eq!(limiter.refund("one", grant), 2);
        assert_eq!(ask(&limiter, "one", 1), ok(1));
        assert_eq!(limiter.charge("one", 2), 2);
        assert_eq!(ask(&limiter, "one", 1), no(s(2)));
    }
}

#[test]
fn removing_makes_room() {
    let limiter = capped(1, WhenFull::Refuse);
    assert_eq!(ask(&limiter, "one", 2), ok(0));
    assert_eq!(ask(&limiter, "two", 1), full(s(2)));
    assert!(!limiter.remove("two"));
    assert_eq!(ask(&limiter, "two", 1), full(s(2)));
    assert!(limiter.remove("one"));
    assert_eq!(ask(&limiter, "two", 2), ok(0));
    limiter.reset("two"); // as good as new
    assert_eq!(ask(&limiter, "three", 2), ok(0));
    limiter.clear();
    assert_eq!(ask(&limiter, "four", 2), ok(0));
    assert_eq!(limiter.len(), 1);
}

/// Room is counted right however keys come and go: always as many are let in as
/// there may be.
#[test]
fn no_place_is_lost() {
    let limiter = capped(10, WhenFull::Refuse);
    for round in 0..50_u64 {
        let names: Vec<_> = (0..20).map(|key| format!("{round}/{key}")).collect();
        let granted = names.iter().filter(|key| limiter.try_acquire(key.as_str()).is_granted());
        assert_eq!(granted.count(), 10, "in round {round}");
        assert_eq!(limiter.len(), 10);
        match round % 4 {
            0 => limiter.clear(),
            1 => assert!(names[..10].iter().all(|key| limiter.remove(key.as_str()))),
            2 => limiter.clock().advance(s(2)),
            _ => {
                limiter.clock().advance(s(2));
                assert_eq!(limiter.sweep(), 10);
            }
        }
    }
}

/// Nor is one found where keys lie that have been used since they were looked at.
#[test]
fn a_full_limiter_looks_everywhere_in_the_end() {
    const MAX: u32 = 20_000;
    let limiter: Keyed<u32> =
        keyed(bucket(1, s(1), 2)).with_max_keys(MAX as usize, WhenFull::Refuse).expect("some");
    for key in 0..MAX {
        assert_eq!(Answer::from(limiter.try_acquire_n(&key, 2)), ok(0));
    }
    // One of them is given all back.
    limiter.reset(&4_711);
    let calls = (0..1_000).take_while(|_| limiter.try_acquire(&MAX).is_denied()).count();
    assert!(calls <= 128, "{calls} calls for one place");
    assert_eq!(limiter.len() as u32, MAX);
    assert_eq!(Answer::from(limiter.try_acquire_n(&4_711, 1)), full(s(1)));
}

#[test]
fn every_kind_of_state_makes_room_in_time() {
    let windows: Keyed<u32, _> = keyed(FixedWindow::new(rate!("2/min")));
    let windows = windows.with_max_keys(1, WhenFull::Refuse).expect("some keys");
    set(&windows, s(20));
    assert_eq!(Answer::from(windows.try_acquire(&1)), ok(1));
    assert_eq!(Answer::from(windows.try_acquire(&2)), full(s(40)));
    set(&windows, s(60));
    assert_eq!(Answer::from(windows.try_acquire(&2)), ok(1));

    let logs: Keyed<u32, _> = keyed(SlidingWindowLog::new(rate!("2/min")));
    let logs = logs.with_max_keys(1, WhenFull::Refuse).expect("some keys");
    set(&logs, s(20));
    assert_eq!(Answer::from(logs.try_acquire(&1)), ok(1));
    assert_eq!(Answer::from(logs.try_acquire(&2)), full(s(60)));
    set(&logs, s(80));
    assert_eq!(Answer::from(logs.try_acquire(&2)), ok(1));
}

#[test]
fn new_keys_share_one_state() {
    let limiter = capped(1, WhenFull::Share);
    assert_eq!(ask(&limiter, "one", 1), ok(1));
    // There is no room for any of these.
    assert_eq!(Answer::from(limiter.peek_n("two", 2)), ok(2));
    assert_eq!(ask(&limiter, "two", 1), ok(1));
    assert_eq!(Answer::from(limiter.peek("three")), ok(1));
    assert_eq!(ask(&limiter, "three", 1), ok(0));
    assert_eq!(ask(&limiter, "two", 1), no(s(1)));
    assert_eq!(ask(&limiter, "four", 1), no(s(1)));
    assert_eq!(ask(&limiter, "four", 0), ok(0));
    assert_eq!(ask(&limiter, "four", 3), Answer::Never);
    assert_eq!(limiter.charge("five", 1), 1); // one in debt together
    assert_eq!(ask(&limiter, "four", 1), no(s(2)));
    assert_eq!(limiter.len(), 1);
    assert_eq!(ask(&limiter, "one", 1), ok(0));
    // Its place is free: the next one has a state of its own again.
    set(&limiter, s(2));
    assert_eq!(ask(&limiter, "four", 2), ok(0));
    assert_eq!(ask(&limiter, "two", 1), ok(0)); // shared: -1 and two seconds
}

#[test]
fn what_the_shared_state_granted_can_be_given_back() {
    let limiter = capped(1, WhenFull::Share);
    let own = limiter.try_acquire_n("one", 2);
    let shared = limiter.try_acquire_n("two", 2);
    assert_eq!(ask(&limiter, "three", 1), no(s(1)));
    assert_eq!(limiter.refund_n("two", shared, 1), 1);
    assert_eq!(ask(&limiter, "three", 1), ok(0));
    // A grant of a key's own is not taken back by the shared state: the two look
    // the same.
    limiter.remove("one");
    assert_eq!(ask(&limiter, "zero", 1), ok(1));
    assert_eq!(limiter.refund("one", own), 0);
    assert_eq!(ask(&limiter, "three", 1), no(s(1)));

    // Nor the other way round.
    let limiter = capped(1, WhenFull::Share);
    let _one = limiter.try_acquire_n("one", 2);
    let shared = limiter.try_acquire_n("two", 2);
    limiter.remove("one");
    assert_eq!(ask(&limiter, "two", 2), ok(0)); // of its own now
    assert_eq!(limiter.refund("two", shared), 2);
    assert_eq!(ask(&limiter, "two", 1), no(s(1)));
    assert_eq!(ask(&limiter, "three", 2), ok(0));

    // And at a time of the caller's.
    let limiter = capped(1, WhenFull::Share);
    let now = tollgate::Instant::from_nanos(0);
    let _one = limiter.try_acquire_n("one", 2);
    let shared = limiter.at(now).try_acquire_n("two", 2);
    assert_eq!(limiter.at(now).refund("two", shared), 2);
    assert_eq!(ask(&limiter, "three", 2), ok(0));
}

#[test]
fn the_shared_state_changes_with_the_parameters() {
    let limiter = capped(1, WhenFull::Share);
    let _one = limiter.try_acquire_n("one", 2);
    let grant = limiter.try_acquire_n("two", 2);
    limiter.reconfigure(bucket(10, s(1), 5));
    assert_eq!(ask(&limiter, "three", 1), no(ms(100)));
    assert_eq!(limiter.peek("three").limit(), 5);
    assert_eq!(limiter.refund("two", grant), 0); // from before
    set(&limiter, ms(100));
    assert_eq!(ask(&limiter, "two", 1), ok(0));
}

/// A key with parameters of its own is never forgotten, so there is no moment
/// to wait for.
#[test]
fn a_place_that_never_comes_free_has_no_wait() {
    let limiter: Keyed<u32> = keyed(bucket(1, s(1), 1));
    let limiter = limiter.with_max_keys(1, WhenFull::Refuse).expect("some keys");
    limiter.set_own(&1, bucket(1, s(1), 1)).expect("room");
    set(&limiter, s(1));
    limiter.sweep();
    let refused = limiter.try_acquire(&2);
    assert!(refused.is_full());
    assert_eq!(refused.retry_after(), None);
    assert_eq!(refused.granted().expect_err("a refusal").to_string(), "too many keys");
}

/// Where a call has not found a place but the next one may, the wait is short
/// but it is one.
#[test]
fn no_refusal_is_told_to_come_back_at_once() {
    const MAX: u32 = 20_000;
    let limiter: Keyed<u32> = keyed(bucket(1, s(1), 3));
    let limiter = limiter.with_max_keys(MAX as usize, WhenFull::Refuse).expect("some keys");
    for _ in 0..2 {
        (0..MAX).for_each(|key| assert!(limiter.try_acquire(&key).is_granted()));
    }
    set(&limiter, s(1)); // when each would be fresh after its first call
    for _ in 0..200 {
        let refused = limiter.try_acquire(&MAX);
        assert!(refused.is_full());
        assert!(refused.retry_after_secs() >= Some(1), "{:?}", refused.retry_after());
    }
    assert_eq!(Answer::from(limiter.try_acquire(&MAX)), full(s(1)));
}

/// A cap for a limiter that has keys already.
#[test]
fn a_cap_counts_the_keys_that_are_there() {
    let limiter: Keyed<u32> = keyed(bucket(1, s(1), 2));
    assert!(limiter.try_acquire(&1).is_granted());
    let limiter = limiter.with_max_keys(2, WhenFull::Refuse).expect("some keys");
    assert!(limiter.try_acquire(&2).is_granted());
    assert!(limiter.try_acquire(&3).is_full());
    set(&limiter, s(1));
    assert_eq!(limiter.sweep(), 2);
    assert!(limiter.try_acquire(&3).is_granted() && limiter.try_acquire(&4).is_granted());
    assert!(limiter.try_acquire(&5).is_full());
}

#[test]
fn another_hasher_frees_the_places_of_the_keys_it_drops() {
    let limiter: Keyed<u32> = keyed(bucket(1, s(1), 2));
    let limiter = limiter.with_max_keys(1, WhenFull::Refuse).expect("some keys");
    assert!(limiter.try_acquire(&1).is_granted());
    let limiter = limiter.with_hasher(crate::OnePart::default());
    assert_eq!(limiter.len(), 0);
    assert!(limiter.try_acquire(&2).is_granted());
    assert!(limiter.try_acquire(&3).is_full());
}

#[test]
fn the_shared_state_has_the_present_parameters() {
    let limiter: Keyed<u32> = keyed(bucket(1, s(1), 2));
    limiter.reconfigure(bucket(1, s(1), 1));
    let limiter = limiter.with_max_keys(1, WhenFull::Share).expect("some keys");
    assert!(limiter.try_acquire(&1).is_granted());
    assert_eq!(limiter.try_acquire(&2).limit(), 1);
}

/// The shared state and a plan made later look the same, but are not.
#[test]
fn a_grant_is_given_back_once() {
    let limiter: Keyed<u32> = keyed(bucket(1, s(1), 10));
    let limiter = limiter.with_max_keys(1, WhenFull::Share).expect("some keys");
    let limiter = limiter.with_hasher(crate::OnePart::default());
    limiter.set_own(&1, bucket(1, s(1), 10)).expect("room");
    let own = limiter.try_acquire_n(&1, 3);
    let _shared = limiter.try_acquire_n(&2, 3);
    assert_eq!(limiter.refund(&1, own), 3);
    assert_eq!(limiter.peek(&1).remaining(), 10);
    assert_eq!(limiter.peek(&2).remaining(), 7);
}
