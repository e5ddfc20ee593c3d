//! Faults that users of limiters by key have met in the field, each as a
//! scenario with exact numbers.

use crate::{Answer, Keyed, OnePart, bucket, keyed, ms, no, ns, ok, s, set, within_ten_seconds};
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use tollgate::{
    Algorithm, Clock, Instant, KeyedRateLimiter, Locked, Lookup, ManualClock, Pair, TokenBucket,
    WhenFull,
};

/// Every key ever seen stayed. (What becomes of the memory is asked elsewhere.)
#[test]
fn the_map_of_keys_grows_for_ever() {
    const KEYS: u32 = 100_000;
    let limiter: Keyed<u32> = keyed(bucket(10, s(1), 10));
    for key in 0..KEYS {
        assert_eq!(limiter.try_acquire(&key).remaining(), 9);
    }
    set(&limiter, ms(99));
    assert_eq!(limiter.sweep(), 0);
    assert_eq!(limiter.len() as u32, KEYS);
    set(&limiter, s(1));
    assert_eq!(limiter.sweep() as u32, KEYS);
    assert_eq!(limiter.len(), 0);
}

fn eviction_forgives_no_debt(make: impl Fn(u32, u32) -> Box<dyn Ask>) {
    let limiter = make(1, 10);
    assert_eq!(limiter.ask(s(0), 10), ok(0));
    for sweep in [10, 300, 3_599] {
        limiter.sweep(s(sweep));
    }
    assert_eq!(limiter.ask(s(3_599), 1), no(s(1)));
    assert_eq!(limiter.ask(s(3_600), 1), ok(0));

    let limiter = make(10, 10);
    let mut granted = 0;
    for second in 0..3_600 {
        limiter.sweep(s(second));
        if second % 20 == 0 {
            granted += u32::from(matches!(limiter.ask(s(second), 1), Answer::Granted { .. }));
        }
    }
    assert_eq!(granted, 19); // of 180

    let limiter = make(1, 10);
    assert_eq!(limiter.ask(s(0), 10), ok(0));
    limiter.sweep(s(36_000) - ns(1));
    assert_eq!(limiter.len(), 1);
    limiter.sweep(s(36_000));
    assert_eq!(limiter.len(), 0);
}

/// A limiter of any type, for one key.
trait Ask {
    fn ask(&self, at: std::time::Duration, n: u32) -> Answer;
    fn sweep(&self, at: std::time::Duration);
    fn len(&self) -> usize;
}

impl<A: Algorithm> Ask for Keyed<&'static str, A> {
    fn ask(&self, at: std::time::Duration, n: u32) -> Answer {
        set(self, at);
        self.try_acquire_n(&"key", n).into()
    }

    fn sweep(&self, at: std::time::Duration) {
        set(self, at);
        self.sweep();
    }

    fn len(&self) -> usize {
        self.len()
    }
}

/// An idle timeout shorter than the refill handed back a full bucket.
#[test]
fn eviction_forgives_debt() {
    eviction_forgives_no_debt(|count, burst| {
        Box::new(keyed::<&str, _>(bucket(count, s(3_600), burst)))
    });
    eviction_forgives_no_debt(|count, burst| {
        Box::new(keyed::<&str, _>(Locked(bucket(count, s(3_600), burst))))
    });
}

/// Two parts of a key glued without a mark between them collided.
#[test]
fn composite_keys_collide() {
    let owned: Keyed<(String, String)> = keyed(bucket(1, s(60), 1));
    let pair = |a, b| Answer::from(owned.try_acquire(&Pair(a, b)));
    assert_eq!(pair("a", "bc"), ok(0));
    assert_eq!(pair("ab", "c"), ok(0));
    assert_eq!(pair("a", "bc"), no(s(60)));
    assert_eq!(pair("", "abc"), ok(0));
    assert_eq!(pair("abc", ""), ok(0));
    assert_eq!(owned.len(), 4);
    assert!(owned.try_acquire(&("ab".to_string(), "c".to_string())).is_denied());

    let tuples: Keyed<(&str, u8, &str)> = keyed(bucket(1, s(60), 1));
    assert_eq!(Answer::from(tuples.try_acquire(&("a", 1, "bc"))), ok(0));
    assert_eq!(Answer::from(tuples.try_acquire(&("ab", 1, "c"))), ok(0));
    assert_eq!(Answer::from(tuples.try_acquire(&("a", 2, "bc"))), ok(0));
    assert_eq!(Answer::from(tuples.try_acquire(&("a", 1, "bc"))), no(s(60)));
}

