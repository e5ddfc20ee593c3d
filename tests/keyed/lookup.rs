//! Keys are looked up in borrowed form, and made when there is one to remember.

use crate::{Keyed, bucket, keyed, s};
use core::fmt::Debug;
use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate::{Lookup, Pair, WhenFull};

/// All hash alike, so that only comparing tells one key from another.
#[derive(Default)]
struct Alike;

impl Hasher for Alike {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, _: &[u8]) {}
}

/// Each of the borrowed forms finds the key that it is, by every verb, and makes
/// just that key.
fn finds<K, Q>(borrowed: &[&Q])
where
    K: Eq + Hash + Clone + Debug,
    Q: Lookup<K> + ?Sized,
{
    let limiter: Keyed<K> = keyed(bucket(1, s(60), 4));
    let limiter = limiter.with_hasher(BuildHasherDefault::<Alike>::default());
    for (number, key) in borrowed.iter().enumerate() {
        let grant = limiter.try_acquire_n(*key, 2); // by its borrowed form
        assert_eq!(grant.remaining(), 2, "key {number} was known");
        let owned = key.to_key();
        assert_eq!(limiter.try_acquire(&owned).remaining(), 1); // and as it is
        assert_eq!(limiter.try_acquire(*key).remaining(), 0);
        assert!(limiter.try_acquire(&owned).is_denied());
        assert!(limiter.peek(*key).is_denied());
        assert_eq!(limiter.charge(*key, 1), 1);
        assert_eq!(limiter.len(), number + 1);
        assert!(limiter.levels().any(|(key, _)| key == owned));
    }
    limiter.set_own(borrowed[0], bucket(1, s(1), 9)).expect("room");
    assert_eq!(limiter.peek(&borrowed[0].to_key()).limit(), 9);
    assert!(limiter.clear_own(borrowed[0]));
    for (number, key) in borrowed.iter().enumerate() {
        limiter.reset(*key);
        assert_eq!(limiter.peek(*key).remaining(), 4);
        assert!(limiter.remove(*key));
        assert!(!limiter.remove(*key));
        assert_eq!(limiter.len(), borrowed.len() - number - 1);
    }
}

#[test]
fn text() {
    let texts = ["", "a", "b", "a longer one that has no place in a small string", "\u{fc}"];
    finds::<String, str>(&texts);
    finds::<Box<str>, str>(&texts);
    finds::<Arc<str>, str>(&texts);
    finds::<&str, &str>(&texts.each_ref());
    finds::<String, String>(&texts.map(String::from).each_ref());
}

#[test]
fn slices() {
    let bytes: [&[u8]; 5] = [b"", b"\0", b"\0\0", b"a", b"\xff and more"];
    finds::<Vec<u8>, [u8]>(&bytes);
    finds::<Box<[u8]>, [u8]>(&bytes);
    finds::<Arc<[u8]>, [u8]>(&bytes);
    let texts = [vec![], vec![String::new()], vec!["a".to_string(), "b".to_string()]];
    finds::<Vec<String>, [String]>(&texts.each_ref().map(Vec::as_slice));
}

#[test]
fn paths() {
    let paths = ["", "/", "a/b", "a/c"].map(Path::new);
    finds::<PathBuf, Path>(&paths);
    finds::<Box<Path>, Path>(&paths);
    finds::<Arc<Path>, Path>(&paths);
    // Equal paths are one key however they are spelt.
    let limiter: Keyed<PathBuf> = keyed(bucket(1, s(60), 1));
    assert!(limiter.try_acquire(Path::new("a/./b/")).is_granted());
    assert!(limiter.try_acquire(Path::new("a/b")).is_denied());
}

#[test]
fn texts_of_other_systems() {
    let texts = ["", "a", "b"].map(OsStr::new);
    finds::<OsString, OsStr>(&texts);
    finds::<Box<OsStr>, OsStr>(&texts);
    finds::<Arc<OsStr>, OsStr>(&texts);
    finds::<CString, CStr>(&[c"", c"a", c"b"]);
    finds::<Box<CStr>, CStr>(&[c"", c"a", c"b"]);
    finds::<Arc<CStr>, CStr>(&[c"", c"a", c"b"]);
}

#[test]
fn pairs() {
    let pairs = [("a", 1), ("a", 2), ("b", 1), ("", 0)];
    let pairs = pairs.each_ref().map(|(name, port)| Pair::<str, u16>(name, port));
    finds::<(String, u16), _>(&pairs.each_ref());
    finds::<(Box<str>, u16), _>(&pairs.each_ref());
    let bytes: [(&[u8], &str); 3] = [(b"a", "bc"), (b"ab", "c"), (b"", "abc")];
    let pairs = bytes.each_ref().map(|(left, right)| Pair::<[u8], str>(left, right));
    finds::<(Vec<u8>, Arc<str>), _>(&pairs.each_ref());
    // Pairs of pairs.
    let inner = Pair::<str, str>("b", "c");
    finds::<(String, (String, String)), _>(&[&Pair::<str, _>("a", &inner)]);
}

