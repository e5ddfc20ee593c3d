//! Models of the keyed layer, run over random interleavings by shuttle:
//!
//! ```text
//! RUSTFLAGS="--cfg tollgate_shuttle" cargo test --release --test shuttle
//! ```
//!
//! The map has two parts in a model, and the table of each is a list behind a
//! lock of the checker's; all else is as it is used. Orderings are not modelled:
//! every step is seen by all at once. What is conserved is asserted to the last
//! permit, on clocks and rates that make it a whole number.
//!
//! That the models can fail: the last one looks before it locks, and must panic.
//! Tried by hand, each caught by the models that it concerns:
//!
//! * `src/keyed/map.rs`: a sweep that looks under one hold of the lock and forgets
//!   under another; parameters flipped before the states are carried over;
//! * `src/keyed/sweep.rs`: a sweep that forgets who owes;
//! * `src/keyed/room.rs`: places counted by load and store;
//! * `src/keyed/call.rs`: a place not given up when the key was there already; a
//!   first sight decided by other parameters than those that let it pass;
//!   parameters looked at without the lock and not whether they were still the
//!   part's;
//! * `src/keyed/own.rs`: a place that can be used before the state has moved
//!   there, or after it has moved back; setting, clearing or removing without the
//!   lock for edits;
//! * `src/keyed/change.rs`: two changes at once.
//!
//! Not caught: a key removed, or moved back, without a new tenure.
#![cfg(tollgate_shuttle)]

#[path = "common/itself.rs"]
mod itself;

use itself::Itself;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::thread::{self, JoinHandle};
use shuttle::{Config, Runner};
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::time::Duration;
use tollgate::{
    Algorithm, FixedWindow, KeyedRateLimiter, Locked, ManualClock, TokenBucket, WhenFull, limit,
    rate,
};

/// So many interleavings by a coin at every step, and as many with few switches
/// in rare places. The same ones in every run.
fn explore(interleavings: usize, model: impl Fn() + Send + Sync + 'static) {
    fn run(scheduler: impl Scheduler + 'static, model: impl Fn() + Send + Sync + 'static) {
        let mut config = Config::new();
        config.silence_warnings = true; // that orderings are not modelled
        Runner::new(scheduler, config).run(model);
    }
    let model = Arc::new(model);
    let again = model.clone();
    run(RandomScheduler::new_from_seed(20_150_517, interleavings), move || model());
    run(PctScheduler::new_from_seed(20_150_517, 4, interleavings), move || again());
}

type Keyed<A> = KeyedRateLimiter<u64, A, ManualClock, BuildHasherDefault<Itself>>;

/// Two keys of one part, and one of the other.
const KEY: u64 = 0;
const BESIDE: u64 = 1;
const ELSEWHERE: u64 = 1 << 32;

const SECOND: Duration = Duration::from_secs(1);

fn by_key<A: Algorithm>(algorithm: A) -> Keyed<A> {
    KeyedRateLimiter::with_clock(algorithm, ManualClock::new())
        .with_hasher(BuildHasherDefault::default())
}

fn bucket(limit: tollgate::Limit) -> Arc<Keyed<TokenBucket>> {
    Arc::new(by_key(TokenBucket::new(limit)))
}

fn in_thread<A, R>(
    limiter: &Arc<Keyed<A>>,
    work: impl FnOnce(&Keyed<A>) -> R + Send + 'static,
) -> JoinHandle<R>
where
    A: Algorithm + 'static,
    R: Send + 'static,
{
    let limiter = limiter.clone();
    thread::spawn(move || work(&limiter))
}

/// How many permits so many calls of a key are granted, one each.
fn grants<A: Algorithm>(limiter: &Keyed<A>, key: u64, calls: u32) -> u32 {
    (0..calls).map(|_| u32::from(limiter.try_acquire(&key).is_granted())).sum()
}

/// What is said of the number of keys is true, once nobody calls.
fn assert_counted<A: Algorithm>(limiter: &Keyed<A>) {
    assert_eq!(limiter.len(), limiter.levels().count(), "keys are miscounted");
}

// ------------------------------------------------------------- first sights

