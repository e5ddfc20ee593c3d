//! The sliding-window log on its ring.
//!
//! What the calls of threads are told must be what some order of them, made one
//! after another, tells on the state of the algorithm alone: so no more is ever
//! granted than the bound, and nothing refused that could be had.
//!
//! Tried by hand on `src/shared/ring.rs` and what is below it, each caught by the
//! models named, or by most:
//!
//! | fault | caught by |
//! |---|---|
//! | the head loaded, or exchanged, relaxed; slots loaded, or stamped, relaxed | most |
//! | the head's exchange replaced by a store | most |
//! | no help: the newest permit taken for stamped | most |
//! | help, or a refusal, without a second look at the head | most |
//! | the owner's stamps by a store | a late stamp, all at once, a gap of years |
//! | a call's time not clamped to the newest grant's | most |
//! | the lap dropped | all |
//! | `base` not raised | a gap of years |
//! | given back without marking the head as rewound | all three of giving back |
//! | what was given back taken up again without moving the time first, or without raising the slots | given back twice |
//! | the mark dropped while more lies ahead | a reset beside grants |
//! | turns not counted | a head of the same moment, of an older one, a change |
//! | a rewound head not looked at again before its time is told | what was given back is taken once |

use super::{exhaust, preempt};
use loom::sync::Arc;
use loom::thread;
use tollgate::{Algorithm, Decision, Instant, ManualClock, RateLimiter, SlidingWindowLog};

type Log = RateLimiter<SlidingWindowLog, ManualClock>;
type State = <SlidingWindowLog as Algorithm>::State;

/// Nanoseconds.
const WINDOW: u64 = 10;

/// A call at a time for so many permits.
type Call = (u64, u32);

/// Granted, left, and the waits.
type Told = (bool, u32, Option<u64>, u64);

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn log_of(count: u32) -> (Arc<Log>, SlidingWindowLog) {
    let rate = tollgate::Rate::new(count, core::time::Duration::from_nanos(WINDOW)).unwrap();
    let log = SlidingWindowLog::new(rate);
    (Arc::new(RateLimiter::with_clock(log, ManualClock::new())), log)
}

/// Another thread.
fn beside<T: 'static>(
    limiter: &Arc<Log>,
    work: impl FnOnce(&Log) -> T + 'static,
) -> thread::JoinHandle<T> {
    let limiter = limiter.clone();
    thread::spawn(move || work(&limiter))
}

fn told(decision: &Decision) -> Told {
    let nanos = |wait: core::time::Duration| wait.as_nanos() as u64;
    (
        decision.is_granted(),
        decision.remaining(),
        decision.retry_after().map(nanos),
        nanos(decision.reset_after()),
    )
}

/// What a call is told that is made alone.
fn tell(log: &SlidingWindowLog, state: &mut State, (time, n): Call) -> Told {
    let now = at(time);
    let earliest = log.earliest(state, now, n);
    let granted = earliest == now;
    if granted {
        log.take(state, now, n);
    }
    let reset = log.fresh_at(state).since(now).as_nanos() as u64;
    (granted, log.remaining(state, now), Some(earliest.since(now).as_nanos() as u64), reset)
}

/// Whether what the threads were told can be told in some order, and then the
/// rest.
fn explains(
    log: &SlidingWindowLog,
    state: &State,
    left: &[&[(Call, Told)]],
    then: &[(Call, Told)],
) -> bool {
    let is_next = |state: &State, (call, heard): &(Call, Told), left: &[&[_]], then: &[_]| {
        let mut state = state.clone();
        tell(log, &mut state, *call) == *heard && explains(log, &state, left, then)
    };
    if left.iter().all(|calls| calls.is_empty()) {
        return then.split_first().is_none_or(|(first, rest)| is_next(state, first, &[], rest));
    }
    (0..left.len()).any(|thread| {
        left[thread].split_first().is_some_and(|(first, rest)| {
            let mut left = left.to_vec();
            left[thread] = rest;
            is_next(state, first, &left, then)
        })
    })
}

fn call(limiter: &Log, calls: &[Call]) -> Vec<(Call, Told)> {
    calls
        .iter()
        .map(|&(time, n)| ((time, n), told(&limiter.at(at(time)).try_acquire_n(n))))
        .collect()
}

/// Some calls, then those of threads at once, and then what is left of it.
fn in_some_order(count: u32, before: &[Call], threads: &'static [&'static [Call]]) {
    let (limiter, log) = log_of(count);
    let mut state = log.unseen();
    for first in before {
        let (_, heard) = call(&limiter, &[*first])[0];
        assert_eq!(tell(&log, &mut state, *first), heard);
    }
    let (own, others) = threads.split_first().unwrap();
    let others: Vec<_> =
        others.iter().map(|calls| beside(&limiter, |limiter| call(limiter, calls))).collect();
    let mut all = vec![call(&limiter, own)];
    all.extend(others.into_iter().map(|thread| thread.join().unwrap()));
    let last = threads.iter().flat_map(|calls| calls.iter()).map(|(time, _)| *time).max().unwrap();
    let after = call(&limiter, &[(last, count), (last, 1), (last + WINDOW - 1, 1)]);
    let left: Vec<&[_]> = all.iter().map(Vec::as_slice).collect();
    let explained = explains(&log, &state, &left, &after);
    assert!(explained, "no order explains {all:?} and then {after:?}");
}

