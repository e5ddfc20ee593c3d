use super::{Items, Nothing, Refused};
use crate::sync::Mutex;
use core::fmt;
use std::collections::VecDeque;

/// The items of a [`LockedLeakyQueue`](crate::LockedLeakyQueue), and their
/// release word, behind one mutex.
///
/// Every call is one step. A thread that is stopped while it has the lock holds
/// up everybody, one that is stopped elsewhere nobody. Nothing of yours runs
/// under the lock.
pub struct MutexItems<T>(Mutex<Contents<T>>);

struct Contents<T> {
    queue: VecDeque<T>,
    capacity: usize,
    release: u64,
    closed: bool,
}

impl<T> Contents<T> {
    fn outlook(&self) -> Nothing {
        match self.queue.is_empty() {
            false => Nothing::Before(self.release),
            true if self.closed => Nothing::Ever,
            true => Nothing::Now,
        }
    }
}

impl<T> fmt::Debug for MutexItems<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MutexItems(..)")
    }
}

impl<T> Items<T> for MutexItems<T> {
    fn with_capacity(capacity: usize) -> Self {
        let queue = VecDeque::with_capacity(capacity);
        Self(Mutex::new(Contents { queue, capacity, release: 0, closed: false }))
    }

    fn push(&self, item: T) -> Result<(), Refused<T>> {
        let mut contents = self.0.lock();
        if contents.closed {
            return Err(Refused::Closed(item));
        }
        if contents.queue.len() == contents.capacity {
            return Err(Refused::Full(item));
        }
        contents.queue.push_back(item);
        Ok(())
    }

    fn take(&self, claim: impl Fn(u64) -> Option<u64>) -> Result<(T, bool), Nothing> {
        let mut contents = self.0.lock();
        let Some(next) = claim(contents.release) else {
            return Err(contents.outlook());
        };
        let Some(item) = contents.queue.pop_front() else {
            return Err(contents.outlook());
        };
        contents.release = next;
        Ok((item, contents.closed && contents.queue.is_empty()))
    }

    fn outlook(&self) -> Nothing {
        self.0.lock().outlook()
    }

    fn drain(&self) -> Vec<T> {
        self.0.lock().queue.drain(..).collect()
    }

    fn len(&self) -> usize {
        self.0.lock().queue.len()
    }

    fn close(&self) {
        self.0.lock().closed = true;
    }

    fn is_closed(&self) -> bool {
        self.0.lock().closed
    }
}
