//! The leaky bucket as a queue of items: what goes in at any pace comes out
//! evenly spaced.

mod answer;
mod bell;
mod lock_free;
mod mutex;

pub use answer::{Closed, NotInTime, NotReleased, Refused};
pub use lock_free::LockFreeItems;
pub use mutex::MutexItems;

use crate::clock::{Clock, Instant, MonotonicClock, RealTime};
use crate::error::ConfigError;
use crate::meter::Meter;
use crate::rate::Rate;
use crate::supply::Flow;
use bell::Bell;
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

/// A bounded queue that hands its items out at a rate, one an interval.
///
/// Where [`LeakyBucket`](crate::LeakyBucket) tells a caller how long to wait, a
/// queue keeps the item, and the pace is that of whoever takes it out.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{LeakyQueue, ManualClock, NotReleased, rate};
///
/// let clock = ManualClock::new();
/// let queue = LeakyQueue::with_clock(rate!("10/s"), 100, clock.clone())?;
/// queue.push("first")?;
/// queue.push("second")?;
/// assert_eq!(queue.try_pop(), Ok("first"));
/// assert_eq!(queue.try_pop(), Err(NotReleased::NotYet(Duration::from_millis(100))));
/// clock.advance(Duration::from_millis(100));
/// assert_eq!(queue.try_pop(), Ok("second"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A worker calls [`pop`](Self::pop), which waits:
///
/// ```
/// use std::thread;
/// use tollgate::{LeakyQueue, rate};
///
/// let queue = LeakyQueue::new(rate!("1000/s"), 100)?;
/// thread::scope(|scope| {
///     scope.spawn(|| {
///         while let Ok(mail) = queue.pop() {
///             println!("sending {mail}"); // one a millisecond
///         }
///     });
///     for mail in ["a", "b", "c"] {
///         queue.push(mail).expect("room for all");
///     }
///     queue.close();
/// });
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
///
/// # Releases
///
/// An item is released at `max(arrival, previous release + interval)` to one who
/// waits for it, and to one who comes later when he comes. The next release
/// counts from that: neither time in which the queue is empty nor time in which
/// nobody takes anything is saved, and what is taken late is not made up for. So
/// no two releases are ever closer than the interval, and the rate is a bound:
/// it is reached by consumers that are never late, while those that wake up
/// some microseconds late each time lose as much in each interval.
///
/// Intervals are exact as far as those of all limiters are (see
/// [`Rate`]): an item that is taken in the very nanosecond in which it came due
/// counts as released when it was due, so that three a second are three a
/// second. Past the [`HORIZON`](crate::HORIZON) nothing is released any more.
///
/// Order is first in, first out, for each producer and by the places in the
/// queue for all. Nothing is handed out twice; an item that was let in comes out
/// or is [drained](Self::drain) or dropped with the queue.
///
/// # Sharing
///
/// All methods take `&self`. By default the queue takes no lock to push or to
/// take out, only to sleep and to wake who sleeps; [`LockFreeItems`] says
/// what happens around a thread that is stopped. [`LockedLeakyQueue`] gives the
/// same answers behind a mutex.
pub struct LeakyQueue<T, C = MonotonicClock, I = LockFreeItems<T>> {
    items: I,
    rate: Rate,
    capacity: usize,
    meter: Meter<Flow>,
    clock: C,
    bell: Bell,
    holds: PhantomData<fn() -> T>,
}

/// A [`LeakyQueue`] behind a mutex: the same rule, so the same answers. It is
/// made by [`LeakyQueue::locked`].
///
/// Every push and every take holds a short lock (`parking_lot`); when its
/// holder is preempted all others wait, asleep.
pub type LockedLeakyQueue<T, C = MonotonicClock> = LeakyQueue<T, C, MutexItems<T>>;

/// Items in order, and the release word: the mark of the next release on the
/// supply axis.
pub trait Items<T>: Sized {
    /// None, and the word at zero.
    fn with_capacity(capacity: usize) -> Self;

    /// Appends an item, or gives it back.
    fn push(&self, item: T) -> Result<(), Refused<T>>;

    /// Takes the first item if `claim` answers what the word shall be when it
    /// is given what it is. True: it was the last of a closed queue.
    fn take(&self, claim: impl Fn(u64) -> Option<u64>) -> Result<(T, bool), Nothing>;

    /// Why nothing was taken, if nothing was.
    fn outlook(&self) -> Nothing;

