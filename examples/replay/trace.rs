//! The built-in log: ten minutes of three clients that algorithms treat
//! differently, most visibly at the default limit of 30/min.

use std::fmt::Write;

/// What the trace is called in the output.
pub(crate) const NAME: &str =
    "built-in trace (a bursty client, a steady one and one that straddles window edges)";

const SECONDS: u32 = 600;

/// The same log at every run.
pub(crate) fn log() -> String {
    let mut log = String::new();
    for second in 0..SECONDS {
        for (host, path, requests) in [
            ("bursty.example", "/search?q=tollgate", bursty(second)),
            ("steady.example", "/", steady(second)),
            ("straddling.example", "/report", straddling(second)),
        ] {
            let (minute, second) = (second / 60, second % 60);
            for _ in 0..requests {
                // Writing to a string cannot fail.
                let _ = writeln!(
                    log,
                    "{host} - - [01/Jun/2026:12:{minute:02}:{second:02} +0000] \
                     \"GET {path} HTTP/1.1\" 200 1024"
                );
            }
        }
    }
    log
}

/// Four a second for 20 s of every 100 s: some bursts fall within a minute of
/// the calendar and some cross into the next.
fn bursty(second: u32) -> u32 {
    if (10..30).contains(&(second % 100)) { 4 } else { 0 }
}

/// One every two seconds, which is 30/min.
fn steady(second: u32) -> u32 {
    second % 2
}

/// Thirty within the last five seconds of a minute, thirty within the first
/// five of the next, and nothing in the minute after that.
fn straddling(second: u32) -> u32 {
    if (60..540).contains(&second) && !(5..115).contains(&(second % 120)) { 6 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::traffic::Traffic;

    #[test]
    fn it_holds_what_it_says() {
        let traffic = Traffic::read(log().as_bytes(), Key::Client).unwrap();
        let of = |host: &str| {
            let key = traffic.keys.iter().position(|key| key == host.as_bytes()).unwrap();
            traffic.requests.iter().filter(|request| request.key == key).count()
        };
        assert_eq!(traffic.malformed, 0);
        assert_eq!(of("bursty.example"), 480);
        assert_eq!(of("steady.example"), 300);
        assert_eq!(of("straddling.example"), 240);
        assert_eq!(traffic.keys.len(), 3);
    }
}
