//! What a limiter by key takes of the heap. Only what the thread of a test
//! allocates is counted, so the tests do not disturb one another.

use allocation_counter::{AllocationInfo, measure};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use tollgate::{
    Algorithm, Instant, KeyedRateLimiter, Limit, ManualClock, Pair, SlidingWindowLog, TokenBucket,
    WhenFull, limit, rate,
};

type Keyed<K, A = TokenBucket> = KeyedRateLimiter<K, A, ManualClock>;

const MILLION: u64 = 1_000_000;

fn keyed<K: Eq + Hash, A: Algorithm>(algorithm: A) -> Keyed<K, A> {
    Keyed::with_clock(algorithm, ManualClock::new())
}

fn bucket(limit: Limit) -> TokenBucket {
    TokenBucket::new(limit)
}

/// The bytes by which the heap has grown.
fn growth(work: impl FnOnce()) -> i64 {
    measure(work).bytes_current
}

/// A million keys with one call each take so much a key, all of which is given
/// back when they are forgotten.
fn bytes_per_key<K: Eq + Hash + Clone>(make_key: impl Fn(u64) -> K, at_most: i64) {
    let empty = measure(|| drop(keyed::<K, _>(bucket(limit!("10/s"))))).bytes_max;
    assert!(empty < 60_000, "{empty} bytes without any key");

    let mut limiter = None;
    let made = growth(|| limiter = Some(keyed::<K, _>(bucket(limit!("10/s")))));
    let limiter = limiter.expect("made");
    let grown = growth(|| {
        for key in 0..MILLION {
            assert_eq!(limiter.try_acquire(&make_key(key)).remaining(), 9);
        }
    });
    assert_eq!(limiter.len() as u64, MILLION);
    let per_key = (made + grown) as f64 / MILLION as f64;
    assert!(per_key <= at_most as f64, "{per_key} bytes a key");
    assert!(per_key > at_most as f64 / 3.0, "it cannot be {per_key} bytes a key");

    limiter.clock().set(Instant::ZERO + Duration::from_millis(99));
    let given_back = growth(|| assert_eq!(limiter.sweep(), 0));
    assert_eq!(given_back, 0);
    assert_eq!(limiter.len() as u64, MILLION);

    limiter.clock().set(Instant::ZERO + Duration::from_secs(1));
    let given_back = growth(|| assert_eq!(limiter.sweep() as u64, MILLION));
    assert_eq!(limiter.len(), 0);
    let left = grown + given_back;
    assert!(left <= grown / 100, "{left} of {grown} bytes are left");
    // And by dropping the limiter everything.
    let given_back_at_last = growth(|| drop(limiter));
    assert_eq!(made + left + given_back_at_last, 0);
}

#[test]
fn bytes_of_a_number() {
    bytes_per_key(|key| key, 36);
}

#[test]
fn bytes_of_a_text() {
    bytes_per_key(|key| format!("{key:016}").into_boxed_str(), 69);
}

/// No call to sweep: one key's traffic gives back what a flood has left.
#[test]
fn a_flood_that_has_passed_leaves_nothing() {
    let limiter = keyed(bucket(limit!("10/s")));
    let grown = growth(|| {
        for key in 0..MILLION {
            let _ = limiter.try_acquire(&key);
        }
    });
    limiter.clock().advance(Duration::from_millis(200));
    let given_back = growth(|| {
        for _ in 0..270 {
            limiter.clock().advance(Duration::from_millis(10));
            let _ = limiter.try_acquire_n(&u64::MAX, 3);
        }
    });
    assert!(limiter.len() <= 1, "{} keys are left", limiter.len());
    let left = grown + given_back;
    assert!(left <= grown / 100, "{left} of {grown} bytes are left");
}

#[test]
fn removing_and_clearing_give_memory_back() {
    let limiter = keyed(bucket(limit!("1/h")));
    let fill = || {
        growth(|| {
            for key in 0..100_000_u64 {
                let _ = limiter.try_acquire(&key);
            }
        })
    };
    let grown = fill();
    let cleared = growth(|| limiter.clear());
    assert!(grown + cleared <= grown / 100, "{cleared} of {grown} were given back");

    let grown = fill();
    let removed = growth(|| {
        (0..100_000_u64).for_each(|key| assert!(limiter.remove(&key)));
        limiter.shrink_to_fit();
    });
    assert!(grown + removed <= grown / 100, "{removed} of {grown} were given back");

    // Plans are in a map of their own.
    let planned = growth(|| {
        for key in 0..10_000_u64 {
            limiter.set_own(&key, limit!("5/h")).expect("room");
        }
    });
    let cleared = growth(|| limiter.clear());
    assert!(planned + cleared <= planned / 20, "{cleared} of {planned} were given back");
}

/// A ring for as many events as are allowed was made for each key.
#[test]
fn a_log_takes_memory_by_use_and_not_by_limit() {
    let limiter = keyed(SlidingWindowLog::new(rate!("1000000/min")));
    let grown = growth(|| {
        for key in 0..10_000_u64 {
            assert!(limiter.try_acquire(&key).is_granted());
        }
    });
    assert!(grown < 10 << 20, "{grown} bytes for 10,000 keys");

    // As many as are allowed of one key, each at a time of its own.
    let busy = u64::MAX;
    let grown = growth(|| {
        for _ in 0..MILLION {
            limiter.clock().advance(Duration::from_micros(50));
            assert!(limiter.try_acquire(&busy).is_granted());
        }
    });
    assert!(limiter.try_acquire(&busy).is_denied());
    assert!(grown as u64 >= 16 * MILLION, "16 bytes for each");
    limiter.clock().advance(Duration::from_secs(60));
    let given_back = growth(|| {
        assert!(limiter.try_acquire(&busy).is_granted());
    });
    assert!(grown + given_back < 1 << 10, "{} bytes are left", grown + given_back);
    limiter.sweep();
    assert_eq!(limiter.len(), 1);
}

