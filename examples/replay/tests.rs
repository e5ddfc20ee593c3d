//! The whole program, without a process.

use crate::model::Model;
use crate::{run, trace};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;

const HEADER: &str = "algorithm,sharing,requests,admitted,refused,keys,keys_refused,worst_span";

/// Exit code, standard output and standard error.
fn replay_log(args: &[&str], stdin: &[u8]) -> (u8, String, String) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let args = ["replay"].iter().chain(args);
    let code = run(args, stdin, &mut stdout, &mut stderr);
    (code, String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn csv_rows(args: &[&str], stdin: &[u8]) -> Vec<Vec<String>> {
    let (code, stdout, stderr) = replay_log(&[&["--format", "csv"], args].concat(), stdin);
    assert_eq!(code, 0, "{stderr}");
    let mut lines = stdout.lines();
    assert_eq!(lines.next(), Some(HEADER));
    lines.map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn line(host: &str, second: i128, path: &str) -> String {
    let (minute, second) = (second / 60, second % 60);
    let (hour, minute) = (minute / 60, minute % 60);
    format!(
        "{host} - - [01/Jun/2026:{hour:02}:{minute:02}:{second:02} +0000] \
         \"GET {path} HTTP/1.1\" 200 1\n"
    )
}

const MIDNIGHT: i128 = 1_780_272_000_000_000_000;

/// A log of clumps, gaps and steady stretches, out of order as servers write
/// them, and its requests as (nanoseconds, client, path).
fn random_log(seed: u64, len: usize, most_gap: u64) -> (String, Vec<(i128, String, String)>) {
    let mut state = seed;
    let mut below = |bound: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let (mut log, mut requests) = (String::new(), Vec::new());
    let mut now = 600;
    for _ in 0..len {
        if below(3) == 0 {
            now += i128::from(below(most_gap));
        }
        let second = (now - i128::from(below(4))).clamp(0, 86_399);
        let (client, path) = (format!("192.0.2.{}", below(5)), format!("/{}", below(3)));
        log += &line(&client, second, &path);
        requests.push((MIDNIGHT + second * 1_000_000_000, client, path));
    }
    (log, requests)
}

const SECOND: i128 = 1_000_000_000;

const LIMITS: [(&str, Model); 9] = [
    ("30/min", Model { count: 30, period: 60 * SECOND, burst: 30 }),
    ("7/min", Model { count: 7, period: 60 * SECOND, burst: 7 }),
    ("1/s burst 5", Model { count: 1, period: SECOND, burst: 5 }),
    ("3/10s", Model { count: 3, period: 10 * SECOND, burst: 3 }),
    ("100/h burst 10", Model { count: 100, period: 3_600 * SECOND, burst: 10 }),
    ("29/min burst 3", Model { count: 29, period: 60 * SECOND, burst: 3 }),
    ("5/7s burst 11", Model { count: 5, period: 7 * SECOND, burst: 11 }),
    ("2/d burst 1", Model { count: 2, period: 86_400 * SECOND, burst: 1 }),
    ("1/ms", Model { count: 1, period: SECOND / 1_000, burst: 1 }),
];

#[test]
fn rows_agree_with_a_naive_model() {
    for (seed, most_gap) in [(1, 3), (2, 10), (3, 40), (4, 200), (5, 600)] {
        let (log, requests) = random_log(seed, 150, most_gap);
        for (spec, model) in &LIMITS {
            for key in ["client", "path", "none"] {
                let requests: Vec<_> = requests
                    .iter()
                    .map(|(at, client, path)| match key {
                        "client" => (*at, client.clone()),
                        "path" => (*at, path.clone()),
                        _ => (*at, String::new()),
                    })
                    .collect();
                let rows = csv_rows(&["-", "--limit", spec, "--key", key], log.as_bytes());
                assert_eq!(rows.len(), 10);
                let mut expected = BTreeMap::new();
                for row in rows {
                    let expected = expected
                        .entry(row[0].clone())
                        .or_insert_with(|| model.row(&row[0], &requests));
                    assert_eq!(row[2..].join(","), *expected, "{spec} {key} {row:?}");
                }
            }
        }
    }
}

#[test]
fn rows_by_hand() {
    // Four at once, the fifth after a second, under one a second.
    let log = [line("a", 0, "/").repeat(4), line("a", 1, "/")].concat();
    let rows = csv_rows(&["-", "--limit", "1/s burst 2"], log.as_bytes());
    let rows: Vec<_> = rows.iter().map(|row| row.join(",")).collect();
    assert_eq!(
        rows,
        [
            // two saved up, and the one that has flowed in
            "token-bucket,lock-free,5,3,2,1,1,2",
            "token-bucket,mutex,5,3,2,1,1,2",
            // one leaves at once, two wait, and a second later one can join
            "leaky-bucket,lock-free,5,4,1,1,1,1",
            "leaky-bucket,mutex,5,4,1,1,1,1",
            "fixed-window,lock-free,5,2,3,1,1,1",
            "fixed-window,mutex,5,2,3,1,1,1",
            "sliding-log,lock-free,5,2,3,1,1,1",
            "sliding-log,mutex,5,2,3,1,1,1",
            // a second later the next window begins, and in it the one before
            // still counts in full
            "sliding-counter,lock-free,5,1,4,1,1,1",
            "sliding-counter,mutex,5,1,4,1,1,1",
        ]
    );
}

#[test]
fn built_in_trace_sets_the_algorithms_apart() {
    let rows = csv_rows(&[], b"");
    let results: BTreeSet<_> = rows.iter().map(|row| (row[3].clone(), row[7].clone())).collect();
    let algorithms: BTreeSet<_> = rows.iter().map(|row| row[0].clone()).collect();
    assert_eq!((results.len(), algorithms.len()), (5, 5), "{rows:?}");
    // The straddling client gets a window's worth twice.
    let worst = |algorithm| rows.iter().find(|row| row[0] == algorithm).unwrap()[7].clone();
    assert_eq!(worst("fixed-window"), "60");
    assert_eq!(worst("sliding-log"), "30");
    // The bursty client's 30 of one window weigh 0.5 in the last second of the
    // next and leave room for 29. Nine seconds into the one after, those weigh
    // 24.65 and leave room for 5.
    assert_eq!(worst("sliding-counter"), "34");
}

#[test]
fn built_in_trace_is_a_log_like_others() {
    assert_eq!(csv_rows(&[], b""), csv_rows(&["-"], trace::log().as_bytes()));
}

#[test]
fn built_in_trace_is_named() {
    let (code, stdout, stderr) = replay_log(&["--format", "csv"], b"");
    assert_eq!(code, 0);
    assert!(!stdout.contains("built-in"));
    assert!(stderr.contains("built-in trace"), "{stderr}");

    let (code, stdout, stderr) = replay_log(&[], b"");
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.lines().next().unwrap().contains("built-in trace"), "{stdout}");
}

#[test]
fn table_explains_itself() {
    let (code, stdout, stderr) =
        replay_log(&["-", "--limit", "3/10s burst 4"], line("a", 0, "/").as_bytes());
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(
        stdout.starts_with("Log:   standard input\nLimit: 3/10s burst 4 per client\n"),
        "{stdout}"
    );
    let header = stdout.lines().nth(3).unwrap();
    let names: Vec<_> = header.split_whitespace().collect();
    assert_eq!(names[..8].join(","), HEADER);
    assert_eq!(names[8], "ns/decision");
    let rows: Vec<_> = stdout.lines().skip(4).take(10).collect();
    assert!(rows.iter().all(|row| row.len() == header.len()), "{stdout}");
    for name in ["keys:", "keys_refused:", "worst_span:", "ns/decision:"] {
        assert!(stdout.contains(name), "{name}: {stdout}");
    }
}

#[test]
fn malformed_lines_are_counted_and_the_first_is_named() {
    let log = [&line("a", 0, "/"), "first\n", &line("b", 1, "/"), "\n", "third"].concat();
    let (code, stdout, stderr) = replay_log(&["-", "--format", "csv"], log.as_bytes());
    assert_eq!(code, 0);
    assert_eq!(stdout.lines().nth(1), Some("token-bucket,lock-free,2,2,0,2,0,1"));
    assert_eq!(
        stderr,
        "replay: standard input: line 2 is malformed, no host and [time]: \"first\"\n\
         replay: standard input: 3 of 5 lines malformed, skipped\n"
    );
}

#[test]
fn nothing_to_replay_is_an_error() {
    for (log, message) in [
        ("", "replay: standard input: the log is empty\n"),
        ("\n", "none of the 1 lines can be read\n"),
        ("x\ny\n", "none of the 2 lines can be read\n"),
    ] {
        for format in ["csv", "table"] {
            let (code, stdout, stderr) = replay_log(&["-", "--format", format], log.as_bytes());
            assert_eq!((code, stdout.as_str()), (2, ""));
            assert!(stderr.ends_with(message), "{stderr}");
        }
    }
}

#[test]
fn unreadable_logs_are_errors() {
    let folder = env!("CARGO_MANIFEST_DIR");
    for path in ["/no/such/log", folder] {
        let (code, stdout, stderr) = replay_log(&[path], b"");
        assert_eq!((code, stdout.as_str()), (2, ""));
        assert!(stderr.starts_with(&format!("replay: {path}: ")), "{stderr}");
    }

    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the line went dead"))
        }
    }
    let mut stderr = Vec::new();
    assert_eq!(run(["replay", "-"], Broken, io::sink(), &mut stderr), 2);
    assert_eq!(stderr, b"replay: standard input: the line went dead\n");
}

