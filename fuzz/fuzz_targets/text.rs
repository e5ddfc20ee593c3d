//! Any text, read as a rate and as a limit: no panic, and what was read is
//! written so that it reads the same.

#![no_main]

use core::fmt::{Debug, Display};
use core::str::FromStr;
use libfuzzer_sys::fuzz_target;
use tollgate::{ConfigError, Limit, Rate};

/// The fields that a text has.
const FIELDS: [&str; 4] = ["count", "period", "burst", "rate"];

fuzz_target!(|text: &str| {
    let (rate, limit) = (read::<Rate>(text), read::<Limit>(text));
    assert_eq!((rate, limit), (Rate::parse(text), Limit::parse(text)));
    if let Ok(rate) = rate {
        assert_eq!(limit, Ok(Limit::new(rate)), "a rate is a limit, with its count for a burst");
    }
    if let Ok(limit) = limit {
        let with_burst = format!(" {} burst {}\n", limit.rate(), limit.burst());
        assert_eq!(with_burst.parse(), Ok(limit));
    }
});

fn read<T>(text: &str) -> Result<T, ConfigError>
where
    T: FromStr<Err = ConfigError> + Display + PartialEq + Debug + Copy,
{
    let read = text.parse::<T>();
    match read {
        Ok(value) => {
            let written = value.to_string();
            assert_eq!(written.parse(), Ok(value), "{written}");
        }
        Err(error) => {
            assert!(FIELDS.contains(&error.field()), "{error:?}");
            assert!(!error.to_string().is_empty());
        }
    }
    read
}
