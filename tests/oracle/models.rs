//! The definitions, as naive exact models. They measure time in nanoseconds
//! times the rate's count, so that the time between two permits is the period, a
//! whole number, and nothing is ever rounded.

use crate::common::*;
use std::collections::HashMap;

/// An algorithm by its definition. Once something fits, it fits from then on.
pub(crate) trait Model {
    /// The most permits one call may take.
    fn capacity(&self) -> u32;

    /// Whether `n` permits can be had `at` a time.
    fn fits(&self, at: u64, n: u32) -> bool;

    /// `n` permits are taken, or booked without a grant.
    fn take(&mut self, now: u64, n: u32, granted: Granted);

    /// Whether a call for `n` permits that is granted `now` may act `at` a time.
    fn may_act(&self, now: u64, n: u32, at: u64) -> bool {
        let _ = n;
        at >= now
    }

    /// Whether `at` a time all is as new, or the window `now` has ended.
    fn is_reset(&self, now: u64, at: u64) -> bool;

    /// Whether `n` permits can be booked without a grant.
    fn may_book(&self, now: u64, n: u32) -> bool;

    /// Gives back up to `n` permits of a grant.
    fn give_back(&mut self, now: u64, grant: usize, n: u32) -> u32;

    /// Becomes `new`, which is as at the creation.
    fn reset(&mut self, new: Self, now: u64)
    where
        Self: Sized,
    {
        let _ = now;
        *self = new;
    }
}

/// The number of a grant; none for permits that were booked by a charge.
pub(crate) type Granted = Option<usize>;

/// Time in nanoseconds times the count, from the creation on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    origin: u64,
    pub(crate) count: u128,
    /// The time between two permits.
    pub(crate) interval: u128,
}

impl Scale {
    pub(crate) fn of(setup: Setup) -> Self {
        let (count, period) = (setup.rate.count().get(), period(setup.rate));
        Self { origin: setup.origin, count: count.into(), interval: period.into() }
    }

    /// Before the creation time stands still.
    pub(crate) fn time(&self, at: u64) -> u128 {
        u128::from(at.saturating_sub(self.origin)) * self.count
    }

    pub(crate) fn permits(&self, n: impl Into<u128>) -> u128 {
        n.into() * self.interval
    }
}

/// A bucket with water in it: permits times the interval. Debt is negative.
/// Time only goes forward.
pub(crate) struct Bucket {
    scale: Scale,
    burst: u32,
    level: i128,
    /// When the level was that.
    at: u64,
    /// What was taken and not given back, newest last.
    taken: Vec<(u32, Granted)>,
}

impl Bucket {
    pub(crate) fn new(setup: Setup) -> Self {
        let (scale, burst) = (Scale::of(setup), setup.burst.get());
        let level = scale.permits(burst) as i128;
        Self { scale, burst, level, at: setup.origin, taken: Vec::new() }
    }

    fn full(&self) -> i128 {
        self.scale.permits(self.burst) as i128
    }

    fn level(&self, at: u64) -> i128 {
        let flown = self.scale.time(at) - self.scale.time(self.at);
        (self.level + flown as i128).min(self.full())
    }
}

impl Model for Bucket {
    fn capacity(&self) -> u32 {
        self.burst
    }

    fn fits(&self, at: u64, n: u32) -> bool {
        self.level(at) >= self.scale.permits(n) as i128
    }

    fn take(&mut self, now: u64, n: u32, granted: Granted) {
        self.level = self.level(now) - self.scale.permits(n) as i128;
        self.at = now;
        self.taken.push((n, granted));
    }

    fn is_reset(&self, _: u64, at: u64) -> bool {
        self.level(at) == self.full()
    }

    fn may_book(&self, now: u64, n: u32) -> bool {
        self.level(now) - self.scale.permits(n) as i128 >= -self.full()
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
        let missing = self.full() - self.level(now);
        let given = self.scale.permits(n) as i128;
        self.level = self.level(now) + given.min(missing);
        self.at = now;
        n.min(missing.unsigned_abs().div_ceil(self.scale.interval) as u32)
    }
}

