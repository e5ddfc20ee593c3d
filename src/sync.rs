//! The atomics and locks of the crate: the real ones, or those of the model
//! checker under `--cfg tollgate_loom`.

#[cfg(not(tollgate_loom))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(tollgate_loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

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
    pub(crate) fn new(value: T) -> Self {
        Self(Raw::new(value))
    }

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

#[cfg(tollgate_loom)]
pub(crate) use loom::thread::yield_now;
#[cfg(not(tollgate_loom))]
pub(crate) use std::thread::yield_now;

/// Numbers that are read whole while they may be replaced.
#[cfg(not(tollgate_loom))]
pub(crate) type Parameters<A> = crossbeam_utils::atomic::AtomicCell<A>;

#[cfg(tollgate_loom)]
#[derive(Debug)]
pub(crate) struct Parameters<A>(Mutex<A>);

#[cfg(tollgate_loom)]
impl<A: Copy> Parameters<A> {
    pub(crate) fn new(parameters: A) -> Self {
        Self(Mutex::new(parameters))
    }

    pub(crate) fn load(&self) -> A {
        *self.0.lock()
    }

    pub(crate) fn store(&self, parameters: A) {
        *self.0.lock() = parameters;
    }
}

/// Something that is made when it is first needed; in a model, where no thread
/// may find what another has made by ways that the checker does not see, before.
#[derive(Debug)]
pub(crate) struct Lazy<T> {
    #[cfg(not(tollgate_loom))]
    value: std::sync::OnceLock<Box<T>>,
    #[cfg(tollgate_loom)]
    value: T,
}

impl<T> Lazy<T> {
    #[cfg_attr(not(tollgate_loom), allow(unused_variables, reason = "made later"))]
    pub(crate) fn new(make: impl FnOnce() -> T) -> Self {
        Self {
            #[cfg(not(tollgate_loom))]
            value: std::sync::OnceLock::new(),
            #[cfg(tollgate_loom)]
            value: make(),
        }
    }

    #[cfg(not(tollgate_loom))]
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.get().map(|value| &**value)
    }

    #[cfg(tollgate_loom)]
    pub(crate) fn get(&self) -> Option<&T> {
        Some(&self.value)
    }

    #[cfg(not(tollgate_loom))]
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        self.value.get_or_init(|| Box::new(make()))
    }

    #[cfg(tollgate_loom)]
    pub(crate) fn get_or_make(&self, _: impl FnOnce() -> T) -> &T {
        &self.value
    }
}
