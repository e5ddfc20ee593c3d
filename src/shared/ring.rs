//! The sliding-window log without a lock: a ring that anybody helps to fill.
//!
//! ```text
//!             next claim v       wraps, and the lap bit turns
//!   slots   | 37 | 41 | 12 | 12 | 19 | 30 | 33 |    when each permit comes back
//!             taken ->   back by 20: free   not yet
//!   head    [ newest come-back time, lower bits | turn | rewound | position | lap ]
//! ```
//!
//! A slot is a permit: the time at which it comes back, and a bit for the lap in
//! which it was stamped. As there are `count` of them, a permit that is taken
//! again was granted a period before, and that is the bound.
//!
//! * **A grant** is one compare-exchange of the head. Then its slots are stamped,
//!   from the lowest on. The head says what they are to be stamped with, so
//!   whoever comes before they are stamps them instead of waiting: a stopped
//!   thread holds up nobody.
//! * **The time of a call** is the later of its reading and the newest grant's,
//!   so the ring is sorted and of `n` slots only the last has to be looked at.
//! * **A refusal** looks at that slot, at the newest, and at the head again: if
//!   it has not moved, the refusal was right then, and the slot says until when.
//! * **What is left** is a binary search for the first slot that is not back; it
//!   begins where that was last time, and mostly ends there.
//! * **Giving back** moves the head back, marks it as rewound, and counts a turn,
//!   so that a head which comes to the same place again is not taken for what it
//!   was. What lies ahead is then of this lap, and free. Who takes it up again
//!   first moves the time in the head to its own, then raises the slots to that,
//!   then claims. Until it is all taken, a call's time may so be that of a call
//!   which is taking at the same time.
//! * **A log that is all back** begins again at its first slot, as if all had
//!   been given back, before it makes new ones.
//!
//! No slot is ever lowered, but by the next lap. So no stamp is mistaken for an
//! earlier one, and one that comes late finds that the slot has changed.
//!
//! # Bits
//!
//! The head has 30 bits or more for a time (a second), 36 for a count of 1000 (a
//! minute), and 16 for turns. A claimer who finds a longer gap raises `base` first,
//! from which the others tell how often the bits have gone round. If it is not
//! granted then, a call that began before it may take on its time.
//!
//! One hole is left: a call that stops between its look and its exchange, and
//! finds a head of the same bits: at the same place of the same lap, a
//! multiple of that time later to the nanosecond, after a multiple of 65,536
//! turns.
//!
//! # Orderings
//!
//! * The head is read with acquire and moved with release: a claimer hands on
//!   what it has seen of the slots, so that nobody claims a slot on the strength
//!   of what it was two laps ago.
//! * Slots are stamped with release and read with acquire: who has seen a stamp
//!   sees a head no older than its claim. So a second look at the head may be
//!   relaxed, and shows whether the slots that were read belong together; and
//!   who sees the last slot of a claim stamped sees all of them stamped.
//! * `base` is relaxed: it is raised before the head is moved, and read after.
//! * The hint is relaxed, and any number will do.
//!
//! # Against others
//!
//! Nanoseconds a call, clock reading (10) included, count 1000, medians of
//! interleaved rounds on two shared cores. The published word is a mutex with an
//! atomic beside it that says until when all is taken.
//!
//! | | this | [mutex](MutexState) | published word |
//! |---|---|---|---|
//! | one permit, granted | 27 | 23 | 26 |
//! | refused | 12 | 16 | 10 |
//! | ten permits, granted | 80 | 23 | |
//! | one permit, granted, two threads | 110 | 45 | 41 |
//! | refused, two threads | 7 | 40 | 6 |
//! | `n` permits | `n` steps | one step | one step |
//! | a thread stopped half-way | holds up nobody | holds up everybody | everybody but the refused |
//!
//! Without the help of others ("claim, then stamp") a grant is one load cheaper,
//! but whoever comes while a claim is not stamped is refused wrongly, or is told
//! no wait. A list of grants with reclamation took, as a prototype, two to three
//! times as long as the mutex, and `unsafe`.

use super::{Cell, MutexState, Shared};
use crate::algorithm::grant_log::{GrantLog, Span};
use crate::algorithm::{Algorithm, SlidingWindowLog};
use crate::clock::Instant;
use crate::decision::{Decision, answer};
use crate::sync::{AtomicU64, Ordering};
use head::Index;
use look::Look;
use slots::Slots;

mod claim;
mod head;
mod look;
mod slots;

/// The state of a [`SlidingWindowLog`]: a ring of come-back times, without a lock.
/// Who comes while a grant is not written down yet writes it down for its owner.
///
/// * **Memory:** 24 bytes; 80 more for up to eight permits that are out at once,
///   and beyond 112, and doubling segments of 8 bytes a permit and 16 each. A log that is all back begins again with what it
///   has; one that never is ends with all of them. Nothing is given back before
///   it is dropped, as a keyed limiter does with a key that is fresh.
/// * **Progress:** lock-free. Only when memory is needed is the allocator called,
///   before anything is claimed.
/// * **Cost:** a grant takes one step for each permit; a refusal one. Where most
///   calls are granted from several threads, or each takes many permits,
///   [`Locked`](crate::Locked) is faster.
#[derive(Debug)]
pub struct RingState {
    head: AtomicU64,
    slots: Slots,
}

