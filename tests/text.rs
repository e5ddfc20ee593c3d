//! The text form of rates and limits: what is read, what is refused and why,
//! what is printed, at run time, in constants and through serde.

use proptest::prelude::*;
use std::num::NonZeroU32;
use std::time::Duration;
use tollgate::ConfigError::{Malformed, RateTooHigh, TooLarge, Unexpected, Zero};
use tollgate::{ConfigError, Limit, Rate, limit, rate};

const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

fn of(count: u32, nanos: u64) -> Rate {
    Rate::new(count, Duration::from_nanos(nanos)).expect("a rate")
}

fn limit_of(count: u32, nanos: u64, burst: u32) -> Limit {
    Limit::new(of(count, nanos)).with_burst(NonZeroU32::new(burst).expect("a burst"))
}

#[test]
fn every_unit_is_read_alone_and_with_a_number() {
    for (unit, nanos) in UNITS {
        assert_eq!(format!("7/{unit}").parse(), Ok(of(7, nanos)));
        assert_eq!(format!("7/1{unit}").parse(), Ok(of(7, nanos)));
        assert_eq!(format!("7/13{unit}").parse(), Ok(of(7, 13 * nanos)));
        assert_eq!(format!("7/13{unit} burst 5").parse(), Ok(limit_of(7, 13 * nanos, 5)));
    }
}

#[test]
fn spaces_may_stand_between_the_parts_and_around_them() {
    let ten = limit_of(10, 2_000_000_000, 20);
    for text in [
        "10/2s burst 20",
        "10 / 2 s burst 20",
        "  10  /  2  s   burst   20  ",
        "\t10/2s\nburst\r\n20\n",
        "10/2s burst20",
        "0010/02s burst 020",
    ] {
        assert_eq!(text.parse(), Ok(ten), "{text:?}");
    }
    for text in ["10/2s", " 10 / 2 s ", "10\n/\n2\ns"] {
        assert_eq!(text.parse(), Ok(ten.rate()), "{text:?}");
        assert_eq!(text.parse(), Ok(Limit::new(ten.rate())), "{text:?}");
    }
}

#[test]
fn the_ends_of_the_range_are_read() {
    for (text, count, nanos) in [
        ("1/18446744073709551615ns", 1, u64::MAX),
        ("1/213503d", 1, 213_503 * 86_400_000_000_000),
        ("4294967295/s", u32::MAX, 1_000_000_000),
        ("58/ns", 58, 1),
        ("4294967295/74051161ns", u32::MAX, 74_051_161),
    ] {
        assert_eq!(text.parse(), Ok(of(count, nanos)), "{text}");
    }
    assert_eq!("1/s burst 4294967295".parse(), Ok(limit_of(1, 1_000_000_000, u32::MAX)));
}

/// Refused as a rate and, since a limit begins with one, as a limit.
#[test]
fn a_refusal_names_the_first_field_at_fault() {
    for (text, error) in [
        ("", Malformed("count")),
        ("   ", Malformed("count")),
        ("/s", Malformed("count")),
        ("ten/s", Malformed("count")),
        ("-1/s", Malformed("count")),
        ("+1/s", Malformed("count")),
        ("1.5/s", Malformed("count")),
        ("1e3/s", Malformed("count")),
        ("1_000/s", Malformed("count")),
        ("1 000/s", Malformed("count")),
        ("0x10/s", Malformed("count")),
        ("\u{661}/s", Malformed("count")),
        ("10 per second", Malformed("count")),
        ("10\\s", Malformed("count")),
        ("inf/s", Malformed("count")),
        ("0/s", Zero("count")),
        ("0/0s", Zero("count")),
        ("4294967296/s", TooLarge("count")),
        ("18446744073709551616/s", TooLarge("count")),
        ("99999999999999999999999999/s", TooLarge("count")),
        ("4294967296/nonsense", TooLarge("count")),
        ("10", Malformed("period")),
        ("10/", Malformed("period")),
        ("10/3", Malformed("period")),
        ("10//s", Malformed("period")),
        ("10/-3s", Malformed("period")),
        ("10/1.5s", Malformed("period")),
        ("10/m", Malformed("period")),
        ("10/M", Malformed("period")),
        ("10/S", Malformed("period")),
        ("10/sec", Malformed("period")),
        ("10/second", Malformed("period")),
        ("10/minute", Malformed("period")),
        ("10/day", Malformed("period")),
        ("10/mins", Malformed("period")),
        ("10/\u{b5}s", Malformed("period")),
        ("1/0s", Zero("period")),
        ("1/0000ns", Zero("period")),
        ("1/18446744073709551616ns", TooLarge("period")),
        ("1/213504d", TooLarge("period")),
        ("1/18446744073709551615us", TooLarge("period")),
        ("59/ns", RateTooHigh),
        ("4294967295/74051160ns", RateTooHigh),
    ] {
        assert_eq!(text.parse::<Rate>(), Err(error), "{text:?}");
        assert_eq!(text.parse::<Limit>(), Err(error), "{text:?}");
        assert!(format!("{text} burst 5").parse::<Limit>().is_err(), "{text:?}");
    }
}

