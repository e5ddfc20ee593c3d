//! The map, behind the few calls that a keyed limiter needs.
//!
//! Each part is a `DashMap` of one shard in use, so that a key is hashed once,
//! a part can be swept, shrunk or flipped to new parameters under one hold of
//! its lock, and what belongs to a part can be kept beside it. More parts would
//! make the longest such hold shorter, and look-ups slower, since locks and
//! tables then do not stay in the nearest cache (128: 22 ns, 256: 24 ns at ten
//! thousand keys).
//!
//! The lock lets readers pass writers that wait, so that one key in great demand
//! could keep others from being added for seconds. A [`Gate`] in front of it
//! makes readers wait while a writer does.
//!
//! What runs under a part's lock: hashing, comparing and dropping of keys, and
//! the pure `work` that is passed in. Nothing here calls another map operation.

#[cfg(tollgate_shuttle)]
mod model;

use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use core::hash::{BuildHasher, Hash};
#[cfg(not(tollgate_shuttle))]
use dashmap::DashMap;
use dashmap::SharedValue;
#[cfg(tollgate_shuttle)]
use model::DashMap;
use std::sync::Arc;

/// A power of two. In a model each part takes steps of its own.
const PARTS: usize = if cfg!(tollgate_shuttle) { 2 } else { 128 };

pub(crate) struct Map<K, V, S, P = Gate> {
    parts: Box<[Part<K, V, S, P>]>,
    hasher: Arc<S>,
}

/// Some of the keys, and what is kept about them together, in one cache line.
#[repr(align(64))]
pub(crate) struct Part<K, V, S, P> {
    pub(crate) entries: DashMap<K, V, SharedHasher<S>>,
    pub(crate) about: P,
}

/// What lets a writer come to its turn. Taken only by writers, and by readers
/// while a writer waits.
///
/// Relaxed: who misses the sign is only one more reader that passes.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    writer: Mutex<()>,
    is_closed: AtomicBool,
}

/// A writer's turn, while it gets the lock.
pub(crate) struct Turn<'a> {
    gate: &'a Gate,
    _writer: MutexGuard<'a, ()>,
}

impl Gate {
    fn close(&self) -> Turn<'_> {
        let _writer = self.writer.lock();
        self.is_closed.store(true, Ordering::Relaxed);
        Turn { gate: self, _writer }
    }

    #[inline(always)]
    pub(crate) fn pass(&self) {
        if self.is_closed.load(Ordering::Relaxed) {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        drop(self.writer.lock());
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.gate.is_closed.store(false, Ordering::Relaxed);
    }
}

impl AsRef<Gate> for Gate {
    #[inline(always)]
    fn as_ref(&self) -> &Gate {
        self
    }
}

/// Works on the value of the key that `is` it.
///
/// A macro, since a closure cannot be told to be inlined always, and what
/// decides must be: see [`verb`](crate::verb).
macro_rules! find {
    ($part:expr, $hash:expr, |$key:ident| $is:expr, |$value:ident| $work:expr) => {{
        AsRef::<crate::keyed::map::Gate>::as_ref(&$part.about).pass();
        let table = $part.entries.shards()[0].read();
        match table.get($hash, |($key, _)| $is) {
            Some((_, value)) => {
                let $value = value.get();
                Some($work)
            }
            None => None,
        }
    }};
}

pub(crate) use find;

/// A map's parts must hash alike.
pub(crate) struct SharedHasher<S>(Arc<S>);

impl<S> Clone for SharedHasher<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: BuildHasher> BuildHasher for SharedHasher<S> {
    type Hasher = S::Hasher;

    #[inline]
    fn build_hasher(&self) -> S::Hasher {
        self.0.build_hasher()
    }
}

impl<K: Eq + Hash, V, S: BuildHasher, P: Default> Map<K, V, S, P> {
    pub(crate) fn new(hasher: Arc<S>) -> Self {
        let part = |_| {
            let hasher = SharedHasher(hasher.clone());
            // Two is the least that it takes.
            let entries = DashMap::with_capacity_and_hasher_and_shard_amount(0, hasher, 2);
            Part { entries, about: P::default() }
        };
        Self { parts: (0..PARTS).map(part).collect(), hasher }
    }

    #[inline]
    pub(crate) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The part of the keys with this hash. The tables within use the seven
    /// highest bits and the lowest.
    #[inline]
    pub(crate) fn part(&self, hash: u64) -> &Part<K, V, S, P> {
        &self.parts[(hash >> 32) as usize % PARTS]
    }

