//! What callers of a queue are told when there is nothing to hand over.

use core::fmt;
use core::time::Duration;

/// An item that a queue did not take, given back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refused<T> {
    /// The queue holds as many as it may.
    Full(T),
    /// The queue has been closed.
    Closed(T),
}

impl<T> Refused<T> {
    /// The item.
    pub fn into_item(self) -> T {
        match self {
            Self::Full(item) | Self::Closed(item) => item,
        }
    }

    /// Whether the queue was full.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Whether the queue was closed.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

/// Any item may be refused, so this does not show it.
impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_full() { "Full(..)" } else { "Closed(..)" })
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_full() { "the queue is full" } else { "the queue is closed" })
    }
}

impl<T> core::error::Error for Refused<T> {}

/// Why [`try_pop`](crate::LeakyQueue::try_pop) hands nothing out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotReleased {
    /// Nothing is queued.
    Empty,
    /// The next item is released after so long; `Duration::MAX` is never, past
    /// the [`HORIZON`](crate::HORIZON).
    NotYet(Duration),
    /// The queue is closed and empty, for good.
    Closed,
}

impl fmt::Display for NotReleased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the queue is empty"),
            Self::NotYet(Duration::MAX) => f.write_str("nothing is released any more"),
            Self::NotYet(wait) => write!(f, "the next item is released in {wait:?}"),
            Self::Closed => Closed.fmt(f),
        }
    }
}

impl core::error::Error for NotReleased {}

/// The queue is closed and empty, for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is closed and empty")
    }
}

impl core::error::Error for Closed {}

/// Why [`pop_timeout`](crate::LeakyQueue::pop_timeout) hands nothing out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotInTime {
    /// Nothing was released in the time given.
    TimedOut,
    /// The queue is closed and empty, for good.
    Closed,
}

impl fmt::Display for NotInTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("nothing was released in time"),
            Self::Closed => Closed.fmt(f),
        }
    }
}

impl core::error::Error for NotInTime {}
