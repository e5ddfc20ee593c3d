//! What calls are told, and a counter for any rate: for the tests and the fuzz
//! targets alike, so it needs the library alone.

use core::time::Duration;
use tollgate::{ConfigError, Decision, Rate, SlidingWindowCounter};

/// A counter of the rate, or of the half, a quarter and so on of the count or the
/// period that does not fit its state.
pub fn counter(rate: Rate, offset: Option<Duration>) -> SlidingWindowCounter {
    let made = match offset {
        None => SlidingWindowCounter::new(rate),
        Some(offset) => SlidingWindowCounter::aligned(rate, offset),
    };
    made.unwrap_or_else(|error| {
        let (count, period) = (rate.count().get(), rate.period());
        let smaller = match error {
            ConfigError::TooLarge("count") => Rate::new(count / 2, period),
            ConfigError::TooLarge("period") => Rate::new(count.div_ceil(2), period / 2),
            other => panic!("{other}"),
        };
        counter(smaller.unwrap(), offset)
    })
}

/// All that a decision says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Said {
    pub granted: bool,
    pub never: bool,
    pub limit: u32,
    pub remaining: u32,
    pub delay: u64,
    pub retry_after: Option<u64>,
    pub retry_after_secs: Option<u64>,
    pub reset_after: u64,
    pub index: usize,
}

pub fn said(decision: &Decision) -> Said {
    let nanos = |duration: Duration| duration.as_nanos() as u64;
    assert_ne!(decision.is_granted(), decision.is_denied());
    Said {
        granted: decision.is_granted(),
        never: decision.is_never(),
        limit: decision.limit(),
        remaining: decision.remaining(),
        delay: nanos(decision.delay()),
        retry_after: decision.retry_after().map(nanos),
        retry_after_secs: decision.retry_after_secs(),
        reset_after: nanos(decision.reset_after()),
        index: decision.index(),
    }
}

/// What a call was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    Said(Said),
    Booked(u32),
    GaveBack(u32),
    Forgot,
}