/// The state has moved to another place.
const ASIDE: u64 = u64::MAX;

/// The log is behind a mutex.
const LOCKED: u64 = u64::MAX - 1;

/// A ring with the parameters that it goes with.
#[derive(Clone, Copy)]
struct Ring<'a> {
    state: &'a RingState,
    log: &'a SlidingWindowLog,
    span: Span,
    count: u32,
    /// Bits of an index.
    width: u32,
}

impl<'a> Ring<'a> {
    #[inline(always)]
    fn slot(&self, index: Index) -> u64 {
        self.state.slots.load(index.position())
    }

    #[inline(always)]
    fn place(&self, index: Index) -> Option<&'a AtomicU64> {
        self.state.slots.get(index.position())
    }

    /// The word of a permit.
    #[inline(always)]
    fn stamp(&self, index: Index, back: u64) -> u64 {
        back << 1 | index.lap()
    }
}

impl RingState {
    #[inline(always)]
    fn ring<'a>(&'a self, log: &'a SlidingWindowLog) -> Ring<'a> {
        let count = log.rate().count();
        // No position has all these bits, so nothing else reads as the above.
        Ring { state: self, log, span: log.span(), count: count.get(), width: count.ilog2() + 2 }
    }

    /// The log behind a mutex, unless the state is aside.
    #[inline(always)]
    fn locked(&self) -> Option<&MutexState<GrantLog>> {
        (self.head.load(Ordering::Relaxed) == LOCKED).then(|| self.slots.locked())
    }

    /// Any call.
    #[cold]
    fn try_again(&self, log: &SlidingWindowLog, now: Instant, n: u32) -> Option<Decision> {
        let ring = self.ring(log);
        if n == 0 || n > ring.count || now == Instant::MAX {
            return self.peek(log, now, n);
        }
        loop {
            let Some(look) = ring.look() else {
                return self.locked()?.try_acquire(log, now, n);
            };
            let at = ring.span.at(now, look.newest);
            let free = ring.left(&look, at);
            if n > free {
                let when = ring.when(&look, at, n);
                if ring.is_at(&look) {
                    return Some(ring.answer(&look, free, now, n, ring.span.instant(when)));
                }
            } else if let Some(back) = ring.claim(&look, at, n) {
                let look = Look { last: back, ..look };
                let answer = ring.answer(&look, free - n, now, n, now);
                return Some(answer.taking(n, back.into()));
            }
        }
    }
}

impl Shared<SlidingWindowLog> for RingState {
    const STANDS: bool = true;

    fn new(log: &SlidingWindowLog, state: GrantLog) -> Self {
        let ring = Self { head: AtomicU64::new(0), slots: Slots::new() };
        ring.replace(log, state);
        ring
    }

    /// What happens nearly always; anything else is done in `try_again`.
    #[inline(always)]
    fn try_acquire(&self, log: &SlidingWindowLog, now: Instant, n: u32) -> Option<Decision> {
        let ring = self.ring(log);
        if ring.count > Slots::MOST {
            return self.locked()?.try_acquire(log, now, n);
        }
        let word = self.head.load(Ordering::Acquire);
        let next = ring.next(word);
        if n != 1 || ring.is_rewound(word) || now == Instant::MAX {
            return self.try_again(log, now, n);
        }
        let (top, place) = (ring.before(next, 1), ring.place(next));
        let (newest, Some(place)) = (ring.slot(top), place) else {
            return self.try_again(log, now, n);
        };
        if newest & 1 != top.lap() {
            return self.try_again(log, now, n);
        }
        // Stamped, as are all before it: so the head has nothing to add.
        let newest = newest >> 1;
        let slot = place.load(Ordering::Acquire);
        let at = ring.span.at(now, newest);
        if !log.is_whole(at) {
            return self.try_again(log, now, n);
        }
        if slot >> 1 > at {
            if self.head.load(Ordering::Relaxed) != word {
                return self.try_again(log, now, n);
            }
            let report = ring.report(0, ring.span.instant(newest));
            return Some(answer(report, now, n, ring.span.instant(slot >> 1)));
        }
        let look = Look { word, next, rewound: false, newest, floor: newest, last: newest };
        let free = match ring.free_near(next, at) {
            Some(free) => free,
            None => ring.free(&look, at),
        };
        let back = ring.span.back(at);
        if (back - newest) & ring.lost() != 0
            || !ring.exchange(word, ring.word(ring.after(next, 1), false, ring.turn(word), back))
        {
            return self.try_again(log, now, n);
        }
        let stamp = ring.stamp(next, back);
        let _ = place.compare_exchange(slot, stamp, Ordering::Release, Ordering::Relaxed);
        let report = ring.report(free - 1, ring.span.instant(back));
        Some(answer(report, now, n, now).taking(n, back.into()))
    }

