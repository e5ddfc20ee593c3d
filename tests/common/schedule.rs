//! Schedules of calls, with the boundary instants of the limiter in them, and
//! the subject that makes the calls.

use super::{Make, Reply, SECOND, Said, Setup, magnitudes, period, said};
use core::time::Duration;
use proptest::prelude::*;
use tollgate::{Algorithm, Clock, Decision, Instant, ManualClock, RateLimiter};

/// A number of permits, most of them close to where the answer changes.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    Of(u32),
    /// What is left, and so many more.
    Left(i8),
    /// The capacity, and so many more.
    Capacity(i8),
    /// So many parts in 256 of the capacity.
    Share(u8),
}

impl Amount {
    pub fn resolve(self, capacity: u32, left: u32) -> u32 {
        let amount = match self {
            Self::Of(n) => n.into(),
            Self::Left(more) => i64::from(left) + i64::from(more),
            Self::Capacity(more) => i64::from(capacity) + i64::from(more),
            Self::Share(parts) => i64::from(capacity) * i64::from(parts) / 256,
        };
        amount.clamp(0, u32::MAX.into()) as u32
    }
}

fn amounts() -> impl Strategy<Value = Amount> {
    prop_oneof![
        8 => (0..=3_u32).prop_map(Amount::Of),
        5 => (-1..=1_i8).prop_map(Amount::Left),
        1 => (-1..=1_i8).prop_map(Amount::Capacity),
        2 => any::<u8>().prop_map(Amount::Share),
        1 => magnitudes(32).prop_map(|n| Amount::Of(n as u32)),
    ]
}

/// How the time moves before a call.
#[derive(Clone, Copy, Debug)]
pub enum Jump {
    Stay,
    By(i128),
    /// By so many eighths of the time between two permits.
    Intervals(i64),
    /// By so many eighths of the period.
    Periods(i64),
    /// To when the amount is promised, and a nanosecond beside it.
    Retry(Amount, i8),
    /// To when the limiter says that all is as new, and beside it.
    Reset(i8),
    /// To the end of supply, years after the creation, and beside it.
    EndOfSupply(i8),
    /// To so long before the end of time.
    EndOfTime(u8),
}

fn jumps() -> impl Strategy<Value = Jump> {
    prop_oneof![
        20 => Just(Jump::Stay),
        10 => (0..=3_i128).prop_map(Jump::By),
        15 => (0..=40_i64).prop_map(Jump::Intervals),
        10 => (0..=20_i64).prop_map(Jump::Periods),
        25 => (amounts(), -1..=1_i8).prop_map(|(n, beside)| Jump::Retry(n, beside)),
        8 => (-1..=1_i8).prop_map(Jump::Reset),
        // Idle for up to nine years.
        8 => magnitudes(58).prop_map(|nanos| Jump::By(nanos.into())),
        // Steps back of the clock.
        3 => magnitudes(64).prop_map(|nanos| Jump::By(-i128::from(nanos))),
        3 => (-30..0_i64).prop_map(Jump::Intervals),
        3 => (-12..0_i64).prop_map(Jump::Periods),
        1 => (-1..=1_i8).prop_map(Jump::EndOfSupply),
        1 => (0..=2_u8).prop_map(Jump::EndOfTime),
    ]
}

/// A call, before its numbers are known.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    Acquire(Amount),
    Peek(Amount),
    Charge(Amount),
    /// Of the grant so many back, all of it or an amount.
    Refund(u8, Option<Amount>),
    Reset,
}

fn calls() -> impl Strategy<Value = Call> {
    prop_oneof![
        20 => amounts().prop_map(Call::Acquire),
        2 => amounts().prop_map(Call::Peek),
        2 => amounts().prop_map(Call::Charge),
        8 => (prop_oneof![2 => Just(0), 1 => 0..6_u8], proptest::option::of(amounts()))
            .prop_map(|(grant, part)| Call::Refund(grant, part)),
        1 => Just(Call::Reset),
    ]
}

#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub jump: Jump,
    pub call: Call,
}

pub fn schedules() -> impl Strategy<Value = Vec<Step>> {
    let step = (jumps(), calls()).prop_map(|(jump, call)| Step { jump, call });
    proptest::collection::vec(step, 1..40)
}

/// A call as it is made. Grants are numbered from 0 in the order of the calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    Acquire(u32),
    Peek(u32),
    Charge(u32),
    Refund { grant: usize, n: Option<u32> },
    Reset,
}

/// A granted call whose permits may still be given back.
struct Grant {
    number: usize,
    n: u32,
    decision: Decision,
    receipt: u128,
}

