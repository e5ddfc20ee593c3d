//! The leaky bucket as a queue of items: its releases against an exact model,
//! and its promises under threads, without a lock and behind a mutex.

mod common;

use common::{common_rates, magnitudes, origins, period, rates};
use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tollgate::{
    Clock, Closed, ConfigError, Instant, LeakyQueue, LockedLeakyQueue, ManualClock, NotInTime,
    NotReleased, Rate, RealTime, Refused, StdClock, rate,
};

/// The test for both kinds of queue, made by a function that the test names.
macro_rules! both {
    ($($(#[$about:meta])* fn $name:ident($make:ident) $test:block)+) => {$(
        $(#[$about])*
        mod $name {
            use super::*;

            #[test]
            fn lock_free() {
                let $make = LeakyQueue::with_clock;
                $test
            }

            #[test]
            fn locked() {
                let $make = LeakyQueue::locked_with_clock;
                $test
            }
        }
    )+};
}

fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

const SECOND: u64 = 1_000_000_000;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(20);

both! {
    fn releases_of_awkward_rates_are_exact(make) {
        // The nanosecond in which each third of a second, each seventh of a
        // minute has passed: no rounding adds up.
        for (rate, period) in [(rate!("3/s"), SECOND), (rate!("7/min"), 60 * SECOND)] {
            let clock = ManualClock::starting_at(Instant::from_nanos(12_345));
            let queue = make(rate, 50, clock.clone()).unwrap();
            let count = u64::from(rate.count().get());
            (0..50).for_each(|item| queue.push(item).unwrap());
            for item in 0..50 {
                let due = 12_345 + (item * period).div_ceil(count);
                if item > 0 {
                    clock.set(Instant::from_nanos(due - 1));
                    assert_eq!(queue.try_pop(), Err(NotReleased::NotYet(nanos(1))));
                    assert_eq!(queue.next_release(), Some(nanos(1)));
                }
                clock.set(Instant::from_nanos(due));
                assert_eq!(queue.next_release(), Some(Duration::ZERO));
                assert_eq!(queue.try_pop(), Ok(item));
            }
            assert_eq!(queue.try_pop(), Err(NotReleased::Empty));
            assert_eq!(queue.next_release(), None);
        }
    }

    fn neither_an_idle_queue_nor_a_late_consumer_saves_time(make) {
        let clock = ManualClock::new();
        let queue = make(rate!("10/s"), 5, clock.clone()).unwrap();
        clock.advance(Duration::from_secs(5));
        (0..4).for_each(|item| queue.push(item).unwrap());
        assert_eq!(queue.try_pop(), Ok(0), "the first at once");
        assert_eq!(queue.next_release(), Some(Duration::from_millis(100)));
        clock.advance(Duration::from_millis(250)); // two and a half intervals
        assert_eq!(queue.try_pop(), Ok(1));
        assert_eq!(queue.try_pop(), Err(NotReleased::NotYet(Duration::from_millis(100))));
        clock.advance(Duration::from_millis(100));
        assert_eq!(queue.try_pop(), Ok(2));
    }

    fn full_and_closed_give_the_item_back(make) {
        let clock = ManualClock::new();
        let queue = make(rate!("1/s"), 2, clock.clone()).unwrap();
        assert_eq!((queue.len(), queue.capacity(), queue.is_empty()), (0, 2, true));
        queue.push("a".to_string()).unwrap();
        queue.push("b".to_string()).unwrap();
        let full = queue.push("c".to_string()).unwrap_err();
        assert_eq!(full, Refused::Full("c".to_string()));
        assert_eq!(full.to_string(), "the queue is full");
        queue.close();
        let closed = queue.push(full.into_item()).unwrap_err();
        assert!(closed.is_closed() && !closed.is_full());
        assert_eq!(closed.to_string(), "the queue is closed");
        assert_eq!(closed.into_item(), "c");

        assert_eq!((queue.len(), queue.is_closed()), (2, true));
        assert_eq!(queue.try_pop().unwrap(), "a");
        assert_eq!(queue.try_pop(), Err(NotReleased::NotYet(Duration::from_secs(1))));
        clock.advance(Duration::from_secs(1));
        assert_eq!(queue.try_pop().unwrap(), "b");
        assert_eq!(queue.try_pop(), Err(NotReleased::Closed));
    }

    fn a_drain_takes_all_and_no_release(make) {
        let clock = ManualClock::new();
        let queue = make(rate!("1/s"), 4, clock.clone()).unwrap();
        (0..4).for_each(|item| queue.push(item).unwrap());
        assert_eq!(queue.try_pop(), Ok(0));
        assert_eq!(queue.drain(), [1, 2, 3]);
        assert_eq!(queue.drain(), []);
        assert_eq!(queue.try_pop(), Err(NotReleased::Empty));
        // What comes next is still an interval behind the last release.
        queue.push(4).unwrap();
        assert_eq!(queue.next_release(), Some(Duration::from_secs(1)));
        clock.advance(Duration::from_secs(1));
        assert_eq!(queue.try_pop(), Ok(4));
        queue.close();
        assert_eq!(queue.try_pop(), Err(NotReleased::Closed));
    }

    fn past_the_end_of_supply_nothing_is_released(make) {
        let clock = ManualClock::new();
        let queue = make(rate!("4000000000/s"), 4, clock.clone()).unwrap();
        (0..2).for_each(|item| queue.push(item).unwrap());
        clock.set(Instant::MAX);
        assert_eq!(queue.try_pop(), Err(NotReleased::NotYet(Duration::MAX)));
        assert_eq!(queue.next_release(), Some(Duration::MAX));
        clock.set(Instant::from_nanos(u64::MAX - 1));
        assert_eq!(queue.try_pop(), Ok(0), "supplied, and never asked for");
        assert_eq!(queue.try_pop(), Err(NotReleased::NotYet(Duration::MAX)));
        assert_eq!(queue.drain(), [1]);
    }

    fn a_pop_waits_for_its_time_an_item_or_the_end(make) {
        let queue = make(rate!("100/s"), 4, StdClock::new()).unwrap();
        assert_eq!(queue.pop_timeout(Duration::ZERO), Err(NotInTime::TimedOut));
        let start = std::time::Instant::now();
        assert_eq!(queue.pop_timeout(Duration::from_millis(5)), Err(NotInTime::TimedOut));
        assert!(start.elapsed() >= Duration::from_millis(5));

        (0..3).for_each(|item| queue.push(item).unwrap());
        let start = std::time::Instant::now();
        assert_eq!(queue.pop(), Ok(0));
        assert_eq!(queue.pop_timeout(LONG), Ok(1));
        assert_eq!(queue.pop(), Ok(2));
        assert!(start.elapsed() >= Duration::from_millis(20));

        thread::scope(|scope| {
            let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| queue.pop_timeout(LONG))).collect();
            thread::sleep(Duration::from_millis(2));
            (3..6).for_each(|item| queue.push(item).unwrap());
            let mut popped: Vec<_> = waiting.into_iter().map(|pop| pop.join().unwrap()).collect();
            popped.sort_by_key(|popped| popped.unwrap_or(9));
            assert_eq!(popped, [Ok(3), Ok(4), Ok(5)]);

            let waiting = scope.spawn(|| queue.pop());
            thread::sleep(Duration::from_millis(2));
            queue.close();
            assert_eq!(waiting.join().unwrap(), Err(Closed));
        });
        assert_eq!(queue.pop_timeout(LONG), Err(NotInTime::Closed));
    }

    fn who_waits_for_a_release_far_off(make) {
        let queue = make(rate!("1/h"), 4, StdClock::new()).unwrap();
        (0..3).for_each(|item| queue.push(item).unwrap());
        assert_eq!(queue.pop(), Ok(0));
        let start = std::time::Instant::now();
        assert_eq!(queue.pop_timeout(Duration::from_millis(5)), Err(NotInTime::TimedOut));
        assert!(start.elapsed() >= Duration::from_millis(5));
        // Hears at once that there will be none.
        queue.close();
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| queue.pop_timeout(LONG))).collect();
            thread::sleep(Duration::from_millis(2));
            assert_eq!(queue.drain(), [1, 2]);
            for waiting in waiting {
                assert_eq!(waiting.join().unwrap(), Err(NotInTime::Closed));
            }
        });
    }
}

