//! The bytes of state that the documentation states.

use std::mem::size_of;
use tollgate::{
    Algorithm, FixedWindow, LeakyBucket, Locked, SlidingWindowCounter, SlidingWindowLog,
    TokenBucket,
};

const fn bytes<A: Algorithm>() -> usize {
    size_of::<A::Shared>()
}

#[test]
fn one_word_or_a_word_and_its_lock() {
    assert_eq!(bytes::<TokenBucket>(), 8);
    assert_eq!(bytes::<LeakyBucket>(), 8);
    assert_eq!(bytes::<FixedWindow>(), 8);
    assert_eq!(bytes::<SlidingWindowCounter>(), 8);
    assert_eq!(bytes::<Locked<TokenBucket>>(), 24);
    assert_eq!(bytes::<Locked<LeakyBucket>>(), 24);
    assert_eq!(bytes::<Locked<FixedWindow>>(), 24);
    assert_eq!(bytes::<Locked<SlidingWindowCounter>>(), 24);
}

#[test]
fn a_log_beside_its_entries() {
    assert_eq!(bytes::<SlidingWindowLog>(), 24);
    assert_eq!(bytes::<Locked<SlidingWindowLog>>(), 64);
}

#[test]
fn several_limits_share_one_lock() {
    assert_eq!(bytes::<(TokenBucket, FixedWindow)>(), 32);
    assert_eq!(bytes::<(TokenBucket, FixedWindow, LeakyBucket)>(), 40);
}