    /// Takes all items and leaves the word.
    fn drain(&self) -> Vec<T>;

    /// How many there are.
    fn len(&self) -> usize;

    /// Lets nothing in from now on.
    fn close(&self);

    /// Whether it is closed.
    fn is_closed(&self) -> bool;
}

/// Why there is no item.
#[derive(Clone, Copy, Debug)]
pub enum Nothing {
    /// None is there now.
    Now,
    /// None is there, and none will come.
    Ever,
    /// There are some, and this is the word.
    Before(u64),
    /// There was one, and another has taken it after the claim.
    Left,
}

impl<T> LeakyQueue<T> {
    /// An empty queue of so many places on the default clock.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Zero`] for a capacity of zero, [`ConfigError::TooLarge`]
    /// for one that no memory holds.
    pub fn new(rate: Rate, capacity: usize) -> Result<Self, ConfigError> {
        Self::with_clock(rate, capacity, MonotonicClock::new())
    }
}

impl<T, C: Clock> LeakyQueue<T, C> {
    /// An empty queue on a clock of your choice. Its memory is taken at once.
    ///
    /// # Errors
    ///
    /// As for [`new`](LeakyQueue::new).
    pub fn with_clock(rate: Rate, capacity: usize, clock: C) -> Result<Self, ConfigError> {
        Self::make(rate, capacity, clock)
    }
}

impl<T> LockedLeakyQueue<T> {
    /// The same behind a mutex.
    ///
    /// # Errors
    ///
    /// As for [`new`](LeakyQueue::new).
    ///
    /// ```
    /// use tollgate::{LeakyQueue, rate};
    ///
    /// let queue = LeakyQueue::locked(rate!("10/s"), 100)?;
    /// queue.push("first")?;
    /// assert_eq!(queue.try_pop(), Ok("first"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn locked(rate: Rate, capacity: usize) -> Result<Self, ConfigError> {
        Self::locked_with_clock(rate, capacity, MonotonicClock::new())
    }
}

impl<T, C: Clock> LockedLeakyQueue<T, C> {
    /// The same behind a mutex, on a clock of your choice.
    ///
    /// # Errors
    ///
    /// As for [`new`](LeakyQueue::new).
    pub fn locked_with_clock(rate: Rate, capacity: usize, clock: C) -> Result<Self, ConfigError> {
        Self::make(rate, capacity, clock)
    }
}

impl<T, C: Clock, I: Items<T>> LeakyQueue<T, C, I> {
    fn make(rate: Rate, capacity: usize, clock: C) -> Result<Self, ConfigError> {
        if capacity == 0 {
            return Err(ConfigError::Zero("capacity"));
        }
        // A place is an item and a stamp at most.
        if Layout::array::<(u64, T)>(capacity).is_err() {
            return Err(ConfigError::TooLarge("capacity"));
        }
        let (flow, cost) = Flow::new(rate, 1);
        let mut meter = Meter::new(flow, 1, cost);
        meter.start(clock.now());
        let (items, bell) = (I::with_capacity(capacity), Bell::new());
        Ok(Self { items, rate, capacity, meter, clock, bell, holds: PhantomData })
    }

    /// Appends an item.
    ///
    /// # Errors
    ///
    /// The item, in [`Refused`], when the queue is full or closed.
    #[inline]
    pub fn push(&self, item: T) -> Result<(), Refused<T>> {
        let pushed = self.items.push(item);
        // Also when refused: the end of a push may be the end of the queue.
        self.bell.ring_for_item();
        pushed
    }

    /// Takes the first item if its release has come. Reads the clock once.
    ///
    /// # Errors
    ///
    /// [`NotReleased`] says whether there is none, now or for good, or when it
    /// will be.
    #[inline]
    pub fn try_pop(&self) -> Result<T, NotReleased> {
        self.try_pop_at(self.clock.now())
    }

    fn try_pop_at(&self, now: Instant) -> Result<T, NotReleased> {
        let claim = |mark: u64| {
            let mut next = mark;
            self.meter.take_in_turn(&mut next, now);
            self.wait(mark, now).is_none().then_some(next)
        };
        loop {
            let nothing = match self.items.take(claim) {
                Ok((item, last)) => {
                    // Others may have seen it, and sleep until the release after it.
                    if last {
                        self.bell.ring();
                    }
                    return Ok(item);
                }
                Err(nothing) => nothing,
            };
            return Err(match nothing {
                Nothing::Now => NotReleased::Empty,
                Nothing::Ever => NotReleased::Closed,
                Nothing::Before(mark) => {
                    NotReleased::NotYet(self.wait(mark, now).unwrap_or_default())
                }
                Nothing::Left => {
                    // The release may have been put back, for those who sleep on it.
                    self.bell.ring();
                    continue;
                }
            });
        }
    }