#[test]
fn a_capacity_must_be_a_number_of_places() {
    let error = LeakyQueue::<u8>::new(rate!("1/s"), 0).unwrap_err();
    assert_eq!(error, ConfigError::Zero("capacity"));
    assert_eq!(
        (error.field(), error.to_string().as_str()),
        ("capacity", "capacity must not be zero")
    );
    assert_eq!(
        LockedLeakyQueue::<u8>::locked(rate!("1/s"), usize::MAX).unwrap_err(),
        ConfigError::TooLarge("capacity"),
    );
    assert!(LeakyQueue::<u8>::new(rate!("1/s"), usize::MAX / 16).is_err());
}

#[test]
fn answers_are_errors_with_words() {
    fn words(error: impl std::error::Error) -> String {
        error.to_string()
    }
    struct Opaque;
    assert_eq!(format!("{:?}", Refused::Full(Opaque)), "Full(..)");
    assert_eq!(words(NotReleased::Empty), "the queue is empty");
    assert_eq!(words(NotReleased::NotYet(nanos(5))), "the next item is released in 5ns");
    assert_eq!(words(NotReleased::NotYet(Duration::MAX)), "nothing is released any more");
    assert_eq!(words(NotReleased::Closed), "the queue is closed and empty");
    assert_eq!(words(NotInTime::TimedOut), "nothing was released in time");
    assert_eq!(words(NotInTime::Closed), words(Closed));
}

