//! Each call takes effect in one step between its beginning and its end: small
//! random histories of real threads, each of which must be what some order of
//! its calls, made one after another, says to the last number.
//!
//! The clock is moved by one of the threads, between its calls. A call is made
//! at a time read before it, so two calls may come in one order and carry their
//! times in the other, as they may in earnest. Orders are searched as by Wing
//! and Gong (1993): next comes any call that began before the first end of those
//! that are left, if the model answers what was heard.
//!
//! A ring some permits of which were given back, or that has just been changed,
//! may take the time of a call that is taking at the same time for its own, as it
//! takes that of a grant: there a call may move the model's time to its own
//! before it takes effect.
//!
//! That histories can fail: the last two tests. Tried by hand, each caught by
//! most of the tests that it concerns:
//!
//! * `src/shared/atomic.rs`: the compare-exchange replaced by a store; the result
//!   of a failed one ignored; a retry that decides on the word seen first;
//!   setting aside by a store;
//! * `src/keyed/map.rs`: a known key replaced by the one that is to be added.
//!
//! Not caught, being too rare for real threads but not for `tests/shuttle.rs`: a
//! sweep that looks under one hold of the lock and forgets under another.

#[macro_use]
mod common;
#[path = "common/itself.rs"]
mod itself;

use common::*;
use core::num::NonZeroU32;
use core::time::Duration;
use itself::Itself;
use std::any::type_name;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU64, Ordering};
use tollgate::{
    Algorithm, Clock, Decision, FixedWindow, Instant, KeyedRateLimiter, Locked, ManualClock,
    RateLimiter, SlidingWindowLog, TokenBucket, limit,
};

every_algorithm! {
    calls_take_effect_in_one_step,
    calls_behind_a_mutex_do_too,
    calls_beside_changes_do_too,
    calls_of_a_key_do_too,
    calls_of_a_key_beside_sweeps_do_too,
}

fn calls_take_effect_in_one_step<A: Algorithm>(make: impl Make<A>) {
    histories(800, make, Besides::Nothing, alone, alone);
}

fn calls_behind_a_mutex_do_too<A: Algorithm>(make: impl Make<A>) {
    let locked = |rate, burst| Locked(make(rate, burst));
    histories(800, locked, Besides::Nothing, alone, alone);
}

fn calls_beside_changes_do_too<A: Algorithm>(make: impl Make<A>) {
    histories(800, &make, Besides::Changes, alone, alone);
    let locked = |rate, burst| Locked(make(rate, burst));
    histories(400, locked, Besides::Changes, alone, alone);
}

/// A key has what a limiter of its own would have.
fn calls_of_a_key_do_too<A: Algorithm>(make: impl Make<A>) {
    histories(400, &make, Besides::Nothing, OneKey::at, alone);
    histories(400, make, Besides::Changes, OneKey::at, alone);
}

/// A key that was forgotten does not go back in time, which a limiter of its own
/// would, so here the model is by key too.
fn calls_of_a_key_beside_sweeps_do_too<A: Algorithm>(make: impl Make<A>) {
    histories(400, make, Besides::Sweeps, OneKey::at, OneKey::at);
}

// ------------------------------------------------------------- the subject

/// What calls are made on. It has a clock of its own, for what reads one.
trait Subject<A>: Sync {
    fn clock(&self) -> &ManualClock;
    fn acquire(&self, at: Instant, n: u32) -> Decision;
    fn peek(&self, at: Instant, n: u32) -> Decision;
    fn charge(&self, at: Instant, n: u32) -> u32;
    fn refund(&self, at: Instant, grant: Decision) -> u32;
    fn change(&self, algorithm: A);
    fn sweep(&self);
}

fn alone<A: Algorithm>(algorithm: A, start: Instant) -> RateLimiter<A, ManualClock> {
    RateLimiter::with_clock(algorithm, ManualClock::starting_at(start))
}