/// A key first seen late starts the same as one first seen at once.
#[test]
fn a_late_key_starts_anew() {
    let limiter: Keyed<u8> = keyed(bucket(10, s(1), 10));
    for (key, hour) in [(0, 0), (1, 1), (2, 24)] {
        set(&limiter, s(3_600 * hour));
        assert_eq!(Answer::from(limiter.try_acquire_n(&key, 10)), ok(0));
        assert_eq!(Answer::from(limiter.try_acquire(&key)), no(ms(100)));
    }
}

type Reentrant = KeyedRateLimiter<u32, TokenBucket, Calling, OnePart>;

/// A clock of the user's that asks the limiter whose clock it is.
#[derive(Clone)]
struct Calling {
    limiter: Arc<OnceLock<Weak<Reentrant>>>,
    time: ManualClock,
    calls: Arc<AtomicUsize>,
}

thread_local! {
    static IS_CALLING: Cell<bool> = const { Cell::new(false) };
}

/// Calls on other keys in the same part: nothing may be locked meanwhile.
fn call(limiter: &Reentrant, key: u32) {
    let grant = limiter.try_acquire(&key);
    let _ = limiter.try_acquire(&(key + 1));
    let _ = limiter.peek(&(key + 2));
    limiter.charge(&key, 1);
    limiter.refund(&key, grant);
    limiter.reset(&(key + 1));
    limiter.remove(&(key + 1));
}

/// The same, and what goes through all keys.
fn call_all(limiter: &Reentrant, key: u32) {
    call(limiter, key);
    limiter.sweep();
    limiter.shrink_to_fit();
    assert!(limiter.levels().count() <= limiter.len() + 1);
}

impl Clock for Calling {
    fn now(&self) -> Instant {
        let outermost = !IS_CALLING.replace(true);
        if outermost {
            if let Some(limiter) = self.limiter.get().and_then(Weak::upgrade) {
                let calls = self.calls.fetch_add(1, Ordering::Relaxed);
                let work = if calls.is_multiple_of(100) { call_all } else { call };
                work(&limiter, 1_000);
            }
            IS_CALLING.set(false);
        }
        self.time.now()
    }
}

/// A key in borrowed form that calls the limiter when it is made to a key.
struct Nosy<'a>(u32, &'a Reentrant);

impl std::hash::Hash for Nosy<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        call(self.1, 2_000);
        self.0.hash(state);
    }
}

impl Lookup<u32> for Nosy<'_> {
    fn is(&self, key: &u32) -> bool {
        self.0 == *key
    }

    fn to_key(&self) -> u32 {
        call_all(self.1, 3_000);
        self.0
    }
}

/// The map was locked while the user's code ran: seldom, since two keys had to
/// share a part. Here all of them do.
#[test]
fn user_code_calls_the_limiter() {
    within_ten_seconds(|| {
        let clock = Calling {
            limiter: Arc::new(OnceLock::new()),
            time: ManualClock::new(),
            calls: Arc::new(AtomicUsize::new(0)),
        };
        let limiter = KeyedRateLimiter::with_clock(bucket(10, s(1), 10), clock.clone());
        let limiter = Arc::new(limiter.with_hasher(OnePart::default()));
        clock.limiter.set(Arc::downgrade(&limiter)).expect("set once");

        for key in 0..100 {
            assert!(limiter.try_acquire(&key).is_granted());
            clock.time.advance(ms(3));
        }
        call_all(&limiter, 50);
        limiter.set_own(&7, bucket(1, s(1), 1)).expect("room");
        let _ = limiter.try_acquire(&7);
        assert!(limiter.clear_own(&7));
        limiter.reconfigure(bucket(20, s(1), 20));
        assert!(clock.calls.load(Ordering::Relaxed) > 100);

        for key in 100..120 {
            assert!(limiter.try_acquire(&Nosy(key, &limiter)).is_granted());
        }
        assert!(limiter.remove(&Nosy(110, &limiter)));

        // While one goes through the keys.
        let mut seen = 0;
        for (key, _) in limiter.levels() {
            call(&limiter, key);
            if seen == 10 {
                limiter.reconfigure(bucket(10, s(1), 10));
                limiter.clear();
            }
            seen += 1;
        }
        assert!(seen > 10);
    });
}

