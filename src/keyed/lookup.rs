use core::hash::Hash;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a key of type `K` can be looked up by, without making one.
///
/// | key | looked up by |
/// |---|---|
/// | any `K: Clone` | `&K` |
/// | `String`, `Box<str>`, `Arc<str>` | `&str` |
/// | `Vec<T>`, `Box<[T]>`, `Arc<[T]>` | `&[T]` |
/// | `PathBuf`, `OsString`, `CString` | their borrowed forms |
/// | `(A, B)` | also [`Pair`] of what `A` and `B` are looked up by |
///
/// A `Box<str>` takes 8 bytes less than a `String` for each key.
///
/// What is looked up must hash and compare as the key does.
pub trait Lookup<K>: Hash {
    /// Whether it is this key.
    fn is(&self, key: &K) -> bool;

    /// Makes the key, on first sight.
    fn to_key(&self) -> K;
}

impl<K: Clone + Hash + Eq> Lookup<K> for K {
    #[inline]
    fn is(&self, key: &K) -> bool {
        key == self
    }

    #[inline]
    fn to_key(&self) -> K {
        self.clone()
    }
}

macro_rules! borrowed {
    (@ [$($generics:tt)*] $borrowed:ty => $key:ty) => {
        impl<$($generics)*> Lookup<$key> for $borrowed {
            #[inline]
            fn is(&self, key: &$key) -> bool {
                **key == *self
            }

            #[inline]
            fn to_key(&self) -> $key {
                self.into()
            }
        }
    };
    ($($borrowed:ty => $key:ty;)+) => {$(
        borrowed!(@ [] $borrowed => $key);
    )+};
}

borrowed! {
    str => String;
    str => Box<str>;
    str => Arc<str>;
    Path => PathBuf;
    Path => Box<Path>;
    Path => Arc<Path>;
    OsStr => OsString;
    OsStr => Box<OsStr>;
    OsStr => Arc<OsStr>;
    CStr => CString;
    CStr => Box<CStr>;
    CStr => Arc<CStr>;
}
borrowed!(@ [T: Clone + Hash + Eq] [T] => Vec<T>);
borrowed!(@ [T: Clone + Hash + Eq] [T] => Box<[T]>);
borrowed!(@ [T: Clone + Hash + Eq] [T] => Arc<[T]>);

/// Looks up a key of two parts by its borrowed parts.
///
/// ```
/// use tollgate::{KeyedRateLimiter, Pair, limit};
///
/// let limiter: KeyedRateLimiter<(String, u16)> = KeyedRateLimiter::new(limit!("1/s"));
/// assert!(limiter.try_acquire(&Pair("tenant", &443)).is_granted());
/// assert!(limiter.try_acquire(&("tenant".to_string(), 443)).is_denied());
/// ```
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Pair<'a, A: ?Sized, B: ?Sized>(pub &'a A, pub &'a B);

impl<A: Lookup<K> + ?Sized, B: Lookup<L> + ?Sized, K, L> Lookup<(K, L)> for Pair<'_, A, B> {
    #[inline]
    fn is(&self, (a, b): &(K, L)) -> bool {
        self.0.is(a) && self.1.is(b)
    }

    #[inline]
    fn to_key(&self) -> (K, L) {
        (self.0.to_key(), self.1.to_key())
    }
}
