//! A login form behind limits: attempts per user, per address and for all
//! together, with a list of addresses that are always turned away and one of
//! those that are always let through.
//!
//! ```sh
//! cargo run --example login_guard
//! ```
//!
//! Time is simulated, so that an hour of attempts takes no time.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tollgate::{
    Clock, Decision, KeyedRateLimiter, ManualClock, RateLimiter, TokenBucket, WhenFull, join, limit,
};

/// What the form answers.
#[derive(Debug, PartialEq)]
enum Answer {
    /// Go on to the password, so many attempts being left.
    Try { left: u32 },
    /// 429, with what goes into `Retry-After` and who is meant.
    TooMany { who: &'static str, retry_after: Option<u64> },
    /// 403
    Denied,
}

struct LoginGuard<C> {
    denied: HashSet<Network>,
    allowed: HashSet<Network>,
    users: KeyedRateLimiter<Box<str>, TokenBucket, C>,
    networks: KeyedRateLimiter<Network, TokenBucket, C>,
    everybody: RateLimiter<TokenBucket, C>,
}

/// What one caller holds: an IPv4 address, or the /64 in which an IPv6 host may
/// choose its address as it likes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Network(IpAddr);

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
            v4 => v4,
        })
    }
}

impl<C: Clock + Clone> LoginGuard<C> {
    fn new(clock: C) -> Result<Self, tollgate::ConfigError> {
        // Strangers choose the names and addresses, so both are bounded. When a
        // million names have been tried within minutes, new ones share a limit.
        let users = KeyedRateLimiter::with_clock(limit!("1/min burst 5"), clock.clone())
            .with_max_keys(1_000_000, WhenFull::Share)?;
        let networks = KeyedRateLimiter::with_clock(limit!("10/min burst 20"), clock.clone())
            .with_max_keys(1_000_000, WhenFull::Share)?;
        let everybody = RateLimiter::with_clock(limit!("1000/s"), clock);
        let (denied, allowed) = (HashSet::new(), HashSet::new());
        Ok(Self { denied, allowed, users, networks, everybody })
    }

    fn attempt(&self, user: &str, address: IpAddr) -> Answer {
        let network = Network::from(address);
        if self.denied.contains(&network) {
            return Answer::Denied;
        }
        if self.allowed.contains(&network) {
            return Answer::Try { left: u32::MAX };
        }
        let user = user.to_lowercase(); // "Alice" must not have attempts of her own
        // All or none: who is refused for one reason pays for no other.
        let attempt = join([
            &self.users.request(user.as_str(), 1),
            &self.networks.request(&network, 1),
            &self.everybody.request(1),
        ]);
        match attempt {
            Ok(grants) => {
                let left = grants.iter().map(Decision::remaining).min();
                Answer::Try { left: left.unwrap_or(0) }
            }
            Err(refused) => Answer::TooMany {
                who: ["user", "address", "everybody"][refused.index()],
                retry_after: refused.decision().retry_after_secs(),
            },
        }
    }

    /// After the right password the user starts anew; the address does not.
    fn succeeded(&self, user: &str) {
        self.users.reset(user.to_lowercase().as_str());
    }
}

fn main() -> Result<(), tollgate::ConfigError> {
    let clock = ManualClock::new();
    let mut guard = LoginGuard::new(clock.clone())?;
    let office = IpAddr::from(Ipv4Addr::new(198, 51, 100, 1));
    let crawler = IpAddr::from(Ipv4Addr::new(203, 0, 113, 66));
    let home = IpAddr::from(Ipv4Addr::new(192, 0, 2, 7));
    guard.allowed.insert(office.into());
    guard.denied.insert(crawler.into());

    let show = |when: &str, answer: Answer| println!("{when:<34} {answer:?}");
    show("a crawler", guard.attempt("alice", crawler));
    show("the office", guard.attempt("alice", office));
    for attempt in 1..=6 {
        show(&format!("alice at home, attempt {attempt}"), guard.attempt("Alice", home));
    }
    clock.advance(Duration::from_secs(60));
    show("a minute later", guard.attempt("alice", home));
    guard.succeeded("alice");
    show("after the right password", guard.attempt("alice", home));

    let host = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]);
    let passed = (0..1_000_u16)
        .filter(|&at| guard.attempt(&format!("user{at}"), host(at)) != TOO_MANY_THERE)
        .count();
    println!("{:<34} {passed} pass", "a thousand names from one /64");

    clock.advance(Duration::from_secs(3_600));
    // No call is needed for it; this one only makes it visible at once.
    guard.users.sweep();
    println!("{:<34} {} users in memory", "an hour later", guard.users.len());
    Ok(())
}

const TOO_MANY_THERE: Answer = Answer::TooMany { who: "address", retry_after: Some(6) };

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

    fn guard() -> (ManualClock, LoginGuard<ManualClock>) {
        let clock = ManualClock::new();
        (clock.clone(), LoginGuard::new(clock).unwrap())
    }

    #[test]
    fn a_name_is_one_in_all_its_spellings() {
        let (clock, guard) = guard();
        for left in [4, 3, 2, 1, 0] {
            assert_eq!(guard.attempt("Alice", HOME), Answer::Try { left });
        }
        let wait = Answer::TooMany { who: "user", retry_after: Some(60) };
        assert_eq!(guard.attempt("ALICE", HOME), wait);
        assert_eq!(guard.networks.peek(&Network::from(HOME)).remaining(), 15);
        clock.advance(Duration::from_secs(60));
        assert_eq!(guard.attempt("alice", HOME), Answer::Try { left: 0 });
        guard.succeeded("Alice");
        assert_eq!(guard.attempt("alice", HOME), Answer::Try { left: 4 });
    }

    #[test]
    fn a_host_cannot_change_its_address_within_its_network() {
        let (_, guard) = guard();
        let host = |last| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]);
        let passed = (0..1_000_u16)
            .filter(|&at| matches!(guard.attempt(&at.to_string(), host(at)), Answer::Try { .. }));
        assert_eq!(passed.count(), 20);
        let other = IpAddr::from([0x2001, 0xdb8, 0, 2, 0, 0, 0, 1]);
        assert!(matches!(guard.attempt("bob", other), Answer::Try { .. }));
        // Mapped into IPv6, an address is the same, and no other one.
        let mapped = |at| IpAddr::from(Ipv4Addr::new(192, 0, 2, at).to_ipv6_mapped());
        assert!(Network::from(mapped(7)) == Network::from(HOME));
        assert!(Network::from(mapped(8)) != Network::from(HOME));
    }

    #[test]
    fn lists_come_first() {
        let (_, mut guard) = guard();
        guard.allowed.insert(HOME.into());
        for _ in 0..100 {
            assert_eq!(guard.attempt("alice", HOME), Answer::Try { left: u32::MAX });
        }
        guard.denied.insert(HOME.into());
        assert_eq!(guard.attempt("alice", HOME), Answer::Denied);
        assert!(guard.users.is_empty());
    }
}