fn first_sights_of<A: Algorithm + 'static>(algorithm: A) {
    explore(3_000, move || {
        let limiter = Arc::new(by_key(algorithm));
        let others = [KEY, KEY, BESIDE].map(|key| in_thread(&limiter, move |l| grants(l, key, 2)));
        let [first, second, beside] = others.map(|other| other.join().unwrap());
        assert_eq!(first + second, 3, "lost or doubled");
        assert_eq!(beside, 2, "another's");
        assert_eq!(limiter.len(), 2);
        assert_counted(&limiter);
        assert!(limiter.try_acquire(&KEY).is_denied());
    });
}

#[test]
fn a_first_sight_beside_others_adds_the_key_once() {
    first_sights_of(TokenBucket::new(limit!("1/s burst 3")));
}

#[test]
fn a_first_sight_of_a_locked_state_adds_the_key_once() {
    first_sights_of(Locked(FixedWindow::new(rate!("3/s"))));
}

#[test]
fn a_first_sight_that_books_counts() {
    explore(3_000, || {
        let limiter = bucket(limit!("1/s burst 3"));
        let charge = in_thread(&limiter, |limiter| limiter.charge(&KEY, 2));
        let undone = in_thread(&limiter, |limiter| {
            let grant = limiter.try_acquire(&KEY);
            let taken = u32::from(grant.is_granted());
            taken - limiter.refund(&KEY, grant)
        });
        let looks = in_thread(&limiter, |limiter| limiter.peek(&KEY).remaining());
        assert!(looks.join().unwrap() <= 3);
        let taken = charge.join().unwrap() + undone.join().unwrap();
        assert_eq!(limiter.peek(&KEY).remaining(), 3 - taken);
        assert_counted(&limiter);
    });
}

/// What was removed begins anew, and what was granted before is not given back
/// to it.
#[test]
fn a_removed_key_begins_anew_once() {
    explore(3_000, || {
        let limiter = bucket(limit!("1/s burst 2"));
        assert_eq!(grants(&limiter, KEY, 1), 1);
        let removes = in_thread(&limiter, |limiter| limiter.remove(&KEY));
        let takes = in_thread(&limiter, |limiter| {
            let grant = limiter.try_acquire(&KEY);
            (u32::from(grant.is_granted()), limiter.refund(&KEY, grant))
        });
        let beside = in_thread(&limiter, |limiter| grants(limiter, KEY, 1));
        assert!(removes.join().unwrap(), "it was there");
        let (taken, back) = takes.join().unwrap();
        let taken = taken + beside.join().unwrap();
        let left = limiter.peek(&KEY).remaining();
        // Of the calls, those before the removal are forgotten.
        assert!(left <= 2 && left + taken >= 2 && left + taken <= 4 + back, "{left}, {taken}");
        assert_counted(&limiter);
    });
}

// ------------------------------------------------------------------- sweeps

/// The bucket is empty at the start and full at the end, and not before: what is
/// granted is missing then, whenever it was.
#[test]
fn a_sweep_forgets_nobody_who_owes() {
    explore(4_000, || {
        let limiter = bucket(limit!("1/s burst 2"));
        assert!(limiter.try_acquire_n(&KEY, 2).is_granted());
        let sweeps = in_thread(&limiter, |limiter| {
            limiter.sweep();
            limiter.clock().advance(SECOND);
            limiter.sweep();
            limiter.clock().advance(SECOND);
            limiter.sweep();
        });
        let also_sweeps = in_thread(&limiter, |limiter| limiter.sweep());
        let granted = grants(&limiter, KEY, 3);
        sweeps.join().unwrap();
        also_sweeps.join().unwrap();
        assert!(granted <= 2, "a permit twice");
        assert_eq!(limiter.peek(&KEY).remaining(), 2 - granted);
        limiter.sweep();
        assert_eq!(limiter.len(), usize::from(granted > 0), "one who owes, or a key too many");
        assert_counted(&limiter);
    });
}

/// A state that a refund makes fresh is found by the sweep after it.
#[test]
fn a_sweep_beside_a_refund_keeps_the_count() {
    explore(3_000, || {
        let limiter = bucket(limit!("1/d burst 2"));
        let grant = limiter.try_acquire(&KEY);
        let sweeps = in_thread(&limiter, |limiter| limiter.sweep());
        let takes = in_thread(&limiter, |limiter| grants(limiter, KEY, 1));
        let back = limiter.refund(&KEY, grant);
        sweeps.join().unwrap();
        let taken = 1 - back + takes.join().unwrap();
        assert_eq!(limiter.peek(&KEY).remaining(), 2 - taken);
        limiter.sweep();
        assert_eq!(limiter.len(), usize::from(taken > 0), "it is not found to be fresh");
        assert_counted(&limiter);
    });
}

