use super::{Clamped, Clock, Instant, nanos};
use std::time::SystemTime;

/// The wall clock: nanoseconds since the Unix epoch.
///
/// For windows that follow the calendar, as
/// [`FixedWindow::aligned`](crate::FixedWindow::aligned) counts them, and
/// where several programs should agree about them. It can be set by an
/// operator or a time server; a step back makes it stand still until the time
/// it had reached has come again (see [`Clamped`]), a step ahead counts as
/// time passed. Share one by reference or [`Arc`](std::sync::Arc).
#[derive(Debug)]
pub struct WallClock(Clamped<System>);

#[derive(Debug)]
struct System;

impl Clock for System {
    fn now(&self) -> Instant {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Instant(since.map_or(0, nanos)) // a clock set to before 1970 reads as 1970
    }
}

impl WallClock {
    /// The system's wall clock.
    #[must_use]
    pub fn new() -> Self {
        Self(Clamped::new(System))
    }
}

impl Default for WallClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for WallClock {
    fn now(&self) -> Instant {
        self.0.now()
    }

    #[inline]
    fn is_built_in(&self) -> bool {
        true
    }
}
