use super::Cell;
use crate::sync::{AtomicU64, Ordering};
use core::ops::{Deref, DerefMut};

/// One 64-bit word, changed by compare-exchange.
///
/// Lock-free: a thread may stop anywhere without holding up another, and a
/// failed exchange means that somebody else's succeeded. A step that leaves the
/// word as it was, as a refusal does, writes nothing.
///
/// # Orderings
///
/// Everything is relaxed. The word is the whole state: no other memory is
/// published through it, so there is nothing for a reader to acquire. That no
/// grant is lost or counted twice rests on the exchange alone, which acts on
/// the newest value of the word's single modification order; a load that is
/// behind makes a grant's exchange fail, and makes a refusal one that was right
/// when that value was written.
#[derive(Debug, Default)]
pub struct AtomicState(AtomicU64);

/// The word as it was read, and as it shall be.
#[derive(Debug)]
pub(crate) struct WordStep {
    seen: u64,
    next: u64,
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

    #[inline(always)]
    fn begin(&self) -> WordStep {
        let seen = self.0.load(Ordering::Relaxed);
        WordStep { seen, next: seen }
    }

    #[inline(always)]
    fn commit(&self, WordStep { seen, next }: WordStep) -> Result<(), WordStep> {
        if next == seen {
            return Ok(());
        }
        self.0
            .compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed)
            .map(drop)
            .map_err(|newer| WordStep { seen: newer, next: newer })
    }
}
