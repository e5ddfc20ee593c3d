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
use crate::algorithm::{Algorithm, Report, SlidingWindowLog};
use crate::clock::Instant;
use crate::decision::{Decision, answer};
use crate::sync::{AtomicU64, Ordering};
use slots::Slots;

mod slots;

/// The state of a [`SlidingWindowLog`]: a ring of come-back times, without a lock.
/// Who comes while a grant is not written down yet writes it down for its owner.
///
/// * **Memory:** 24 bytes; 80 more for up to eight permits that are out at once,
///   and 112 and doubling segments of 8 bytes a permit beyond, less than 16 bytes
///   times the count in all. A log that is all back begins again with what it
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

/// Bits of the head that count how often it has been moved back.
const TURNS: u32 = 16;
const TURNS_MASK: u64 = (1 << TURNS) - 1;

/// A place in the ring, and in which of two laps: `position << 1 | lap`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Index(u32);

impl Index {
    #[inline(always)]
    fn new(position: u32, lap: u64) -> Self {
        Self(position << 1 | lap as u32)
    }

    #[inline(always)]
    fn position(self) -> u32 {
        self.0 >> 1
    }

    #[inline(always)]
    fn lap(self) -> u64 {
        u64::from(self.0 & 1)
    }
}

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

/// What the head said, and the newest permit.
#[derive(Clone, Copy)]
struct Look {
    word: u64,
    /// What is claimed next.
    next: Index,
    /// Whether what lies ahead may be of this lap, given back, and the newest
    /// time later than that of the newest permit.
    rewound: bool,
    /// The latest come-back time of all.
    newest: u64,
    /// An earlier one, from which its lower bits in the head tell it.
    floor: u64,
    /// When the newest permit that is out comes back.
    last: u64,
}

/// What a claim has come to: when its permits come back.
struct Claimed(u64);

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
            } else if let Some(Claimed(back)) = ring.claim(&look, at, n) {
                let look = Look { last: back, ..look };
                let answer = ring.answer(&look, free - n, now, n, now);
                return Some(answer.taking(n, back.into()));
            }
        }
    }
}

impl<'a> Ring<'a> {
    #[inline(always)]
    fn after(&self, index: Index, n: u32) -> Index {
        let position = index.position() + n;
        match position.checked_sub(self.count) {
            Some(position) => Index::new(position, index.lap() ^ 1),
            None => Index::new(position, index.lap()),
        }
    }

    #[inline(always)]
    fn before(&self, index: Index, n: u32) -> Index {
        match index.position().checked_sub(n) {
            Some(position) => Index::new(position, index.lap()),
            None => Index::new(index.position() + self.count - n, index.lap() ^ 1),
        }
    }

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

    // --------------------------------------------------------------- head

    #[inline(always)]
    fn word(&self, next: Index, rewound: bool, turn: u64, newest: u64) -> u64 {
        let time = newest << (self.width + 1 + TURNS) | turn << (self.width + 1);
        time | u64::from(rewound) << self.width | u64::from(next.0)
    }

    /// How often the head has been moved back.
    #[inline(always)]
    fn turn(&self, word: u64) -> u64 {
        word >> (self.width + 1) & TURNS_MASK
    }

    #[inline(always)]
    fn next(&self, word: u64) -> Index {
        Index((word & ((1 << self.width) - 1)) as u32)
    }

    #[inline(always)]
    fn is_rewound(&self, word: u64) -> bool {
        word >> self.width & 1 == 1
    }

    /// The bits of a time that the head has no room for.
    #[inline(always)]
    fn lost(&self) -> u64 {
        !(u64::MAX >> (self.width + 1 + TURNS))
    }

    /// The time that a head means, of which it has the lower bits.
    fn time(&self, word: u64, floor: u64) -> u64 {
        let gap = (word >> (self.width + 1 + TURNS)).wrapping_sub(floor) & !self.lost();
        let time = floor + gap;
        match self.state.slots.base().checked_sub(time) {
            Some(late) => time + (late & self.lost()),
            None => time,
        }
    }

    #[inline(always)]
    fn is_at(&self, look: &Look) -> bool {
        self.state.head.load(Ordering::Relaxed) == look.word
    }

    fn look(&self) -> Option<Look> {
        loop {
            let word = self.state.head.load(Ordering::Acquire);
            if word >= LOCKED {
                return None;
            }
            let (next, rewound) = (self.next(word), self.is_rewound(word));
            let top = self.before(next, 1);
            let slot = self.slot(top);
            let floor = slot >> 1;
            let is_stamped = slot & 1 == top.lap();
            if rewound {
                let last = if is_stamped { floor } else { 0 };
                let newest = self.time(word, floor);
                let look = Look { word, next, rewound, newest, floor, last };
                // Or the time may be one that has never been.
                if self.is_at(&look) {
                    return Some(look);
                }
                continue;
            }
            if is_stamped {
                return Some(Look { word, next, rewound, newest: floor, floor, last: floor });
            }
            self.finish(word, top);
        }
    }