#[test]
fn wrong_command_lines() {
    for (args, named) in [
        (&["--limit", "30"][..], "--limit"),
        (&["--limit", "0/s"], "count must not be zero"),
        (&["--limit", "3/fortnight"], "period cannot be read"),
        (&["--key", "user"], "--key"),
        (&["--format", "json"], "--format"),
        (&["--colour"], "--colour"),
        (&["one", "two"], "two"),
    ] {
        let (code, stdout, stderr) = replay_log(args, b"");
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
        assert!(stderr.contains(named), "{args:?}: {stderr}");
    }
    let (code, stdout, stderr) = replay_log(&["--help"], b"");
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("--plot"));
}

/// A writer that fails.
struct Full(ErrorKind);

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_is_no_failure_and_a_full_disk_is() {
    for args in [&["replay"][..], &["replay", "--format", "csv"], &["replay", "--help"]] {
        assert_eq!(run(args, io::empty(), Full(ErrorKind::BrokenPipe), io::sink()), 0);
        assert_eq!(
            run(args, io::empty(), Full(ErrorKind::BrokenPipe), Full(ErrorKind::BrokenPipe)),
            0
        );
    }
    for args in [&["replay"][..], &["replay", "--help"]] {
        let mut stderr = Vec::new();
        assert_eq!(run(args, io::empty(), Full(ErrorKind::StorageFull), &mut stderr), 2);
        assert!(stderr.starts_with(b"replay: standard output: "));
    }
}

