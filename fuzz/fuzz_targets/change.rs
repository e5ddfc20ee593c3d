//! Any chain of changes while a limiter and a keyed one run: a level is kept, as
//! far as the new parameters allow it, and nothing is handed out to anybody.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use tollgate::{Algorithm, Clock, Decision, Instant, KeyedRateLimiter, ManualClock, RateLimiter};
use tollgate_fuzz::{Call, HORIZON_NANOS, Kind, Setup, Step, Trial, said};

#[derive(Arbitrary, Debug)]
struct Chain {
    kind: Kind,
    setup: Setup,
    steps: Vec<ChainStep>,
}

#[derive(Arbitrary, Debug)]
enum ChainStep {
    Call(Step),
    Change(Setup),
    Sweep,
}

fuzz_target!(|chain: Chain| chain.kind.run(chain));

impl Trial for Chain {
    fn run<A: Algorithm>(self, make: impl Fn(Setup) -> A) {
        let mut both = Both::new(self.kind, self.setup, make(self.setup));
        let mut setup = self.setup;
        for step in self.steps {
            match step {
                ChainStep::Call(Step { jump, call }) => {
                    both.go_to(jump.lands(setup, &both.one));
                    both.call(call);
                }
                ChainStep::Change(other) => {
                    setup = other;
                    both.change(make(other));
                }
                ChainStep::Sweep => {
                    both.keyed.sweep();
                }
            }
        }
    }
}

/// One limiter and a keyed one, side by side.
struct Both<A: Algorithm> {
    kind: Kind,
    clock: ManualClock,
    /// By when the limiters count, whatever their parameters.
    last: Instant,
    /// The time has never stepped back.
    is_monotone: bool,
    one: RateLimiter<A, ManualClock>,
    keyed: KeyedRateLimiter<u8, A, ManualClock>,
    grants: Vec<(Decision, Decision)>,
}

const SEEN: u8 = 7;
const NEVER_SEEN: u8 = 99;

impl<A: Algorithm> Both<A> {
    fn new(kind: Kind, setup: Setup, algorithm: A) -> Self {
        let clock = setup.clock();
        let one = RateLimiter::with_clock(algorithm, clock.clone());
        let keyed = KeyedRateLimiter::with_clock(algorithm, clock.clone());
        // At the end of time nothing is missing, and nothing can be had.
        let last = setup.origin.saturating_add(HORIZON_NANOS).min(u64::MAX - 1);
        let last = Instant::from_nanos(last);
        Self { kind, clock, last, is_monotone: true, one, keyed, grants: Vec::new() }
    }

    fn go_to(&mut self, now: u64) {
        let now = Instant::from_nanos(now);
        self.is_monotone &= now >= self.clock.now();
        self.clock.set(now);
    }

    /// Of the one, of a key, and of a key never seen.
    fn levels(&self) -> [u32; 3] {
        let of = |key| self.keyed.peek_n(&key, 0).remaining();
        [self.one.peek_n(0).remaining(), of(SEEN), of(NEVER_SEEN)]
    }

    fn call(&mut self, call: Call) {
        match call {
            Call::Acquire(amount) => {
                let n = amount.resolve(&self.one);
                let both = (self.one.try_acquire_n(n), self.keyed.try_acquire_n(&SEEN, n));
                self.grants.push(both);
            }
            Call::Peek(amount) => {
                let n = amount.resolve(&self.one);
                let _ = (said(&self.one.peek_n(n)), said(&self.keyed.peek_n(&SEEN, n)));
            }
            Call::Charge(amount) => {
                let n = amount.resolve(&self.one);
                assert!(self.one.charge(n) <= n && self.keyed.charge(&SEEN, n) <= n);
            }
            Call::Refund(back, _) => {
                if let Some(at) = self.grants.len().checked_sub(1 + back as usize) {
                    let (one, keyed) = self.grants.remove(at);
                    self.one.refund(one);
                    self.keyed.refund(&SEEN, keyed);
                }
            }
            Call::Reset => {
                self.one.reset();
                self.keyed.reset(&SEEN);
                self.grants.clear(); // receipts do not outlive it
            }
        }
    }

    fn change(&mut self, new: A) {
        let (before, old) = (self.levels(), self.one.algorithm());
        self.one.reconfigure(new);
        self.keyed.reconfigure(new);
        let (after, capacity) = (self.levels(), new.capacity());
        assert_eq!(self.one.algorithm().capacity(), capacity);
        assert_eq!(self.keyed.algorithm().capacity(), capacity);
        // Grants of before cannot be given back any more.
        for (one, keyed) in self.grants.drain(..) {
            assert_eq!((self.one.refund(one), self.keyed.refund(&SEEN, keyed)), (0, 0));
        }
        assert_eq!(self.levels(), after);
        let now = self.clock.now();
        if now > self.last {
            return;
        }
        // A key that was forgotten is decided by the latest time that was seen.
        let shown = if self.is_monotone { 3 } else { 1 };
        for (before, after) in before.into_iter().zip(after).take(shown) {
            match self.kind {
                // It keeps its length, and one that is full may be longer than it
                // should: a change did that.
                Kind::LeakyBucket | Kind::LeakyBucketWithoutDelay => {
                    let full = old.capacity() - before;
                    let level = capacity.saturating_sub(full);
                    let is_sure = full < old.capacity();
                    assert!(after == level || !is_sure && after < level, "{before} {after}");
                }
                kind => {
                    assert_eq!(after, before.min(capacity), "{kind:?} {new:?} {:?} at {now:?}", old)
                }
            }
        }
    }
}