// ---------------------------------------------------------- against a model

/// The rule in whole numbers, in units of a nanosecond divided by the count.
struct Model {
    rate: Rate,
    origin: u64,
    capacity: usize,
    items: VecDeque<u32>,
    closed: bool,
    next: u128,
}

impl Model {
    fn new(rate: Rate, origin: u64, capacity: usize) -> Self {
        Self { rate, origin, capacity, items: VecDeque::new(), closed: false, next: 0 }
    }

    fn count(&self) -> u128 {
        self.rate.count().get().into()
    }

    fn units(&self, now: u64) -> u128 {
        u128::from(now.saturating_sub(self.origin)) * self.count()
    }

    fn push(&mut self, item: u32) -> Result<(), Refused<u32>> {
        if self.closed {
            return Err(Refused::Closed(item));
        }
        if self.items.len() == self.capacity {
            return Err(Refused::Full(item));
        }
        self.items.push_back(item);
        Ok(())
    }

    fn next_release(&self, now: u64) -> Option<Duration> {
        let wait = self.next.saturating_sub(self.units(now));
        // A clock that has gone back to before the creation is told from there.
        let before = u128::from(self.origin.saturating_sub(now));
        let wait = if wait == 0 { 0 } else { wait.div_ceil(self.count()) + before };
        (!self.items.is_empty()).then(|| nanos(wait as u64))
    }