#[test]
fn what_follows_a_rate_is_a_burst_or_nothing() {
    for (text, error) in [
        ("10/s burst", Malformed("burst")),
        ("10/s burst x", Malformed("burst")),
        ("10/s burst -5", Malformed("burst")),
        ("10/s burst 5.5", Malformed("burst")),
        ("10/s burst 5 6", Malformed("burst")),
        ("10/s burst 5 burst 5", Malformed("burst")),
        ("10/s burst=5", Malformed("burst")),
        ("10/s bursts 5", Malformed("burst")),
        ("10/s Burst 5", Malformed("burst")),
        ("10/s 5", Malformed("burst")),
        ("10/s, burst 5", Malformed("burst")),
        ("10/s\u{a0}burst 5", Malformed("burst")),
        ("10/s/s", Malformed("burst")),
        ("10/s burst 0", Zero("burst")),
        ("10/s burst 4294967296", TooLarge("burst")),
        ("10/s burst 99999999999999999999", TooLarge("burst")),
    ] {
        assert_eq!(text.parse::<Limit>(), Err(error), "{text:?}");
        // A word of its own, so that it is clear what has no place.
        let burst = text.starts_with("10/s burst") && !text.contains("bursts");
        let error = if burst { Unexpected("burst") } else { Malformed("period") };
        assert_eq!(text.parse::<Rate>(), Err(error), "{text:?}");
    }
    assert_eq!("10/sburst 5".parse::<Limit>(), Err(Malformed("period")));
    assert_eq!("10/s burst 5".parse::<Rate>(), Err(Unexpected("burst")));
}

#[test]
fn an_error_says_what_to_change() {
    for (error, field, message) in [
        (Zero("count"), "count", "count must not be zero"),
        (TooLarge("period"), "period", "period is too large"),
        (RateTooHigh, "rate", "rate is above 58 permits per nanosecond"),
        (ConfigError::InitialAboveCapacity, "initial", "initial is above the capacity"),
    ] {
        assert_eq!((error.field(), error.to_string()), (field, message.to_owned()));
    }
    let message = Malformed("burst").to_string();
    assert!(message.starts_with("burst cannot be read; the form is "), "{message}");
}

#[test]
fn a_literal_is_read_by_the_compiler() {
    const SEVEN: Rate = rate!("7/min");
    static LIMIT: Limit = limit!("10/s burst 20");
    const NAMED: &str = "3 / 10 s";

    assert_eq!(SEVEN, of(7, 60_000_000_000));
    assert_eq!(LIMIT, limit_of(10, 1_000_000_000, 20));
    assert_eq!(limit!("10/s").burst().get(), 10);
    assert_eq!(limit!(NAMED), limit_of(3, 10_000_000_000, 3));
    assert_eq!(const { Rate::parse("0/s") }, Err(Zero("count")));
}

#[test]
fn the_largest_unit_that_divides_is_printed() {
    for (count, nanos, text) in [
        (10, 1_000_000_000, "10/s"),
        (10, 2_000_000_000, "10/2s"),
        (10, 60_000_000_000, "10/min"),
        (10, 90_000_000_000, "10/90s"),
        (10, 3_600_000_000_000, "10/h"),
        (10, 86_400_000_000_000, "10/d"),
        (10, 7 * 86_400_000_000_000, "10/7d"),
        (10, 1_500_000, "10/1500us"),
        (10, 1_000_001, "10/1000001ns"),
        (10, 1, "10/ns"),
        (1, u64::MAX, "1/18446744073709551615ns"),
    ] {
        assert_eq!(of(count, nanos).to_string(), text);
        assert_eq!(limit_of(count, nanos, count).to_string(), text, "the usual burst");
        assert_eq!(limit_of(count, nanos, 4).to_string(), format!("{text} burst 4"));
    }
}

fn rates() -> impl Strategy<Value = Rate> {
    // Periods of all lengths, and those that people write.
    let any_length = (any::<u64>(), 0..64_u32).prop_map(|(nanos, shift)| nanos >> shift);
    let round = (1..1_000_u64, 0..UNITS.len()).prop_map(|(many, unit)| many * UNITS[unit].1);
    let count = (any::<u32>(), 0..32_u32).prop_map(|(count, shift)| count >> shift);
    (count, prop_oneof![any_length, round]).prop_filter_map("not a rate", |(count, nanos)| {
        Rate::new(count, Duration::from_nanos(nanos)).ok()
    })
}