/// A bucket as a schedule: each permit takes an interval of the source's time,
/// and at most a burst of intervals may be taken ahead. The clock may step back.
pub(crate) struct Ahead {
    scale: Scale,
    burst: u32,
    /// When, how many and by which grant, newest last.
    taken: Vec<(u64, u32, Granted)>,
}

impl Ahead {
    pub(crate) fn new(setup: Setup) -> Self {
        Self { scale: Scale::of(setup), burst: setup.burst.get(), taken: Vec::new() }
    }

    /// Until when the source's time is taken.
    fn taken_until(&self) -> u128 {
        self.taken
            .iter()
            .fold(0, |until, (at, n, _)| until.max(self.scale.time(*at)) + self.scale.permits(*n))
    }
}

impl Model for Ahead {
    fn capacity(&self) -> u32 {
        self.burst
    }

    fn fits(&self, at: u64, n: u32) -> bool {
        self.taken_until() + self.scale.permits(n)
            <= self.scale.time(at) + self.scale.permits(self.burst)
    }

    fn take(&mut self, now: u64, n: u32, granted: Granted) {
        self.taken.push((now, n, granted));
    }

    fn is_reset(&self, _: u64, at: u64) -> bool {
        self.taken_until() <= self.scale.time(at)
    }

    fn may_book(&self, now: u64, n: u32) -> bool {
        let now = self.scale.time(now);
        let most = self.scale.permits(2 * u64::from(self.burst));
        self.taken_until().max(now) + self.scale.permits(n) <= now + most
    }

    /// The newest one only, and of its time what has not passed. A part of a
    /// permit that has not makes it one.
    fn give_back(&mut self, now: u64, grant: usize, n: u32) -> u32 {
        let before = self.taken_until();
        let Some((at, held, _)) = self.taken.pop_if(|(.., granted)| *granted == Some(grant)) else {
            return 0;
        };
        if n < held {
            self.taken.push((at, held - n, None)); // cannot be undone twice
        }
        let after = self.taken_until().max(self.scale.time(now));
        before.saturating_sub(after).div_ceil(self.scale.interval) as u32
    }
}

/// A queue of permits, each with the time it leaves.
pub(crate) struct Queue {
    scale: Scale,
    /// How many may wait.
    places: u32,
    /// How many of those that wait need not.
    without_delay: u32,
    leave: Vec<(u128, Granted)>,
}

impl Queue {
    pub(crate) fn new(setup: Setup, places: u32, without_delay: u32) -> Self {
        Self { scale: Scale::of(setup), places, without_delay, leave: Vec::new() }
    }

    /// The departures of `n` permits that come in `now`.
    fn departures(&self, now: u64, n: u32) -> impl Iterator<Item = u128> {
        let behind = self.leave.last().map_or(0, |(leaves, _)| leaves + self.scale.interval);
        let first = behind.max(self.scale.time(now));
        (0..n).map(move |place| first + self.scale.permits(place))
    }
}

impl Model for Queue {
    fn capacity(&self) -> u32 {
        self.places + 1
    }

    fn fits(&self, at: u64, n: u32) -> bool {
        let now = self.scale.time(at);
        let all = self.leave.iter().map(|(leaves, _)| *leaves).chain(self.departures(at, n));
        let waiting = all.filter(|leaves| *leaves > now).count();
        // After a step back there is a gap before the first of the queue. It
        // does not make anybody wait for longer.
        let longest = now + self.scale.permits(self.places);
        waiting <= self.places as usize && self.departures(at, n).all(|leaves| leaves <= longest)
    }

    fn take(&mut self, now: u64, n: u32, granted: Granted) {
        let departures: Vec<_> = self.departures(now, n).collect();
        self.leave.extend(departures.into_iter().map(|leaves| (leaves, granted)));
    }

    fn may_act(&self, now: u64, n: u32, at: u64) -> bool {
        let last = self.departures(now, n).last().unwrap_or(0);
        last <= self.scale.time(at) + self.scale.permits(self.without_delay)
    }

    /// The next one would not have to wait.
    fn is_reset(&self, _: u64, at: u64) -> bool {
        self.departures(at, 1).all(|leaves| leaves == self.scale.time(at))
    }