/// The sweeps that calls make on the way.
#[test]
fn a_call_that_sweeps_forgets_nobody_who_owes() {
    explore(3_000, || {
        let limiter = bucket(limit!("1/s burst 2"));
        assert!(limiter.try_acquire_n(&KEY, 2).is_granted());
        let moves = in_thread(&limiter, |limiter| {
            limiter.clock().advance(2 * SECOND);
            let beside = grants(limiter, BESIDE, 1) + grants(limiter, ELSEWHERE, 1);
            limiter.clock().advance(SECOND);
            beside + grants(limiter, ELSEWHERE, 1) + grants(limiter, BESIDE, 1)
        });
        let calls = in_thread(&limiter, |limiter| grants(limiter, KEY, 2));
        let granted = grants(&limiter, KEY, 2) + calls.join().unwrap();
        assert_eq!(moves.join().unwrap(), 4);
        let left = limiter.peek(&KEY).remaining();
        assert!(left <= 2 && granted + left >= 2 && granted + left <= 3, "{granted}, {left}");
        assert_counted(&limiter);
    });
}

// ------------------------------------------------------------------ changes

/// All changes keep the level: the two permits that a key has, none twice and
/// none lost, by the old parameters or by the new, whether or not it was known.
fn levels_beside_changes<A: Algorithm + 'static>(first: A, changes: [A; 3]) {
    explore(2_000, move || {
        let limiter = Arc::new(by_key(first));
        assert_eq!(grants(&limiter, KEY, 1), 1);
        let changing = in_thread(&limiter, move |limiter| {
            changes.into_iter().for_each(|change| limiter.reconfigure(change));
        });
        let known = in_thread(&limiter, |limiter| grants(limiter, KEY, 1));
        let new = in_thread(&limiter, |limiter| {
            (grants(limiter, BESIDE, 1), grants(limiter, ELSEWHERE, 1))
        });
        let (beside, elsewhere) = (grants(&limiter, BESIDE, 1), limiter.charge(&ELSEWHERE, 1));
        changing.join().unwrap();
        let (known, new) = (known.join().unwrap(), new.join().unwrap());
        assert_eq!((known, beside + new.0, elsewhere + new.1), (1, 2, 2), "a permit was lost");
        for key in [KEY, BESIDE, ELSEWHERE] {
            assert!(limiter.try_acquire(&key).is_denied(), "more than it holds");
        }
        assert_eq!(limiter.peek(&2).remaining(), 2, "a new key");
        assert_eq!(limiter.algorithm().capacity(), changes[2].capacity());
        assert_counted(&limiter);
    });
}

const CHANGES: [TokenBucket; 3] = [
    TokenBucket::new(limit!("1/s burst 3")),
    TokenBucket::new(limit!("1/d burst 4")),
    TokenBucket::new(limit!("5/h burst 5")),
];

/// The third change writes the slot that a slow call of the first may look at.
#[test]
fn changes_keep_the_level_of_every_key() {
    levels_beside_changes(TokenBucket::new(limit!("1/s burst 2")), CHANGES);
}

#[test]
fn changes_keep_the_level_of_every_locked_key() {
    levels_beside_changes(Locked(TokenBucket::new(limit!("1/s burst 2"))), CHANGES.map(Locked));
}

#[test]
fn two_changes_at_once_keep_the_level() {
    explore(3_000, || {
        let limiter = bucket(limit!("1/s burst 2"));
        assert_eq!(grants(&limiter, KEY, 1), 1);
        let other = in_thread(&limiter, |limiter| {
            limiter.reconfigure(limit!("1/d burst 3"));
            (grants(limiter, KEY, 1), grants(limiter, BESIDE, 1))
        });
        limiter.reconfigure(limit!("1/h burst 4"));
        let (known, new) = (grants(&limiter, KEY, 1), grants(&limiter, BESIDE, 1));
        let other = other.join().unwrap();
        assert_eq!((known + other.0, new + other.1), (1, 2));
        assert!(limiter.try_acquire(&KEY).is_denied() && limiter.try_acquire(&BESIDE).is_denied());
    });
}

/// A receipt of before a change gives nothing back after it.
#[test]
fn a_refund_beside_a_change_gives_no_more_than_was_taken() {
    explore(3_000, || {
        let limiter = bucket(limit!("1/s burst 2"));
        let grant = limiter.try_acquire(&KEY);
        let changes = in_thread(&limiter, |limiter| limiter.reconfigure(limit!("1/d burst 2")));
        let given = limiter.refund(&KEY, grant);
        changes.join().unwrap();
        assert_eq!(limiter.peek(&KEY).remaining(), 1 + given);
    });
}

