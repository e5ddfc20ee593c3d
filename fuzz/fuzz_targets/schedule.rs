//! Any schedule of calls, by a limiter and by the same one behind a mutex: both
//! say the same, keep what they promise, and do as a small exact [model](models)
//! says, where there is one.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use tollgate::{Algorithm, Clock, Decision, Instant, Locked, ManualClock, RateLimiter};
use tollgate_fuzz::models::{self, Model};
use tollgate_fuzz::{Call, Kind, Reply, Said, Setup, Step, Trial, said};

#[derive(Arbitrary, Debug)]
struct Schedule {
    kind: Kind,
    setup: Setup,
    steps: Vec<Step>,
}

fuzz_target!(|schedule: Schedule| schedule.kind.run(schedule));

impl Trial for Schedule {
    fn run<A: Algorithm>(self, make: impl Fn(Setup) -> A) {
        let mut both = Both::new(self.kind, self.setup, make(self.setup));
        for step in self.steps {
            both.go_to(step.jump.lands(self.setup, &both.free));
            both.call(step.call);
        }
    }
}

/// A grant that was not given back.
struct Grant {
    number: usize,
    n: u32,
    free: Decision,
    locked: Decision,
}

struct Both<A: Algorithm> {
    kind: Kind,
    setup: Setup,
    free: RateLimiter<A, ManualClock>,
    locked: RateLimiter<Locked<A>, ManualClock>,
    capacity: u32,
    /// None once the limiter is where the definition does not say what it does.
    model: Option<Box<dyn Model>>,
    /// By how many nanoseconds the limiter may be early or late.
    grain: u64,
    /// The end of supply: until then the limiter follows its definition.
    last: u64,
    /// The time has never stepped back.
    is_monotone: bool,
    grants: Vec<Grant>,
    granted: usize,
}

fn model(kind: Kind, setup: Setup) -> Option<Box<dyn Model>> {
    match kind {
        Kind::TokenBucket => Some(Box::new(models::Bucket::new(setup))),
        Kind::FixedWindow => Some(Box::new(models::Window::new(setup, setup.origin))),
        Kind::FixedWindowAligned => Some(Box::new(models::Window::new(setup, setup.period() / 3))),
        Kind::Log => Some(Box::new(models::Log::new(setup))),
        _ => None,
    }
}

impl<A: Algorithm> Both<A> {
    fn new(kind: Kind, setup: Setup, algorithm: A) -> Self {
        let free = setup.limiter(algorithm);
        let last = end_of_supply(&free.algorithm(), setup.origin);
        Self {
            kind,
            setup,
            free,
            locked: setup.limiter(Locked(algorithm)),
            capacity: algorithm.capacity(),
            model: model(kind, setup),
            grain: if kind == Kind::TokenBucket { models::Bucket::grain(setup) } else { 0 },
            last,
            is_monotone: true,
            grants: Vec::new(),
            granted: 0,
        }
    }

    fn now(&self) -> u64 {
        self.free.clock().now().as_nanos()
    }

    fn go_to(&mut self, now: u64) {
        self.is_monotone &= now >= self.now();
        self.free.clock().set(Instant::from_nanos(now));
        self.locked.clock().set(Instant::from_nanos(now));
        if now > self.last {
            self.model = None;
        }
    }

    /// What both say to a call that takes nothing.
    fn peek(&self, at: u64, n: u32) -> Said {
        let at = Instant::from_nanos(at);
        let (free, locked) = (self.free.at(at).peek_n(n), self.locked.at(at).peek_n(n));
        assert_eq!(said(&free), said(&locked), "{n} at {at:?}");
        said(&free)
    }

    fn call(&mut self, call: Call) {
        let left = self.peek(self.now(), 0).remaining;
        let (capacity, more) = (self.capacity, left.saturating_add(1));
        for n in [0, 1, left, more, capacity, capacity.saturating_add(1)] {
            self.look(n);
        }
        let reply = match call {
            Call::Acquire(amount) => self.acquire(amount.of(capacity, left)),
            Call::Peek(amount) => self.look(amount.of(capacity, left)),
            Call::Charge(amount) => self.charge(amount.of(capacity, left)),
            Call::Refund(back, part) => match self.grants.len().checked_sub(1 + back as usize) {
                None => return,
                Some(at) => {
                    let n = self.grants[at].n;
                    self.refund(at, part.map_or(n, |amount| amount.of(n, n)))
                }
            },
            Call::Reset => {
                self.free.reset();
                self.locked.reset();
                self.grants.clear(); // receipts do not outlive it
                let now = self.now();
                self.model = self.model.take().and_then(|old| {
                    let mut new = model(self.kind, self.setup)?;
                    new.begin_at(old.newest().max(now));
                    Some(new)
                });
                Reply::Forgot
            }
        };
        if let Reply::Said(said) = reply {
            assert!(said.remaining <= said.limit && said.limit >= capacity, "{said:?}");
        }
    }

    fn acquire(&mut self, n: u32) -> Reply {
        let foreseen = self.peek(self.now(), n);
        let (free, locked) = (self.free.try_acquire_n(n), self.locked.try_acquire_n(n));
        let reply = said(&free);
        assert_eq!(reply, said(&locked), "{n}");
        let promised = |said: Said| (said.granted, said.delay, said.retry_after);
        assert_eq!(promised(reply), promised(foreseen), "{n}");
        if !reply.granted {
            assert_eq!(reply, foreseen);
            assert_eq!(reply, self.peek(self.now(), n), "a refusal left a trace");
        } else if n > 0 {
            let (number, now) = (self.granted, self.now());
            self.grants.push(Grant { number, n, free, locked });
            self.granted += 1;
            if let Some(model) = &mut self.model {
                model.take(now, n, Some(number));
            }
        }
        Reply::Said(reply)
    }

