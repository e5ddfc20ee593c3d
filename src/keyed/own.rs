//! Keys with parameters of their own, in a table beside the map.

use super::map::Map;
use super::{KeyedRateLimiter, Lookup};
use crate::algorithm::{Algorithm, IntoAlgorithm};
use crate::clock::{Clock, Instant};
use crate::decision::Era;
use crate::shared::{Shared, carry};
use crate::sync::Mutex;
use crate::verb::{Peek, Verb};
use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// Where keys with parameters of their own are. Their states in the main map
/// are set aside, which is how a decision learns to look here.
pub(super) type OwnMap<K, A, S> = Map<K, Arc<Mutex<Own<A>>>, S>;

/// A key of that table.
pub(super) type Listed<K, A> = (K, Arc<Mutex<Own<A>>>);

/// Parameters and state of one key.
#[derive(Debug)]
pub(super) struct Own<A: Algorithm> {
    algorithm: A,
    state: A::Shared,
    /// Grants of other eras cannot be given back.
    era: Era,
    /// When these parameters took over.
    since: Instant,
    /// It was here and is in the main map again, or is there still.
    gone: bool,
}

impl<A: Algorithm> Own<A> {
    pub(super) fn new(algorithm: A, era: Era, since: Instant) -> Self {
        let state = A::Shared::new(&algorithm, algorithm.unseen());
        Self { algorithm, state, era, since, gone: false }
    }

    pub(super) fn call<V: Verb<A>>(&mut self, now: Instant, verb: V) -> Option<V::Answer> {
        if self.gone {
            return None;
        }
        if V::ENDS_ERA {
            self.era = self.era.cancelled();
        }
        verb.call(&self.algorithm, &self.state, now, self.era)
    }

    /// Becomes what `new` makes of a state under `old`.
    fn take_over(&mut self, mut new: A, old: &A, state: &A::State, now: Instant) {
        new.resume(old, now);
        self.state.replace(&new, new.carry(old, state, now));
        self.algorithm = new;
        self.since = now;
        self.gone = false;
    }

    pub(super) fn reconfigure(&mut self, mut new: A, now: Instant, era: Era) {
        let (old, now) = (self.algorithm, now.max(self.since));
        new.resume(&old, now);
        carry(&mut self.state, &old, &new, now);
        self.algorithm = new;
        self.since = now;
        self.era = era;
    }
}

/// There was no room for another key: see
/// [`with_max_keys`](KeyedRateLimiter::with_max_keys).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the limiter holds as many keys as it may")
    }
}

impl core::error::Error for Full {}

impl<K: Eq + Hash, A: Algorithm, C: Clock, S: BuildHasher> KeyedRateLimiter<K, A, C, S> {
    /// Gives a key parameters of its own, or other ones: a plan. It keeps what
    /// it holds, as with [`reconfigure`](Self::reconfigure), and is remembered
    /// until [`clear_own`](Self::clear_own) or [`remove`](Self::remove).
    ///
    /// A decision about such a key costs a second look-up and a lock, and the key
    /// about 200 bytes; other keys pay nothing for it.
    ///
    /// # Errors
    ///
    /// [`Full`] when the key is new and there is no room for it.
    ///
    /// ```
    /// use tollgate::{KeyedRateLimiter, limit};
    ///
    /// let limiter: KeyedRateLimiter<String> = KeyedRateLimiter::new(limit!("5/min"));
    /// limiter.set_own("alice", limit!("500/min"))?; // the new plan
    /// assert_eq!(limiter.peek("alice").limit(), 500);
    /// assert_eq!(limiter.peek("alice").remaining(), 5); // not a burst for free
    /// limiter.clear_own("alice");
    /// assert_eq!(limiter.peek("alice").limit(), 5);
    /// # Ok::<(), tollgate::Full>(())
    /// ```
    pub fn set_own<Q: Lookup<K> + ?Sized>(
        &self,
        key: &Q,
        algorithm: impl IntoAlgorithm<Algorithm = A>,
    ) -> Result<(), Full> {
        let algorithm = algorithm.into_algorithm();
        let now = self.clock.now();
        let era = self.versions.era();
        let hash = self.map.hash(key);
        let [owned, listed] = [key.to_key(), key.to_key()];
        // What is left over is dropped after the lock is given up: a key may do
        // anything then.
        let (_unlisted, _unused);
        let _editing = self.editing.lock();
        if let Some(own) = self.find_own(key, hash) {
            own.lock().reconfigure(algorithm, now, era);
            return Ok(());
        }
        // First the place, then the sign that points to it. Who has seen the sign
        // of an earlier place may come here before the state does.
        let own = Own { gone: true, ..Own::new(algorithm, era, now) };
        let own = Arc::new(Mutex::new(own));
        let places = self.own.get_or_init(|| Map::new(self.hasher.clone()));
        places.part(hash).find_or_add((hash, listed), |_| ((), Some(own.clone())));
        let part = self.map.part(hash);
        let moves = |state: &A::Shared| {
            let now = self.versions.after_change(now.max(part.about.swept()));
            let old = self.parameters_in(part);
            // Held until it is aside: who has come here by an earlier sign would take
            // from a state that is then taken over once more.
            let mut own = own.lock();
            state.set_aside(&old, |state| own.take_over(algorithm, &old, state, now));
        };
        if part.find(hash, |other| key.is(other), moves).is_some() {
            _unused = Some(owned);
            return Ok(());
        }
        let Some(place) = self.reserve(now) else {
            (_unlisted, _unused) = (self.unlist(key, hash), Some(owned));
            return Err(Full);
        };
        let ((), unused) = part.find_or_add((hash, owned), |known| {
            if let Some(state) = known {
                return (moves(state), None);
            }
            let parameters = self.parameters_in(part);
            let state = A::Shared::new(&parameters, parameters.unseen());
            part.about.added(Instant::MAX);
            (moves(&state), Some(state))
        });
        if unused.is_none() {
            place.keep(); // or it is there already
        }
        _unused = unused;
        Ok(())
    }

