//! What keys take of memory, as asked of the allocator.

use crate::keys::{number, text};
use governor::{DefaultKeyedRateLimiter, Quota};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::thread::sleep;
use std::time::Duration;
use tollgate::{KeyedRateLimiter, limit};

const KEYS: usize = 1_000_000;

/// At a permit a second, a key of governor's is as good as new after two.
const IDLE: Duration = Duration::from_millis(2_500);

/// The system's, which counts when it is told to: not while calls are timed.
struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: isize) {
    if COUNTS.load(Ordering::Relaxed) {
        let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK.fetch_max(live, Ordering::Relaxed);
    }
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are those that it asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Bytes a key: at most while the keys were added, with all keys, and when they
/// have been idle and are swept.
pub(crate) fn print() {
    println!(
        "\n{:44} {:>9} {:>9} {:>9} {:>9}",
        "bytes a key, 1M keys", "peak", "known", "swept", "shrunk"
    );
    governor("governor, u64", number);
    tollgate("tollgate, u64", number);
    governor("governor, String of 16 bytes", text);
    tollgate("tollgate, String of 16 bytes", text);
    governor("governor, Box<str> of 16 bytes", |n| text(n).into_boxed_str());
    tollgate("tollgate, Box<str> of 16 bytes", |n| text(n).into_boxed_str());
}

fn governor<K: Hash + Eq + Clone>(name: &str, key: impl Fn(usize) -> K) {
    let quota = Quota::per_second(NonZeroU32::MIN);
    measure(
        name,
        || DefaultKeyedRateLimiter::keyed(quota),
        |limiter| (0..KEYS).all(|n| limiter.check_key(&key(n)).is_ok()),
        |limiter| limiter.len(),
        |limiter| limiter.retain_recent(),
        |limiter| limiter.shrink_to_fit(),
    );
}

fn tollgate<K: Hash + Eq + Clone>(name: &str, key: impl Fn(usize) -> K) {
    measure(
        name,
        || KeyedRateLimiter::<K>::new(limit!("1/s")),
        |limiter| (0..KEYS).all(|n| limiter.try_acquire(&key(n)).is_granted()),
        |limiter| limiter.len(),
        |limiter| _ = limiter.sweep(),
        |limiter| limiter.shrink_to_fit(),
    );
}

fn measure<L>(
    name: &str,
    new: impl Fn() -> L,
    fill: impl Fn(&L) -> bool,
    len: impl Fn(&L) -> usize,
    sweep: impl Fn(&L),
    shrink: impl Fn(&L),
) {
    LIVE.store(0, Ordering::Relaxed);
    PEAK.store(0, Ordering::Relaxed);
    COUNTS.store(true, Ordering::Relaxed);
    let live = || LIVE.load(Ordering::Relaxed) as f64 / KEYS as f64;
    let limiter = new();
    assert!(fill(&limiter));
    assert_eq!(len(&limiter), KEYS);
    let (peak, known) = (PEAK.load(Ordering::Relaxed) as f64 / KEYS as f64, live());
    sleep(IDLE);
    sweep(&limiter);
    assert_eq!(len(&limiter), 0);
    let swept = live();
    shrink(&limiter);
    let shrunk = live();
    drop(limiter);
    COUNTS.store(false, Ordering::Relaxed);
    println!("{name:44} {peak:9.1} {known:9.1} {swept:9.2} {shrunk:9.2}");
}