    fn charge(&mut self, n: u32) -> Reply {
        let (now, later) = (self.now(), self.later(self.now()));
        let booked = self.free.charge(n);
        assert_eq!(booked, self.locked.charge(n), "{n}");
        assert!(booked <= n);
        let Some(model) = &mut self.model else { return Reply::Booked(booked) };
        assert!(booked == 0 || model.may_book(later, booked), "booked {booked}");
        let is_all = booked == n || !has_room_for_debt(self.setup, self.last, now);
        let before = now.saturating_sub(self.grain);
        assert!(is_all || !model.may_book(before, booked + 1), "booked {booked} only");
        if booked > 0 {
            model.take(now, booked, None);
        }
        Reply::Booked(booked)
    }

    fn refund(&mut self, at: usize, n: u32) -> Reply {
        let Grant { number, n: granted, free, locked } = self.grants.remove(at);
        let given = self.free.refund_n(free, n);
        assert_eq!(given, self.locked.refund_n(locked, n), "{n} of {granted}");
        assert!(given <= n.min(granted));
        // What a refund leaves behind after a step back depends on the reading at
        // which it is made; whether a rounded mark is still that of a grant is no
        // question of nearly; and a state that is at its end does not know.
        let now = self.now();
        let is_known =
            self.is_monotone && self.grain == 0 && has_room_for_debt(self.setup, self.last, now);
        if !is_known {
            self.model = None;
        }
        if let Some(model) = &mut self.model {
            let expected = if n > granted { 0 } else { model.give_back(now, number, n) };
            assert_eq!(given, expected, "{n} of {granted}");
        }
        Reply::GaveBack(given)
    }

    /// A look, held to its promises and to the model.
    fn look(&self, n: u32) -> Reply {
        let now = self.now();
        let said = self.peek(now, n);
        let seconds = said.retry_after.map(|wait| wait.div_ceil(1_000_000_000));
        assert_eq!(said.retry_after_secs, seconds);
        assert_eq!(said.granted, said.retry_after == Some(0), "{said:?}");
        assert_eq!(said.never, n > self.capacity, "{said:?}");
        match said.retry_after {
            Some(0) => {}
            Some(wait) => {
                let then = now.checked_add(wait).expect("a wait that ends");
                assert!(self.peek(then, n).granted, "too short for {n}: {said:?}");
                assert!(!self.peek(then - 1, n).granted, "too long for {n}: {said:?}");
            }
            // Asked at the end of time a limiter refuses, whatever it holds.
            None if now == u64::MAX => {}
            None => assert!(!self.peek(u64::MAX - 1, n).granted, "for good: {said:?}"),
        }
        if now < u64::MAX {
            let left = said.remaining;
            assert_eq!(n <= left || n == 0, said.granted, "{n}: {said:?}");
        }
        self.compare(n, now, said);
        Reply::Said(said)
    }

    /// By when the limiter must not be early any more.
    fn later(&self, at: u64) -> u64 {
        at.max(self.setup.origin).saturating_add(self.grain)
    }

    /// What was said, and what the model says.
    fn compare(&self, n: u32, now: u64, said: Said) {
        let Some(model) = &self.model else { return };
        let (left, before) = (said.remaining, now.saturating_sub(self.grain));
        assert!(left == 0 || model.fits(self.later(now), left), "{left} left at {now}");
        let is_all = left == self.capacity;
        assert!(is_all || !model.fits(before, left + 1), "only {left} left at {now}");
        if said.granted {
            assert!(n == 0 || model.fits(self.later(now), n), "{n} early at {now}");
        } else if !said.never {
            let wait = said.retry_after.unwrap_or(u64::MAX - now);
            self.compare_wait(now, wait, |at| model.fits(at, n), said);
        }
        self.compare_wait(now, said.reset_after, |at| model.is_reset(now, at), said);
    }

    /// Something is the case after the wait and not before, as far as that is
    /// within the life of the limiter.
    fn compare_wait(&self, now: u64, wait: u64, is_so: impl Fn(u64) -> bool, said: Said) {
        let then = now.saturating_add(wait);
        assert!(
            then > self.last || is_so(self.later(then)),
            "too short at {now}: {said:?} {:?}",
            self.setup
        );
        let before = then.min(self.last + 1).saturating_sub(1 + self.grain);
        let is_within = wait > 0 && before >= now.max(self.setup.origin);
        assert!(
            !is_within || !is_so(before),
            "too long at {now}: {said:?} {:?} {:?}",
            self.kind,
            self.setup
        );
    }
}

/// The first moment from which on a limiter that gives all it has never has
/// anything again; the last moment of time if there is none.
fn end_of_supply<A: Algorithm>(algorithm: &A, origin: u64) -> u64 {
    let ended = |now: u64| {
        let (now, mut state) = (Instant::from_nanos(now), algorithm.unseen());
        algorithm.take(&mut state, now, algorithm.capacity());
        algorithm.earliest(&state, now, 1) == Instant::MAX
    };
    let (mut first, mut last) = (origin, u64::MAX - 1);
    while first < last {
        let middle = first + (last - first) / 2;
        if ended(middle) { last = middle } else { first = middle + 1 }
    }
    last
}

/// Whether the debt that a charge may make still fits into the state, which at
/// the end of supply has room for one capacity.
fn has_room_for_debt(setup: Setup, last: u64, now: u64) -> bool {
    let capacity = u64::from(setup.burst.get()).max(setup.count());
    let left = last - now.clamp(setup.origin, last);
    u128::from(left) > setup.fill(capacity + 2)
}