    /// Stamps the newest claim up to `top`, for whoever has made it.
    #[cold]
    fn finish(&self, word: u64, top: Index) {
        let (mut first, mut floor) = (top, self.slot(top) >> 1);
        for n in 0..self.count {
            let index = self.before(top, n);
            let slot = self.slot(index);
            if slot & 1 == index.lap() {
                floor = slot >> 1;
                break;
            }
            first = index;
        }
        let back = self.time(word, floor);
        let mut index = first;
        loop {
            // Read before the head is: if that has not moved, this is no stamp of
            // a later claim.
            let slot = self.slot(index);
            if self.state.head.load(Ordering::Relaxed) != word {
                return;
            }
            if slot & 1 != index.lap()
                && let Some(place) = self.place(index)
            {
                let stamp = self.stamp(index, back);
                let _ = place.compare_exchange(slot, stamp, Ordering::Release, Ordering::Relaxed);
            }
            if index == top {
                return;
            }
            index = self.after(index, 1);
        }
    }

    /// Moves the head on, unless others have moved it. `floor` is what the next
    /// look will tell the time from.
    fn advance(&self, look: &Look, next: Index, rewound: bool, newest: u64, floor: u64) -> bool {
        self.move_head(look, (next, rewound, self.turn(look.word), newest), floor)
    }

    fn move_head(
        &self,
        look: &Look,
        (next, rewound, turn, newest): (Index, bool, u64, u64),
        floor: u64,
    ) -> bool {
        if newest.saturating_sub(floor) & self.lost() != 0 {
            // What was read together may be told from a time that has never been.
            if !self.is_at(look) {
                return false;
            }
            self.state.slots.raise_base(newest);
        }
        self.exchange(look.word, self.word(next, rewound, turn, newest))
    }