#[test]
fn two_threads_on_a_still_clock() {
    exhaust(|| in_some_order(2, &[], &[&[(0, 1), (0, 1)], &[(0, 1)]]));
}

#[test]
fn three_threads_on_a_still_clock() {
    preempt(2, || in_some_order(2, &[], &[&[(0, 1)], &[(0, 1)], &[(0, 1)]]));
}

#[test]
fn several_permits_in_one_step() {
    exhaust(|| in_some_order(3, &[], &[&[(0, 2)], &[(0, 2), (0, 1)]]));
}

/// Of a claim that has not been stamped nobody has to wait for the end.
#[test]
fn a_stopped_claim_blocks_nobody() {
    exhaust(|| in_some_order(2, &[], &[&[(0, 1)], &[(0, 1), (10, 1)]]));
}

/// A reading that comes late is not refused for want of permits that have come
/// back since.
#[test]
fn an_old_reading_is_as_good_as_a_new_one() {
    exhaust(|| in_some_order(1, &[], &[&[(5, 1)], &[(6, 1), (100, 1)]]));
}

/// Two laps of one place.
#[test]
fn a_place_is_used_again_by_one() {
    exhaust(|| in_some_order(1, &[], &[&[(0, 1), (10, 1)], &[(15, 1)]]));
}

/// A stamp that comes two laps late.
#[test]
fn a_late_stamp_does_nothing() {
    preempt(4, || {
        in_some_order(2, &[], &[&[(0, 1)], &[(0, 1), (10, 1), (10, 1), (12, 1)]]);
    });
}

#[test]
fn readings_out_of_order() {
    exhaust(|| in_some_order(2, &[(0, 1)], &[&[(10, 1), (12, 1)], &[(11, 1), (9, 1)]]));
}

#[test]
fn claims_of_several_are_stamped_by_others() {
    preempt(4, || in_some_order(3, &[(0, 2)], &[&[(10, 2)], &[(10, 1), (20, 3)]]));
}

/// The whole ring in one claim, by a thread that is stopped.
#[test]
fn all_at_once_are_stamped_by_others() {
    exhaust(|| in_some_order(2, &[(0, 2)], &[&[(10, 2)], &[(11, 1), (20, 2)]]));
}

/// A gap in which the lower bits of the time in the head go round.
#[test]
fn a_gap_of_years_is_seen_whole() {
    const LATE: u64 = 3 << 60;
    preempt(3, || {
        in_some_order(2, &[(7, 1)], &[&[(LATE, 1)], &[(LATE + 1, 1), (LATE + 11, 2)]]);
    });
}

// --------------------------------------------------------- giving back

/// One gives back what it has taken, while another takes at a later time. What
/// the other has taken is out until its own time.
fn a_grant_beside_refunds(count: u32, refunds: usize) {
    let (limiter, _) = log_of(count);
    let other = beside(&limiter, |limiter| limiter.at(at(5)).try_acquire().is_granted());
    let mut kept = 0;
    for _ in 0..refunds {
        let grant = limiter.at(at(0)).try_acquire();
        let granted = u32::from(grant.is_granted());
        kept += granted - limiter.at(at(0)).refund(grant);
    }
    let granted = u32::from(other.join().unwrap());
    assert!(kept + granted <= count);
    assert!(granted == 1 || count == 1, "refused for want of nothing");
    let left = |time| limiter.at(at(time)).peek().remaining();
    assert_eq!(left(5), count - kept - granted);
    // It may have been granted at five, and not before.
    assert_eq!(left(14), count - granted);
    assert_eq!(left(15), count);
}

#[test]
fn a_permit_that_was_given_back_is_taken_for_its_own_time() {
    exhaust(|| a_grant_beside_refunds(1, 1));
    exhaust(|| a_grant_beside_refunds(2, 1));
}

#[test]
fn a_permit_that_was_given_back_twice_is_too() {
    preempt(3, || a_grant_beside_refunds(2, 2));
}

/// Two take what was given back, at different times.
#[test]
fn what_was_given_back_is_taken_once() {
    preempt(3, || {
        let (limiter, _) = log_of(2);
        let grant = limiter.at(at(0)).try_acquire_n(2);
        assert_eq!(limiter.at(at(0)).refund(grant), 2);
        let other = beside(&limiter, |limiter| limiter.at(at(5)).try_acquire_n(2).is_granted());
        let own = [4, 3].map(|time| limiter.at(at(time)).try_acquire().is_granted());
        let other = other.join().unwrap();
        let taken = own.iter().filter(|own| **own).count() + 2 * usize::from(other);
        assert!(taken == 2 || taken == 1 && !other, "{own:?} {other}");
        assert_eq!(limiter.at(at(12)).peek().remaining(), 2 - taken as u32, "back too soon");
        assert_eq!(limiter.at(at(15)).peek().remaining(), 2, "back too late");
    });
}

