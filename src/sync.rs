//! The atomics and locks of the crate: the real ones, or those of a model
//! checker under `--cfg tollgate_loom` or `--cfg tollgate_shuttle`.

use core::time::Duration;

#[cfg(tollgate_loom)]
use loom as checker;
#[cfg(tollgate_shuttle)]
use shuttle as checker;

#[cfg(any(tollgate_loom, tollgate_shuttle))]
pub(crate) use checker::sync::atomic::{
    AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering, fence,
};
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(any(tollgate_loom, tollgate_shuttle))]
pub(crate) use checker::sync::MutexGuard;
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
pub(crate) use parking_lot::MutexGuard;

/// A mutex without poisoning.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(Raw<T>);

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
type Raw<T> = parking_lot::Mutex<T>;
#[cfg(any(tollgate_loom, tollgate_shuttle))]
type Raw<T> = checker::sync::Mutex<T>;

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Raw::new(value))
    }

    #[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
    #[inline(always)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }

    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A condition that sleeps no longer than it is told to; in a model, where no
/// time passes, as long as nobody rings.
#[derive(Debug, Default)]
pub(crate) struct Condvar(RawCondvar);

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
type RawCondvar = parking_lot::Condvar;
#[cfg(any(tollgate_loom, tollgate_shuttle))]
type RawCondvar = checker::sync::Condvar;

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(RawCondvar::new())
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    #[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
    pub(crate) fn wait<T>(&self, mut guard: MutexGuard<'_, T>, longest: Option<Duration>) {
        match longest {
            Some(longest) => drop(self.0.wait_for(&mut guard, longest)),
            None => self.0.wait(&mut guard),
        }
    }

    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    pub(crate) fn wait<T>(&self, guard: MutexGuard<'_, T>, _: Option<Duration>) {
        drop(self.0.wait(guard));
    }
}

/// A bounded queue. The real one takes no lock and is closed to the checker, so
/// in a model a locked one stands for it; but whether it is empty is read
/// without the lock, in the ordering in which the real one reads it, so that
/// the lock orders no more than it must.
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
pub(crate) use crossbeam_queue::ArrayQueue;

#[cfg(any(tollgate_loom, tollgate_shuttle))]
#[derive(Debug)]
pub(crate) struct ArrayQueue<T> {
    items: Mutex<std::collections::VecDeque<T>>,
    len: AtomicU64,
    capacity: usize,
}

#[cfg(any(tollgate_loom, tollgate_shuttle))]
impl<T> ArrayQueue<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        let items = Mutex::new(std::collections::VecDeque::new());
        Self { items, len: AtomicU64::new(0), capacity }
    }

    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let mut items = self.items.lock();
        if items.len() == self.capacity {
            return Err(item);
        }
        items.push_back(item);
        self.len.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    pub(crate) fn pop(&self) -> Option<T> {
        let mut items = self.items.lock();
        let item = items.pop_front()?;
        self.len.fetch_sub(1, Ordering::SeqCst);
        Some(item)
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::SeqCst) as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(any(tollgate_loom, tollgate_shuttle))]
pub(crate) use checker::thread::yield_now;
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
pub(crate) use std::thread::yield_now;

/// Numbers that are read whole while they may be replaced.
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
pub(crate) type Parameters<A> = crossbeam_utils::atomic::AtomicCell<A>;

#[cfg(any(tollgate_loom, tollgate_shuttle))]
#[derive(Debug)]
pub(crate) struct Parameters<A>(Mutex<A>);

#[cfg(any(tollgate_loom, tollgate_shuttle))]
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

/// Something that is made when it is first needed: of several that are made at
/// once, one is kept. Nobody waits for another to make it.
///
/// In a model it is there from the start, since the checker does not see how
/// threads would come by it.
#[derive(Debug)]
pub(crate) struct Lazy<T> {
    #[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
    value: once_cell::race::OnceBox<T>,
    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    value: T,
}

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
impl<T> Lazy<T> {
    pub(crate) fn new(_: impl FnOnce() -> T) -> Self {
        Self { value: once_cell::race::OnceBox::new() }
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.get()
    }

    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        self.value.get_or_init(|| Box::new(make()))
    }
}

#[cfg(any(tollgate_loom, tollgate_shuttle))]
impl<T> Lazy<T> {
    pub(crate) fn new(make: impl FnOnce() -> T) -> Self {
        Self { value: make() }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        Some(&self.value)
    }

    pub(crate) fn get_or_make(&self, _: impl FnOnce() -> T) -> &T {
        &self.value
    }
}
