//! Fixed windows and the sliding log, at their edges.

use crate::subject::{Subject, everywhere};
use crate::{bucket, log, ms, no, ns, ok, rate, s, window};
use std::time::Duration;
use tollgate::{Clock, FixedWindow, Instant, ManualClock, RateLimiter};

const LAST_INSTANT: Duration = ns(59_999_999_999);

/// Windows taken for sliding ones let twice the limit through at an edge.
#[test]
fn a_fixed_window_lets_twice_the_limit_through_at_the_edge() {
    let across_the_edge =
        |limiter: &Subject| [limiter.granted(LAST_INSTANT, 60), limiter.granted(s(60), 60)];
    everywhere(window(60, s(60)), |limiter| {
        assert_eq!(across_the_edge(limiter), [60, 60]);
        assert_eq!(limiter.ask(s(60), 1), no(s(60)));
        // Nor more than twice the limit in any span as long as a window.
        assert_eq!(limiter.granted(ns(119_999_999_998), 60), 0);
    });
    everywhere(log(60, s(60)), |limiter| {
        assert_eq!(across_the_edge(limiter), [60, 0]);
        assert_eq!(limiter.ask(s(60), 1), no(LAST_INSTANT));
    });
    everywhere(bucket(60, s(60), 60), |limiter| {
        assert_eq!(across_the_edge(limiter), [60, 0]);
        assert_eq!(limiter.ask(s(60), 1), no(ns(999_999_999)));
    });
}

/// The wait was taken from the newest entry of the log, not from the oldest.
#[test]
fn the_log_comes_back_with_its_newest_entry() {
    everywhere(log(2, s(60)), |limiter| {
        assert_eq!(limiter.ask(s(0), 1), ok(1));
        assert_eq!(limiter.ask(s(10), 1), ok(0));
        assert_eq!(limiter.ask(s(20), 1), no(s(40)));
        assert_eq!(limiter.ask(s(60), 1), ok(0));
        assert_eq!(limiter.ask(s(60), 1), no(s(10)));
    });
}

/// Entries of one instant were one entry, their time being their identity.
#[test]
fn the_log_merges_the_entries_of_an_instant() {
    everywhere(log(30, s(60)), |limiter| {
        assert_eq!(limiter.granted(s(0), 100), 30);
        assert_eq!(limiter.ask(s(0), 1), no(s(60)));
        assert_eq!(limiter.ask(LAST_INSTANT, 1), no(ns(1)));
        assert_eq!(limiter.granted(s(60), 31), 30);
    });
}

/// Count, clean-up and wait disagreed about the instant at which an entry ends.
#[test]
fn the_edge_of_the_log_belongs_to_both_sides() {
    everywhere(log(3, s(10)), |limiter| {
        assert_eq!(limiter.ask(s(0), 3), ok(0));
        assert_eq!(limiter.ask(ns(9_999_999_999), 1), no(ns(1)));
        assert_eq!(limiter.ask(s(10), 1), ok(2));
    });
    everywhere(log(1, ms(100)), |limiter| {
        assert_eq!(limiter.ask(s(0), 1), ok(0));
        assert_eq!(limiter.ask(s(0), 1), no(ms(100)));
        assert_eq!(limiter.ask(ms(100), 1), ok(0));
    });
}

/// Nobody had said where a window begins: by the limiter, or by the clock.
#[test]
fn windows_begin_where_nobody_expects() {
    // By the limiter, whatever the clock says.
    everywhere(window(1, s(60)), |limiter| {
        assert_eq!(limiter.ask(ms(59_995), 1), ok(0));
        assert_eq!(limiter.ask(ms(60_005), 1), ok(0));
    });

    for origin in crate::subject::ORIGINS.map(Instant::from_nanos) {
        let clock = ManualClock::starting_at(origin);
        let at = |elapsed: Duration| clock.set(origin + elapsed);
        let edge = Duration::from_nanos(origin.as_nanos()) + s(45);
        let own = FixedWindow::new(rate(1, s(60)));
        let shared = FixedWindow::aligned(rate(1, s(60)), edge);

        let made = |windows: &FixedWindow| RateLimiter::with_clock(*windows, clock.clone());
        let earlier = [made(&own), made(&shared)];
        at(s(30));
        let later = [made(&own), made(&shared)];

        let turns = |limiter: &RateLimiter<_, ManualClock>| {
            let turn = limiter.clock().now() + limiter.peek().reset_after();
            turn.since(origin)
        };
        assert_eq!(earlier.each_ref().map(turns), [s(60), s(45)]);
        assert_eq!(later.each_ref().map(turns), [s(90), s(45)]);
        at(s(45));
        assert_eq!(later.each_ref().map(turns), [s(90), s(105)]);
    }
}

/// The window's end moved with every hit, and sparse traffic was locked out.
#[test]
fn every_hit_restarts_the_window() {
    everywhere(window(5, s(60)), |limiter| {
        let answers = [0, 10, 20, 30, 59].map(|at| limiter.ask(s(at), 1));
        assert_eq!(answers, [4, 3, 2, 1, 0].map(ok));
        assert_eq!(limiter.ask(ms(59_500), 1), no(ms(500)));
        assert_eq!(limiter.ask(s(60), 1), ok(4));
    });
    everywhere(window(60, s(60)), |limiter| {
        assert_eq!((0..600).map(|at| limiter.granted(s(at), 1)).sum::<u32>(), 600);
    });
}

/// The end of a window was read after it had passed: less than nothing to go.
#[test]
fn the_time_to_the_reset_is_negative() {
    everywhere(window(2, s(60)), |limiter| {
        let reset = |at: Duration| {
            limiter.set(at);
            let decision = limiter.call(1);
            (decision.remaining(), decision.reset_after())
        };
        assert_eq!(reset(ms(59_999)), (1, ms(1)));
        assert_eq!(reset(s(60)), (1, s(60)));
        assert_eq!(reset(s(60)), (0, s(60)));
    });
}