/// A refund beside a later grant gives back all or nothing.
#[test]
fn a_refund_beside_a_grant_of_the_log_keeps_the_count() {
    exhaust(|| {
        let (limiter, _) = log_of(3);
        let grant = limiter.at(at(0)).try_acquire_n(2);
        let other =
            beside(&limiter, |limiter| u32::from(limiter.at(at(1)).try_acquire().is_granted()));
        let back = limiter.at(at(1)).refund(grant);
        assert!(back == 0 || back == 2);
        let taken = other.join().unwrap();
        assert_eq!(taken, 1);
        assert_eq!(limiter.at(at(1)).peek().remaining(), 3 - (2 - back) - taken);
    });
}

#[test]
fn a_reset_beside_grants_gives_back_what_was_out() {
    exhaust(|| {
        let (limiter, _) = log_of(2);
        assert!(limiter.try_acquire_n(2).is_granted());
        let other = beside(&limiter, |limiter| u32::from(limiter.try_acquire().is_granted()));
        limiter.reset();
        let after = u32::from(limiter.try_acquire_n(2).is_granted());
        let before = other.join().unwrap();
        assert!(before + after <= 2);
        assert!(before == 1 || after == 1, "not given back");
        assert_eq!(limiter.peek().remaining(), 2 - before.max(2 * after));
    });
}

#[test]
fn charges_and_grants_add_up() {
    exhaust(|| {
        let (limiter, _) = log_of(3);
        let other = beside(&limiter, |limiter| limiter.charge(2));
        let own = 2 * u32::from(limiter.try_acquire_n(2).is_granted());
        let booked = other.join().unwrap();
        assert!((own, booked) == (2, 1) || (own, booked) == (0, 2), "{own} and {booked}");
        assert_eq!(limiter.peek().remaining(), 3 - own - booked);
    });
}

// A head that is moved back must not be taken for what it was.

#[test]
fn a_head_of_the_same_moment_is_another() {
    preempt(4, || {
        let (limiter, _) = log_of(3);
        let first = limiter.at(at(0)).try_acquire();
        assert_eq!(limiter.at(at(0)).refund(first), 1);
        let other =
            beside(&limiter, |limiter| u32::from(limiter.at(at(0)).try_acquire().is_granted()));
        let two = limiter.at(at(0)).try_acquire_n(2);
        let mut kept = if two.is_granted() { 2 } else { 0 };
        kept -= limiter.at(at(0)).refund(two);
        kept += other.join().unwrap();
        assert_eq!(limiter.at(at(0)).peek().remaining(), 3 - kept);
        for left in (0..3 - kept).rev() {
            let taken = limiter.at(at(0)).try_acquire();
            assert!(taken.is_granted(), "refused with {} left", left + 1);
            assert_eq!(taken.remaining(), left);
        }
        assert!(limiter.at(at(9)).try_acquire().is_denied());
    });
}

#[test]
fn a_head_of_an_older_moment_is_another() {
    preempt(2, || {
        let (limiter, _) = log_of(2);
        let a = limiter.at(at(0)).try_acquire();
        let b = limiter.at(at(5)).try_acquire();
        let other = beside(&limiter, |limiter| limiter.at(at(11)).try_acquire().is_granted());
        let rb = limiter.at(at(6)).refund(b);
        let ra = limiter.at(at(6)).refund(a);
        let two = limiter.at(at(5)).try_acquire_n(2);
        let c = other.join().unwrap();
        let back = 5 + two.reset_after().as_nanos();
        assert!(
            !(c && two.is_granted() && back == 15),
            "three permits of two in [5, 15): refunds {rb} {ra}, two at 5, one at 11"
        );
    });
}

#[test]
fn a_change_sees_that_the_head_was_moved() {
    preempt(2, || {
        let (limiter, log) = log_of(2);
        let a = limiter.at(at(0)).try_acquire();
        let b = limiter.at(at(5)).try_acquire();
        assert_eq!(limiter.at(at(5)).refund(b), 1);
        limiter.clock().advance(core::time::Duration::from_nanos(5));
        let other = beside(&limiter, move |limiter| limiter.reconfigure(log));
        let ra = limiter.at(at(5)).refund(a);
        let b2 = limiter.at(at(5)).try_acquire();
        assert!(b2.is_granted());
        other.join().unwrap();
        assert_eq!(limiter.at(at(12)).peek().remaining(), 1, "refunded {ra}");
    });
}

#[test]
fn a_receipt_of_before_a_reset_gives_no_more_than_is_out() {
    exhaust(|| {
        let (limiter, _) = log_of(3);
        let a = limiter.at(at(0)).try_acquire_n(3);
        limiter.reset();
        let b = limiter.at(at(0)).try_acquire();
        assert!(b.is_granted());
        let given = limiter.at(at(0)).refund(a);
        let left = limiter.at(at(0)).peek().remaining();
        let can = limiter.at(at(0)).peek_n(left).is_granted();
        assert!(given <= 1 && can, "gave back {given} of 1; says {left} left, granted: {can}");
    });
}