fn limits() -> impl Strategy<Value = Limit> {
    (rates(), any::<NonZeroU32>(), any::<bool>()).prop_map(|(rate, burst, usual)| {
        if usual { Limit::new(rate) } else { Limit::new(rate).with_burst(burst) }
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(limit in limits()) {
        prop_assert_eq!(limit.to_string().parse(), Ok(limit));
        prop_assert_eq!(limit.rate().to_string().parse(), Ok(limit.rate()));
        prop_assert_eq!(Limit::parse(&limit.to_string()), Ok(limit));
        prop_assert_eq!(Rate::parse(&limit.rate().to_string()), Ok(limit.rate()));
    }

    /// Any numbers: read exactly, or refused for the reason that `new` gives.
    #[test]
    fn numbers_are_read_as_they_are_given(
        count in any::<u64>(), shift in 0..64_u32,
        many in any::<u64>(), many_shift in 0..64_u32,
        unit in 0..UNITS.len(),
    ) {
        let (count, many, (name, nanos)) = (count >> shift, many >> many_shift, UNITS[unit]);
        let expected = match (u32::try_from(count), many.checked_mul(nanos)) {
            (Err(_), _) => Err(TooLarge("count")),
            (Ok(0), _) => Err(Zero("count")),
            (_, None) => Err(TooLarge("period")),
            (Ok(count), Some(nanos)) => Rate::new(count, Duration::from_nanos(nanos)),
        };
        prop_assert_eq!(format!("{count}/{many}{name}").parse(), expected);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,20}", likely in "[0-9]{0,21} ?/ ?[0-9]{0,21}[a-z]{0,4}( burst ?[0-9]{0,11})?") {
        for text in [&text, &likely] {
            let (rate, limit) = (text.parse::<Rate>(), text.parse::<Limit>());
            match rate {
                Ok(rate) => prop_assert_eq!(limit, Ok(Limit::new(rate))),
                Err(_) if limit.is_ok() => prop_assert!(text.contains("burst")),
                Err(_) => {}
            }
        }
    }
}

#[cfg(feature = "serde")]
mod through_serde {
    use super::*;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    #[serde(deny_unknown_fields)]
    struct Config {
        window: Rate,
        limit: Limit,
        #[serde(default)]
        other: Option<Limit>,
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(limit in limits(), other in proptest::option::of(limits())) {
            let config = Config { window: limit.rate(), limit, other };
            let json = serde_json::to_string(&config).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Config>(&json).unwrap(), &config);
            // By way of owned strings too.
            let value = serde_json::to_value(&config).unwrap();
            prop_assert_eq!(&value["limit"], &limit.to_string());
            prop_assert_eq!(&serde_json::from_value::<Config>(value).unwrap(), &config);
        }
    }

    fn refusal(json: &str) -> String {
        serde_json::from_str::<Config>(json).unwrap_err().to_string()
    }

    #[test]
    fn a_limit_is_a_text() {
        let json = r#"{"window":"100/h","limit":"10/s burst 20","other":null}"#;
        let config = Config { window: rate!("100/h"), limit: limit!("10/s burst 20"), other: None };
        assert_eq!(serde_json::to_string(&config).unwrap(), json);
        assert_eq!(serde_json::from_str::<Config>(json).unwrap(), config);
        // Escapes force a copy of the text.
        let escaped = r#"{"window": "100\/h", "limit": "10\u002fs burst 20"}"#;
        assert_eq!(serde_json::from_str::<Config>(escaped).unwrap(), config);
    }

    #[test]
    fn an_error_names_the_field() {
        for (json, message) in [
            (r#"{"window": "0/s", "limit": "1/s"}"#, "count must not be zero at line 1"),
            (r#"{"window": "1/s", "limit": "1/s burst 0"}"#, "burst must not be zero at line 1"),
            (r#"{"window": "1/s", "limit": "1"}"#, "period cannot be read; the form is "),
            (r#"{"window": "1/s burst 2", "limit": "1/s"}"#, "burst has no place in a rate"),
            (r#"{"window": "59/ns", "limit": "1/s"}"#, "rate is above 58 permits"),
            (r#"{"window": "1/s"}"#, "missing field `limit`"),
            (r#"{"window": "1/s", "limit": "1/s", "brust": 3}"#, "unknown field `brust`"),
            (
                r#"{"window": 10, "limit": "1/s"}"#,
                "invalid type: integer `10`, expected a text such as \"100/min\"",
            ),
            (r#"{"window": null, "limit": "1/s"}"#, "invalid type: null, expected a text"),
        ] {
            let refusal = refusal(json);
            assert!(refusal.starts_with(message), "{json}: {refusal}");
        }
    }
}