    /// Takes a key's own parameters away again. Says whether it had any.
    ///
    /// Grants of before cannot be given back any more, nor can those of the keys
    /// that happen to lie in the same 128th of the map.
    pub fn clear_own<Q: Lookup<K> + ?Sized>(&self, key: &Q) -> bool {
        let now = self.clock.now();
        let hash = self.map.hash(key);
        let _unlisted; // dropped after the lock is given up
        let _editing = self.editing.lock();
        let Some(own) = self.find_own(key, hash) else {
            return false;
        };
        let part = self.map.part(hash);
        let mut own = own.lock();
        let now = self.versions.after_change(now.max(own.since));
        let Own { algorithm, state, gone, .. } = &mut *own;
        part.find_alone(
            hash,
            |other| key.is(other),
            |there| {
                let base = self.parameters_in(part);
                // What the key has been through does not show in its state.
                part.about.hand_over();
                state.look(algorithm, |state| {
                    there.replace(&base, base.carry(algorithm, state, now))
                });
            },
        );
        *gone = true;
        drop(own);
        part.about.may_be_fresh_from(now);
        _unlisted = self.unlist(key, hash);
        true
    }

    /// Calls with the state of a key whose state in the map is aside; none if
    /// it is there again, or gone.
    #[cold]
    pub(super) fn call_own<Q, V>(
        &self,
        key: &Q,
        hash: u64,
        now: Instant,
        verb: V,
    ) -> Option<V::Answer>
    where
        Q: Lookup<K> + ?Sized,
        V: Verb<A>,
    {
        self.find_own(key, hash)?.lock().call(now, verb)
    }

    /// The permits that a key with its own parameters has left.
    pub(super) fn own_level(&self, key: &K, now: Instant) -> Option<u32>
    where
        K: Clone,
    {
        let hash = self.map.hash(key);
        self.call_own(key, hash, now, Peek(0)).map(|decision| decision.remaining())
    }

    /// Ends a key's own parameters, once it is no longer in the map. Gives back
    /// what is to be dropped without a lock.
    pub(super) fn disown<Q>(&self, key: &Q, hash: u64) -> Option<Listed<K, A>>
    where
        Q: Lookup<K> + ?Sized,
    {
        self.find_own(key, hash)?.lock().gone = true;
        self.unlist(key, hash)
    }

    /// The same for all keys.
    pub(super) fn disown_all(&self) {
        for part in self.own.get().into_iter().flat_map(Map::parts) {
            part.retain(|_, own| {
                own.lock().gone = true;
                false
            });
            part.shrink(1);
        }
    }

    fn find_own<Q: Lookup<K> + ?Sized>(&self, key: &Q, hash: u64) -> Option<Arc<Mutex<Own<A>>>> {
        self.own.get()?.part(hash).find(hash, |other| key.is(other), Arc::clone)
    }

    fn unlist<Q: Lookup<K> + ?Sized>(&self, key: &Q, hash: u64) -> Option<Listed<K, A>> {
        self.own.get()?.part(hash).remove(hash, |other| key.is(other), || ())
    }
}
