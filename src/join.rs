//! Permits of several limiters together: per user, per address and for all.
//!
//! Limits on *one* key are a tuple of algorithms, decided under one lock. These
//! here have different keys, or clocks, and no lock in common, so they are
//! taken one after the other:
//!
//! 1. Look at all. If one would refuse, nothing is taken.
//! 2. Take them one by one. If one refuses now, which happens only when somebody
//!    else was quicker in between, give back what was taken, in reverse order.
//!
//! So for some hundred nanoseconds permits can be held that are then given
//! back, and another caller may be refused for want of them: as many as the
//! calls that are in this state at the same time. Nothing is granted that the
//! limits do not allow.
//!
//! # Giving back
//!
//! A [`refund`](crate::RateLimiter::refund) undoes the newest grant. Here
//! others may have taken meanwhile, so it also gives back what is left of an
//! older grant ([`Algorithm::cancel`](crate::Algorithm::cancel)): a bucket takes
//! the supply since the grant as having replaced it already, since to somebody
//! it may have been granted. That costs the supply of those hundred nanoseconds
//! and keeps the bound under any interleaving. It also makes the marks of the
//! word no longer tell which grant was the last, so grants from before cannot
//! be refunded any more: the limiter begins a new era.
//!
//! A [`LeakyBucket`](crate::LeakyBucket) and a
//! [`SlidingWindowLog`](crate::SlidingWindowLog) that is not
//! [`Locked`](crate::Locked) give back only while nobody has been granted after,
//! so they are taken last. Where two of them are joined, a permit of the first
//! may stand that the second did not allow: it is late by a place in the queue,
//! or comes back after a period.

use crate::algorithm::Algorithm;
use crate::clock::{Clock, Instant};
use crate::decision::Decision;
use crate::keyed::{KeyedRateLimiter, Lookup};
use crate::limiter::RateLimiter;
use crate::shared::Shared;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use sealed::Joinable;

/// A request to one limiter, to be [joined](join) with others: from
/// [`RateLimiter::request`] or [`KeyedRateLimiter::request`].
pub trait Request: Joinable {}

impl<R: Joinable> Request for R {}

mod sealed {
    use super::{Decision, Instant};

    pub trait Joinable {
        fn peek(&self) -> Decision;
        /// Whether what was taken can only be given back while it is the newest.
        fn stands(&self) -> bool;
        /// Takes, and says when.
        fn take(&self) -> (Decision, Instant);
        /// Gives back what was taken.
        fn cancel(&self, grant: &Decision, taken: Instant);
    }
}

/// So many permits of a limiter, not asked for yet.
#[derive(Debug)]
pub struct LimiterRequest<'a, A: Algorithm, C> {
    limiter: &'a RateLimiter<A, C>,
    n: u32,
}

/// So many permits of a key, not asked for yet.
#[derive(Debug)]
pub struct KeyedRequest<'a, Q: ?Sized, K, A: Algorithm, C, S> {
    limiter: &'a KeyedRateLimiter<K, A, C, S>,
    key: &'a Q,
    n: u32,
}

impl<A: Algorithm, C: Clock> RateLimiter<A, C> {
    /// A request for `n` permits, to [`join`] with requests to other limiters.
    pub fn request(&self, n: u32) -> LimiterRequest<'_, A, C> {
        LimiterRequest { limiter: self, n }
    }
}

impl<K: Eq + Hash, A: Algorithm, C: Clock, S: BuildHasher> KeyedRateLimiter<K, A, C, S> {
    /// A request for `n` permits of `key`, to [`join`] with requests to other
    /// limiters.
    pub fn request<'a, Q>(&'a self, key: &'a Q, n: u32) -> KeyedRequest<'a, Q, K, A, C, S>
    where
        Q: Lookup<K> + ?Sized,
    {
        KeyedRequest { limiter: self, key, n }
    }
}

impl<A: Algorithm, C: Clock> Joinable for LimiterRequest<'_, A, C> {
    fn peek(&self) -> Decision {
        self.limiter.peek_n(self.n)
    }

    fn stands(&self) -> bool {
        A::Shared::STANDS
    }

    fn take(&self) -> (Decision, Instant) {
        let now = self.limiter.clock().now();
        (self.limiter.at(now).try_acquire_n(self.n), now)
    }

    fn cancel(&self, grant: &Decision, taken: Instant) {
        self.limiter.cancel(grant, taken);
    }
}

