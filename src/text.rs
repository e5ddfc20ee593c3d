//! The text form of rates and limits: one grammar, read by the same constant
//! function from literals, from configuration files and through serde.
//!
//! ```text
//! limit = rate [ "burst" COUNT ]
//! rate  = COUNT "/" [ COUNT ] unit          no number in front of the unit: one
//! unit  = "ns" | "us" | "ms" | "s" | "min" | "h" | "d"
//! ```
//!
//! Spaces may stand between the parts. What is printed can be read back.

use crate::error::ConfigError;
use crate::rate::{Limit, Rate};
use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;

/// Largest first: printing takes the first that divides the period.
const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// A rate from a literal, checked at compile time.
///
/// ```
/// use tollgate::rate;
///
/// assert_eq!(rate!("100/min").count().get(), 100);
/// ```
///
/// A literal that is not a rate does not compile:
///
/// ```compile_fail
/// tollgate::rate!("0/s");
/// ```
///
/// ```compile_fail
/// tollgate::rate!("10 per second");
/// ```
#[macro_export]
macro_rules! rate {
    ($text:expr) => {
        const {
            match $crate::Rate::parse($text) {
                Ok(rate) => rate,
                Err(error) => panic!("{}", error.message()),
            }
        }
    };
}

/// A limit from a literal, checked at compile time.
///
/// ```
/// use tollgate::limit;
///
/// assert_eq!(limit!("10/s burst 20").burst().get(), 20);
/// ```
///
/// ```compile_fail
/// tollgate::limit!("10/s burst 0");
/// ```
#[macro_export]
macro_rules! limit {
    ($text:expr) => {
        const {
            match $crate::Limit::parse($text) {
                Ok(limit) => limit,
                Err(error) => panic!("{}", error.message()),
            }
        }
    };
}

impl Rate {
    /// Reads the text form `COUNT/[N]UNIT`, also in constants; at run time
    /// [`str::parse`] does the same.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] naming the first field that is missing, zero or too
    /// large.
    pub const fn parse(text: &str) -> Result<Self, ConfigError> {
        let reader = Reader::new(text.as_bytes());
        match reader.rate() {
            Ok((rate, rest)) if rest.at_end() => Ok(rate),
            Ok((_, rest)) if rest.word("burst").is_some() => Err(ConfigError::Unexpected("burst")),
            Ok(_) => Err(ConfigError::Malformed("period")),
            Err(error) => Err(error),
        }
    }
}

impl Limit {
    /// Reads the text form `COUNT/[N]UNIT [burst B]`, also in constants; at
    /// run time [`str::parse`] does the same.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] naming the first field that is missing, zero or too
    /// large.
    pub const fn parse(text: &str) -> Result<Self, ConfigError> {
        let (rate, rest) = match Reader::new(text.as_bytes()).rate() {
            Ok(read) => read,
            Err(error) => return Err(error),
        };
        if rest.at_end() {
            return Ok(Self::new(rate));
        }
        let Some(rest) = rest.word("burst") else {
            return Err(ConfigError::Malformed("burst"));
        };
        match rest.count("burst") {
            Ok((burst, rest)) if rest.at_end() => match NonZeroU32::new(burst) {
                Some(burst) => Ok(Self::new(rate).with_burst(burst)),
                None => Err(ConfigError::Zero("burst")),
            },
            Ok(_) => Err(ConfigError::Malformed("burst")),
            Err(error) => Err(error),
        }
    }
}

/// What is left of the text. Constant functions have neither iterators nor `?`.
#[derive(Clone, Copy)]
struct Reader<'a> {
    text: &'a [u8],
}

impl<'a> Reader<'a> {
    const fn new(text: &'a [u8]) -> Self {
        Self { text: text.trim_ascii() }
    }

    const fn at_end(self) -> bool {
        self.text.is_empty()
    }