/// More permits than there could be before the change, asked for by a key never
/// seen while the clock moves: what is granted is also remembered.
#[test]
fn a_first_sight_beside_a_change_is_decided_once() {
    explore(4_000, || {
        let limiter = bucket(limit!("1/s burst 1"));
        let moves = in_thread(&limiter, |limiter| limiter.clock().advance(SECOND));
        let changes = in_thread(&limiter, |limiter| limiter.reconfigure(limit!("1/s burst 2")));
        let granted = limiter.try_acquire_n(&KEY, 2).is_granted();
        moves.join().unwrap();
        changes.join().unwrap();
        assert_eq!(limiter.len(), usize::from(granted), "granted to nobody");
        assert!(limiter.peek(&KEY).remaining() == 0 || !granted, "granted for nothing");
    });
}

/// Nobody who has seen a change sees the parameters of before it: not even a look
/// at a key that is not there, which takes no lock.
#[test]
fn looks_at_a_new_key_follow_the_changes() {
    explore(4_000, || {
        let limiter = bucket(limit!("1/s burst 2"));
        let changes = in_thread(&limiter, |limiter| {
            CHANGES.into_iter().for_each(|change| limiter.reconfigure(change));
        });
        let looks = [(); 4].map(|()| limiter.peek(&ELSEWHERE).limit());
        changes.join().unwrap();
        assert!(looks.is_sorted(), "{looks:?}");
    });
}

#[test]
fn a_sweep_beside_a_change_forgets_nobody_who_owes() {
    explore(3_000, || {
        let limiter = bucket(limit!("1/s burst 2"));
        assert_eq!(grants(&limiter, KEY, 2), 2);
        let changes = in_thread(&limiter, |limiter| {
            limiter.reconfigure(limit!("1/d burst 3"));
            limiter.reconfigure(limit!("1/s burst 2"));
        });
        let sweeps = in_thread(&limiter, |limiter| limiter.sweep());
        let granted = grants(&limiter, KEY, 1) + grants(&limiter, BESIDE, 1);
        changes.join().unwrap();
        sweeps.join().unwrap();
        assert_eq!(granted, 1, "the other's");
        assert_eq!(limiter.peek(&KEY).remaining(), 0);
        assert_eq!(limiter.peek(&BESIDE).remaining(), 1);
        assert_eq!(limiter.len(), 2);
        assert_counted(&limiter);
    });
}

// -------------------------------------------------------- keys of their own

/// A key that gets parameters of its own and loses them again has what it had,
/// known before or not.
fn own_parameters(known: u32, edits: fn(&Keyed<TokenBucket>), also: fn(&Keyed<TokenBucket>)) {
    explore(3_000, move || {
        let limiter = bucket(limit!("1/s burst 3"));
        assert_eq!(grants(&limiter, KEY, known), known);
        let editing = in_thread(&limiter, edits);
        let also = in_thread(&limiter, also);
        let calls = in_thread(&limiter, |limiter| grants(limiter, KEY, 1));
        let taken = grants(&limiter, KEY, 1) + calls.join().unwrap();
        editing.join().unwrap();
        also.join().unwrap();
        assert_eq!(taken, 2, "there was enough");
        assert_eq!(limiter.peek(&KEY).remaining(), 1 - known, "lost or doubled");
        assert_counted(&limiter);
    });
}

fn edits(limiter: &Keyed<TokenBucket>) {
    limiter.set_own(&KEY, limit!("1/d burst 5")).unwrap();
    limiter.clear_own(&KEY);
    limiter.set_own(&KEY, limit!("1/d burst 6")).unwrap();
    limiter.set_own(&KEY, limit!("1/d burst 4")).unwrap();
}

#[test]
fn own_parameters_keep_the_level() {
    own_parameters(0, edits, |_| ());
    own_parameters(1, edits, |_| ());
}

#[test]
fn own_parameters_keep_the_level_beside_sweeps() {
    own_parameters(0, edits, |limiter| _ = limiter.sweep());
    own_parameters(1, edits, |limiter| _ = limiter.sweep());
}