    pub(crate) fn parts(&self) -> &[Part<K, V, S, P>] {
        &self.parts
    }
}

impl<K: Eq + Hash, V, S: BuildHasher, P: AsRef<Gate>> Part<K, V, S, P> {
    fn turn(&self) -> Turn<'_> {
        self.about.as_ref().close()
    }

    /// The same as a method.
    pub(crate) fn find<R>(
        &self,
        hash: u64,
        is: impl Fn(&K) -> bool,
        work: impl FnOnce(&V) -> R,
    ) -> Option<R> {
        find!(self, hash, |key| is(key), |value| work(value))
    }

    /// The same while nobody else works on any value.
    pub(crate) fn find_alone<R>(
        &self,
        hash: u64,
        is: impl Fn(&K) -> bool,
        work: impl FnOnce(&V) -> R,
    ) -> Option<R> {
        let turn = self.turn();
        let table = self.entries.shards()[0].write();
        drop(turn);
        table.get(hash, |(key, _)| is(key)).map(|(_, value)| work(value.get()))
    }

    /// Works on the value of a key, or else on a new one, which is added if the
    /// work has made one of it. Gives the key back that was not needed.
    #[inline]
    pub(crate) fn find_or_add<R>(
        &self,
        (hash, key): (u64, K),
        work: impl FnOnce(Option<&V>) -> (R, Option<V>),
    ) -> (R, Option<K>) {
        let shard = &self.entries.shards()[0];
        // Nearly always nobody is there, and no turn has to be waited for.
        let mut table = shard.try_write().unwrap_or_else(|| {
            let _turn = self.turn();
            shard.write()
        });
        let known = table.get(hash, |(other, _)| *other == key);
        let is_known = known.is_some();
        let (answer, new) = work(known.map(|(_, value)| value.get()));
        let Some(value) = new.filter(|_| !is_known) else {
            return (answer, Some(key));
        };
        let hasher = self.entries.hasher();
        table.insert(hash, (key, SharedValue::new(value)), |(key, _)| hasher.hash_one(key));
        (answer, None)
    }

    /// Takes a key out, and works under the lock if it was there.
    pub(crate) fn remove(
        &self,
        hash: u64,
        is: impl Fn(&K) -> bool,
        work: impl FnOnce(),
    ) -> Option<(K, V)> {
        let turn = self.turn();
        let mut table = self.entries.shards()[0].write();
        drop(turn);
        let (key, value) = table.remove_entry(hash, |(key, _)| is(key))?;
        work();
        Some((key, value.into_inner()))
    }

    /// Keeps what `keeps` says, under one hold of the lock, and returns how
    /// many went.
    pub(crate) fn retain(&self, mut keeps: impl FnMut(&K, &mut V) -> bool) -> usize {
        let mut gone = 0;
        let _turn = self.turn();
        self.entries.retain(|key, value| {
            let kept = keeps(key, value);
            gone += usize::from(!kept);
            kept
        });
        gone
    }

    /// Works while nobody else can on all values and then `once`, also when
    /// there is no value.
    pub(crate) fn change(&self, once: impl Fn(), mut work: impl FnMut(&mut V)) {
        let _turn = self.turn();
        loop {
            let mut changed = false;
            self.entries.retain(|_, value| {
                if !changed {
                    once();
                    changed = true;
                }
                work(value);
                true
            });
            if changed {
                return;
            }
            let table = self.entries.shards()[0].write();
            if table.is_empty() {
                once();
                return;
            }
        }
    }

    /// The keys, and what `work` makes of their values.
    pub(crate) fn snapshot<R>(&self, work: impl Fn(&V) -> R) -> Vec<(K, R)>
    where
        K: Clone,
    {
        self.entries.iter().map(|entry| (entry.key().clone(), work(entry.value()))).collect()
    }

    /// Gives memory back if there is room for more than `factor` times what is
    /// there.
    pub(crate) fn shrink(&self, factor: usize) {
        let roomy = |len: usize, capacity: usize| capacity > factor * len.max(factor);
        let shard = &self.entries.shards()[0];
        let table = shard.read();
        if !roomy(table.len(), table.capacity()) {
            return;
        }
        drop(table);
        let turn = self.turn();
        let mut table = shard.write();
        drop(turn);
        if roomy(table.len(), table.capacity()) {
            let len = table.len();
            let hasher = self.entries.hasher();
            table.shrink_to(len, |(key, _)| hasher.hash_one(key));
        }
    }
}
