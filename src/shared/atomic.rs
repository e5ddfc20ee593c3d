use super::Cell;
use crate::sync::{AtomicU64, Ordering, fence};
use core::ops::{Deref, DerefMut};

/// One 64-bit word, changed by compare-exchange.
///
/// Lock-free: a thread may stop anywhere without holding up another, and a
/// failed exchange means that somebody else's succeeded. A step that leaves the
/// word as it was, as a refusal does, writes nothing. `u64::MAX` is no state:
/// it says that the state has been set aside.
///
/// # Orderings
///
/// Decisions are relaxed. The word is the whole state: no other memory is
/// published through it, so there is nothing for a reader to acquire. That no
/// grant is lost or counted twice rests on the exchange alone, which acts on
/// the newest value of the word's single modification order; a load that is
/// behind makes a grant's exchange fail, and makes a refusal one that was right
/// when that value was written.
///
/// Setting it aside is the exception, since it sends readers elsewhere: its
/// exchange releases what has been made ready there, and who finds the word
/// aside acquires that by a fence.
#[derive(Debug)]
pub struct AtomicState(AtomicU64);

const ASIDE: u64 = u64::MAX;

/// The word as it was read, and as it shall be.
#[derive(Debug)]
pub(crate) struct WordStep {
    seen: u64,
    next: u64,
}

impl WordStep {
    #[inline(always)]
    fn at(seen: u64) -> Option<Self> {
        if seen == ASIDE { Self::aside() } else { Some(Self { seen, next: seen }) }
    }

    #[cold]
    fn aside() -> Option<Self> {
        fence(Ordering::Acquire);
        None
    }
}

impl Deref for WordStep {
    type Target = u64;

    #[inline(always)]
    fn deref(&self) -> &u64 {
        &self.next
    }
}

impl DerefMut for WordStep {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut u64 {
        &mut self.next
    }
}

impl Cell for AtomicState {
    type State = u64;
    type Step<'a> = WordStep;

    fn holding(word: u64) -> Self {
        Self(AtomicU64::new(word))
    }

    #[inline(always)]
    fn begin(&self) -> Option<WordStep> {
        WordStep::at(self.0.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn commit(&self, WordStep { seen, next }: WordStep) -> Result<(), Option<WordStep>> {
        if next == seen {
            return Ok(());
        }
        self.0
            .compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed)
            .map(drop)
            .map_err(WordStep::at)
    }

    fn retire(&self, WordStep { seen, .. }: WordStep) -> Result<(), Option<WordStep>> {
        self.0
            .compare_exchange(seen, ASIDE, Ordering::Release, Ordering::Relaxed)
            .map(drop)
            .map_err(WordStep::at)
    }

    fn set(&self, word: u64) {
        self.0.store(word, Ordering::Relaxed);
    }
}
