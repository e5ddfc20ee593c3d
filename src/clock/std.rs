use super::{Clock, Instant, nanos};

/// The standard library's monotonic clock, [`std::time::Instant`].
#[derive(Clone, Copy, Debug)]
pub struct StdClock {
    zero: ::std::time::Instant,
}

impl StdClock {
    /// A clock whose zero is now.
    #[must_use]
    pub fn new() -> Self {
        Self { zero: ::std::time::Instant::now() }
    }
}

impl Default for StdClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for StdClock {
    fn now(&self) -> Instant {
        Instant(nanos(self.zero.elapsed()))
    }

    #[inline]
    fn is_built_in(&self) -> bool {
        true
    }
}
