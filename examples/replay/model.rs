//! The algorithms once more, naively, to compare with: exact integers, and the
//! whole history of a key looked through at every request.

use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Model {
    pub(crate) count: i128,
    /// Nanoseconds.
    pub(crate) period: i128,
    pub(crate) burst: i128,
}

/// What a key was granted: when it asked, and when it was let through, the latter
/// times `count`, which makes every departure a whole number.
type History = Vec<(i128, i128)>;

impl Model {
    /// The rule of an algorithm: when a request at `now` is let through.
    fn rule(&self, algorithm: &str, history: &History, now: i128) -> Option<i128> {
        let &Self { count, period, burst } = self;
        let granted = |counts: &dyn Fn(i128) -> bool| {
            history.iter().filter(|(asked, _)| counts(*asked)).count() as i128
        };
        let at_once = now * count;
        match algorithm {
            // However far back one looks: what was granted since then, with
            // this one, is at most a full bucket and what has flowed in.
            "token-bucket" => history
                .iter()
                .all(|&(since, _)| {
                    let taken = granted(&|asked| asked >= since) + 1;
                    (taken - burst) * period <= count * (now - since)
                })
                .then_some(at_once),
            // An interval after the one before, if that is not too long.
            "leaky-bucket" => {
                let turn = history.last().map_or(at_once, |(_, left)| left + period);
                let leaves = turn.max(at_once);
                (leaves - at_once <= burst * period).then_some(leaves)
            }
            "fixed-window" => {
                (granted(&|asked| asked / period == now / period) < count).then_some(at_once)
            }
            // The window before weighs as much of a period as is left of this one.
            "sliding-counter" => {
                let (window, into) = (now / period, now % period);
                let previous = granted(&|asked| asked / period == window - 1);
                let current = granted(&|asked| asked / period == window);
                (previous * (period - into) + (current + 1) * period <= count * period)
                    .then_some(at_once)
            }
            "sliding-log" => (granted(&|asked| now - asked < period) < count).then_some(at_once),
            _ => panic!("no model of {algorithm}"),
        }
    }

    /// The numbers of a CSV row, for requests as (time, key) in any order.
    pub(crate) fn row(&self, algorithm: &str, requests: &[(i128, String)]) -> String {
        let mut requests = requests.to_vec();
        requests.sort_by_key(|(at, _)| *at);
        let mut histories: BTreeMap<&str, History> = BTreeMap::new();
        let mut keys_refused = BTreeSet::new();
        let mut refused = 0;
        for (now, key) in &requests {
            let history = histories.entry(key).or_default();
            match self.rule(algorithm, history, *now) {
                Some(left) => history.push((*now, left)),
                None => {
                    refused += 1;
                    keys_refused.insert(key);
                }
            }
        }
        let worst_span = histories.values().map(|history| self.worst_span(history)).max();
        format!(
            "{},{},{refused},{},{},{}",
            requests.len(),
            requests.len() - refused,
            histories.len(),
            keys_refused.len(),
            worst_span.unwrap_or(0)
        )
    }

    /// Tries every span that begins or ends with a release.
    fn worst_span(&self, history: &History) -> usize {
        let left: Vec<_> =
            history.iter().map(|(_, left)| (left + self.count - 1) / self.count).collect();
        let begins = left.iter().flat_map(|&at| [at, at - self.period + 1]);
        let spans = begins.map(|begin| begin..begin + self.period);
        spans.map(|span| left.iter().filter(|at| span.contains(at)).count()).max().unwrap_or(0)
    }
}