impl<A: Algorithm> Subject<A> for RateLimiter<A, ManualClock> {
    fn clock(&self) -> &ManualClock {
        self.clock()
    }

    fn acquire(&self, at: Instant, n: u32) -> Decision {
        self.at(at).try_acquire_n(n)
    }

    fn peek(&self, at: Instant, n: u32) -> Decision {
        self.at(at).peek_n(n)
    }

    fn charge(&self, at: Instant, n: u32) -> u32 {
        self.at(at).charge(n)
    }

    fn refund(&self, at: Instant, grant: Decision) -> u32 {
        self.at(at).refund(grant)
    }

    fn change(&self, algorithm: A) {
        self.reconfigure(algorithm);
    }

    fn sweep(&self) {}
}

/// A limiter by key of which one key is used.
struct OneKey<A: Algorithm>(KeyedRateLimiter<u64, A, ManualClock, BuildHasherDefault<Itself>>);

/// It lies in a part whose turn to be swept does not come: what a call does on
/// the way is no part of its one step.
const KEY: u64 = 100 << 32;

impl<A: Algorithm> OneKey<A> {
    fn at(algorithm: A, start: Instant) -> Self {
        let limiter = KeyedRateLimiter::with_clock(algorithm, ManualClock::starting_at(start));
        Self(limiter.with_hasher(BuildHasherDefault::default()))
    }
}

impl<A: Algorithm> Subject<A> for OneKey<A> {
    fn clock(&self) -> &ManualClock {
        self.0.clock()
    }

    fn acquire(&self, at: Instant, n: u32) -> Decision {
        self.0.at(at).try_acquire_n(&KEY, n)
    }

    fn peek(&self, at: Instant, n: u32) -> Decision {
        self.0.at(at).peek_n(&KEY, n)
    }

    fn charge(&self, at: Instant, n: u32) -> u32 {
        self.0.at(at).charge(&KEY, n)
    }

    fn refund(&self, at: Instant, grant: Decision) -> u32 {
        self.0.at(at).refund(&KEY, grant)
    }

    fn change(&self, algorithm: A) {
        self.0.reconfigure(algorithm);
    }

    fn sweep(&self) {
        self.0.sweep();
    }
}

// ------------------------------------------------------------- the history

/// What the thread that moves the clock does besides calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Besides {
    Nothing,
    Changes,
    Sweeps,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Acquire(u32),
    Peek(u32),
    Charge(u32),
    /// Of the grant of the thread's call of this number.
    Refund(usize),
    /// To the parameters of this number.
    Change(usize),
    Sweep,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    Said(Said),
    Number(u32),
    Nothing,
}

impl Heard {
    /// Whether what comes after may depend on the call.
    fn left_a_trace(self, step: Step) -> bool {
        match (step, self) {
            (Step::Acquire(_), Self::Said(said)) => said.granted,
            (Step::Peek(_), _) | (_, Self::Number(0)) => false,
            _ => true,
        }
    }
}

#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "shown beside a failure")]
struct Call {
    thread: usize,
    /// The number of the call in its thread.
    number: usize,
    at: Instant,
    step: Step,
    heard: Heard,
    began: u64,
    ended: u64,
}

/// Makes the steps of a thread, and keeps its receipts.
struct Caller<'a, A, S> {
    subject: &'a S,
    parameters: &'a [A],
    grants: Vec<(usize, Decision)>,
}

impl<A: Algorithm, S: Subject<A>> Caller<'_, A, S> {
    fn make(&mut self, number: usize, step: Step, at: Instant) -> Heard {
        let Self { subject, parameters, grants } = self;
        match step {
            Step::Acquire(n) => {
                let decision = subject.acquire(at, n);
                let said = said(&decision);
                grants.push((number, decision));
                Heard::Said(said)
            }
            Step::Peek(n) => Heard::Said(said(&subject.peek(at, n))),
            Step::Charge(n) => Heard::Number(subject.charge(at, n)),
            Step::Refund(of) => {
                let place = grants.iter().position(|(grant, _)| *grant == of).expect("a receipt");
                Heard::Number(subject.refund(at, grants.remove(place).1))
            }
            Step::Change(to) => {
                subject.change(parameters[to]);
                Heard::Nothing
            }
            Step::Sweep => {
                subject.sweep();
                Heard::Nothing
            }
        }
    }
}