    const fn rate(self) -> Result<(Rate, Self), ConfigError> {
        let (count, rest) = match self.count("count") {
            Ok(read) => read,
            Err(error) => return Err(error),
        };
        let Some(rest) = rest.word("/") else {
            return Err(ConfigError::Malformed(if rest.at_end() { "period" } else { "count" }));
        };
        if count == 0 {
            return Err(ConfigError::Zero("count"));
        }
        let (many, rest) = match rest.number("period") {
            Ok(read) => read,
            Err(ConfigError::Malformed(_)) => (1, rest),
            Err(error) => return Err(error),
        };
        let Some((unit, rest)) = rest.unit() else {
            return Err(ConfigError::Malformed("period"));
        };
        let Some(period) = many.checked_mul(unit) else {
            return Err(ConfigError::TooLarge("period"));
        };
        match Rate::from_nanos(count, period) {
            Ok(rate) => Ok((rate, rest)),
            Err(error) => Err(error),
        }
    }

    const fn count(self, field: &'static str) -> Result<(u32, Self), ConfigError> {
        match self.number(field) {
            Ok((value, _)) if value > u32::MAX as u64 => Err(ConfigError::TooLarge(field)),
            Ok((value, rest)) => Ok((value as u32, rest)),
            Err(error) => Err(error),
        }
    }

    const fn number(self, field: &'static str) -> Result<(u64, Self), ConfigError> {
        let mut rest = self.text;
        let mut value: u64 = 0;
        let mut read = false;
        while let [digit @ b'0'..=b'9', after @ ..] = rest {
            value = match value.checked_mul(10) {
                Some(shifted) => match shifted.checked_add((*digit - b'0') as u64) {
                    Some(value) => value,
                    None => return Err(ConfigError::TooLarge(field)),
                },
                None => return Err(ConfigError::TooLarge(field)),
            };
            read = true;
            rest = after;
        }
        if read { Ok((value, Self::new(rest))) } else { Err(ConfigError::Malformed(field)) }
    }

    /// The word, and nothing that goes on with a letter.
    const fn word(self, word: &str) -> Option<Self> {
        let mut rest = self.text;
        let mut wanted = word.as_bytes();
        while let [next, more @ ..] = wanted {
            match rest {
                [first, after @ ..] if *first == *next => rest = after,
                _ => return None,
            }
            wanted = more;
        }
        let letters = matches!(word.as_bytes(), [b'a'..=b'z', ..]);
        match rest {
            [next, ..] if letters && next.is_ascii_alphabetic() => None,
            _ => Some(Self::new(rest)),
        }
    }

    const fn unit(self) -> Option<(u64, Self)> {
        let mut at = 0;
        while at < UNITS.len() {
            let (name, nanos) = UNITS[at];
            if let Some(rest) = self.word(name) {
                return Some((nanos, rest));
            }
            at += 1;
        }
        None
    }
}

impl FromStr for Rate {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Self::parse(text)
    }
}

impl FromStr for Limit {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Self::parse(text)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = self.period_nanos().get();
        let (name, nanos) =
            UNITS.into_iter().find(|(_, nanos)| period.is_multiple_of(*nanos)).unwrap_or(("ns", 1));
        match period / nanos {
            1 => write!(f, "{}/{name}", self.count()),
            many => write!(f, "{}/{many}{name}", self.count()),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rate())?;
        if self.burst() != self.rate().count() {
            write!(f, " burst {}", self.burst())?;
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
mod serde {
    use super::{Limit, Rate};
    use core::fmt;
    use core::marker::PhantomData;
    use core::str::FromStr;
    use serde::de::{Deserialize, Deserializer, Error, Visitor};
    use serde::ser::{Serialize, Serializer};

    struct Text<T>(PhantomData<T>);

    impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text such as \"100/min\" or \"10/s burst 20\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }

    macro_rules! as_text {
        ($($type:ty),*) => {$(
            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.collect_str(self)
                }
            }

            impl<'de> Deserialize<'de> for $type {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    deserializer.deserialize_str(Text(PhantomData))
                }
            }
        )*};
    }

    as_text!(Rate, Limit);
}
