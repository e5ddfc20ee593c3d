use super::Cell;
use crate::sync::{Mutex, MutexGuard};
use core::fmt::Debug;

/// Any state behind a mutex (`parking_lot`'s: one byte, no poisoning).
///
/// The lock is held for one pure step, never for a clock reading, a wait or
/// user code.
#[derive(Debug, Default)]
pub struct MutexState<T>(Mutex<T>);

impl<T: Default + Debug + Send> Cell for MutexState<T> {
    type State = T;
    type Step<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;

    #[inline(always)]
    fn begin(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }

    #[inline(always)]
    fn commit<'a>(&'a self, step: MutexGuard<'a, T>) -> Result<(), MutexGuard<'a, T>> {
        drop(step);
        Ok(())
    }
}
