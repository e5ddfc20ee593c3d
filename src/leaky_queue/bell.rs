use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, fence};
use core::time::Duration;

/// Where consumers sleep until there is news.
///
/// # Orderings
///
/// Who may sleep counts itself, then looks; who has news makes it, then looks
/// at the count. A sequentially consistent fence between the two steps of each
/// lets at least one see the other. A bell that is rung for a sleeper takes the
/// lock first, which the sleeper has held since before it looked and gives up
/// only by falling asleep.
#[derive(Debug)]
pub(super) struct Bell {
    /// Those who wait for an item, not just for its time.
    sleepers: AtomicU64,
    lock: Mutex<()>,
    news: Condvar,
}

impl Bell {
    pub(super) fn new() -> Self {
        Self { sleepers: AtomicU64::new(0), lock: Mutex::new(()), news: Condvar::new() }
    }

    /// Wakes those who wait for an item. Takes the lock only if there are any.
    #[inline]
    pub(super) fn ring_for_item(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.ring();
        }
    }

    /// Wakes everybody.
    pub(super) fn ring(&self) {
        drop(self.lock.lock());
        self.news.notify_all();
    }

    /// From here to falling asleep no news is missed.
    pub(super) fn watch(&self) -> Watch<'_> {
        let lock = self.lock.lock();
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Watch { sleeper: Sleeper(self), lock }
    }
}

pub(super) struct Watch<'a> {
    lock: MutexGuard<'a, ()>,
    sleeper: Sleeper<'a>,
}

impl Watch<'_> {
    /// Sleeps until the bell is rung, or for so long.
    pub(super) fn sleep(self, longest: Option<Duration>) {
        let Self { lock, sleeper } = self;
        sleeper.0.news.wait(lock, longest);
    }

    /// Sleeps for so long, if nobody rings for everybody.
    pub(super) fn sleep_on(self, longest: Duration) {
        let Self { lock, sleeper } = self;
        let bell = sleeper.0;
        drop(sleeper);
        bell.news.wait(lock, Some(longest));
    }
}

/// One that is counted.
struct Sleeper<'a>(&'a Bell);

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.0.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}
