//! Replacing a limiter's parameters while others decide by them.
//!
//! ```text
//! generation    0            1             2             3
//! place       first       slot 1        slot 0        slot 1
//!               |  set aside ^ | set aside ^ | set aside ^
//!               +------------+ +-----------+ +-----------+
//! ```
//!
//! Each generation is a set of parameters and the state that goes with it. A
//! change makes the next one ready in the slot that nobody uses and sets the
//! present state aside in the same step ([`Shared::set_aside`]): up to that
//! step every decision was made by the old parameters, from it on by the new.
//! Who finds a state aside goes on to the next generation, and publishes it if
//! the thread that made the change has not come to it yet. So no decision ever
//! waits for a change, and a limiter that was never changed pays nothing.
//!
//! A slot is used again two changes later. Until then a slow reader may still
//! be in it, so readers are counted, and a change waits for those of the
//! generation before the present one.
//!
//! # Orderings
//!
//! * A reader counts itself and then looks whether its generation is still
//!   current; a change looks whether readers are counted, long after another
//!   generation has become current. Both count by a read-modify-write that
//!   acquires and releases, so one comes first: either the change sees the
//!   reader, or the reader sees what the change has done before.
//! * The end of a read releases, so that what was read is not overwritten
//!   before.
//! * Making a generation current releases it to those who come to it that way.
//! * Setting a state aside releases the slot that succeeds it (see
//!   [`AtomicState`](crate::AtomicState)).

use crate::algorithm::Algorithm;
use crate::clock::Instant;
use crate::decision::Era;
use crate::shared::Shared;
use crate::sync::{AtomicU64, Mutex, Ordering, Parameters, yield_now};
use crate::verb::{Peek, Verb};
use crossbeam_utils::CachePadded;

#[derive(Debug)]
pub(crate) struct Generations<A: Algorithm> {
    /// Zero is not here: the parameters and state a limiter was made with.
    current: AtomicU64,
    slots: [CachePadded<Slot<A>>; 2],
    /// Held while parameters change, and when they last did.
    changing: Mutex<Instant>,
}

#[derive(Debug)]
struct Slot<A: Algorithm> {
    parameters: Parameters<A>,
    state: A::Shared,
    readers: AtomicU64,
}

impl<A: Algorithm> Generations<A> {
    /// Ready for the first change of a limiter with the parameters `first`, which
    /// has counted since `start`.
    pub(crate) fn after(first: &A, start: Instant) -> Self {
        let slot = || {
            CachePadded::new(Slot {
                parameters: Parameters::new(*first),
                state: A::Shared::new(first, first.unseen()),
                readers: AtomicU64::new(0),
            })
        };
        Self { current: AtomicU64::new(0), slots: [slot(), slot()], changing: Mutex::new(start) }
    }

    fn slot(&self, generation: u64) -> &Slot<A> {
        &self.slots[(generation & 1) as usize]
    }

    /// The parameters of the newest generation, unless that is the first.
    pub(crate) fn parameters(&self) -> Option<A> {
        if self.current.load(Ordering::Acquire) == 0 {
            None
        } else {
            Some(self.call(Present, Instant::ZERO, 0))
        }
    }

    /// Calls with the present generation, or with the next if the state has
    /// been set aside. The first is aside.
    pub(crate) fn call<V: Verb<A>>(&self, verb: V, now: Instant, cancels: u32) -> V::Answer {
        loop {
            let generation = self.current.load(Ordering::Acquire);
            let mut answer = None;
            if generation > 0 {
                let slot = self.slot(generation);
                slot.readers.fetch_add(1, Ordering::AcqRel);
                let is_current = self.current.load(Ordering::Acquire) == generation;
                if is_current {
                    let era = Era::new(generation as u32, cancels);
                    answer = verb.call(&slot.parameters.load(), &slot.state, now, era);
                }
                slot.readers.fetch_sub(1, Ordering::Release);
                if !is_current {
                    continue;
                }
            }
            match answer {
                Some(answer) => return answer,
                None => self.publish(generation),
            }
        }
    }

    /// Ends a generation whose state is aside.
    fn publish(&self, generation: u64) {
        // That it fails says that somebody else has done it.
        let _ = self.current.compare_exchange(
            generation,
            generation + 1,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }

    /// Replaces the parameters, at `now` or when they were last replaced: time
    /// that steps back, or a reading that comes late, brings no supply twice.
    /// `first` is the first generation.
    pub(crate) fn change(&self, first: (&A, &A::Shared), mut new: A, now: Instant) {
        let mut changed_at = self.changing.lock();
        let now = now.max(*changed_at);
        *changed_at = now;
        let generation = self.current.load(Ordering::Acquire);
        let (old, state) = match generation {
            0 => (*first.0, first.1),
            _ => (self.slot(generation).parameters.load(), &self.slot(generation).state),
        };
        let next = self.slot(generation + 1);
        while next.readers.fetch_add(0, Ordering::AcqRel) > 0 {
            yield_now();
        }
        new.resume(&old, now);
        next.parameters.store(new);
        state.set_aside(&old, |state| next.state.replace(&new, new.carry(&old, state, now)));
        self.publish(generation);
    }
}

/// Reads the parameters.
struct Present;

impl<A: Algorithm> Verb<A> for Present {
    type Answer = A;

    fn call(&self, algorithm: &A, state: &A::Shared, now: Instant, era: Era) -> Option<A> {
        Peek(0).call(algorithm, state, now, era).map(|_| *algorithm)
    }
}
