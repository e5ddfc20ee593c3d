//! Any schedule of calls by key: each key has what a limiter of its own would
//! have, whatever is forgotten on the way, for as long as there is room for it.
//! The time does not step back: see `schedule` for that.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use tollgate::{
    Algorithm, Clock, Decision, Full, Instant, KeyedRateLimiter, ManualClock, RateLimiter, WhenFull,
};
use tollgate_fuzz::{Amount, Call, Kind, Reply, Setup, Step, Trial, said};

#[derive(Arbitrary, Debug)]
struct Schedule {
    kind: Kind,
    setup: Setup,
    cap: Option<Cap>,
    steps: Vec<(u8, KeyedStep)>,
}

/// How many keys there may be, at most as many as are asked for.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Cap {
    #[arbitrary(with = |u: &mut arbitrary::Unstructured| u.int_in_range(1..=KEYS))]
    most: usize,
    shares: bool,
}

#[derive(Arbitrary, Debug)]
enum KeyedStep {
    Call(Step),
    Sweep,
    SetOwn(Setup),
    ClearOwn,
    Remove,
    Clear,
    Shrink,
}

const KEYS: usize = 4;

fuzz_target!(|schedule: Schedule| schedule.kind.run(schedule));

impl Trial for Schedule {
    fn run<A: Algorithm>(self, make: impl Fn(Setup) -> A) {
        let mut all = All::new(self.setup, self.cap, make(self.setup));
        for (key, step) in self.steps {
            let key = key as usize % KEYS;
            match step {
                KeyedStep::Call(Step { jump, call }) => {
                    let guide = all.keys[key].own.as_ref().unwrap_or(&all.stranger);
                    let then = jump.lands(self.setup, guide);
                    all.clock.set(Instant::from_nanos(then).max(all.clock.now()));
                    all.call(key, call);
                }
                KeyedStep::Sweep => {
                    all.limiter.sweep();
                }
                KeyedStep::SetOwn(setup) => all.set_own(key, make(setup)),
                KeyedStep::ClearOwn => all.clear_own(key),
                KeyedStep::Remove => all.remove(key),
                KeyedStep::Clear => all.clear(),
                KeyedStep::Shrink => all.limiter.shrink_to_fit(),
            }
            all.compare_levels();
        }
    }
}

struct Key<A: Algorithm> {
    /// None after the key has lost its plan: what it holds is carried over to
    /// parameters that began before, which no limiter of its own has.
    own: Option<RateLimiter<A, ManualClock>>,
    has_plan: bool,
    /// Made by key and by the limiter of its own, and not given back.
    grants: Vec<(Decision, Decision)>,
}

struct All<A: Algorithm> {
    setup: Setup,
    algorithm: A,
    clock: ManualClock,
    limiter: KeyedRateLimiter<u8, A, ManualClock>,
    most: usize,
    keys: [Key<A>; KEYS],
    /// Never used: what a key is that was never seen.
    stranger: RateLimiter<A, ManualClock>,
}

impl<A: Algorithm> All<A> {
    fn new(setup: Setup, cap: Option<Cap>, algorithm: A) -> Self {
        let clock = setup.clock();
        let start = || RateLimiter::with_clock(algorithm, clock.clone());
        let key = |_| Key { own: Some(start()), has_plan: false, grants: Vec::new() };
        let (keys, stranger) = (core::array::from_fn(key), start());
        let mut limiter = KeyedRateLimiter::with_clock(algorithm, clock.clone());
        if let Some(Cap { most, shares }) = cap {
            let when_full = if shares { WhenFull::Share } else { WhenFull::Refuse };
            limiter = limiter.with_max_keys(most, when_full).expect("some keys");
        }
        let most = cap.map_or(usize::MAX, |cap| cap.most);
        Self { setup, algorithm, clock, limiter, most, keys, stranger }
    }

    /// A limiter that counts from the same time as all others.
    fn start(&self) -> RateLimiter<A, ManualClock> {
        let now = self.clock.now();
        self.clock.set(Instant::from_nanos(self.setup.origin));
        let limiter = RateLimiter::with_clock(self.algorithm, self.clock.clone());
        self.clock.set(now);
        limiter
    }

    fn is_known(&self, key: usize) -> bool {
        self.limiter.levels().any(|(known, _)| usize::from(known) == key)
    }

    /// There is or was a place for the key, so that it speaks for itself.
    fn has_place(&self, key: usize) -> bool {
        self.limiter.len() < self.most || self.is_known(key)
    }