    fn try_pop(&mut self, now: u64) -> Result<u32, NotReleased> {
        match self.next_release(now) {
            None if self.closed => return Err(NotReleased::Closed),
            None => return Err(NotReleased::Empty),
            Some(Duration::ZERO) => {}
            Some(wait) => return Err(NotReleased::NotYet(wait)),
        }
        let in_turn = self.next > self.units(now.saturating_sub(1));
        let release = if in_turn { self.next } else { self.units(now) };
        self.next = release + u128::from(period(self.rate));
        self.items.pop_front().ok_or(NotReleased::Empty)
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Push,
    Pop,
    NextRelease,
    Drain,
    Close,
}

#[derive(Clone, Copy, Debug)]
enum Jump {
    Stay,
    /// To the next release, and a nanosecond beside it.
    Release(i8),
    Eighths(u64),
    By(u64),
    Back(u64),
}

fn schedules() -> impl Strategy<Value = Vec<(Jump, Call)>> {
    let jump = prop_oneof![
        4 => Just(Jump::Stay),
        6 => (-1..=1_i8).prop_map(Jump::Release),
        4 => (0..=20_u64).prop_map(Jump::Eighths),
        2 => magnitudes(40).prop_map(Jump::By),
        1 => magnitudes(36).prop_map(Jump::Back),
    ];
    let call = prop_oneof![
        12 => Just(Call::Push),
        12 => Just(Call::Pop),
        3 => Just(Call::NextRelease),
        1 => Just(Call::Drain),
        1 => Just(Call::Close),
    ];
    vec((jump, call), 1..60)
}

/// Runs a schedule on both queues and, where it is exact, on the model.
fn compare(
    rate: Rate,
    origin: u64,
    capacity: usize,
    schedule: &[(Jump, Call)],
    mut model: Option<Model>,
) -> Result<(), TestCaseError> {
    let clock = ManualClock::starting_at(Instant::from_nanos(origin));
    let free = LeakyQueue::with_clock(rate, capacity, clock.clone()).unwrap();
    let locked: LockedLeakyQueue<u32, _> =
        LeakyQueue::locked_with_clock(rate, capacity, clock.clone()).unwrap();
    let interval = period(rate) / u64::from(rate.count().get());
    let mut now = origin;
    for (item, &(jump, call)) in schedule.iter().enumerate() {
        let item = item as u32;
        now = match jump {
            Jump::Stay => now,
            Jump::Release(by) => match free.next_release() {
                Some(wait) => {
                    now.saturating_add(wait.as_nanos() as u64).saturating_add_signed(by.into())
                }
                None => now,
            },
            Jump::Eighths(many) => now.saturating_add((interval / 8).saturating_mul(many)),
            Jump::By(nanos) => now.saturating_add(nanos),
            Jump::Back(nanos) => now.saturating_sub(nanos),
        };
        clock.set(Instant::from_nanos(now));
        macro_rules! same {
            (|$queue:ident| $answer:expr, $expected:expr) => {{
                let by_free = {
                    let $queue = &free;
                    $answer
                };
                let by_locked = {
                    let $queue = &locked;
                    $answer
                };
                prop_assert_eq!(&by_free, &by_locked, "at {}", now);
                if let Some(model) = &mut model {
                    prop_assert_eq!(by_free, $expected(model), "the model, at {}", now);
                }
            }};
        }
        match call {
            Call::Push => same!(|queue| queue.push(item), |model: &mut Model| model.push(item)),
            Call::Pop => same!(|queue| queue.try_pop(), |model: &mut Model| model.try_pop(now)),
            Call::NextRelease => {
                same!(|queue| queue.next_release(), |model: &mut Model| model.next_release(now));
            }
            Call::Drain => {
                same!(|queue| queue.drain(), |model: &mut Model| Vec::from(std::mem::take(
                    &mut model.items
                )));
            }
            Call::Close => {
                same!(|queue| queue.close(), |model: &mut Model| model.closed = true);
            }
        }
        same!(|queue| queue.len(), |model: &mut Model| model.items.len());
        prop_assert_eq!(free.is_closed(), locked.is_closed());
    }
    Ok(())
}

proptest! {
    #![proptest_config(common::cases(256))]

    #[test]
    fn both_follow_the_rule_exactly(
        rate in common_rates().prop_filter("within a horizon", |rate| period(*rate) < 1 << 50),
        origin in 0..1_u64 << 62,
        capacity in 1..6_usize,
        schedule in schedules(),
    ) {
        let model = Model::new(rate, origin, capacity);
        compare(rate, origin, capacity, &schedule, Some(model))?;
    }

    #[test]
    fn both_answer_alike_at_any_rate(
        rate in rates(), origin in origins(), capacity in 1..6_usize, schedule in schedules(),
    ) {
        compare(rate, origin, capacity, &schedule, None)?;
    }
}

// ------------------------------------------------------------------ threads

thread_local! {
    /// What this thread last read from its clock.
    static READ: Cell<u64> = const { Cell::new(0) };
}

/// A clock that remembers what each thread has read: for a pop that succeeds,
/// the nanosecond that it has claimed.
#[derive(Clone, Debug)]
struct Recorded<C>(C);

impl<C: Clock> Clock for Recorded<C> {
    fn now(&self) -> Instant {
        let now = self.0.now();
        READ.set(now.as_nanos());
        now
    }
}

impl<C: RealTime> RealTime for Recorded<C> {}

const PRODUCERS: u32 = 3;
const ITEMS: u32 = 400;

/// Items that went in, those that came out with the nanosecond of their claim,
/// and those that were drained, all by thread.
struct Flow {
    released: Vec<Vec<(u64, (u32, u32))>>,
    drained: Vec<(u32, u32)>,
}

impl Flow {
    /// Nothing lost, nothing doubled, each producer's in order for every
    /// consumer, and claims an interval apart.
    fn check(&self, interval: u64) {
        let mut all = self.drained.clone();
        for released in &self.released {
            all.extend(released.iter().map(|released| released.1));
            for producer in 0..PRODUCERS {
                let own =
                    released.iter().map(|released| released.1).filter(|item| item.0 == producer);
                assert!(own.is_sorted(), "out of order");
            }
        }
        all.sort_unstable();
        let expected =
            (0..PRODUCERS).flat_map(|producer| (0..ITEMS).map(move |item| (producer, item)));
        assert!(all.iter().copied().eq(expected), "lost or doubled: {} came out", all.len());

        let mut claims: Vec<_> =
            self.released.iter().flatten().map(|released| released.0).collect();
        claims.sort_unstable();
        for pair in claims.windows(2) {
            assert!(pair[1] - pair[0] >= interval, "{pair:?} are closer than {interval}");
        }
    }
}

/// Runs producers, who try again when the queue is full, consumers and somebody
/// who drains from time to time, while one thread moves the clock.
macro_rules! run_threads {
    ($queue:expr, $clock:expr, $consumers:expr, $drains:expr) => {{
        let (queue, clock) = (&$queue, &$clock);
        let (producing, consuming) = (AtomicUsize::new(PRODUCERS as usize), AtomicBool::new(true));
        thread::scope(|scope| {
            for producer in 0..PRODUCERS {
                let producing = &producing;
                scope.spawn(move || {
                    for item in 0..ITEMS {
                        let mut refused = queue.push((producer, item));
                        while let Err(Refused::Full(item)) = refused {
                            thread::yield_now();
                            refused = queue.push(item);
                        }
                        refused.unwrap();
                    }
                    if producing.fetch_sub(1, Ordering::Relaxed) == 1 {
                        queue.close();
                    }
                });
            }
            let consumers: Vec<_> = (0..$consumers)
                .map(|_| {
                    scope.spawn(move || {
                        let mut released = Vec::new();
                        loop {
                            match queue.try_pop() {
                                Ok(item) => released.push((READ.get(), item)),
                                Err(NotReleased::Closed) => return released,
                                Err(_) => thread::yield_now(),
                            }
                        }
                    })
                })
                .collect();
            let consuming = &consuming;
            scope.spawn(move || {
                while consuming.load(Ordering::Relaxed) {
                    clock.advance(Duration::from_nanos(377));
                    thread::yield_now();
                }
            });
            let mut drained = Vec::new();
            while $drains && !queue.is_closed() {
                drained.extend(queue.drain());
                thread::sleep(Duration::from_micros(200));
            }
            let released = consumers.into_iter().map(|consumer| consumer.join().unwrap()).collect();
            consuming.store(false, Ordering::Relaxed);
            Flow { released, drained }
        })
    }};
}

both! {
    fn many_threads_lose_and_double_nothing(make) {
        for (capacity, consumers, drains) in [(1, 2, false), (8, 4, false), (5, 3, true)] {
            let clock = ManualClock::new();
            let queue = make(rate!("1000000/s"), capacity, Recorded(clock.clone())).unwrap();
            let flow = run_threads!(queue, clock, consumers, drains);
            flow.check(1_000);
            assert_eq!(queue.try_pop(), Err(NotReleased::Closed));
        }
    }

    /// While consumers sleep, producers find it full.
    fn threads_that_wait_lose_nothing(make) {
        let queue = make(rate!("20000/s"), 16, Recorded(StdClock::new())).unwrap();
        let flow = thread::scope(|scope| {
            let producers: Vec<_> = (0..PRODUCERS)
                .map(|producer| {
                    let queue = &queue;
                    scope.spawn(move || {
                        for item in 0..ITEMS {
                            let mut refused = queue.push((producer, item));
                            while let Err(Refused::Full(item)) = refused {
                                thread::sleep(Duration::from_micros(100));
                                refused = queue.push(item);
                            }
                        }
                    })
                })
                .collect();
            let consumers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut released = Vec::new();
                        while let Ok(item) = queue.pop() {
                            released.push((READ.get(), item));
                        }
                        released
                    })
                })
                .collect();
            producers.into_iter().for_each(|producer| producer.join().unwrap());
            queue.close();
            let released = consumers.into_iter().map(|consumer| consumer.join().unwrap()).collect();
            Flow { released, drained: Vec::new() }
        });
        flow.check(50_000);
    }
}
