//! Reading the vector files.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};
use serde_json::Value;

#[derive(Deserialize)]
pub(crate) struct File {
    counts: Counts,
    pub(crate) vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Counts {
    vectors: usize,
}

#[derive(Deserialize)]
pub(crate) struct Vector {
    pub(crate) id: String,
    pub(crate) group: String,
    /// Of a type for each kind of vector, like the steps; absent for formulas.
    config: Option<Value>,
    derived: Option<Value>,
    summary: Option<Value>,
    steps: Vec<Value>,
}

impl File {
    pub(crate) fn read(text: &str) -> Self {
        let file: Self = serde_json::from_str(text).expect("a file of vectors");
        assert_eq!(file.vectors.len(), file.counts.vectors, "some vectors are missing");
        file
    }
}

/// The types below all refuse unknown fields, so that no expectation of a
/// vector can be passed over by accident.
impl Vector {
    pub(crate) fn config<T: DeserializeOwned>(&self) -> T {
        self.typed(self.config.as_ref())
    }

    pub(crate) fn derived<T: DeserializeOwned>(&self) -> T {
        self.typed(self.derived.as_ref())
    }

    pub(crate) fn summary<T: DeserializeOwned>(&self) -> T {
        self.typed(self.summary.as_ref())
    }

    pub(crate) fn steps<T: DeserializeOwned>(&self) -> Vec<T> {
        assert!(!self.steps.is_empty());
        self.steps.iter().map(|step| self.typed(Some(step))).collect()
    }

    fn typed<T: DeserializeOwned>(&self, value: Option<&Value>) -> T {
        let value = value.cloned().unwrap_or_default();
        T::deserialize(value).unwrap_or_else(|error| panic!("{}: {error}", self.id))
    }
}

/// A number that need not be whole: `3`, `"3"` or `"10/3"`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fraction {
    pub(crate) numerator: u128,
    pub(crate) denominator: u128,
}

impl Fraction {
    /// Rounded up, times `by`.
    pub(crate) fn times_up(self, by: Self) -> u64 {
        let denominator = self.denominator * by.denominator;
        u64::try_from((self.numerator * by.numerator).div_ceil(denominator)).expect("64 bits")
    }

    pub(crate) fn up(self) -> u64 {
        self.times_up(Self { numerator: 1, denominator: 1 })
    }
}

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let (numerator, denominator) = text.split_once('/').unwrap_or((&text, "1"));
        Ok(Self {
            numerator: numerator.parse().map_err(D::Error::custom)?,
            denominator: denominator.parse().map_err(D::Error::custom)?,
        })
    }
}