#[test]
fn own_parameters_keep_the_level_beside_other_edits() {
    own_parameters(0, edits, |limiter| _ = limiter.clear_own(&KEY));
    own_parameters(1, edits, |limiter| _ = limiter.clear_own(&KEY));
}

#[test]
fn own_parameters_keep_the_level_beside_a_change() {
    own_parameters(0, edits, |limiter| limiter.reconfigure(limit!("1/h burst 7")));
    own_parameters(1, edits, |limiter| limiter.reconfigure(limit!("1/h burst 7")));
}

/// Own parameters are there until they are cleared, whoever sweeps.
#[test]
fn a_key_with_parameters_of_its_own_is_not_forgotten() {
    explore(3_000, || {
        let limiter = bucket(limit!("1/s burst 3"));
        let sets = in_thread(&limiter, |limiter| limiter.set_own(&KEY, limit!("1/d burst 5")));
        let sweeps = in_thread(&limiter, |limiter| {
            limiter.clock().advance(SECOND);
            limiter.sweep()
        });
        let granted = grants(&limiter, KEY, 1);
        sweeps.join().unwrap();
        sets.join().unwrap().unwrap();
        limiter.sweep();
        let told = limiter.peek(&KEY);
        assert_eq!((granted, told.limit()), (1, 5));
        assert_eq!((limiter.len(), limiter.levels().count()), (1, 1));
        assert!(limiter.clear_own(&KEY));
        limiter.clock().advance(10 * SECOND);
        limiter.sweep();
        assert_eq!((limiter.len(), limiter.levels().count()), (0, 0));
    });
}

/// A grant by other parameters than the present ones is not given back.
#[test]
fn a_refund_beside_own_parameters_gives_no_more_than_was_taken() {
    explore(3_000, || {
        let limiter = bucket(limit!("1/d burst 2"));
        let grant = limiter.try_acquire(&KEY);
        let edits = in_thread(&limiter, |limiter| {
            limiter.set_own(&KEY, limit!("1/d burst 2")).unwrap();
            limiter.clear_own(&KEY)
        });
        let given = limiter.refund(&KEY, grant);
        assert!(edits.join().unwrap());
        assert_eq!(limiter.peek(&KEY).remaining(), 1 + given);
    });
}

/// A key goes with its parameters, and is not left half there.
#[test]
fn a_removed_key_loses_its_own_parameters() {
    explore(3_000, || {
        let limiter = bucket(limit!("1/s burst 2"));
        let sets = in_thread(&limiter, |limiter| limiter.set_own(&KEY, limit!("1/d burst 5")));
        let removes = in_thread(&limiter, |limiter| limiter.remove(&KEY));
        let clears = in_thread(&limiter, |limiter| limiter.clear());
        let granted = grants(&limiter, KEY, 2);
        assert!(granted > 0);
        sets.join().unwrap().unwrap();
        removes.join().unwrap();
        clears.join().unwrap();
        assert_counted(&limiter);
        limiter.clear_own(&KEY);
        assert_eq!(limiter.peek(&KEY).limit(), 2);
        assert!(limiter.peek(&KEY).remaining() <= 2);
        limiter.clear();
        assert_eq!((limiter.len(), limiter.peek(&KEY).remaining()), (0, 2));
    });
}

// -------------------------------------------------------------------- a cap

fn capped(max: usize, when_full: WhenFull) -> Arc<Keyed<TokenBucket>> {
    let limiter = by_key(TokenBucket::new(limit!("1/s burst 1")));
    Arc::new(limiter.with_max_keys(max, when_full).unwrap())
}

/// All places come free, and are as many as before.
fn assert_places(limiter: &Keyed<TokenBucket>, max: usize) {
    assert_counted(limiter);
    limiter.clock().advance(10 * SECOND);
    limiter.sweep();
    assert_eq!(limiter.len(), 0);
    let places = (10..20_u64).filter(|key| limiter.try_acquire(key).is_granted()).count();
    assert_eq!(places, max, "a place was lost or doubled");
    assert_counted(limiter);
}

#[test]
fn a_cap_holds_and_no_place_is_lost() {
    for max in [1, 2] {
        explore(2_000, move || {
            let limiter = capped(max, WhenFull::Refuse);
            let keys = [KEY, BESIDE, ELSEWHERE];
            let calls = keys.map(|key| in_thread(&limiter, move |l| grants(l, key, 2) as usize));
            let looks = in_thread(&limiter, |l| (l.levels().count(), l.len()));
            let granted: usize = calls.into_iter().map(|calls| calls.join().unwrap()).sum();
            let (seen, said) = looks.join().unwrap();
            assert!(seen <= max && said <= max, "more keys than the cap");
            // Two of one key at once may both take a place, and one is given up.
            assert!((1..=max).contains(&granted), "{granted} of {max}");
            assert_eq!(limiter.len(), granted);
            assert_places(&limiter, max);
        });
    }
}