/// Threads call while others go through all keys.
#[test]
fn the_map_is_locked_by_two() {
    within_ten_seconds(|| {
        const CALLS: u32 = 5_000;
        const SWEEPS: u32 = 200;
        let limiter: Keyed<u32> = keyed(bucket(10, s(1), 2));
        let limiter = limiter.with_hasher(OnePart::default());
        let (swept, granted) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..SWEEPS {
                    limiter.clock().advance(ms(200)); // all are fresh again
                    swept.fetch_add(limiter.sweep(), Ordering::Relaxed);
                }
            });
            scope.spawn(|| {
                for _ in 0..SWEEPS {
                    assert!(limiter.len() <= 100);
                }
            });
            for seed in 1..=8 {
                let (limiter, granted) = (&limiter, &granted);
                scope.spawn(move || {
                    let mut random: u32 = seed;
                    for _ in 0..CALLS {
                        random ^= random << 13;
                        random ^= random >> 17;
                        random ^= random << 5;
                        let is_granted = limiter.try_acquire(&(random % 100)).is_granted();
                        granted.fetch_add(usize::from(is_granted), Ordering::Relaxed);
                    }
                });
            }
        });
        limiter.clock().advance(ms(200));
        let left = limiter.len();
        assert_eq!(limiter.sweep(), left);
        let (swept, granted) = (swept.into_inner() + left, granted.into_inner());
        assert!(swept >= 100 && swept <= granted, "{swept} forgotten after {granted} grants");
    });
}

type Talking = KeyedRateLimiter<Talkative, TokenBucket, ManualClock>;

/// A key that calls the limiter when it is dropped.
#[derive(Clone)]
struct Talkative(u32, Option<Weak<Talking>>);

impl PartialEq for Talkative {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Talkative {}

impl Hash for Talkative {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Drop for Talkative {
    fn drop(&mut self) {
        if let Some(limiter) = self.1.as_ref().and_then(Weak::upgrade) {
            let other = Talkative(self.0 + 1, None);
            // There may be no room for another key.
            let known = limiter.set_own(&other, bucket(1, s(1), 1)).is_ok();
            assert_eq!(limiter.clear_own(&other), known);
        }
    }
}

/// What a call has no use for is dropped when it holds no lock any more.
#[test]
fn a_key_may_call_the_limiter_when_it_is_given_up() {
    within_ten_seconds(|| {
        let limiter = Talking::with_clock(bucket(10, s(1), 10), ManualClock::new());
        let limiter = Arc::new(limiter.with_max_keys(3, WhenFull::Refuse).expect("some keys"));
        let talkative = |number| Talkative(number, Some(Arc::downgrade(&limiter)));
        assert!(limiter.try_acquire(&talkative(0)).is_granted());
        for _ in 0..2 {
            limiter.set_own(&talkative(0), bucket(1, s(1), 1)).expect("room");
        }
        assert!(limiter.clear_own(&talkative(0)));
        limiter.set_own(&talkative(0), bucket(1, s(1), 1)).expect("room");
        assert!(limiter.remove(&talkative(0)));
        for number in [10, 20] {
            assert!(limiter.try_acquire(&Talkative(number, None)).is_granted());
        }
        assert!(limiter.set_own(&talkative(30), bucket(1, s(1), 1)).is_err());
    });
}