fn random(seed: &mut u64, below: u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 16) % below
}

/// Orders the beginnings and ends of calls.
static TICKETS: AtomicU64 = AtomicU64::new(0);

fn ticket() -> u64 {
    TICKETS.fetch_add(1, Ordering::SeqCst)
}

/// Where threads wait for each other, awake: they shall begin at once.
#[derive(Default)]
struct Start(AtomicU64);

impl Start {
    fn wait_for(&self, threads: u64) {
        self.0.fetch_add(1, Ordering::SeqCst);
        for turn in 1_u32.. {
            if self.0.load(Ordering::SeqCst) >= threads {
                return;
            }
            if turn % 64 == 0 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }
}

/// Makes the calls of a thread.
fn calls<A: Algorithm, S: Subject<A>>(
    (subject, parameters): (&S, &[A]),
    (thread, besides): (usize, Besides),
    tick: Duration,
    seed: &mut u64,
) -> Vec<Call> {
    let mut caller = Caller { subject, parameters, grants: Vec::new() };
    let mut calls = Vec::new();
    let most = u64::from(parameters[0].capacity().min(3));
    for number in 0..3 + random(seed, 2) as usize {
        if thread == 0 && random(seed, 2) == 0 {
            subject.clock().advance(tick * random(seed, 9) as u32);
        }
        let n = 1 + random(seed, most) as u32;
        let held = caller.grants.iter().rev().find(|(_, decision)| decision.is_granted());
        let step = match (random(seed, 8), held, besides) {
            (0, _, Besides::Changes) if thread == 0 => Step::Change(random(seed, 2) as usize),
            (0 | 1, _, Besides::Sweeps) if thread == 0 => Step::Sweep,
            (0, ..) => Step::Peek(n),
            (1, ..) => Step::Charge(n),
            (2 | 3, Some((of, _)), _) => Step::Refund(*of),
            _ => Step::Acquire(n),
        };
        let at = subject.clock().now();
        let began = ticket();
        let heard = caller.make(number, step, at);
        calls.push(Call { thread, number, at, step, heard, began, ended: ticket() });
    }
    calls
}

/// Makes so many histories on subjects and holds them to models.
fn histories<A: Algorithm, S: Subject<A>, M: Subject<A>>(
    histories: u64,
    make: impl Make<A>,
    besides: Besides,
    subject: impl Fn(A, Instant) -> S,
    model: impl Fn(A, Instant) -> M,
) {
    const AT_A_TIME: u64 = 40;
    struct Setup<A, S> {
        subject: S,
        parameters: [A; 2],
        origin: Instant,
        tick: Duration,
        start: Start,
    }

    let mut seed = 0x9E37_79B9_7F4A_7C15;
    for batch in 0..histories / AT_A_TIME {
        let setups: Vec<_> = (0..AT_A_TIME)
            .map(|_| {
                let period = [12, 1_000, SECOND][random(&mut seed, 3) as usize];
                let origin = [0, 1, 1 << 63][random(&mut seed, 3) as usize];
                let mut parameters = || {
                    let count = 1 + random(&mut seed, 4) as u32;
                    let burst = NonZeroU32::new(1 + random(&mut seed, 4) as u32);
                    make(rate(count, period), burst.expect("not zero"))
                };
                let parameters = [parameters(), parameters()];
                let origin = Instant::from_nanos(origin);
                let subject = subject(parameters[0], origin);
                let tick = Duration::from_nanos(period / 12);
                Setup { subject, parameters, origin, tick, start: Start::default() }
            })
            .collect();
        let threads = 2 + batch % 2;
        let thread = |thread: usize, mut seed: u64| {
            let calls = |setup: &Setup<A, S>| {
                let Setup { subject, parameters, tick, start, .. } = setup;
                start.wait_for(threads);
                calls((subject, &parameters[..]), (thread, besides), *tick, &mut seed)
            };
            setups.iter().map(calls).collect::<Vec<_>>()
        };
        let mut made: Vec<Vec<Call>> = (0..AT_A_TIME).map(|_| Vec::new()).collect();
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads as usize)
                .map(|number| {
                    let seed = 1 + random(&mut seed, u64::from(u32::MAX));
                    scope.spawn(move || thread(number, seed))
                })
                .collect();
            for thread in running {
                let calls = thread.join().expect("no panic");
                made.iter_mut().zip(calls).for_each(|(history, calls)| history.extend(calls));
            }
        });
        for (Setup { subject, parameters, origin, .. }, mut history) in setups.iter().zip(made) {
            // What is left after all of them.
            let mut last = Caller { subject, parameters, grants: Vec::new() };
            let at = subject.clock().now();
            let capacity = parameters[0].capacity();
            let steps = [Step::Peek(capacity), Step::Charge(capacity), Step::Peek(1)];
            for (number, step) in steps.into_iter().enumerate() {
                let (thread, began) = (threads as usize, ticket());
                let heard = last.make(number, step, at);
                history.push(Call { thread, number, at, step, heard, began, ended: ticket() });
            }
            let model = || model(parameters[0], *origin);
            let is_linearizable = has_an_order(&history, parameters, model);
            history.sort_by_key(|call| call.began);
            assert!(is_linearizable, "no order explains this of {parameters:?}:\n{history:#?}");
        }
    }
}