/// A ring goes round, and would have all its places made in the end.
#[test]
fn a_log_that_is_idle_at_times_uses_its_places_again() {
    let limiter = keyed(SlidingWindowLog::new(rate!("1000/min")));
    let grown = growth(|| {
        for key in 0..10_000_u64 {
            for _ in 0..8 {
                assert!(limiter.try_acquire(&key).is_granted());
            }
        }
    });
    assert!(grown / 10_000 <= 250, "{} bytes a key", grown / 10_000);
    let grown = growth(|| {
        for _ in 0..300 {
            limiter.clock().advance(Duration::from_secs(60));
            for _ in 0..8 {
                assert!(limiter.try_acquire(&7).is_granted());
            }
        }
    });
    assert!(grown < 1 << 10, "{grown} bytes for one key");
    // As many as are out at once, and no more than there are permits.
    let grown = growth(|| {
        for _ in 0..5_000 {
            limiter.clock().advance(Duration::from_millis(50));
            let _ = limiter.try_acquire(&7);
        }
    });
    assert!((8_000..12_000).contains(&grown), "{grown} bytes for a thousand places");
}

/// Permits that nobody has yet took a place each, of each key.
#[test]
fn a_higher_count_takes_nothing_of_a_log() {
    let limiter = keyed(SlidingWindowLog::new(rate!("10/min")));
    let call = |keys: core::ops::Range<u64>| {
        keys.for_each(|key| assert!(limiter.try_acquire(&key).is_granted()));
    };
    let made = growth(|| call(0..1_000));
    let changed = growth(|| limiter.reconfigure(SlidingWindowLog::new(rate!("65535/min"))));
    assert_eq!(changed, 0);
    let more = growth(|| call(1_000..2_000));
    assert!(more < 2 * made, "{more} bytes for more keys, after {made}");
    assert_eq!(limiter.peek(&7).remaining(), 9);
    limiter.clock().advance(Duration::from_secs(60));
    assert_eq!(limiter.peek(&7).remaining(), 65_535);
}

/// The allocations of calls for keys that are known.
fn of_hits<K, A: Algorithm, Q>(limiter: &Keyed<K, A>, key: &Q) -> AllocationInfo
where
    K: Eq + Hash,
    Q: tollgate::Lookup<K> + ?Sized,
{
    assert!(limiter.try_acquire_n(key, 3).is_granted());
    measure(|| {
        for _ in 0..1_000 {
            let grant = limiter.try_acquire(key);
            assert_eq!(limiter.refund(key, grant), 1);
            limiter.charge(key, 0);
            assert!(limiter.peek(key).is_granted());
            assert!(limiter.try_acquire_n(key, 100).is_never());
            assert!(limiter.try_acquire_n(key, 5).is_denied());
            assert!(limiter.at(Instant::ZERO).peek(key).is_granted());
        }
    })
}

#[test]
fn a_hit_allocates_nothing() {
    let none = AllocationInfo::default();
    let five = || bucket(limit!("1/h burst 5"));
    let long = "a name that is too long for any trick with short ones";
    assert_eq!(of_hits(&keyed::<String, _>(five()), long), none);
    assert_eq!(of_hits(&keyed::<Box<str>, _>(five()), long), none);
    assert_eq!(of_hits(&keyed::<Arc<str>, _>(five()), long), none);
    assert_eq!(of_hits(&keyed::<Vec<u8>, _>(five()), long.as_bytes()), none);
    assert_eq!(of_hits(&keyed::<(String, u16), _>(five()), &Pair(long, &443)), none);
    assert_eq!(of_hits(&keyed::<u64, _>(five()), &1), none);
    // Nor where the parameters are the second ones, or the key's own.
    let changed = keyed::<String, _>(five());
    changed.reconfigure(limit!("1/min burst 5"));
    assert_eq!(of_hits(&changed, long), none);
    changed.set_own("other", limit!("5/h")).expect("room");
    assert_eq!(of_hits(&changed, "other"), none);
}

#[test]
fn a_look_at_a_key_never_seen_allocates_nothing() {
    let limiter = keyed::<String, _>(bucket(limit!("1/h burst 5")));
    let grant = limiter.try_acquire("known");
    let looks = measure(|| {
        assert!(limiter.peek("never seen").is_granted());
        assert!(limiter.peek_n("never seen", 9).is_never());
        limiter.reset("never seen");
        assert!(!limiter.remove("never seen"));
        assert_eq!(limiter.refund("never seen", grant), 0);
    });
    assert_eq!(looks, AllocationInfo::default());
}

/// Keys of any length from strangers, when there is no room: nothing of them is
/// kept, and no copy is made.
#[test]
fn keys_without_a_place_allocate_nothing() {
    for when_full in [WhenFull::Refuse, WhenFull::Share] {
        let limiter = keyed::<Box<str>, _>(bucket(limit!("1/h burst 5")));
        let limiter = limiter.with_max_keys(2, when_full).expect("some keys");
        assert!(limiter.try_acquire("one").is_granted() && limiter.try_acquire("two").is_granted());
        let mut header = "x".repeat(1 << 20);
        let refused = measure(|| {
            for _ in 0..50 {
                header.replace_range(..1, "y");
                let _ = limiter.try_acquire(&*header);
                let _ = limiter.peek(&*header);
                let _ = limiter.charge(&*header, 1);
            }
        });
        assert_eq!(refused.bytes_max, 0);
        assert_eq!(limiter.len(), 2);
    }
}