/// A limiter, and beside it a state on which the pure methods of its algorithm
/// are called by hand. Each call is made on both, and both must say the same.
pub struct Subject<A: Algorithm> {
    pub setup: Setup,
    pub limiter: RateLimiter<A, ManualClock>,
    pub state: A::State,
    grants: Vec<Grant>,
    granted: usize,
}

impl<A: Algorithm> Subject<A> {
    pub fn new(make: &impl Make<A>, setup: Setup) -> Self {
        let clock = ManualClock::starting_at(Instant::from_nanos(setup.origin));
        let limiter = RateLimiter::with_clock(make(setup.rate, setup.burst), clock);
        let state = limiter.algorithm().unseen();
        Self { setup, limiter, state, grants: Vec::new(), granted: 0 }
    }

    pub fn algorithm(&self) -> A {
        self.limiter.algorithm()
    }

    pub fn capacity(&self) -> u32 {
        self.algorithm().capacity()
    }

    pub fn earliest(&self, now: u64, n: u32) -> u64 {
        self.algorithm().earliest(&self.state, Instant::from_nanos(now), n).as_nanos()
    }

    pub fn remaining(&self, now: u64) -> u32 {
        self.algorithm().remaining(&self.state, Instant::from_nanos(now))
    }

    pub fn fresh_at(&self) -> u64 {
        self.algorithm().fresh_at(&self.state).as_nanos()
    }

    pub fn peek(&self, now: u64, n: u32) -> Said {
        said(&self.limiter.at(Instant::from_nanos(now)).peek_n(n))
    }

    /// Takes `n` permits, or hears why not.
    pub fn acquire(&mut self, n: u32, now: u64) -> Result<Said, TestCaseError> {
        match self.perform(Act::Acquire(n), now)? {
            Reply::Said(said) => Ok(said),
            other => unreachable!("{other:?}"),
        }
    }

    /// Gives a grant back, or a part of it.
    pub fn refund(&mut self, grant: usize, n: Option<u32>, now: u64) -> Result<u32, TestCaseError> {
        match self.perform(Act::Refund { grant, n }, now)? {
            Reply::GaveBack(n) => Ok(n),
            other => unreachable!("{other:?}"),
        }
    }

    /// Gives up all receipts, and numbers the next grant 0 again.
    pub fn forget_receipts(&mut self) {
        self.grants.clear();
        self.granted = 0;
    }

    /// The numbers of the grants that were not given back.
    pub fn held(&self) -> Vec<usize> {
        self.grants.iter().map(|grant| grant.number).collect()
    }

    /// The permits of a grant, if it was not given back.
    pub fn permits(&self, number: usize) -> Option<u32> {
        self.grants.iter().find(|grant| grant.number == number).map(|grant| grant.n)
    }

    /// The first moment from which on a limiter that gives all it has never has
    /// anything again; the last moment of time if there is none.
    pub fn end_of_supply(&self) -> u64 {
        let ended = |now: u64| {
            let (now, mut state) = (Instant::from_nanos(now), self.algorithm().unseen());
            self.algorithm().take(&mut state, now, self.capacity());
            self.algorithm().earliest(&state, now, 1) == Instant::MAX
        };
        let (mut first, mut last) = (self.setup.origin, u64::MAX - 1);
        while first < last {
            let middle = first + (last - first) / 2;
            if ended(middle) { last = middle } else { first = middle + 1 }
        }
        last
    }

    /// The time after a jump.
    pub fn time_after(&self, jump: Jump, now: u64) -> u64 {
        let beside = |at: u64, by: i8| at.saturating_add_signed(by.into());
        let by = |nanos: i128| (i128::from(now) + nanos).clamp(0, u64::MAX.into()) as u64;
        match jump {
            Jump::Stay => now,
            Jump::By(nanos) => by(nanos),
            Jump::Intervals(eighths) => by(self.setup.fill(1) as i128 * i128::from(eighths) / 8),
            Jump::Periods(eighths) => {
                by(i128::from(period(self.setup.rate)) * i128::from(eighths) / 8)
            }
            Jump::Retry(amount, nanos) => {
                let n = amount.resolve(self.capacity(), self.remaining(now));
                let wait = self.peek(now, n).retry_after.unwrap_or(0);
                beside(now.saturating_add(wait), nanos)
            }
            Jump::Reset(nanos) => beside(now.saturating_add(self.peek(now, 1).reset_after), nanos),
            Jump::EndOfSupply(nanos) => beside(self.end_of_supply(), nanos),
            Jump::EndOfTime(nanos) => u64::MAX - u64::from(nanos),
        }
    }