    fn peek(&self, log: &SlidingWindowLog, now: Instant, n: u32) -> Option<Decision> {
        let ring = self.ring(log);
        loop {
            let Some(look) = ring.look() else {
                return self.locked()?.peek(log, now, n);
            };
            let at = ring.span.at(now, look.newest);
            let free = ring.left(&look, at);
            let earliest = match n <= free || n > ring.count {
                true => now,
                false => ring.span.instant(ring.when(&look, at, n)),
            };
            if ring.is_at(&look) {
                return Some(ring.answer(&look, free, now, n, earliest));
            }
        }
    }

    fn charge(&self, log: &SlidingWindowLog, now: Instant, n: u32) -> Option<u32> {
        let ring = self.ring(log);
        loop {
            let Some(look) = ring.look() else {
                return self.locked()?.charge(log, now, n);
            };
            let at = ring.span.at(now, look.newest);
            let booked = n.min(ring.left(&look, at));
            let is_done = match booked {
                0 => ring.is_at(&look),
                _ => ring.claim(&look, at, booked).is_some(),
            };
            if is_done {
                return Some(booked);
            }
        }
    }

    fn refund(&self, log: &SlidingWindowLog, now: Instant, grant: u128, n: u32) -> Option<u32> {
        let ring = self.ring(log);
        loop {
            let Some(look) = ring.look() else {
                return self.locked()?.refund(log, now, grant, n);
            };
            let is_last = grant == u128::from(look.last);
            let is_out = look.last > ring.span.at(now, look.newest);
            // Of that moment, and not of the one before.
            let is_own = |n: &u32| {
                let index = ring.before(look.next, *n);
                ring.slot(index) == ring.stamp(index, look.last)
            };
            let given = (1..=n.min(ring.count)).rev().find(is_own);
            let given = given.filter(|_| is_last && is_out).unwrap_or(0);
            if ring.rewind(&look, given, look.newest) {
                return Some(given);
            }
        }
    }

    fn cancel(&self, log: &SlidingWindowLog, now: Instant, taken: Instant, n: u32) -> Option<u32> {
        match self.ring(log).look() {
            Some(_) => Some(0),
            None => self.locked()?.cancel(log, now, taken, n),
        }
    }

    fn reset(&self, log: &SlidingWindowLog, now: Instant) -> Option<()> {
        let ring = self.ring(log);
        loop {
            let Some(look) = ring.look() else {
                return self.locked()?.reset(log, now);
            };
            let at = ring.span.at(now, look.newest);
            let given = ring.count - ring.free(&look, at);
            if ring.rewind(&look, given, look.newest.max(ring.span.back(at))) {
                return Some(());
            }
        }
    }

    fn set_aside(&self, log: &SlidingWindowLog, mut successor: impl FnMut(&GrantLog)) {
        let ring = self.ring(log);
        while let Some(look) = ring.look() {
            let seen = ring.log(&look);
            if !ring.is_at(&look) {
                continue;
            }
            successor(&seen);
            if ring.exchange(look.word, ASIDE) {
                return;
            }
        }
        if let Some(locked) = self.locked() {
            locked.set_aside(log, successor);
        }
    }

    fn replace(&self, log: &SlidingWindowLog, state: GrantLog) {
        let ring = self.ring(log);
        if ring.count > Slots::MOST {
            self.slots.locked().replace(log, state);
            return self.head.store(LOCKED, Ordering::Relaxed);
        }
        self.slots.clear();
        let settled = ring.span.at(Instant::ZERO, state.newest);
        let (mut next, mut last) = (Index::new(0, 0), 0);
        for (back, permits) in state.runs().filter(|(back, _)| *back > settled) {
            for _ in 0..permits {
                self.slots.make(next.position());
                if let Some(place) = ring.place(next) {
                    place.store(ring.stamp(next, back), Ordering::Relaxed);
                }
                (next, last) = (ring.after(next, 1), back);
            }
        }
        if state.newest.saturating_sub(last) & ring.lost() != 0 {
            self.slots.raise_base(state.newest);
        }
        // Readers that find it by this word find what it stands for.
        self.head.store(ring.word(next, state.newest > last, 0, state.newest), Ordering::Release);
    }

    fn look<R>(&mut self, log: &SlidingWindowLog, look: impl FnOnce(&GrantLog) -> R) -> Option<R> {
        let ring = self.ring(log);
        match ring.look() {
            Some(seen) => Some(look(&ring.log(&seen))),
            None => self.locked()?.begin().map(|state| look(&state)),
        }
    }

    fn fresh_at(&mut self, log: &SlidingWindowLog) -> Option<Instant> {
        let ring = self.ring(log);
        match ring.look() {
            Some(look) => Some(ring.fresh_at(&look)),
            None => self.look(log, |state| log.fresh_at(state)),
        }
    }
}
