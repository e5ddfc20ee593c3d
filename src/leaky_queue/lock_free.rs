use super::{Items, Nothing, Refused};
use crate::sync::{ArrayQueue, AtomicU64, Ordering};
use core::fmt;
use crossbeam_utils::CachePadded;

/// The items of a [`LeakyQueue`](crate::LeakyQueue) without a lock: a ring,
/// `ArrayQueue` of `crossbeam_queue`, beside a
/// release word and a gate.
///
/// # Claim, then take
///
/// A consumer that sees an item claims a release by moving the word one interval
/// past it, in one compare-exchange, and then takes the first item there is.
/// Claims, and so releases, are never closer than the interval, and each hands
/// out one item at most.
///
/// It may find none: another consumer, with a claim of its own, or a drain was
/// faster. If nobody has claimed since, it puts the word back, as though nothing
/// had been: the word only rises while the claim stands, so finding it unchanged
/// says that no later claim is out. Otherwise the release is spent; those after
/// it are where they would be had it handed out an item.
///
/// # Stopped threads
///
/// There is no lock, but not every stop is without consequence. A thread that
/// is stopped
///
/// * between its claim and its take leaves an item to whoever claims next, an
///   interval later; it then takes what it finds, on its old claim: one item,
///   at most, that is handed out at a time which nobody has claimed, and that
///   may have been pushed after the release it came on;
/// * in a push, after it has moved the ring's tail and before it has marked its
///   slot: consumers that reach the slot spin until it goes on, without yielding
///   to the scheduler, each on a claim of its own, and take what is behind
///   together when it does. Other producers fill the ring, and when it is full
///   spin (yielding) where they would be refused;
/// * in a take, after it has moved the ring's head and before it has marked its
///   slot: other consumers go on, and producers until the ring has come round to
///   the slot. There producers and, behind them, consumers spin until it goes
///   on;
/// * anywhere in a push, does not let [`NotReleased::Closed`] be told, since its
///   item may still come: an empty queue is told as empty.
///
/// The steps of a ring's push and take are a few instructions; the move of an
/// item in or out lies between them. Nothing of yours runs there.
///
/// # Orderings
///
/// The release word is relaxed, as in [`AtomicState`](crate::AtomicState): it
/// publishes nothing, and its single modification order is all that spaces the
/// claims. Items are published by the ring. The gate counts the pushes under way
/// and holds whether it is closed in one word, so that a push is either counted
/// or refused; leaving releases, and who finds it closed with nobody inside
/// acquires, and so sees every item that was ever let in.
///
/// [`NotReleased::Closed`]: crate::NotReleased::Closed
pub struct LockFreeItems<T> {
    ring: ArrayQueue<T>,
    release: CachePadded<AtomicU64>,
    gate: CachePadded<Gate>,
}

impl<T> fmt::Debug for LockFreeItems<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockFreeItems(..)")
    }
}

impl<T> LockFreeItems<T> {
    #[inline]
    fn exchange(&self, seen: u64, next: u64) -> bool {
        let (relaxed, word) = (Ordering::Relaxed, &self.release);
        word.compare_exchange(seen, next, relaxed, relaxed).is_ok()
    }
}

impl<T> Items<T> for LockFreeItems<T> {
    fn with_capacity(capacity: usize) -> Self {
        Self {
            ring: ArrayQueue::new(capacity),
            release: CachePadded::new(AtomicU64::new(0)),
            gate: CachePadded::new(Gate(AtomicU64::new(0))),
        }
    }

    #[inline]
    fn push(&self, item: T) -> Result<(), Refused<T>> {
        if !self.gate.enter() {
            return Err(Refused::Closed(item));
        }
        let pushed = self.ring.push(item);
        self.gate.leave();
        pushed.map_err(Refused::Full)
    }

    #[inline]
    fn take(&self, claim: impl Fn(u64) -> Option<u64>) -> Result<(T, bool), Nothing> {
        loop {
            let mark = match self.outlook() {
                Nothing::Before(mark) => mark,
                nothing => return Err(nothing),
            };
            let Some(next) = claim(mark) else {
                return Err(Nothing::Before(mark));
            };
            if self.exchange(mark, next) {
                let Some(item) = self.ring.pop() else {
                    // Back, unless another claim was made on top of it.
                    self.exchange(next, mark);
                    return Err(Nothing::Left);
                };
                return Ok((item, self.gate.is_closed() && self.ring.is_empty()));
            }
        }
    }

    fn outlook(&self) -> Nothing {
        // Before the look at the ring: nothing comes after it.
        let shut = self.gate.is_shut();
        match self.ring.is_empty() {
            false => Nothing::Before(self.release.load(Ordering::Relaxed)),
            true if shut => Nothing::Ever,
            true => Nothing::Now,
        }
    }

    /// At most one round of the ring, so that producers cannot keep it going.
    fn drain(&self) -> Vec<T> {
        let most = self.ring.len();
        core::iter::from_fn(|| self.ring.pop()).take(most).collect()
    }

    fn len(&self) -> usize {
        self.ring.len()
    }

    fn close(&self) {
        self.gate.close();
    }

    fn is_closed(&self) -> bool {
        self.gate.is_closed()
    }
}

/// Lets pushes in until it is closed: how many are inside, in steps of two,
/// and whether it is closed.
struct Gate(AtomicU64);

const CLOSED: u64 = 1;
const ONE: u64 = 2;

impl Gate {
    #[inline]
    fn enter(&self) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen & CLOSED == 0 {
            match self.0.compare_exchange_weak(
                seen,
                seen + ONE,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(newer) => seen = newer,
            }
        }
        false
    }

    #[inline]
    fn leave(&self) {
        self.0.fetch_sub(ONE, Ordering::Release);
    }

    fn close(&self) {
        self.0.fetch_or(CLOSED, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Closed, and nobody inside.
    #[inline]
    fn is_shut(&self) -> bool {
        self.0.load(Ordering::Acquire) == CLOSED
    }
}
