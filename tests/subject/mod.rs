//! A limiter under test, whatever its algorithm, its sharing and its clock's
//! origin, on a clock that the test moves. Every call that goes through it is
//! also held to what must be true of any call.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::time::Duration;
use tollgate::{Algorithm, Clamped, Clock, Decision, HORIZON, Instant, ManualClock};
use tollgate::{Locked, RateLimiter};

/// Clocks that start at nought hide the difference between a moment and a
/// span; those that start late find the sums that overflow.
pub(crate) const ORIGINS: [u64; 3] = [0, 1, 1 << 63];

/// Runs a test on a lock-free limiter and on one behind a mutex, with the
/// clock's origin at each of [`ORIGINS`].
pub(crate) fn everywhere<A: Algorithm + 'static>(algorithm: A, test: impl Fn(&Subject)) {
    for origin in ORIGINS {
        on_both(Instant::from_nanos(origin), algorithm, &test);
    }
}

/// The same for a limiter made at `start`.
pub(crate) fn on_both<A: Algorithm + 'static>(
    start: Instant,
    algorithm: A,
    test: impl Fn(&Subject),
) {
    test(&Subject::new(start, algorithm));
    test(&Subject::new(start, Locked(algorithm)));
}

/// The same as [`everywhere`], on a clock that may run back and is clamped.
pub(crate) fn everywhere_clamped<A: Algorithm + 'static>(algorithm: A, test: impl Fn(&Subject)) {
    for origin in ORIGINS {
        let start = Instant::from_nanos(origin);
        test(&Subject::clamped(start, algorithm));
        test(&Subject::clamped(start, Locked(algorithm)));
    }
}

/// A limiter, and the clock that it reads. Times are counted from its creation.
pub(crate) struct Subject {
    limiter: Box<dyn Limiter>,
    clock: ManualClock,
    start: Instant,
}

impl Subject {
    pub(crate) fn new<A: Algorithm + 'static>(start: Instant, algorithm: A) -> Self {
        let clock = ManualClock::starting_at(start);
        Self::of(RateLimiter::with_clock(algorithm, clock.clone()), clock)
    }

    pub(crate) fn clamped<A: Algorithm + 'static>(start: Instant, algorithm: A) -> Self {
        let clock = ManualClock::starting_at(start);
        Self::of(RateLimiter::with_clock(algorithm, Clamped::new(clock.clone())), clock)
    }

    /// A limiter that was just made, on `clock`.
    pub(crate) fn of(limiter: impl Limiter + 'static, clock: ManualClock) -> Self {
        let start = clock.now();
        println!("subject: {limiter:?}"); // shown beside a failure
        Self { limiter: Box::new(limiter), clock, start }
    }

    /// Sets the clock to so much after the creation.
    pub(crate) fn set(&self, elapsed: Duration) {
        self.clock.set(self.start + elapsed);
    }

    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    /// The bare call, for loops.
    pub(crate) fn try_acquire_n(&self, n: u32) -> Decision {
        self.limiter.try_acquire_n(n)
    }

    pub(crate) fn peek_n(&self, n: u32) -> Decision {
        self.peek_at(self.limiter.now(), n)
    }

    pub(crate) fn charge(&self, n: u32) -> u32 {
        self.limiter.charge(n)
    }

    pub(crate) fn refund_n(&self, grant: Decision, n: u32) -> u32 {
        self.limiter.refund_n(grant, n)
    }

    fn peek_at(&self, at: Instant, n: u32) -> Decision {
        self.limiter.peek_at(at, n)
    }

    /// A call that is held to the promises: a look before it says the same, a
    /// refusal leaves no trace, the promised wait is enough and least, and what
    /// is said to be left can be had.
    pub(crate) fn call(&self, n: u32) -> Decision {
        let now = self.limiter.now();
        let foreseen = self.peek_n(n);
        let decision = self.try_acquire_n(n);

        assert_eq!(foreseen.is_granted(), decision.is_granted());
        assert_eq!(foreseen.delay(), decision.delay());
        assert_eq!(foreseen.retry_after(), decision.retry_after());

        if decision.is_denied() {
            let trace = |d: &Decision| (d.remaining(), d.reset_after(), d.limit(), d.index());
            assert_eq!(trace(&foreseen), trace(&decision));
            assert_eq!(trace(&self.peek_n(n)), trace(&decision), "a refusal left a trace");
            assert_eq!(decision.delay(), Duration::ZERO);
        }
        match decision.retry_after() {
            Some(Duration::ZERO) => assert!(decision.is_granted(), "refused without a wait"),
            Some(wait) => {
                let again = now + wait;
                if again < self.start + HORIZON {
                    assert!(self.peek_at(again, n).is_granted(), "a wait of {wait:?} is too short");
                }
                let before = again - Duration::from_nanos(1);
                assert!(self.peek_at(before, n).is_denied(), "a wait of {wait:?} is too long");
            }
            None if decision.is_never() => assert!(n > decision.limit()),
            None => {
                let last = Instant::MAX - Duration::from_nanos(1);
                assert!(self.peek_at(last, n).is_denied(), "for good, but not at the end");
            }
        }
        let left = decision.remaining();
        assert!(self.peek_n(left).is_granted(), "{left} said to be left");
        if let Some(more) = left.checked_add(1) {
            assert!(self.peek_n(more).is_denied(), "only {left} said to be left");
        }
        decision
    }
}

/// What a limiter of any type can do.
pub(crate) trait Limiter: std::fmt::Debug + Sync {
    fn now(&self) -> Instant;
    fn try_acquire_n(&self, n: u32) -> Decision;
    fn peek_at(&self, at: Instant, n: u32) -> Decision;
    fn charge(&self, n: u32) -> u32;
    fn refund_n(&self, grant: Decision, n: u32) -> u32;
}

impl<A: Algorithm, C: Clock + std::fmt::Debug> Limiter for RateLimiter<A, C> {
    fn now(&self) -> Instant {
        self.clock().now()
    }

    fn try_acquire_n(&self, n: u32) -> Decision {
        self.try_acquire_n(n)
    }

    fn peek_at(&self, at: Instant, n: u32) -> Decision {
        self.at(at).peek_n(n)
    }

    fn charge(&self, n: u32) -> u32 {
        self.charge(n)
    }

    fn refund_n(&self, grant: Decision, n: u32) -> u32 {
        self.refund_n(grant, n)
    }
}