#[test]
fn room_is_made_once() {
    explore(3_000, || {
        let limiter = capped(1, WhenFull::Refuse);
        assert_eq!(grants(&limiter, KEY, 1), 1);
        limiter.clock().advance(SECOND);
        let calls = [BESIDE, ELSEWHERE].map(|key| in_thread(&limiter, move |l| grants(l, key, 1)));
        let sweeps = in_thread(&limiter, |limiter| limiter.sweep());
        let again = grants(&limiter, KEY, 1);
        let granted: u32 = calls.into_iter().map(|calls| calls.join().unwrap()).sum();
        sweeps.join().unwrap();
        assert!(limiter.len() <= 1 && limiter.levels().count() <= 1, "more keys than the cap");
        // None, if all of them came while a sweep had the place in its hands.
        assert!(granted + again <= 1, "a place twice");
        assert_places(&limiter, 1);
    });
}

#[test]
fn places_are_kept_count_of_beside_edits_and_removals() {
    explore(3_000, || {
        let limiter = capped(2, WhenFull::Refuse);
        let sets = in_thread(&limiter, |limiter| {
            let set = limiter.set_own(&KEY, limit!("1/s burst 1"));
            (set.is_ok(), limiter.clear_own(&KEY))
        });
        let removes = in_thread(&limiter, |limiter| limiter.remove(&KEY));
        let calls = in_thread(&limiter, |limiter| grants(limiter, BESIDE, 1));
        let granted = grants(&limiter, KEY, 1);
        assert!(granted + calls.join().unwrap() > 0);
        sets.join().unwrap();
        removes.join().unwrap();
        assert!(limiter.levels().count() <= 2, "more keys than the cap");
        assert_places(&limiter, 2);
    });
}

/// New keys without a place are decided as one.
#[test]
fn keys_without_a_place_share_a_state() {
    explore(3_000, || {
        let limiter = capped(1, WhenFull::Share);
        let keys = [KEY, BESIDE, ELSEWHERE];
        let calls = keys.map(|key| in_thread(&limiter, move |l| grants(l, key, 1)));
        let changes = in_thread(&limiter, |limiter| limiter.reconfigure(limit!("1/d burst 1")));
        let granted: u32 = calls.into_iter().map(|calls| calls.join().unwrap()).sum();
        changes.join().unwrap();
        assert_eq!(granted, 2, "one for the key with a place, one for the others");
        assert_eq!(limiter.len(), 1);
        assert_counted(&limiter);
    });
}

// ------------------------------------------------------ that models can fail

#[test]
#[should_panic(expected = "lost or doubled")]
fn a_look_before_the_lock_is_caught() {
    explore(1_000, || {
        let keys = Arc::new(shuttle::sync::Mutex::new(Vec::new()));
        let add = |keys: &shuttle::sync::Mutex<Vec<u64>>| {
            if !keys.lock().unwrap().contains(&KEY) {
                keys.lock().unwrap().push(KEY);
            }
        };
        let other = {
            let keys = keys.clone();
            thread::spawn(move || add(&keys))
        };
        add(&keys);
        other.join().unwrap();
        assert_eq!(keys.lock().unwrap().len(), 1, "lost or doubled");
    });
}

#[test]
fn a_log_that_comes_back_is_not_stamped_by_those_who_left_it() {
    explore(20_000, || {
        let log = |n| tollgate::SlidingWindowLog::new(tollgate::Rate::new(n, SECOND).unwrap());
        let limiter = Arc::new(by_key(log(3)));
        assert!(limiter.try_acquire(&KEY).is_granted());
        let other = in_thread(&limiter, |l| l.try_acquire(&KEY).is_granted());
        limiter.set_own(&KEY, log(2)).unwrap();
        limiter.reset(&KEY);
        assert!(limiter.clear_own(&KEY));
        let _ = other.join().unwrap();
        let seen = limiter.peek(&KEY);
        assert!(seen.remaining() >= 1);
        assert!(seen.is_granted(), "refused with {} left", seen.remaining());
    });
}