impl<Q, K, A, C, S> Joinable for KeyedRequest<'_, Q, K, A, C, S>
where
    Q: Lookup<K> + ?Sized,
    K: Eq + Hash,
    A: Algorithm,
    C: Clock,
    S: BuildHasher,
{
    fn peek(&self) -> Decision {
        self.limiter.peek_n(self.key, self.n)
    }

    fn stands(&self) -> bool {
        A::Shared::STANDS
    }

    fn take(&self) -> (Decision, Instant) {
        let now = self.limiter.clock().now();
        (self.limiter.at(now).try_acquire_n(self.key, self.n), now)
    }

    fn cancel(&self, grant: &Decision, taken: Instant) {
        self.limiter.cancel(self.key, grant, taken);
    }
}

/// Takes the permits of all requests, or none.
///
/// The decisions come in the order of the requests. Each should be for a state
/// of its own: two for the same key are looked at one by one, and may both be
/// possible where the sum never is.
///
/// # Errors
///
/// [`JoinDenied`], with the position of the request that has to wait longest.
/// Then nothing has been taken, but that of two sliding-window logs without a lock
/// (or queues) a permit of one may stand until its time, where others have taken
/// since; with [`Locked`](crate::Locked) logs nothing ever does.
///
/// ```
/// use tollgate::{KeyedRateLimiter, RateLimiter, join, limit};
///
/// let users: KeyedRateLimiter<Box<str>> = KeyedRateLimiter::new(limit!("5/min"));
/// let addresses: KeyedRateLimiter<[u8; 4]> = KeyedRateLimiter::new(limit!("20/min"));
/// let everybody = RateLimiter::new(limit!("100/s"));
///
/// let user = users.request("alice", 1);
/// let address = addresses.request(&[192, 0, 2, 7], 1);
/// match join([&user, &address, &everybody.request(1)]) {
///     Ok([user, ..]) => println!("{} attempts left", user.remaining()),
///     Err(denied) => println!("limit {} refuses", denied.index()),
/// }
/// ```
pub fn join<const N: usize>(requests: [&dyn Request; N]) -> Result<[Decision; N], JoinDenied> {
    if let Some(denied) = longest(requests.map(|request| request.peek())) {
        return Err(denied);
    }
    let mut order = core::array::from_fn::<_, N, _>(|at| at);
    order.sort_by_key(|at| requests[*at].stands());
    let mut taken = [const { None }; N];
    for (turn, index) in order.into_iter().enumerate() {
        let (decision, now) = requests[index].take();
        if decision.is_denied() {
            for at in order[..turn].iter().rev() {
                if let Some((grant, now)) = &taken[*at] {
                    requests[*at].cancel(grant, *now);
                }
            }
            let others = longest(requests.map(|request| request.peek()));
            let own = JoinDenied { index, decision };
            return Err(others.filter(|other| own.is_before(other)).unwrap_or(own));
        }
        taken[index] = Some((decision, now));
    }
    let mut taken = taken.into_iter().flatten();
    Ok(requests.map(|request| match taken.next() {
        Some((decision, _)) => decision,
        None => request.peek(), // there is one for each
    }))
}

/// The denial among the decisions with the longest wait.
fn longest(decisions: impl IntoIterator<Item = Decision>) -> Option<JoinDenied> {
    let all = decisions.into_iter().enumerate();
    all.filter(|(_, decision)| decision.is_denied())
        .map(|(index, decision)| JoinDenied { index, decision })
        .reduce(|first, next| if first.is_before(&next) { next } else { first })
}

/// Why requests were not granted together.
#[derive(Debug)]
pub struct JoinDenied {
    index: usize,
    decision: Decision,
}

impl JoinDenied {
    /// The position of the request that was denied; of several, the one with
    /// the longest wait.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// What its limiter said. After this wait, all could be granted if nobody
    /// took anything and no two of them are for the same state.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Whether the other has to wait longer.
    fn is_before(&self, other: &Self) -> bool {
        match (self.decision.retry_after(), other.decision.retry_after()) {
            (Some(own), Some(other)) => own < other,
            (own, _) => own.is_some(),
        }
    }
}

impl fmt::Display for JoinDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {}: {}", self.index, self.decision.denial())
    }
}

impl core::error::Error for JoinDenied {}
