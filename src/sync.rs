//! The atomics and locks of the crate: the real ones, or those of the model
//! checker under `--cfg tollgate_loom`.

#[cfg(not(tollgate_loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(tollgate_loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

#[cfg(tollgate_loom)]
pub(crate) use loom::sync::MutexGuard;
#[cfg(not(tollgate_loom))]
pub(crate) use parking_lot::MutexGuard;

/// A mutex without poisoning.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(Raw<T>);

#[cfg(not(tollgate_loom))]
type Raw<T> = parking_lot::Mutex<T>;
#[cfg(tollgate_loom)]
type Raw<T> = loom::sync::Mutex<T>;

impl<T> Mutex<T> {
    #[cfg(not(tollgate_loom))]
    #[inline(always)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }

    #[cfg(tollgate_loom)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
