//! Three algorithms by their definition. Time is measured in nanoseconds times
//! the rate's count, so that the time between two permits is the period, a whole
//! number, and nothing is ever rounded. Before the creation time stands still.

use crate::{HORIZON_NANOS, Setup};

/// The number of a grant; none for permits that were booked by a charge.
pub type Granted = Option<usize>;

/// An algorithm by its definition. Once something fits, it fits from then on.
pub trait Model {
    /// Whether `n` permits can be had `at` a time.
    fn fits(&self, at: u64, n: u32) -> bool;

    /// `n` permits are taken, or booked without a grant.
    fn take(&mut self, now: u64, n: u32, granted: Granted);

    /// Whether `at` a time all is as new, or the window `now` has ended.
    fn is_reset(&self, now: u64, at: u64) -> bool;

    /// Whether `n` permits can be booked without a grant.
    fn may_book(&self, now: u64, n: u32) -> bool {
        self.fits(now, n)
    }

    /// Gives back up to `n` permits of a grant of at least so many. The clock has
    /// not stepped back.
    fn give_back(&mut self, now: u64, grant: usize, n: u32) -> u32;

    /// The time that does not step back, where there is one.
    fn newest(&self) -> u64 {
        0
    }

    /// Time has come so far.
    fn begin_at(&mut self, newest: u64) {
        let _ = newest;
    }
}

/// A bucket as a schedule: each permit takes an interval of the source's time,
/// and at most a burst of intervals may be taken ahead.
pub struct Bucket {
    setup: Setup,
    /// Until when the source's time is taken.
    until: u128,
    /// What was taken and not given back, newest last.
    taken: Vec<(u32, Granted)>,
}

impl Bucket {
    pub fn new(setup: Setup) -> Self {
        Self { setup, until: 0, taken: Vec::new() }
    }

    /// By how many nanoseconds a limiter may be early or late: none where the
    /// interval is `p/q` with a small `q`, and the 64 bits of its state hold `q`
    /// units for each nanosecond up to the horizon and `p` for each permit of a
    /// full bucket and of as much debt; otherwise one, or the unit of the state.
    pub fn grain(setup: Setup) -> u64 {
        let (mut divisor, mut rest) = (setup.period(), setup.count());
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        let (p, q) = (setup.period() / divisor, u128::from(setup.count() / divisor));
        let burst = u64::from(setup.burst.get()) + 1;
        let supply = q * u128::from(HORIZON_NANOS);
        if q <= 58 && supply + 2 * u128::from(burst) * u128::from(p) < 1 << 64 {
            return 0;
        }
        1 + ((u128::from(HORIZON_NANOS) + 2 * setup.fill(burst)) >> 64) as u64
    }

    fn time(&self, at: u64) -> u128 {
        u128::from(at.saturating_sub(self.setup.origin)) * u128::from(self.setup.count())
    }

    fn permits(&self, n: impl Into<u128>) -> u128 {
        n.into() * u128::from(self.setup.period())
    }

    fn until(&self, now: u64, n: u32) -> u128 {
        self.until.max(self.time(now)) + self.permits(n)
    }
}

impl Model for Bucket {
    fn fits(&self, at: u64, n: u32) -> bool {
        self.until + self.permits(n) <= self.time(at) + self.permits(self.setup.burst.get())
    }

    fn take(&mut self, now: u64, n: u32, granted: Granted) {
        self.until = self.until(now, n);
        self.taken.push((n, granted));
    }

    fn is_reset(&self, _: u64, at: u64) -> bool {
        self.until <= self.time(at)
    }

    /// Into debt, by up to another burst.
    fn may_book(&self, now: u64, n: u32) -> bool {
        let burst = u64::from(self.setup.burst.get());
        self.until(now, n) <= self.time(now) + self.permits(2 * burst)
    }

    /// The newest one only, and never above the brim. A part of a permit that
    /// still counts makes it one.
    fn give_back(&mut self, now: u64, grant: usize, n: u32) -> u32 {
        let Some((held, _)) = self.taken.pop_if(|(_, granted)| *granted == Some(grant)) else {
            return 0;
        };
        if n < held {
            self.taken.push((held - n, None)); // cannot be undone twice
        }
        let given = self.until.saturating_sub(self.time(now)).min(self.permits(n));
        self.until -= given;
        given.div_ceil(self.permits(1_u32)) as u32
    }
}

