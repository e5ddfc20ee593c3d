use super::{Clock, Instant};
use crate::sync::{AtomicU64, Ordering};

/// A clock that never runs back: each reading is the highest so far.
///
/// Wrap a source that can step back in it, once, and share it: the highest
/// reading belongs to this value. After a step back time stands still until
/// the source has caught up.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clamped, Clock, Instant, ManualClock};
///
/// let source = ManualClock::new();
/// let clock = Clamped::new(source.clone());
/// source.set(Instant::from_nanos(100));
/// assert_eq!(clock.now(), Instant::from_nanos(100));
/// source.set(Instant::from_nanos(60)); // a step back
/// assert_eq!(clock.now(), Instant::from_nanos(100));
/// ```
///
/// # Orderings
///
/// `fetch_max` alone makes the readings of all threads one rising sequence:
/// it is a single modification order, and a reading that happens before
/// another is before it in that order. Nothing else is published, so it is
/// relaxed.
#[derive(Debug, Default)]
pub struct Clamped<C> {
    source: C,
    highest: AtomicU64,
}

impl<C: Clock> Clamped<C> {
    /// Clamps `source` to its highest reading.
    #[must_use]
    pub fn new(source: C) -> Self {
        Self { source, highest: AtomicU64::new(0) }
    }
}

impl<C: Clock> Clock for Clamped<C> {
    fn now(&self) -> Instant {
        let now = self.source.now();
        now.max(Instant(self.highest.fetch_max(now.0, Ordering::Relaxed)))
    }

    #[inline]
    fn is_built_in(&self) -> bool {
        self.source.is_built_in()
    }
}