#[test]
fn a_log_that_outlives_limiters_is_pointed_out() {
    let log = format!("h - - [01/Jan/1970:00:00:00 +0000] \"\" 200 1\n{}", line("h", 0, "/"));
    let (code, _, stderr) = replay_log(&["-", "--format", "csv"], log.as_bytes());
    assert_eq!(code, 0);
    assert!(stderr.contains("more than ten years"), "{stderr}");
}

#[test]
fn an_algorithm_without_room_for_the_limit_is_left_out() {
    let svg = Scratch::new("left-out.svg");
    let log = line("a", 0, "/").repeat(2);
    // Ten years are too many seconds to number beside two counts of a million
    // in one word, and after 210,000 days they end where 64 bits of nanoseconds
    // have ended.
    for (limit, reason) in [("1000000/s", "count"), ("1/210000d", "period")] {
        let left_out = format!("replay: sliding-counter: {reason} is too large, left out\n");
        for format in ["csv", "table"] {
            let args = ["-", "--limit", limit, "--format", format];
            let (code, stdout, stderr) = replay_log(&args, log.as_bytes());
            assert_eq!((code, &stderr), (0, &left_out));
            for (name, rows) in [("lock-free", 4), ("mutex", 4), ("sliding-counter", 0)] {
                assert_eq!(stdout.matches(name).count(), rows, "{name}: {stdout}");
            }
        }
        let args = ["-", "--limit", limit, "--plot", svg.name()];
        let (code, _, stderr) = replay_log(&args, log.as_bytes());
        assert_eq!(code, 0);
        assert!(stderr.starts_with(&left_out), "{stderr}");
        let drawn = fs::read_to_string(&svg.0).unwrap();
        assert!(drawn.contains("sliding log:") && !drawn.contains("sliding counter:"));
    }
}