/// The newest window that was used, and how much of it. The ones before it are
/// closed, even if the clock steps back into them.
pub struct Window {
    setup: Setup,
    /// Where one of the windows begins.
    edge: u64,
    newest: i128,
    used: u32,
    /// The window of each grant.
    grants: Vec<(usize, i128)>,
}

impl Window {
    pub fn new(setup: Setup, edge: u64) -> Self {
        Self { setup, edge, newest: i128::MIN, used: 0, grants: Vec::new() }
    }

    fn window(&self, at: u64) -> i128 {
        let since = i128::from(at.max(self.setup.origin)) - i128::from(self.edge);
        since.div_euclid(self.setup.period().into())
    }

    fn used(&self, window: i128) -> u32 {
        if window == self.newest { self.used } else { 0 }
    }
}

impl Model for Window {
    fn fits(&self, at: u64, n: u32) -> bool {
        let window = self.window(at);
        let all = u64::from(self.used(window)) + u64::from(n);
        window >= self.newest && all <= self.setup.count()
    }

    fn take(&mut self, now: u64, n: u32, granted: Granted) {
        let window = self.window(now);
        (self.newest, self.used) = (window, self.used(window) + n);
        self.grants.extend(granted.map(|grant| (grant, window)));
    }

    fn is_reset(&self, now: u64, at: u64) -> bool {
        // A window from which all has been given back is as good as unused.
        let newest = self.newest.saturating_sub(i128::from(self.used == 0));
        self.window(at) > self.window(now).max(newest)
    }

    /// In the window of the grant.
    fn give_back(&mut self, now: u64, grant: usize, n: u32) -> u32 {
        let window = self.window(now);
        if !self.grants.contains(&(grant, window)) {
            return 0;
        }
        self.used -= n;
        n
    }
}

/// All grants there were. The time of a call is never before that of the newest,
/// nor before the creation.
pub struct Log {
    setup: Setup,
    grants: Vec<(u64, u32, Granted)>,
    newest: u64,
}

impl Log {
    pub fn new(setup: Setup) -> Self {
        Self { setup, grants: Vec::new(), newest: setup.origin }
    }

    /// A grant counts for one period.
    fn counts(&self, granted_at: u64, at: u64) -> bool {
        u128::from(at) < u128::from(granted_at) + u128::from(self.setup.period())
    }

    fn used(&self, at: u64) -> u64 {
        let counting = self.grants.iter().filter(|(granted_at, ..)| self.counts(*granted_at, at));
        counting.map(|(_, n, _)| u64::from(*n)).sum()
    }
}

impl Model for Log {
    fn fits(&self, at: u64, n: u32) -> bool {
        self.used(at.max(self.newest)) + u64::from(n) <= self.setup.count()
    }

    fn take(&mut self, now: u64, n: u32, granted: Granted) {
        self.newest = self.newest.max(now);
        self.grants.push((self.newest, n, granted));
    }

    fn is_reset(&self, _: u64, at: u64) -> bool {
        at >= self.newest && self.used(at) == 0
    }

    /// Of the newest moment only, while it counts.
    fn give_back(&mut self, now: u64, grant: usize, n: u32) -> u32 {
        let newest = self.grants.last().map(|(at, ..)| *at);
        let own = self.grants.iter().rposition(|(.., granted)| *granted == Some(grant));
        let Some(own) = own.filter(|own| newest == Some(self.grants[*own].0)) else {
            return 0;
        };
        let (at, held, _) = self.grants.remove(own);
        let given = if self.counts(at, now.max(self.newest)) { n } else { 0 };
        if given < held {
            self.grants.push((at, held - given, None)); // cannot be undone twice
        }
        given
    }

    fn newest(&self) -> u64 {
        self.newest
    }

    fn begin_at(&mut self, newest: u64) {
        self.newest = self.newest.max(newest);
    }
}
