//! What can be said of an algorithm's answers in a few numbers.

use crate::replay::Outcome;
use crate::traffic::Traffic;
use tollgate::Instant;

#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Summary {
    pub(crate) admitted: usize,
    pub(crate) refused: usize,
    /// Keys that were refused at least once.
    pub(crate) keys_refused: usize,
    /// The most requests of one key let through within one period, wherever
    /// it begins: `s <= t < s + period`.
    pub(crate) worst_span: usize,
}

impl Summary {
    pub(crate) fn new(traffic: &Traffic, outcome: &Outcome) -> Self {
        let mut refused = vec![false; traffic.keys.len()];
        let mut released = vec![Vec::new(); traffic.keys.len()];
        for (request, release) in traffic.requests.iter().zip(&outcome.released) {
            match release {
                Some(at) => released[request.key].push(*at),
                None => refused[request.key] = true,
            }
        }
        let admitted = released.iter().map(Vec::len).sum();
        let period = outcome.limit.rate().period();
        Self {
            admitted,
            refused: traffic.requests.len() - admitted,
            keys_refused: refused.iter().filter(|refused| **refused).count(),
            worst_span: released
                .iter()
                .map(|times| fullest(times, |first, last| last.since(first) < period))
                .max()
                .unwrap_or(0),
        }
    }
}

/// The most times in a row, first to last, that lie `within` one span. A key's
/// releases are in order: nobody overtakes in a queue.
fn fullest(times: &[Instant], within: impl Fn(Instant, Instant) -> bool) -> usize {
    let mut first = 0;
    let mut most = 0;
    for (last, &at) in times.iter().enumerate() {
        while !within(times[first], at) {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_holds_its_start_and_not_its_end() {
        let fullest = |times: &[u64]| {
            let times: Vec<_> = times.iter().map(|&at| Instant::from_nanos(at)).collect();
            super::fullest(&times, |first, last| last.since(first).as_nanos() < 10)
        };
        assert_eq!(fullest(&[]), 0);
        assert_eq!(fullest(&[5]), 1);
        assert_eq!(fullest(&[0, 10, 20]), 1);
        assert_eq!(fullest(&[0, 9, 10, 18]), 3);
        assert_eq!(fullest(&[0, 5, 9, 10, 14, 14, 19]), 5);
        assert_eq!(fullest(&[3, 3, 3]), 3);
        assert_eq!(fullest(&[u64::MAX - 1, u64::MAX]), 2);
    }
}