    /// How long until supply reaches a mark; none if it has.
    #[inline]
    fn wait(&self, mark: u64, now: Instant) -> Option<Duration> {
        if now < Instant::MAX && self.meter.is_possible(mark, now, 1) {
            return None;
        }
        Some(match self.meter.earliest(mark, now, 1) {
            Instant::MAX => Duration::MAX,
            release => release.since(now),
        })
    }

    /// How long until the next release: zero if it has come, `None` when there
    /// is nothing to release. `Duration::MAX` is never.
    #[must_use]
    pub fn next_release(&self) -> Option<Duration> {
        match self.items.outlook() {
            Nothing::Before(mark) => Some(self.wait(mark, self.clock.now()).unwrap_or_default()),
            _ => None,
        }
    }

    /// Takes all that is queued, in order, whatever the rate. The next item to
    /// come is released when it would have been.
    ///
    /// What is pushed meanwhile may stay.
    pub fn drain(&self) -> Vec<T> {
        let items = self.items.drain();
        self.bell.ring();
        items
    }

    /// Refuses all pushes from now on. What is queued is still released at its
    /// time; after the last of it, consumers are told that the queue is closed.
    pub fn close(&self) {
        self.items.close();
        self.bell.ring();
    }

    /// Whether it has been closed; there may still be items.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.items.is_closed()
    }

    /// How many items are queued; those of a push or a pop under way count or
    /// do not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many items it holds at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How fast it drains.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }
}

/// Waiting takes a clock that runs by itself. With any other, as in a test with
/// a [`ManualClock`](crate::ManualClock), [`try_pop`](LeakyQueue::try_pop) does
/// the same without the waiting.
///
/// Threads that wait are served in no order. All that wait for the same item
/// wake up when it is released, or when it comes into an empty queue.
impl<T, C: RealTime, I: Items<T>> LeakyQueue<T, C, I> {
    /// Takes the first item, after waiting for one and for its release. On a
    /// queue that releases nothing any more, past the
    /// [`HORIZON`](crate::HORIZON), it waits for a drain and a close.
    ///
    /// # Errors
    ///
    /// [`Closed`], when the queue is closed and empty.
    pub fn pop(&self) -> Result<T, Closed> {
        self.pop_before(None).map_err(|_| Closed)
    }

    /// The same, waiting no longer than `timeout`, on the queue's clock. With
    /// none, this is [`try_pop`](Self::try_pop).
    ///
    /// # Errors
    ///
    /// [`NotInTime`].
    pub fn pop_timeout(&self, timeout: Duration) -> Result<T, NotInTime> {
        self.pop_before(Some(self.clock.now() + timeout))
    }

    fn pop_before(&self, deadline: Option<Instant>) -> Result<T, NotInTime> {
        loop {
            // Not under the bell's lock: the clock may run anybody's code.
            let now = self.clock.now();
            match self.try_pop_at(now) {
                Ok(item) => return Ok(item),
                Err(NotReleased::Closed) => return Err(NotInTime::Closed),
                Err(_) if deadline.is_some_and(|deadline| deadline <= now) => {
                    return Err(NotInTime::TimedOut);
                }
                Err(_) => {}
            }
            let left = deadline.map(|deadline| deadline.since(now));
            let watch = self.bell.watch();
            match self.items.outlook() {
                Nothing::Now => watch.sleep(left),
                Nothing::Before(mark) => {
                    if let Some(wait) = self.wait(mark, now) {
                        watch.sleep_on(left.map_or(wait, |left| left.min(wait)));
                    }
                }
                Nothing::Ever | Nothing::Left => {}
            }
        }
    }
}

impl<T, C: fmt::Debug, I: Items<T>> fmt::Debug for LeakyQueue<T, C, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeakyQueue")
            .field("rate", &self.rate)
            .field("capacity", &self.capacity)
            .field("len", &self.items.len())
            .field("closed", &self.items.is_closed())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