    /// The call with its numbers.
    pub fn act(&self, call: Call, now: u64) -> Act {
        let resolve = |amount: Amount| amount.resolve(self.capacity(), self.remaining(now));
        match call {
            Call::Acquire(amount) => Act::Acquire(resolve(amount)),
            Call::Peek(amount) => Act::Peek(resolve(amount)),
            Call::Charge(amount) => Act::Charge(resolve(amount)),
            Call::Refund(back, part) => match self.grants.iter().rev().nth(back.into()) {
                None => Act::Acquire(1),
                Some(grant) => {
                    let n = part.map(|amount| amount.resolve(grant.n, grant.n));
                    Act::Refund { grant: grant.number, n }
                }
            },
            Call::Reset => Act::Reset,
        }
    }

    /// Makes the call, on the limiter and by hand.
    pub fn perform(&mut self, act: Act, now: u64) -> Result<Reply, TestCaseError> {
        let by_hand = self.by_hand(act, now);
        let by_limiter = self.on_limiter(act, now);
        prop_assert_eq!(by_limiter, by_hand, "the limiter, and its algorithm by hand");
        Ok(by_limiter)
    }

    fn on_limiter(&mut self, act: Act, now: u64) -> Reply {
        let limiter = &self.limiter;
        limiter.clock().set(Instant::from_nanos(now));
        assert_eq!(limiter.clock().now().as_nanos(), now);
        match act {
            Act::Acquire(n) => {
                let decision =
                    if n == 1 { limiter.try_acquire() } else { limiter.try_acquire_n(n) };
                let reply = Reply::Said(said(&decision));
                if decision.is_granted() && n > 0 {
                    let receipt = limiter.algorithm().receipt(&self.state);
                    self.grants.push(Grant { number: self.granted, n, decision, receipt });
                    self.granted += 1;
                }
                reply
            }
            Act::Peek(n) => {
                Reply::Said(said(&if n == 1 { limiter.peek() } else { limiter.peek_n(n) }))
            }
            Act::Charge(n) => Reply::Booked(limiter.charge(n)),
            Act::Refund { grant, n } => {
                let at = self.grants.iter().position(|held| held.number == grant).unwrap();
                let decision = self.grants.remove(at).decision;
                Reply::GaveBack(match n {
                    None => limiter.refund(decision),
                    Some(n) => limiter.refund_n(decision, n),
                })
            }
            Act::Reset => {
                limiter.reset();
                self.grants.clear(); // receipts do not outlive it
                Reply::Forgot
            }
        }
    }

    fn by_hand(&mut self, act: Act, now: u64) -> Reply {
        let now = Instant::from_nanos(now);
        let algorithm = &self.limiter.algorithm();
        let state = &mut self.state;
        match act {
            Act::Acquire(n) => Reply::Said(decide_by_hand(algorithm, state, now, n, true)),
            Act::Peek(n) => Reply::Said(decide_by_hand(algorithm, state, now, n, false)),
            Act::Charge(n) => Reply::Booked(algorithm.charge(state, now, n)),
            Act::Refund { grant, n } => {
                let grant = self.grants.iter().find(|held| held.number == grant).unwrap();
                let n = n.unwrap_or(grant.n);
                Reply::GaveBack(match n > grant.n {
                    true => 0,
                    false => algorithm.refund(state, now, grant.receipt, n),
                })
            }
            Act::Reset => {
                algorithm.reset(state, now);
                Reply::Forgot
            }
        }
    }
}

/// What a limiter has to say, from the methods of its algorithm alone.
fn decide_by_hand<A: Algorithm>(
    algorithm: &A,
    state: &mut A::State,
    now: Instant,
    n: u32,
    take: bool,
) -> Said {
    let wait = |at: Instant| at.since(now).as_nanos() as u64;
    let never = n > algorithm.capacity();
    let earliest = match n {
        0 => now,
        _ if never => Instant::MAX,
        _ => algorithm.earliest(state, now, n),
    };
    let granted = n == 0 || (earliest == now && now < Instant::MAX);
    let mut delay = 0;
    if granted && n > 0 {
        delay = wait(algorithm.departure(state, now, n));
        if take {
            algorithm.take(state, now, n);
        }
    }
    let report = algorithm.report(state, now, if granted { None } else { Some(n) });
    let retry_after = match granted {
        true => Some(0),
        false => (earliest < Instant::MAX).then(|| wait(earliest)),
    };
    Said {
        granted,
        never,
        limit: report.limit,
        remaining: report.remaining,
        delay,
        retry_after,
        retry_after_secs: retry_after.map(|wait| wait.div_ceil(SECOND)),
        reset_after: wait(report.reset_at),
        index: report.index,
    }
}
