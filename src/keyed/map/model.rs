//! The calls of `DashMap` that the map makes, on a lock that the model checker
//! knows: a table of one shard, searched from its beginning.

use dashmap::SharedValue;
use shuttle::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::rc::Rc;

pub(crate) struct DashMap<K, V, S> {
    shards: [Shard<K, V>; 1],
    hasher: S,
}

pub(crate) struct Shard<K, V>(RwLock<Table<K, V>>);

/// The entries, each with its hash.
pub(crate) struct Table<K, V>(Vec<(u64, Pair<K, V>)>);

type Pair<K, V> = (K, SharedValue<V>);

impl<K, V, S> DashMap<K, V, S> {
    pub(crate) fn with_capacity_and_hasher_and_shard_amount(_: usize, hasher: S, _: usize) -> Self {
        Self { shards: [Shard(RwLock::new(Table(Vec::new())))], hasher }
    }

    pub(crate) fn shards(&self) -> &[Shard<K, V>] {
        &self.shards
    }

    pub(crate) fn hasher(&self) -> &S {
        &self.hasher
    }

    pub(crate) fn retain(&self, mut keeps: impl FnMut(&K, &mut V) -> bool) {
        let mut table = self.shards[0].write();
        table.0.retain_mut(|(_, (key, value))| keeps(key, value.get_mut()));
    }

    /// The lock is held while there is an entry or the iterator.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<'_, K, V>> {
        let table = Rc::new(self.shards[0].read());
        (0..table.len()).map(move |at| Entry { table: table.clone(), at })
    }
}

pub(crate) struct Entry<'a, K, V> {
    table: Rc<RwLockReadGuard<'a, Table<K, V>>>,
    at: usize,
}

impl<K, V> Entry<'_, K, V> {
    pub(crate) fn key(&self) -> &K {
        &self.table.0[self.at].1.0
    }

    pub(crate) fn value(&self) -> &V {
        self.table.0[self.at].1.1.get()
    }
}

impl<K, V> Shard<K, V> {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Table<K, V>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Table<K, V>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, Table<K, V>>> {
        self.0.try_write().ok()
    }
}

impl<K, V> Table<K, V> {
    fn place(&self, hash: u64, mut is: impl FnMut(&Pair<K, V>) -> bool) -> Option<usize> {
        self.0.iter().position(|(other, pair)| *other == hash && is(pair))
    }

    pub(crate) fn get(
        &self,
        hash: u64,
        is: impl FnMut(&Pair<K, V>) -> bool,
    ) -> Option<&Pair<K, V>> {
        self.place(hash, is).map(|at| &self.0[at].1)
    }

    pub(crate) fn insert(&mut self, hash: u64, pair: Pair<K, V>, _: impl Fn(&Pair<K, V>) -> u64) {
        self.0.push((hash, pair));
    }

    pub(crate) fn remove_entry(
        &mut self,
        hash: u64,
        is: impl FnMut(&Pair<K, V>) -> bool,
    ) -> Option<Pair<K, V>> {
        self.place(hash, is).map(|at| self.0.remove(at).1)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub(crate) fn shrink_to(&mut self, capacity: usize, _: impl Fn(&Pair<K, V>) -> u64) {
        self.0.shrink_to(capacity);
    }
}
