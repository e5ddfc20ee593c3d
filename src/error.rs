//! What can be wrong with a configuration.

use core::fmt;

/// Why a configuration was refused.
///
/// Every variant names the field at fault ([`field`](Self::field)), so that a
/// message built from it tells the operator what to change. A zero is always an
/// error and never means "unlimited": for that there are
/// [`Unlimited`](crate::Unlimited) and [`DenyAll`](crate::DenyAll).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The field is zero.
    Zero(&'static str),
    /// The field does not fit its type: counts and bursts hold 32 bits,
    /// periods 64 bits of nanoseconds (584 years). Or it does not fit the state
    /// of a [`SlidingWindowCounter`](crate::SlidingWindowCounter), which holds
    /// less.
    TooLarge(&'static str),
    /// The text has no readable value for the field.
    Malformed(&'static str),
    /// The text gives a value that has no place here: a window has no burst.
    Unexpected(&'static str),
    /// The rate is above [`Rate::MAX_PER_NANOSECOND`](crate::Rate::MAX_PER_NANOSECOND),
    /// which is what 64 bits of state can count for
    /// [`HORIZON`](crate::HORIZON).
    RateTooHigh,
    /// A limiter was asked to start with more permits than it can ever hold.
    InitialAboveCapacity,
}

impl ConfigError {
    /// The name of the field at fault: `"count"`, `"period"`, `"burst"`,
    /// `"rate"`, `"initial"`, `"max_keys"`, `"capacity"`.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Zero(field)
            | Self::TooLarge(field)
            | Self::Malformed(field)
            | Self::Unexpected(field) => field,
            Self::RateTooHigh => "rate",
            Self::InitialAboveCapacity => "initial",
        }
    }

    /// The message; constant, so that the [`rate!`](crate::rate) and
    /// [`limit!`](crate::limit) macros can show it at compile time.
    #[doc(hidden)]
    #[must_use]
    pub const fn message(&self) -> &'static str {
        macro_rules! named {
            ($field:expr, $text:expr) => {
                match $field.as_bytes() {
                    b"count" => concat!("count ", $text),
                    b"period" => concat!("period ", $text),
                    b"burst" => concat!("burst ", $text),
                    b"capacity" => concat!("capacity ", $text),
                    b"max_keys" => concat!("max_keys ", $text),
                    _ => $text,
                }
            };
        }
        match self {
            Self::Zero(field) => named!(field, "must not be zero"),
            Self::TooLarge(field) => named!(field, "is too large"),
            Self::Malformed(field) => named!(
                field,
                "cannot be read; the form is COUNT/[N]UNIT [burst B], \
                 with UNIT one of ns us ms s min h d, as in 10/s burst 20"
            ),
            Self::Unexpected(field) => named!(field, "has no place in a rate"),
            Self::RateTooHigh => "rate is above 58 permits per nanosecond",
            Self::InitialAboveCapacity => "initial is above the capacity",
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl core::error::Error for ConfigError {}
