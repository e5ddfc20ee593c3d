//! Limits by key: what is forgotten and when, how many keys there may be, how
//! they are looked up, and that each has a limiter of its own.

#[macro_use]
mod common;
#[path = "keyed/cap.rs"]
mod cap;
#[path = "keyed/change.rs"]
mod change;
#[path = "keyed/eviction.rs"]
mod eviction;
#[path = "keyed/lookup.rs"]
mod lookup;
#[path = "keyed/scenarios.rs"]
mod scenarios;
#[path = "common/short.rs"]
mod short;
#[path = "keyed/verbs.rs"]
mod verbs;

use common::{Act, Make, Reply, Setup, said};
use core::time::Duration;
use short::{bucket, ms, ns, s};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use tollgate::{Algorithm, Clock, Decision, Instant, KeyedRateLimiter, ManualClock, TokenBucket};

/// A limiter by key on a clock that the test moves.
type Keyed<K, A = TokenBucket> = KeyedRateLimiter<K, A, ManualClock>;

fn keyed<K: Eq + Hash, A: Algorithm>(algorithm: A) -> Keyed<K, A> {
    Keyed::with_clock(algorithm, ManualClock::new())
}

/// Sets the clock to so much after its zero.
fn set<K, A: Algorithm, S>(limiter: &KeyedRateLimiter<K, A, ManualClock, S>, elapsed: Duration)
where
    K: Eq + Hash,
    S: core::hash::BuildHasher,
{
    limiter.clock().set(Instant::ZERO + elapsed);
}

/// What a call was told.
#[derive(PartialEq, Debug)]
enum Answer {
    Granted { left: u32 },
    Denied { wait: Duration },
    Full { wait: Option<Duration> },
    Never,
}

fn ok(left: u32) -> Answer {
    Answer::Granted { left }
}

fn no(wait: Duration) -> Answer {
    Answer::Denied { wait }
}

fn full(wait: Duration) -> Answer {
    Answer::Full { wait: Some(wait) }
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        match decision.retry_after() {
            wait if decision.is_full() => Self::Full { wait },
            None => Self::Never,
            Some(wait) if decision.is_denied() => Self::Denied { wait },
            Some(_) => Self::Granted { left: decision.remaining() },
        }
    }
}

/// Runs a test that may hang on a thread of its own, and fails if it does.
fn within_ten_seconds(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match is_done.recv_timeout(s(10)) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().expect("no panic"),
    }
}

/// Leaves the upper half of the hash of a small number zero, so that all keys
/// meet in one part and under one lock.
#[derive(Clone, Copy, Default)]
struct Low(u64);

impl Hasher for Low {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = (self.0 << 8 | u64::from(*byte)) & 0xFFFF_FFFF);
    }
}

type OnePart = BuildHasherDefault<Low>;

/// A limiter by number of which all keys meet in one part, and the grants it
/// has made.
struct Keys<A: Algorithm> {
    limiter: KeyedRateLimiter<u32, A, ManualClock, OnePart>,
    grants: HashMap<(u32, usize), Decision>,
}

impl<A: Algorithm> Keys<A> {
    fn new(make: &impl Make<A>, setup: Setup) -> Self {
        let clock = ManualClock::starting_at(Instant::from_nanos(setup.origin));
        let limiter = KeyedRateLimiter::with_clock(make(setup.rate, setup.burst), clock);
        Self { limiter: limiter.with_hasher(OnePart::default()), grants: HashMap::new() }
    }

    fn set(&self, now: u64) {
        self.limiter.clock().set(Instant::from_nanos(now));
        assert_eq!(self.limiter.clock().now().as_nanos(), now);
    }

    /// Makes the call. `number` is the one by which what is granted to this key
    /// is given back.
    fn perform(&mut self, key: u32, act: Act, number: usize) -> Reply {
        let limiter = &self.limiter;
        match act {
            Act::Acquire(n) => {
                let decision = match n {
                    1 => limiter.try_acquire(&key),
                    _ => limiter.try_acquire_n(&key, n),
                };
                let reply = Reply::Said(said(&decision));
                self.grants.insert((key, number), decision);
                reply
            }
            Act::Peek(1) => Reply::Said(said(&limiter.peek(&key))),
            Act::Peek(n) => Reply::Said(said(&limiter.peek_n(&key, n))),
            Act::Charge(n) => Reply::Booked(limiter.charge(&key, n)),
            Act::Refund { grant, n } => {
                let grant = self.grants.remove(&(key, grant)).expect("a call with this number");
                Reply::GaveBack(match n {
                    None => limiter.refund(&key, grant),
                    Some(n) => limiter.refund_n(&key, grant, n),
                })
            }
            Act::Reset => {
                limiter.reset(&key);
                self.grants.retain(|(other, _), _| *other != key);
                Reply::Forgot
            }
        }
    }
}