// -------------------------------------------------------------- the search

struct Search<'a, A, F> {
    history: &'a [Call],
    parameters: &'a [A],
    model: F,
    /// Numbers of calls; from [`MARK`] on, of calls whose time the model takes on.
    order: Vec<usize>,
    marks: bool,
    /// Where the search has been: the calls made, and the order of those of them
    /// that left a trace.
    seen: HashSet<(u32, Vec<usize>)>,
}

const MARK: usize = 32;

/// A model after the calls of an order, and each call's receipt.
struct Replay<M> {
    model: M,
    grants: Vec<(usize, Decision)>,
}

fn has_an_order<A: Algorithm, M: Subject<A>>(
    history: &[Call],
    parameters: &[A],
    model: impl Fn() -> M,
) -> bool {
    assert!(history.len() < MARK);
    let gives_back =
        |call: &Call| matches!((call.step, call.heard), (Step::Refund(_), Heard::Number(1..)));
    let is_ring = type_name::<A>() == type_name::<SlidingWindowLog>();
    // After a change too it begins so.
    let may_mark = is_ring
        && history.iter().any(|call| gives_back(call) || matches!(call.step, Step::Change(_)));
    [false, true].into_iter().filter(|marks| may_mark || !marks).any(|marks| {
        let (order, seen) = (Vec::new(), HashSet::new());
        let mut search = Search { history, parameters, model: &model, order, marks, seen };
        let unused = search.replay();
        search.goes_on(unused)
    })
}

