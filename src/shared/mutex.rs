use super::Cell;
use crate::sync::{Mutex, MutexGuard};
use core::fmt::Debug;
use core::ops::{Deref, DerefMut};

/// Any state behind a mutex (`parking_lot`'s: one byte, no poisoning).
///
/// The lock is held for one pure step, never for a clock reading, a wait or
/// user code.
#[derive(Debug)]
pub struct MutexState<T>(Mutex<Held<T>>);

/// The flag costs a word beside a state of words: the lock's byte does not
/// share its padding.
#[derive(Debug)]
struct Held<T> {
    aside: bool,
    state: T,
}

/// The lock, held.
#[derive(Debug)]
pub(crate) struct LockedStep<'a, T>(MutexGuard<'a, Held<T>>);

impl<T> Deref for LockedStep<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0.state
    }
}

impl<T> DerefMut for LockedStep<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.state
    }
}

impl<T: Debug + Send> Cell for MutexState<T> {
    type State = T;
    type Step<'a>
        = LockedStep<'a, T>
    where
        T: 'a;

    fn holding(state: T) -> Self {
        Self(Mutex::new(Held { aside: false, state }))
    }

    #[inline(always)]
    fn begin(&self) -> Option<LockedStep<'_, T>> {
        let held = self.0.lock();
        if held.aside { None } else { Some(LockedStep(held)) }
    }

    #[inline(always)]
    fn commit<'a>(&'a self, step: LockedStep<'a, T>) -> Result<(), Option<LockedStep<'a, T>>> {
        drop(step);
        Ok(())
    }

    fn retire<'a>(&'a self, mut step: LockedStep<'a, T>) -> Result<(), Option<LockedStep<'a, T>>> {
        step.0.aside = true;
        Ok(())
    }

    fn set(&self, state: T) {
        *self.0.lock() = Held { aside: false, state };
    }
}