    fn may_book(&self, now: u64, n: u32) -> bool {
        let most = self.scale.time(now) + self.scale.permits(2 * self.capacity() - 1);
        self.departures(now, n).all(|leaves| leaves <= most)
    }

    /// The places at the end of the queue, if they are this grant's. A permit
    /// holds its place until the next one may leave.
    fn give_back(&mut self, now: u64, grant: usize, n: u32) -> u32 {
        let mut given = 0;
        for _ in 0..n {
            let Some((leaves, _)) = self.leave.pop_if(|(_, granted)| *granted == Some(grant))
            else {
                return 0;
            };
            given += u32::from(leaves + self.scale.interval > self.scale.time(now));
        }
        for (_, granted) in &mut self.leave {
            *granted = granted.filter(|granted| *granted != grant); // cannot be undone twice
        }
        given
    }
}

/// The permits used in each window, by the window's number.
pub(crate) struct Windows {
    origin: u64,
    count: u32,
    period: i128,
    /// Where one of the windows begins.
    edge: i128,
    used: HashMap<i128, u32>,
    /// The newest window that was used. The ones before it are closed, even if
    /// the clock steps back into them.
    newest: i128,
    grants: HashMap<usize, i128>,
}

impl Windows {
    pub(crate) fn new(setup: Setup, edge: u64) -> Self {
        let (rate, origin) = (setup.rate, setup.origin);
        let (count, period) = (rate.count().get(), period(rate).into());
        let (used, grants) = (HashMap::new(), HashMap::new());
        Self { origin, count, period, edge: edge.into(), used, newest: i128::MIN, grants }
    }

    /// Before the creation time stands still.
    fn window(&self, at: u64) -> i128 {
        (i128::from(at.max(self.origin)) - self.edge).div_euclid(self.period)
    }

    fn used(&self, window: i128) -> u32 {
        self.used.get(&window).copied().unwrap_or(0)
    }
}

impl Model for Windows {
    fn capacity(&self) -> u32 {
        self.count
    }

    fn fits(&self, at: u64, n: u32) -> bool {
        let window = self.window(at);
        window >= self.newest && n <= self.count - self.used(window)
    }

    fn take(&mut self, now: u64, n: u32, granted: Granted) {
        self.newest = self.window(now);
        *self.used.entry(self.newest).or_default() += n;
        self.grants.extend(granted.map(|grant| (grant, self.newest)));
    }

    fn is_reset(&self, now: u64, at: u64) -> bool {
        self.window(at) > self.window(now).max(self.newest)
    }

    fn may_book(&self, now: u64, n: u32) -> bool {
        self.fits(now, n)
    }

    /// In the window of the grant.
    fn give_back(&mut self, now: u64, grant: usize, n: u32) -> u32 {
        let window = self.window(now);
        if self.grants[&grant] != window {
            return 0;
        }
        *self.used.get_mut(&window).unwrap() -= n;
        n
    }
}

/// All grants there were, each with the window that it counts in. The newest
/// window has just begun as long as the clock has stepped back from it.
pub(crate) struct Estimate {
    origin: u64,
    count: i128,
    period: i128,
    /// Where one of the windows begins.
    edge: i128,
    grants: Vec<(i128, u32, Granted)>,
    newest: i128,
}

impl Estimate {
    pub(crate) fn new(setup: Setup, edge: u64) -> Self {
        let (rate, origin, edge) = (setup.rate, setup.origin, edge.into());
        let (count, period) = (rate.count().get().into(), period(rate).into());
        Self { origin, count, period, edge, grants: Vec::new(), newest: i128::MIN }
    }

    /// From the first edge. Before the creation time stands still.
    fn since(&self, at: u64) -> i128 {
        i128::from(at.max(self.origin)) - self.edge
    }

    fn window(&self, at: u64) -> i128 {
        self.since(at).div_euclid(self.period)
    }

    /// The window that a call `at` a time counts in, and how far into it that is.
    fn place(&self, at: u64) -> (i128, i128) {
        match self.window(at) {
            window if window < self.newest => (self.newest, 0),
            window => (window, self.since(at).rem_euclid(self.period)),
        }
    }

