use core::hash::{BuildHasher, Hasher};

/// The default hasher of keys: `ahash`, seeded anew in each process.
///
/// Its authors document it as resistant to chosen keys (hash flooding), which
/// is what keys that strangers pick ask for, and it is the fastest of those in
/// this crate's `keyed` benchmark: 1.3 to 1.6 times as fast a decision as with
/// the standard library's. For keys that nobody can choose, a faster one is
/// [`with_hasher`](crate::KeyedRateLimiter::with_hasher) away.
#[derive(Clone, Debug, Default)]
pub struct RandomState(ahash::RandomState);

/// The hasher of [`RandomState`].
#[derive(Clone, Debug)]
pub struct KeyHasher(ahash::AHasher);

impl BuildHasher for RandomState {
    type Hasher = KeyHasher;

    #[inline]
    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.0.build_hasher())
    }
}

macro_rules! forward {
    ($($write:ident: $number:ty),+) => {
        impl Hasher for KeyHasher {
            #[inline]
            fn finish(&self) -> u64 {
                self.0.finish()
            }

            #[inline]
            fn write(&mut self, bytes: &[u8]) {
                self.0.write(bytes);
            }

            $(#[inline]
            fn $write(&mut self, number: $number) {
                self.0.$write(number);
            })+
        }
    };
}

forward!(write_u8: u8, write_u16: u16, write_u32: u32, write_u64: u64, write_u128: u128, write_usize: usize);