/// A path of this test's own, removed when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("tollgate-{}-{name}", std::process::id())))
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn logs_are_read_from_files() {
    let log = Scratch::new("access.log");
    fs::write(&log.0, trace::log()).unwrap();
    assert_eq!(csv_rows(&[log.name()], b""), csv_rows(&[], b""));
}

#[test]
fn plot_shows_every_algorithm() {
    let svg = Scratch::new("replay.svg");
    let (code, _, stderr) = replay_log(&["--plot", svg.name()], b"");
    assert_eq!((code, stderr.as_str()), (0, ""));
    let drawn = fs::read_to_string(&svg.0).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.ends_with("</svg>\n"));
    for text in [
        "Client bursty.example under 30/min",
        "per 5 s",
        "1 June 2026",
        "offered: 480",
        "token bucket: 234 admitted, 246 refused",
        "leaky bucket: 240 admitted, 240 refused",
        "fixed window: 240 admitted, 240 refused",
        "sliding log: 180 admitted, 300 refused",
        // twice 30, then 29 and 5 across an edge, then 29, as those 5 still weigh
        "sliding counter: 186 admitted, 294 refused",
        "12:05",
    ] {
        assert!(drawn.contains(text), "{text}");
    }
}

#[test]
fn plot_says_when_it_cuts_off_what_was_offered() {
    let svg = Scratch::new("cut-off.svg");
    let drawn = |limit| {
        let (code, ..) = replay_log(&["--limit", limit, "--plot", svg.name()], b"");
        assert_eq!(code, 0);
        fs::read_to_string(&svg.0).unwrap()
    };
    assert!(drawn("3/min").contains("cut off"));
    assert!(!drawn("30/min").contains("cut off"));
}

#[test]
fn plot_without_refusals_says_so() {
    let svg = Scratch::new("calm.svg");
    let log = [line("a", 0, "/"), line("b", 1, "/"), line("b", 9, "/")].concat();
    let (code, _, stderr) = replay_log(&["-", "--plot", svg.name()], log.as_bytes());
    assert_eq!(code, 0);
    assert!(stderr.contains("no key was refused"), "{stderr}");
    let drawn = fs::read_to_string(&svg.0).unwrap();
    assert!(drawn.contains("Client b under"));
    assert!(drawn.contains("token bucket: 2 admitted, 0 refused"));
}

#[test]
fn any_key_can_be_plotted() {
    let svg = Scratch::new("odd.svg");
    let mut log = b"h - - [01/Jun/2026:12:00:00 +0000] \"GET /<&>\0\x1b\xff".to_vec();
    log.extend_from_slice(&[b'x'; 200]);
    log.extend_from_slice(b" HTTP/1.1\" 200 1\n");
    let (code, ..) = replay_log(&["-", "--key", "path", "--plot", svg.name()], &log);
    assert_eq!(code, 0);
    let drawn = fs::read_to_string(&svg.0).unwrap();
    assert!(drawn.contains(r"Path /&lt;&amp;&gt;\x00\x1b\xffxxx"), "{drawn}");
    assert!(drawn.contains("xxx... under"));
}

#[test]
fn a_plot_that_cannot_be_written_is_an_error() {
    let (code, stdout, stderr) = replay_log(&["--plot", "/no/such/folder/replay.svg"], b"");
    assert_eq!(code, 2);
    assert!(stdout.contains("worst_span"));
    assert!(stderr.starts_with("replay: /no/such/folder/replay.svg: "), "{stderr}");
}

#[test]
fn a_plot_does_not_replace_the_log() {
    let log = Scratch::new("log-and-plot");
    fs::write(&log.0, line("h", 0, "/")).unwrap();
    let path = log.0.to_str().unwrap();
    let mut stderr = Vec::new();
    let args = ["replay", path, "--plot", path];
    assert_eq!(run(args, io::empty(), io::sink(), &mut stderr), 2);
    assert_eq!(stderr, b"replay: the plot would replace the log\n");
    assert_eq!(fs::read_to_string(&log.0).unwrap(), line("h", 0, "/"));
}