impl<A: Algorithm, M: Subject<A>, F: Fn() -> M> Search<'_, A, F> {
    /// Makes a call on the model.
    fn make(&self, replay: &mut Replay<M>, call: usize) -> Heard {
        let Call { thread, number, at, step, .. } = self.history[call];
        let numbered = |of: usize| thread << 16 | of;
        replay.model.clock().set(at);
        let step = match step {
            Step::Refund(of) => Step::Refund(numbered(of)),
            step => step,
        };
        let grants = core::mem::take(&mut replay.grants);
        let mut caller = Caller { subject: &replay.model, parameters: self.parameters, grants };
        let heard = caller.make(numbered(number), step, at);
        replay.grants = caller.grants;
        heard
    }

    fn replay(&self) -> Replay<M> {
        let mut replay = Replay { model: (self.model)(), grants: Vec::new() };
        for &call in &self.order {
            match call.checked_sub(MARK) {
                Some(call) => self.mark(&mut replay, call),
                None => drop(self.make(&mut replay, call)),
            }
        }
        replay
    }

    /// Has the model take on the time of a call.
    fn mark(&self, replay: &mut Replay<M>, call: usize) {
        let at = self.history[call].at;
        let grant = replay.model.acquire(at, 1);
        replay.model.refund(at, grant);
    }

    /// Whether the order, after which the replay is, can be completed.
    fn goes_on(&mut self, replay: Replay<M>) -> bool {
        let history = self.history;
        let calls = self.order.iter().filter(|call| **call < MARK);
        let made = calls.fold(0_u32, |made, call| made | 1 << call);
        let leaves_a_trace =
            |call: &usize| *call >= MARK || history[*call].heard.left_a_trace(history[*call].step);
        let traces = self.order.iter().copied().filter(leaves_a_trace);
        if !self.seen.insert((made, traces.collect())) {
            return false;
        }
        let mut left: Vec<_> = (0..history.len()).filter(|call| made & 1 << call == 0).collect();
        left.sort_by_key(|&call| history[call].ended);
        let Some(&first) = left.first() else {
            return true;
        };
        let first_end = history[first].ended;
        let mut replay = Some(replay);
        left.retain(|&call| history[call].began < first_end);
        for &call in &left {
            let mut tried = replay.take().unwrap_or_else(|| self.replay());
            if self.make(&mut tried, call) == history[call].heard {
                self.order.push(call);
                if self.goes_on(tried) {
                    return true;
                }
                self.order.pop();
            }
        }
        let takes = |call: usize| match history[call].step {
            Step::Acquire(n) | Step::Charge(n) => n > 0,
            _ => false,
        };
        left.retain(|&call| self.marks && takes(call));
        for call in left {
            let mark = MARK + call;
            if self.order.contains(&mark) {
                continue;
            }
            let mut tried = self.replay();
            self.mark(&mut tried, call);
            self.order.push(mark);
            if self.goes_on(tried) {
                return true;
            }
            self.order.pop();
        }
        false
    }
}

// --------------------------------------------------- that histories can fail

/// The calls of two threads, each as its step, what a model says to the steps
/// before it by name, its beginning and its end.
fn bucket_history(spans: [(u64, u64); 2]) -> bool {
    let bucket = TokenBucket::new(limit!("1/s burst 1"));
    let granted = Heard::Said(said(&alone(bucket, Instant::ZERO).try_acquire()));
    let call = |thread, step, heard, (began, ended)| {
        let at = Instant::ZERO;
        Call { thread, number: 0, at, step, heard, began, ended }
    };
    let unused = Heard::Said(said(&alone(bucket, Instant::ZERO).peek()));
    let history =
        [call(0, Step::Acquire(1), granted, spans[0]), call(1, Step::Peek(1), unused, spans[1])];
    has_an_order(&history, &[bucket], || alone(bucket, Instant::ZERO))
}

#[test]
fn a_look_that_is_behind_is_caught() {
    assert!(bucket_history([(2, 3), (0, 1)]), "before");
    assert!(bucket_history([(0, 2), (1, 3)]), "at once");
    assert!(!bucket_history([(0, 1), (2, 3)]), "after");
}

#[test]
fn a_grant_given_twice_is_caught() {
    let window = FixedWindow::new(rate(1, SECOND));
    let model = || alone(window, Instant::ZERO);
    let granted = Heard::Said(said(&model().try_acquire()));
    let call = |thread, began, ended| {
        let step = Step::Acquire(1);
        Call { thread, number: 0, at: Instant::ZERO, step, heard: granted, began, ended }
    };
    assert!(has_an_order(&[call(0, 0, 2)], &[window], model));
    assert!(!has_an_order(&[call(0, 0, 2), call(1, 1, 3)], &[window], model));
}
