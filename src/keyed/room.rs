//! How many keys there may be, and what becomes of those there is no room for.

use super::KeyedRateLimiter;
use super::own::Own;
use crate::algorithm::Algorithm;
use crate::clock::{Clock, Instant};
use crate::error::ConfigError;
use crate::sync::{AtomicU64, Mutex, Ordering};
use core::hash::{BuildHasher, Hash};

/// The keys that a call looks at when there is no room, if no part holds more.
const INSPECTED: usize = 64;

/// What a keyed limiter does with a new key when it holds as many as it may
/// ([`with_max_keys`](KeyedRateLimiter::with_max_keys)) and none of them can be
/// forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WhenFull {
    /// Refuses it; see [`Decision::is_full`](crate::Decision::is_full).
    Refuse,
    /// Decides by one state that all new keys share, as though they were one.
    Share,
}

/// The places for keys. The count is relaxed: each change of it is one
/// read-modify-write, and nothing is published by it.
#[derive(Debug)]
pub(super) struct Room<A: Algorithm> {
    /// How many keys there may be, if that is bounded.
    max: Option<u64>,
    /// How many there are, if so.
    taken: AtomicU64,
    overflow: Option<Mutex<Own<A>>>,
}

impl<A: Algorithm> Default for Room<A> {
    fn default() -> Self {
        Self { max: None, taken: AtomicU64::new(0), overflow: None }
    }
}

/// A place that has been taken, and is given up unless it is kept: also if the
/// making of a key panics.
pub(super) struct Place<'a, A: Algorithm>(&'a Room<A>);

impl<A: Algorithm> Place<'_, A> {
    pub(super) fn keep(self) {
        core::mem::forget(self);
    }
}

impl<A: Algorithm> Drop for Place<'_, A> {
    fn drop(&mut self) {
        self.0.give_up(1);
    }
}

impl<A: Algorithm> Room<A> {
    /// The same room without the keys.
    pub(super) fn emptied(self) -> Self {
        Self { taken: AtomicU64::new(0), ..self }
    }

    /// Takes a place if there is one.
    fn take(&self) -> bool {
        let Some(max) = self.max else {
            return true;
        };
        let more = |taken| (taken < max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(super) fn give_up(&self, places: usize) {
        if self.max.is_some() {
            self.taken.fetch_sub(places as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn taken(&self) -> Option<usize> {
        self.max.map(|_| self.taken.load(Ordering::Relaxed) as usize)
    }

    pub(super) fn is_full(&self) -> bool {
        self.max.is_some_and(|max| self.taken.load(Ordering::Relaxed) >= max)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.overflow.is_some()
    }

    pub(super) fn overflow<R>(&self, work: impl FnOnce(&mut Own<A>) -> R) -> Option<R> {
        self.overflow.as_ref().map(|own| work(&mut own.lock()))
    }
}

impl<K: Eq + Hash, A: Algorithm, C: Clock, S: BuildHasher> KeyedRateLimiter<K, A, C, S> {
    /// The same limiter, never holding more than `max` keys. A key that is
    /// still limited is not forgotten to make room for another.
    ///
    /// When all places are taken, a new key makes the call look for keys that
    /// are as good as unused, in turn, in parts where there may be any. It
    /// looks through one part or 64 keys, whichever is more: where it gives up,
    /// the next call goes on. Looking takes no place, so a
    /// [`peek`](Self::peek) tells a new key what it will be told when there is
    /// one. A place counts as taken while a call is about to take it.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Zero`] for no keys at all.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedRateLimiter, ManualClock, WhenFull, limit};
    ///
    /// let clock = ManualClock::new();
    /// let limiter: KeyedRateLimiter<String, _, _> =
    ///     KeyedRateLimiter::with_clock(limit!("1/s"), clock.clone())
    ///         .with_max_keys(1, WhenFull::Refuse)?;
    /// assert!(limiter.try_acquire("alice").is_granted());
    /// let refused = limiter.try_acquire("bob");
    /// assert!(refused.is_full());
    /// clock.advance(refused.retry_after().unwrap());
    /// assert!(limiter.try_acquire("bob").is_granted());
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    pub fn with_max_keys(mut self, max: usize, when_full: WhenFull) -> Result<Self, ConfigError> {
        if max == 0 {
            return Err(ConfigError::Zero("max_keys"));
        }
        self.room.taken = AtomicU64::new(self.len() as u64);
        self.room.max = Some(max as u64);
        let era = self.versions.era();
        let since = self.versions.after_change(Instant::ZERO);
        let shared = || Mutex::new(Own::new(self.algorithm(), era, since));
        self.room.overflow = (when_full == WhenFull::Share).then(shared);
        Ok(self)
    }

    /// No key can be forgotten before.
    pub(super) fn room_from(&self) -> Instant {
        self.map.parts().iter().map(|part| part.about.fresh_from()).min().unwrap_or(Instant::MAX)
    }

    /// Counts one more key, if there is room or can be made.
    pub(super) fn reserve(&self, now: Instant) -> Option<Place<'_, A>> {
        while !self.room.take() {
            if !self.make_room(now) {
                return None;
            }
        }
        Some(Place(&self.room))
    }

    /// Forgets a key, if there is one to be found.
    fn make_room(&self, now: Instant) -> bool {
        let mut inspected = 0;
        for _ in self.map.parts() {
            let part = self.next_part();
            if part.about.fresh_from() > now {
                continue;
            }
            inspected += part.about.len();
            if self.sweep_part(part, now, now) > 0 {
                return true;
            }
            if inspected >= INSPECTED {
                return false;
            }
        }
        false
    }
}
