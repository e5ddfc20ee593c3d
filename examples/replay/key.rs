//! Which requests share a limit.

use crate::access_log::Entry;
use clap::ValueEnum;

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Key {
    /// Requests of one client address
    #[default]
    Client,
    /// Requests for one path, without the query
    Path,
    /// All requests
    None,
}

impl Key {
    pub(crate) fn of<'a>(self, entry: &Entry<'a>) -> &'a [u8] {
        match self {
            Self::Client => entry.host,
            Self::Path => path(entry.request),
            Self::None => b"",
        }
    }
}

/// The second word of a request line up to its query. What is not a request
/// line, as `-` or the first bytes of a TLS handshake, stands for itself.
fn path(request: &[u8]) -> &[u8] {
    let mut words = request.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    match words.nth(1) {
        Some(target) => target.split(|&byte| byte == b'?').next().unwrap_or(target),
        None => request,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::Instant;

    #[test]
    fn path_is_the_second_word_without_its_query() {
        for (request, expected) in [
            ("GET / HTTP/1.1", "/"),
            ("GET /a/b?c=d?e HTTP/1.1", "/a/b"),
            ("GET ?x HTTP/1.1", ""),
            ("GET /old", "/old"),
            ("GET  /two-spaces  HTTP/1.1", "/two-spaces"),
            ("GET /a%20b HTTP/1.1", "/a%20b"),
            (r"GET /a\x22b HTTP/1.1", r"/a\x22b"),
            ("", ""),
            ("-", "-"),
            ("/one?word", "/one?word"),
            (r"\x16\x03\x01", r"\x16\x03\x01"),
        ] {
            assert_eq!(path(request.as_bytes()), expected.as_bytes(), "{request:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_kept() {
        assert_eq!(path(b"GET /\xff\xfe?\x80 HTTP/1.1"), b"/\xff\xfe");
    }

    #[test]
    fn each_key_takes_its_own_field() {
        let entry = Entry { host: b"192.0.2.1", at: Instant::ZERO, request: b"GET /a HTTP/1.1" };
        assert_eq!(Key::Client.of(&entry), b"192.0.2.1");
        assert_eq!(Key::Path.of(&entry), b"/a");
        assert_eq!(Key::None.of(&entry), b"");
    }
}