    #[inline(always)]
    fn exchange(&self, seen: u64, new: u64) -> bool {
        let head = &self.state.head;
        head.compare_exchange(seen, new, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    // ------------------------------------------------------------ looking

    /// Whether a permit can be had that lies ahead.
    fn is_free(&self, look: &Look, index: Index, at: u64) -> bool {
        let slot = self.slot(index);
        slot >> 1 <= at || look.rewound && slot & 1 == index.lap()
    }

    /// How many permits can be had.
    fn left(&self, look: &Look, at: u64) -> u32 {
        self.free(look, at).saturating_sub(self.log.lacking(at))
    }

    /// How many are not out.
    fn free(&self, look: &Look, at: u64) -> u32 {
        if look.last <= at { self.count } else { self.search(look, at) }
    }

    /// The same, if it is where it was or one further.
    #[inline(always)]
    fn free_near(&self, next: Index, at: u64) -> Option<u32> {
        let hint = Index(self.state.slots.hint());
        let free = self.distance(next, hint);
        if free == 0 || free >= self.count {
            return None;
        }
        let is_free = |index| self.slot(index) >> 1 <= at;
        if !is_free(hint) {
            return is_free(self.before(hint, 1)).then_some(free);
        }
        let hint = self.after(hint, 1);
        if is_free(hint) || free + 1 == self.count {
            return None;
        }
        self.state.slots.set_hint(hint.0);
        Some(free + 1)
    }

    /// How far ahead an index is; anything, if it is not.
    #[inline(always)]
    fn distance(&self, from: Index, to: Index) -> u32 {
        let laps = if to.lap() == from.lap() { 0 } else { self.count };
        (to.position() + laps).wrapping_sub(from.position())
    }

    #[inline(never)]
    fn search(&self, look: &Look, at: u64) -> u32 {
        let near = self.distance(look.next, Index(self.state.slots.hint()));
        // The newest permit is out.
        let free =
            boundary(near, self.count - 1, |n| self.is_free(look, self.after(look.next, n), at));
        self.state.slots.set_hint(self.after(look.next, free).0);
        free
    }

    /// When `n` permits can be had.
    fn when(&self, look: &Look, at: u64, n: u32) -> u64 {
        self.log.when(at, n, |n| {
            let last = self.after(look.next, n - 1);
            if self.is_free(look, last, at) { 0 } else { self.slot(last) >> 1 }
        })
    }

    /// The answer to a call for `n` permits, which can be had at `earliest`.
    fn answer(&self, look: &Look, free: u32, now: Instant, n: u32, earliest: Instant) -> Decision {
        answer(self.report(free, self.fresh_at(look)), now, n, earliest)
    }

    #[inline(always)]
    fn report(&self, remaining: u32, reset_at: Instant) -> Report {
        Report { limit: self.count, remaining, reset_at, index: 0 }
    }

    fn fresh_at(&self, look: &Look) -> Instant {
        self.span.instant(look.last.max(self.settled(look)))
    }

    /// The time of the newest grant.
    fn settled(&self, look: &Look) -> u64 {
        self.span.at(Instant::ZERO, look.newest)
    }

    /// The log that the ring stands for.
    fn log(&self, look: &Look) -> GrantLog {
        let out = self.count - self.free(look, self.settled(look));
        let mut log = GrantLog::with_newest(look.newest);
        for n in (1..=out).rev() {
            log.push(self.slot(self.before(look.next, n)) >> 1, 1);
        }
        log
    }

    // ------------------------------------------------------------- taking

    /// Takes `n` permits that can be had, unless others have moved the head.
    fn claim(&self, look: &Look, at: u64, n: u32) -> Option<Claimed> {
        let (next, back) = (self.after(look.next, n), self.span.back(at));
        let furthest = (look.next.position() + n).min(self.count) - 1;
        if self.state.slots.get(furthest).is_none() {
            return self.make_room(look, at, furthest, n);
        }
        if look.rewound {
            return self.claim_again(look, next, back, n);
        }
        self.advance(look, next, false, back, look.floor).then(|| {
            self.stamp_all(look.next, n, back);
            Claimed(back)
        })
    }

    /// The last of them last: that it is stamped says that all are. A maximum,
    /// since another may have stamped, and others claimed, since.
    fn stamp_all(&self, first: Index, n: u32, back: u64) {
        for n in 0..n {
            let index = self.after(first, n);
            if let Some(place) = self.place(index) {
                place.fetch_max(self.stamp(index, back), Ordering::Release);
            }
        }
    }

    /// Has the caller look again, with room for `n`.
    #[cold]
    fn make_room(&self, look: &Look, at: u64, furthest: u32, n: u32) -> Option<Claimed> {
        let used = look.next.position();
        // Where all is back, the places that there are will do.
        if look.last <= at && used > 0 && self.state.slots.get(n - 1).is_some() {
            // At this time, or an earlier reading would have it too.
            self.rewind(look, used, self.span.back(at));
        } else {
            self.state.slots.make(furthest);
        }
        None
    }

    /// Claims what may have been given back.
    ///
    /// The time in the head first, so that nobody claims at an earlier one what is
    /// raised to it. The slots next, so that the claim finds those of this lap
    /// with the time that it needs.
    #[cold]
    fn claim_again(&self, look: &Look, next: Index, back: u64, n: u32) -> Option<Claimed> {
        if back > look.newest {
            self.advance(look, look.next, true, back, look.floor);
            return None;
        }
        for n in 0..n {
            let index = self.after(look.next, n);
            let (slot, stamp) = (self.slot(index), self.stamp(index, back));
            if slot & 1 != index.lap() {
                break;
            }
            if slot < stamp {
                self.place(index)?
                    .compare_exchange(slot, stamp, Ordering::Release, Ordering::Relaxed)
                    .ok()?;
            }
        }
        // What was given back lies together.
        let rewound = n < self.count && self.slot(next) & 1 == next.lap();
        self.advance(look, next, rewound, back, look.floor).then(|| {
            self.stamp_all(look.next, n, back);
            Claimed(back)
        })
    }

    /// Gives the newest `n` permits back, unless others have moved the head.
    fn rewind(&self, look: &Look, n: u32, newest: u64) -> bool {
        if n == 0 && newest == look.newest {
            return self.is_at(look);
        }
        let next = self.before(look.next, n);
        let floor = self.slot(self.before(next, 1)) >> 1;
        let turn = (self.turn(look.word) + 1) & TURNS_MASK;
        self.move_head(look, (next, true, turn, newest), floor)
    }
}

/// The first of so many that is not free, if all before it are: looked for from
/// `near` in ever longer steps.
fn boundary(near: u32, len: u32, is_free: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, len);
    let (mut probe, mut step) = (near.min(len.saturating_sub(1)), 0);
    while low < high {
        if is_free(probe) {
            low = probe + 1;
        } else {
            high = probe;
        }
        probe = if high == len {
            (low + step).min(high.saturating_sub(1))
        } else if low == 0 {
            high.saturating_sub(1 + step)
        } else {
            low + (high - low) / 2
        };
        step = 2 * step + 1;
    }
    low
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
