//! A line of an access log in Common or Combined Log Format:
//!
//! ```text
//! host ident user [day/month/year:hour:minute:second zone] "request" status size ...
//! ```
//!
//! Clients put anything into a request, and servers log what they got: nothing,
//! binary, quotes. So a line counts when host, time and status can be made out.

use jiff::Timestamp;
use regex::bytes::Regex;
use std::sync::LazyLock;
use tollgate::Instant;

/// What a replay needs of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) host: &'a [u8],
    /// Since the Unix epoch.
    pub(crate) at: Instant,
    /// As logged, escapes and all.
    pub(crate) request: &'a [u8],
}

/// Up to the request. A user's name may hold spaces.
static HEAD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"^(\S+) .*?\[(\d\d/[A-Za-z]{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] ""#)
});

/// From the request on, in order of preference: quotes escaped as they should
/// be; stray quotes, where the request ends at the first one that a status and
/// plain fields follow; and a status that anything follows.
static REQUEST: LazyLock<[Regex; 3]> = LazyLock::new(|| {
    [
        pattern(r#"^((?:[^"\\]|\\.)*)" \d{3}(?: [^ "]+)*(?: "|$)"#),
        pattern(r#"^(.*?)" \d{3}(?: [^ "]+)*(?: "|$)"#),
        pattern(r#"^((?:[^"\\]|\\.)*|.*?)" \d{3}(?: |$)"#),
    ]
});

/// On bytes, of which any may stand for `.`.
fn pattern(text: &str) -> Regex {
    Regex::new(&format!("(?s-u){text}")).expect("the patterns are constant")
}

impl<'a> Entry<'a> {
    /// # Errors
    ///
    /// What is wrong with the line.
    pub(crate) fn parse(line: &'a [u8]) -> Result<Self, &'static str> {
        let head = HEAD.captures(line).ok_or("no host and [time]")?;
        let (all, [host, time]) = head.extract();
        let at = instant(time).ok_or("no such time, or not from 1970 to 2554")?;
        let rest = &line[all.len()..];
        let request = REQUEST.iter().find_map(|request| request.captures(rest));
        let (_, [request]) = request.ok_or("no request and status")?.extract();
        Ok(Self { host, at, request })
    }
}

/// Nanoseconds since the Unix epoch, as a wall clock would give them; none
/// before it, and none after the year 2554, when they no longer fit.
fn instant(time: &[u8]) -> Option<Instant> {
    let time = Timestamp::strptime("%d/%b/%Y:%H:%M:%S %z", time).ok()?;
    u64::try_from(time.as_nanosecond()).ok().map(Instant::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "[17/May/2015:10:05:03 +0000]";

    fn parse(line: &[u8]) -> Result<Entry<'_>, &'static str> {
        Entry::parse(line)
    }

    #[test]
    fn common_and_combined() {
        let common = format!(r#"192.0.2.7 - frank {TIME} "GET /a HTTP/1.0" 200 2326"#);
        let entry = parse(common.as_bytes()).unwrap();
        assert_eq!(entry.host, b"192.0.2.7");
        assert_eq!(entry.at, Instant::from_nanos(1_431_857_103_000_000_000));
        assert_eq!(entry.request, b"GET /a HTTP/1.0");

        let combined = format!(r#"{common} "http://example.com/" "agent \"quoted\" 1.0""#);
        assert_eq!(parse(combined.as_bytes()), Ok(entry));
    }

    #[test]
    fn whatever_a_client_sent() {
        let requests: &[&[u8]] = &[
            b"",
            b"-",
            b"GET /",
            b"GET / HTTP/1.1",
            br#"GET /\"quoted\" HTTP/1.1"#,
            br#"GET /\" 200 5 \"-\" HTTP/1.1"#, // looks like the end, but is escaped
            br"GET /back\\slash\\",
            br"GET /\\\\",
            br"\x16\x03\x01\x00",
            b"\x16\x03\x01\x00\x80\xff\r\t",
            b"GET /\xe9t\xe9 HTTP/1.1", // Latin-1
            "GET /café HTTP/1.1".as_bytes(),
            b"GET /[17/May/2015:10:05:99 +0000] HTTP/1.1",
            br#"GET /stray"quote HTTP/1.1"#,
            br#"GET /"two stray" HTTP/1.1"#,
            br#"""#,
            br#"GET /" 200 5 HTTP/1.1"#,
            br"GET /ends-in-one-backslash\",
        ];
        for tail in ["200 12", "404 -", "200", r#"200 12 "-" "-""#, r#"200 0 "-" "a b" "c" 0.1"#] {
            for request in requests {
                let mut line = format!(r#"::1 - - {TIME} ""#).into_bytes();
                line.extend_from_slice(request);
                line.extend_from_slice(b"\" ");
                line.extend_from_slice(tail.as_bytes());
                let text = line.escape_ascii();
                match parse(&line) {
                    Ok(entry) => assert_eq!(entry.request, *request, "{text}"),
                    Err(error) => panic!("{text}: {error}"),
                }
            }
        }
    }

    #[test]
    fn what_follows_a_status_does_not_matter() {
        for tail in ["200 ", r#"200 12 rt="0.1""#, r#"200 {"a":1}"#, "200 12 345 -", r"499 0 \"] {
            let line = format!(r#"h - - {TIME} "GET /x HTTP/1.1" {tail}"#);
            assert_eq!(parse(line.as_bytes()).unwrap().request, b"GET /x HTTP/1.1", "{line}");
        }
    }

    #[test]
    fn users_have_odd_names() {
        for user in ["-", "frank", "Frank N. Stein", "", r#""""#, r#"a\"b"#, "a [b] c", "\u{e9}"] {
            let line = format!(r#"host.example - {user} {TIME} "GET / HTTP/1.1" 200 1"#);
            assert_eq!(parse(line.as_bytes()).unwrap().host, b"host.example", "{line}");
        }
        let mut line = b"h\xff - \xfe\xff ".to_vec();
        line.extend_from_slice(format!(r#"{TIME} "" 400 0"#).as_bytes());
        assert_eq!(parse(&line).unwrap().host, b"h\xff");
    }

    #[test]
    fn zones() {
        let at = |time| parse(format!(r#"h - - [{time}] "" 200 1"#).as_bytes()).map(|e| e.at);
        let noon = Ok(Instant::from_nanos(1_719_835_200_000_000_000));
        assert_eq!(at("01/Jul/2024:12:00:00 +0000"), noon);
        assert_eq!(at("01/Jul/2024:12:00:00 -0000"), noon);
        assert_eq!(at("01/Jul/2024:14:00:00 +0200"), noon);
        assert_eq!(at("01/Jul/2024:04:30:00 -0730"), noon);
        assert_eq!(at("02/Jul/2024:01:45:00 +1345"), noon);
        // A leap second is taken for the second before it.
        assert_eq!(at("30/Jun/2015:23:59:60 +0000"), at("30/Jun/2015:23:59:59 +0000"));
        assert_eq!(at("01/Jan/1970:00:00:00 +0000"), Ok(Instant::ZERO));
        assert_eq!(at("31/Dec/1969:23:00:00 -0100"), Ok(Instant::ZERO));
        assert_eq!(
            at("29/Feb/2024:00:00:00 +0000"),
            Ok(Instant::from_nanos(1_709_164_800_000_000_000))
        );
    }

    #[test]
    fn times_that_are_none() {
        for time in [
            "31/Feb/2015:10:05:03 +0000",
            "29/Feb/2023:10:05:03 +0000",
            "00/May/2015:10:05:03 +0000",
            "32/May/2015:10:05:03 +0000",
            "17/Mai/2015:10:05:03 +0000",
            "17/May/2015:24:05:03 +0000",
            "17/May/2015:10:60:03 +0000",
            "17/May/2015:10:05:61 +0000",
            "17/May/2015:10:05:03 +9900",
            "17/May/2015:10:05:03",
            "17/May/15:10:05:03 +0000",
            "31/Dec/1969:23:59:59 +0000",
            "01/Jan/1970:00:59:59 +0100",
            "17/May/2555:10:05:03 +0000",
            "-",
            "",
        ] {
            let line = format!(r#"h - - [{time}] "GET / HTTP/1.1" 200 1"#);
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn lines_that_are_none() {
        for line in [
            "",
            " ",
            "-",
            "hello",
            "\0\0\0\0",
            r#"h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1""#,
            r#"h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" - 1"#,
            r#"h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 20 1"#,
            r#"h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 2000 1"#,
            r#"h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1 200 1"#,
            r#"h - - [17/May/2015:10:05:03 +0000] "GET / HTTP"#,
            r#"h - - 17/May/2015:10:05:03 +0000 "GET / HTTP/1.1" 200 1"#,
            r#" - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#,
            r#"[17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#,
        ] {
            assert!(parse(line.as_bytes()).is_err(), "{line:?}");
        }
    }
}