#[test]
fn numbers_and_tuples() {
    finds::<u64, u64>(&[&0, &1, &u64::MAX]);
    finds::<(u8, &str, [u8; 2]), _>(&[&(0, "a", [1, 2]), &(0, "a", [2, 1])]);
    let address = std::net::IpAddr::from([127, 0, 0, 1]);
    finds::<std::net::IpAddr, _>(&[&address]);
}

/// Counts how often it is made to a key.
struct Counted<'a> {
    key: u32,
    made: &'a Cell<u32>,
}

impl Hash for Counted<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl Lookup<u32> for Counted<'_> {
    fn is(&self, key: &u32) -> bool {
        self.key == *key
    }

    fn to_key(&self) -> u32 {
        self.made.set(self.made.get() + 1);
        self.key
    }
}

#[test]
fn a_key_is_made_once_and_not_to_be_looked_up() {
    let limiter: Keyed<u32> = keyed(bucket(1, s(60), 4));
    let made = Cell::new(0);
    let key = |key| Counted { key, made: &made };
    // There is nothing to remember.
    assert!(limiter.peek(&key(1)).is_granted());
    assert!(limiter.peek_n(&key(1), 5).is_never());
    limiter.reset(&key(1));
    assert!(!limiter.remove(&key(1)));
    assert!(!limiter.clear_own(&key(1)));
    let other = limiter.try_acquire_n(&2, 1);
    assert_eq!(limiter.refund(&key(1), other), 0);
    assert_eq!((made.get(), limiter.len()), (0, 1));

    let grant = limiter.try_acquire_n(&key(1), 3);
    assert_eq!(grant.remaining(), 1);
    assert_eq!((made.get(), limiter.len()), (1, 2));
    // And now it is known.
    assert_eq!(limiter.try_acquire(&key(1)).remaining(), 0);
    assert!(limiter.try_acquire(&key(1)).is_denied());
    assert!(limiter.try_acquire_n(&key(1), 0).is_granted());
    assert!(limiter.try_acquire_n(&key(1), 5).is_never());
    assert!(limiter.peek(&key(1)).is_denied());
    assert_eq!(limiter.charge(&key(1), 1), 1);
    assert_eq!(limiter.refund(&key(1), grant), 0);
    limiter.reset(&key(1));
    assert!(limiter.remove(&key(1)));
    assert_eq!(made.get(), 1);
}

#[test]
fn no_key_is_made_for_what_takes_nothing() {
    let limiter: Keyed<u32> = keyed(bucket(1, s(60), 4));
    let made = Cell::new(0);
    let key = Counted { key: 1, made: &made };
    assert!(limiter.try_acquire_n(&key, 0).is_granted());
    assert!(limiter.try_acquire_n(&key, 5).is_never());
    assert_eq!(limiter.charge(&key, 0), 0);
    assert_eq!(made.get(), 0);
}

/// Refusals, and calls that take nothing, leave no entry.
#[test]
fn what_holds_nothing_is_not_remembered() {
    let limiter: Keyed<u32> = keyed(bucket(1, s(60), 4));
    assert!(limiter.try_acquire_n(&1, 0).is_granted());
    assert!(limiter.try_acquire_n(&1, 5).is_never());
    assert_eq!(limiter.charge(&1, 0), 0);
    assert_eq!(limiter.len(), 0);
    // Not even where the unseen are refused.
    let limiter: Keyed<u32, _> = keyed(tollgate::DenyAll);
    assert!(limiter.try_acquire(&1).is_denied());
    assert_eq!(limiter.charge(&1, 1), 0);
    assert_eq!(limiter.len(), 0);
}

#[test]
fn no_key_is_made_that_there_is_no_room_for() {
    let made = Cell::new(0);
    for when_full in [WhenFull::Refuse, WhenFull::Share] {
        let limiter: Keyed<u32> = keyed(bucket(1, s(60), 4));
        let limiter = limiter.with_max_keys(1, when_full).expect("some keys");
        assert!(limiter.try_acquire(&1).is_granted());
        for key in 2..10 {
            let _ = limiter.try_acquire(&Counted { key, made: &made });
            let _ = limiter.charge(&Counted { key, made: &made }, 1);
            assert!(limiter.set_own(&key, bucket(1, s(1), 1)).is_err());
        }
        assert_eq!((made.get(), limiter.len()), (0, 1));
    }
}
