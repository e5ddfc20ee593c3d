//! Keys, and the order in which they are asked for: by the benchmarks of this
//! crate and by those beside its peers, so it needs neither.

/// How many keys, and how often each is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) name: &'static str,
    pub(crate) keys: usize,
    pub(crate) zipf: bool,
}

/// A power of two.
pub(crate) const CALLS: usize = 1 << 20;

impl Spread {
    /// The keys in the order of the calls, in which they lie in memory too, as
    /// though the caller had just received them: what is measured is the limiter,
    /// not where the caller keeps its keys.
    pub(crate) fn calls<K>(self, key: impl Fn(usize) -> K) -> Vec<K> {
        let mut seed = 0x2545_F491_4F6C_DD1D_u64;
        let mut random = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 11) as f64 / (1_u64 << 53) as f64
        };
        let weight = |rank: usize| if self.zipf { 1.0 / (rank + 1) as f64 } else { 1.0 };
        let mut total = 0.0;
        let sum = |rank| {
            total += weight(rank);
            total
        };
        let sums: Vec<f64> = (0..self.keys).map(sum).collect();
        let mut call = || {
            let at = random() * total;
            key(sums.partition_point(|&sum| sum <= at).min(self.keys - 1))
        };
        (0..CALLS).map(|_| call()).collect()
    }
}

pub(crate) fn number(number: usize) -> u64 {
    (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

pub(crate) fn text(number: usize) -> String {
    format!("{:016x}", self::number(number))
}