    fn granted_in(&self, window: i128) -> i128 {
        let within = self.grants.iter().filter(|(granted_in, ..)| *granted_in == window);
        within.map(|(_, n, _)| i128::from(*n)).sum()
    }
}

impl Model for Estimate {
    fn capacity(&self) -> u32 {
        self.count as u32
    }

    /// In permits times the period.
    fn fits(&self, at: u64, n: u32) -> bool {
        let (window, into) = self.place(at);
        let previous = self.granted_in(window - 1) * (self.period - into);
        let current = (self.granted_in(window) + i128::from(n)) * self.period;
        previous + current <= self.count * self.period
    }

    fn take(&mut self, now: u64, n: u32, granted: Granted) {
        self.newest = self.place(now).0;
        self.grants.push((self.newest, n, granted));
    }

    fn is_reset(&self, _: u64, at: u64) -> bool {
        let window = self.window(at);
        let seen = self.granted_in(window - 1) + self.granted_in(window);
        seen == 0 && window >= self.newest
    }

    fn may_book(&self, now: u64, n: u32) -> bool {
        self.fits(now, n)
    }

    /// In the window of the grant.
    fn give_back(&mut self, now: u64, grant: usize, n: u32) -> u32 {
        let window = self.place(now).0;
        let own = |(granted_in, _, granted): &&mut (i128, u32, Granted)| {
            *granted_in == window && *granted == Some(grant)
        };
        match self.grants.iter_mut().find(own) {
            Some((_, held, _)) => {
                *held -= n;
                n
            }
            None => 0,
        }
    }
}

/// All grants there were. The time of a call is never before that of the newest,
/// nor before the creation.
pub(crate) struct Grants {
    count: u32,
    period: u64,
    grants: Vec<(u64, u32, Granted)>,
    newest: u64,
}

impl Grants {
    pub(crate) fn new(setup: Setup) -> Self {
        let (count, period) = (setup.rate.count().get(), period(setup.rate));
        Self { count, period, grants: Vec::new(), newest: setup.origin }
    }

    fn time(&self, now: u64) -> u64 {
        now.max(self.newest)
    }

    /// A grant counts for one period.
    fn counts(&self, granted_at: u64, at: u64) -> bool {
        u128::from(at) < u128::from(granted_at) + u128::from(self.period)
    }
}

impl Model for Grants {
    fn capacity(&self) -> u32 {
        self.count
    }

    fn fits(&self, at: u64, n: u32) -> bool {
        let counting =
            self.grants.iter().filter(|(granted_at, ..)| self.counts(*granted_at, self.time(at)));
        let used: u64 = counting.map(|(_, n, _)| u64::from(*n)).sum();
        used + u64::from(n) <= self.count.into()
    }

    fn take(&mut self, now: u64, n: u32, granted: Granted) {
        self.newest = self.time(now);
        self.grants.push((self.newest, n, granted));
    }

    fn is_reset(&self, _: u64, at: u64) -> bool {
        at >= self.newest
            && !self.grants.iter().any(|(granted_at, ..)| self.counts(*granted_at, at))
    }

    fn may_book(&self, now: u64, n: u32) -> bool {
        self.fits(now, n)
    }

    /// Of the newest moment only, while it counts.
    fn give_back(&mut self, now: u64, grant: usize, n: u32) -> u32 {
        let newest = self.grants.last().map(|(at, ..)| *at);
        let own = self.grants.iter().rposition(|(.., granted)| *granted == Some(grant));
        let Some(own) = own.filter(|own| newest == Some(self.grants[*own].0)) else {
            return 0;
        };
        let (at, held, _) = self.grants.remove(own);
        let given = if self.counts(at, self.time(now)) { n } else { 0 };
        if given < held {
            self.grants.push((at, held - given, None)); // cannot be undone twice
        }
        given
    }

    /// Time does not step back.
    fn reset(&mut self, new: Self, now: u64) {
        *self = Self { newest: self.time(now), ..new };
    }
}