    fn call(&mut self, at: usize, call: Call) {
        let name = at as u8;
        let resolve =
            |amount: Amount| amount.resolve(self.keys[at].own.as_ref().unwrap_or(&self.stranger));
        match call {
            Call::Acquire(amount) => {
                let n = resolve(amount);
                let by_key = self.limiter.try_acquire_n(&name, n);
                let reply = Reply::Said(said(&by_key));
                if self.has_place(at) {
                    assert!(!by_key.is_full());
                    let key = &mut self.keys[at];
                    if let Some(own) = &key.own {
                        let by_own = own.try_acquire_n(n);
                        assert_eq!(reply, Reply::Said(said(&by_own)), "{n} of {at}");
                        if n > 0 && by_own.is_granted() {
                            key.grants.push((by_key, by_own));
                        }
                    }
                } else if by_key.is_granted() {
                    // Of the state that those share for whom there is no room.
                    assert!(self.limiter.refund(&name, by_key) <= n);
                }
            }
            Call::Peek(amount) => {
                let n = resolve(amount);
                let by_key = self.limiter.peek_n(&name, n);
                if let Some(own) = &self.keys[at].own
                    && self.has_place(at)
                {
                    assert_eq!(said(&by_key), said(&own.peek_n(n)), "{n} of {at}");
                }
            }
            Call::Charge(amount) => {
                let n = resolve(amount);
                let booked = self.limiter.charge(&name, n);
                assert!(booked <= n);
                if let Some(own) = &self.keys[at].own
                    && self.has_place(at)
                {
                    assert_eq!(booked, own.charge(n), "{n} of {at}");
                }
            }
            Call::Refund(back, part) => {
                let key = &mut self.keys[at];
                let Some(place) = key.grants.len().checked_sub(1 + back as usize) else { return };
                let (by_key, by_own) = key.grants.remove(place);
                let Some(own) = &key.own else { return };
                let (given, expected) = match part {
                    None => (self.limiter.refund(&name, by_key), own.refund(by_own)),
                    Some(amount) => {
                        let n = amount.resolve(own);
                        (self.limiter.refund_n(&name, by_key, n), own.refund_n(by_own, n))
                    }
                };
                assert_eq!(given, expected, "given back to {at}");
            }
            Call::Reset => {
                self.limiter.reset(&name);
                self.keys[at].grants.clear(); // receipts do not outlive it
                if let Some(own) = &self.keys[at].own {
                    own.reset();
                }
            }
        }
    }

    /// A plan keeps what the key holds, as far as it allows so much.
    fn set_own(&mut self, at: usize, plan: A) {
        let before = self.limiter.peek_n(&(at as u8), 0).remaining();
        if self.limiter.set_own(&(at as u8), plan) == Err(Full) {
            assert_eq!(self.limiter.len(), self.most);
            assert!(!self.is_known(at));
            return;
        }
        assert!(self.is_known(at));
        assert!(self.limiter.peek_n(&(at as u8), 0).remaining() <= before.max(plan.capacity()));
        let key = &mut self.keys[at];
        key.has_plan = true;
        if let Some(own) = &key.own {
            own.reconfigure(plan);
        }
    }

    /// What a key holds under its plan it keeps, as far as it may, and no more.
    fn clear_own(&mut self, at: usize) {
        let level = |this: &Self| this.limiter.peek_n(&(at as u8), 0).remaining();
        let before = level(self);
        let had_plan = self.keys[at].has_plan;
        assert_eq!(self.limiter.clear_own(&(at as u8)), had_plan);
        if had_plan {
            assert!(level(self) <= self.algorithm.capacity());
            assert!(level(self) <= before.max(self.stranger.peek_n(0).remaining()));
            self.keys[at].own = None;
            self.keys[at].has_plan = false;
            self.forget_receipts();
        }
    }

    fn remove(&mut self, at: usize) {
        let was_known = self.is_known(at);
        assert_eq!(self.limiter.remove(&(at as u8)), was_known);
        let own = Some(self.start());
        self.keys[at] = Key { own, has_plan: false, grants: Vec::new() };
        self.forget_receipts();
    }

    fn clear(&mut self) {
        self.limiter.clear();
        assert!(self.limiter.is_empty());
        (0..KEYS).for_each(|at| self.remove(at));
    }

    /// A key in the same part of the map as one that has gone cannot give back
    /// what was granted before.
    fn forget_receipts(&mut self) {
        self.keys.iter_mut().for_each(|key| key.grants.clear());
    }

    fn compare_levels(&self) {
        assert!(self.limiter.len() <= self.most.min(KEYS));
        let mut known = 0;
        for (key, level) in self.limiter.levels() {
            known += 1;
            if let Some(own) = &self.keys[usize::from(key)].own {
                assert_eq!(level, own.peek_n(0).remaining(), "the level of {key}");
            }
        }
        assert_eq!(known, self.limiter.len());
        for (at, key) in self.keys.iter().enumerate() {
            assert!(!key.has_plan || self.is_known(at), "{at} has a plan");
        }
        if self.most == usize::MAX {
            let never_seen = self.limiter.peek(&(KEYS as u8));
            assert_eq!(said(&never_seen), said(&self.stranger.peek()));
        }
    }
}
