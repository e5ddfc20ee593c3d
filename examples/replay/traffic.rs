//! A whole log as requests in time order.

use crate::access_log::Entry;
use crate::key::Key;
use std::collections::HashMap;
use std::io::{self, BufRead};
use tollgate::Instant;

#[derive(Default, Debug)]
pub(crate) struct Traffic {
    /// The distinct keys; requests name theirs by its index.
    pub(crate) keys: Vec<Vec<u8>>,
    /// In time order, and in the log's order where times are equal: servers
    /// log a request when it ends, with the time at which it began.
    pub(crate) requests: Vec<Request>,
    pub(crate) lines: u64,
    pub(crate) malformed: u64,
    pub(crate) first_malformed: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) at: Instant,
    pub(crate) key: usize,
}

impl Traffic {
    /// Reads a log to its end. Malformed lines are counted and skipped.
    pub(crate) fn read(mut log: impl BufRead, key: Key) -> io::Result<Self> {
        let mut traffic = Self::default();
        let mut indices = HashMap::new();
        let mut line = Vec::new();
        while log.read_until(b'\n', &mut line)? > 0 {
            traffic.lines += 1;
            match Entry::parse(without_end(&line)) {
                Ok(entry) => {
                    let name = key.of(&entry);
                    let key = match indices.get(name) {
                        Some(&index) => index,
                        None => {
                            indices.insert(name.to_vec(), traffic.keys.len());
                            traffic.keys.push(name.to_vec());
                            traffic.keys.len() - 1
                        }
                    };
                    traffic.requests.push(Request { at: entry.at, key });
                }
                Err(reason) => traffic.skip(&line, reason),
            }
            line.clear();
        }
        traffic.requests.sort_by_key(|request| request.at);
        Ok(traffic)
    }

    fn skip(&mut self, line: &[u8], reason: &str) {
        const SHOWN: usize = 60;
        self.malformed += 1;
        if self.first_malformed.is_none() {
            let line = without_end(line);
            // Escaped: the log may hold what a terminal would obey.
            let start = line[..line.len().min(SHOWN)].escape_ascii();
            let more = if line.len() > SHOWN { "..." } else { "" };
            let number = self.lines;
            self.first_malformed =
                Some(format!("line {number} is malformed, {reason}: \"{start}\"{more}"));
        }
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(host: &str, second: u32) -> String {
        format!("{host} - - [01/Jun/2026:12:00:{second:02} +0000] \"GET /{host} HTTP/1.1\" 200 1\n")
    }

    fn read(log: &[u8]) -> Traffic {
        Traffic::read(log, Key::Client).unwrap()
    }

    #[test]
    fn requests_are_sorted_by_time_and_stay_in_order_within_a_second() {
        let log = [line("c", 5), line("a", 1), line("b", 5), line("d", 0), line("a", 5)].concat();
        let traffic = read(log.as_bytes());
        let order: Vec<_> =
            traffic.requests.iter().map(|r| traffic.keys[r.key].as_slice()).collect();
        assert_eq!(order, [b"d", b"a", b"c", b"b", b"a"]);
        assert_eq!(traffic.keys.len(), 4);
        let mut lines: Vec<_> = log.lines().collect();
        lines.reverse();
        let traffic = read(lines.join("\n").as_bytes());
        let order: Vec<_> =
            traffic.requests.iter().map(|r| traffic.keys[r.key].as_slice()).collect();
        assert_eq!(order, [b"d", b"a", b"a", b"b", b"c"]);
    }

    #[test]
    fn zones_are_taken_into_account() {
        let log = br#"east - - [01/Jun/2026:13:00:00 +0200] "" 200 1
west - - [01/Jun/2026:06:59:59 -0400] "" 200 1"#;
        let traffic = read(log);
        assert_eq!(traffic.keys[traffic.requests[0].key], b"west");
        let apart = traffic.requests[1].at.since(traffic.requests[0].at);
        assert_eq!(apart.as_secs(), 1);
    }

    #[test]
    fn ends_of_lines() {
        let (a, b) = (line("a", 0), line("b", 1));
        let (a, b) = (a.trim_end(), b.trim_end());
        for (log, requests, malformed) in [
            (format!("{a}\n{b}\n"), 2, 0),
            (format!("{a}\n{b}"), 2, 0),
            (format!("{a}\r\n{b}\r\n"), 2, 0),
            (format!("{a}\n\n{b}\n"), 2, 1),
            (format!("{a}\n{b}\n\n"), 2, 1),
            (format!("\r\n{a}\r\n"), 1, 1),
            (String::new(), 0, 0),
            ("\n".to_owned(), 0, 1),
        ] {
            let traffic = read(log.as_bytes());
            assert_eq!(
                (traffic.requests.len(), traffic.malformed),
                (requests, malformed),
                "{log:?}"
            );
            assert_eq!(traffic.lines, requests as u64 + malformed, "{log:?}");
        }
    }

    #[test]
    fn the_first_malformed_line_is_named() {
        let log = [&line("a", 0), "\x1b[2J\n", &line("b", 1), "more\n"].concat();
        let traffic = read(log.as_bytes());
        assert_eq!(traffic.malformed, 2);
        let named = traffic.first_malformed.unwrap();
        assert_eq!(named, r#"line 2 is malformed, no host and [time]: "\x1b[2J""#);

        let traffic = read(&[b'x'; 1000]);
        assert!(traffic.first_malformed.unwrap().ends_with("xxx\"..."));
    }
}
