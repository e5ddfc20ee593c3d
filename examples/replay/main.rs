//! Replays a web server's access log through every algorithm and shows how
//! they differ.
//!
//! ```text
//! cargo run --release --example replay -- access.log --limit "30/min burst 10"
//! cargo run --release --example replay -- --plot replay.svg
//! ```
//!
//! Without a log it replays a built-in trace. An algorithm that has no room for
//! the limit is left out, and standard error says so. `--help` tells the rest.
//!
//! | file | idea |
//! |---|---|
//! | `args.rs` | the command line |
//! | `access_log.rs` | a line of a log: who, when, what |
//! | `key.rs` | which requests share a limit |
//! | `traffic.rs` | a whole log as requests in time order |
//! | `trace.rs` | the built-in log |
//! | `replay.rs` | **the crate in use**: each algorithm on a manual clock |
//! | `summary.rs` | counts, and the fullest span |
//! | `table.rs` | the rows as text or CSV |
//! | `axis.rs`, `plot.rs` | one client's fate over time as SVG |

mod access_log;
mod args;
mod axis;
mod key;
mod plot;
mod replay;
mod summary;
mod table;
mod trace;
mod traffic;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use args::{Args, Format};
use clap::Parser;
use std::error::Error;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use traffic::Traffic;

fn main() -> ExitCode {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    run(std::env::args_os(), stdin.lock(), stdout.lock(), stderr.lock()).into()
}

/// The whole program; returns its exit code, 0 or [`args::FAILURE`].
fn run(
    args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    stdin: impl Read,
    stdout: impl Write,
    mut stderr: impl Write,
) -> u8 {
    let mut stdout = BufWriter::new(stdout);
    // What cannot be said on standard error cannot be said anywhere: the
    // results of writing there are ignored.
    match Args::try_parse_from(args) {
        Ok(args) => match replay(&args, stdin, &mut stdout, &mut stderr) {
            Ok(()) => 0,
            Err(error) => {
                let _ = writeln!(stderr, "replay: {error}");
                args::FAILURE
            }
        },
        Err(error) if error.use_stderr() => {
            let _ = write!(stderr, "{}", error.render());
            args::FAILURE
        }
        Err(help) => match finished(write!(stdout, "{}", help.render()), &mut stdout) {
            Ok(()) => 0,
            Err(error) => {
                let _ = writeln!(stderr, "replay: {error}");
                args::FAILURE
            }
        },
    }
}

/// All that was printed is out, or nobody wants it any more, as after `head`.
fn finished(printed: io::Result<()>, stdout: &mut impl Write) -> Result<(), String> {
    match printed.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.map_err(|error| format!("standard output: {error}")),
    }
}

fn replay(
    args: &Args,
    stdin: impl Read,
    stdout: &mut impl Write,
    stderr: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    if let (Some(log), Some(plot)) = (&args.log, &args.plot)
        && fs::canonicalize(log).ok().is_some_and(|log| fs::canonicalize(plot).ok() == Some(log))
    {
        return Err("the plot would replace the log".into());
    }
    let (name, traffic) = read(args, stdin)?;
    if args.log.is_none() && args.format == Format::Csv {
        let _ = writeln!(stderr, "replay: replaying the {name}");
    }
    if let Some(malformed) = &traffic.first_malformed {
        let _ = writeln!(stderr, "replay: {name}: {malformed}");
    }
    let (Some(first), Some(last)) = (traffic.requests.first(), traffic.requests.last()) else {
        return Err(match traffic.lines {
            0 => format!("{name}: the log is empty").into(),
            lines => format!("{name}: none of the {lines} lines can be read").into(),
        });
    };
    if last.at.since(first.at) > tollgate::HORIZON {
        let _ = writeln!(
            stderr,
            "replay: {name}: the log spans more than ten years, after which limiters may refuse"
        );
    }

    let (mut outcomes, mut left_out) = (Vec::new(), Vec::new());
    for row in replay::ROWS {
        let outcome = match args.format {
            Format::Table => row.timed(args.limit, &traffic),
            Format::Csv => row.replay(args.limit, &traffic),
        };
        match outcome {
            Ok(outcome) => outcomes.push(outcome),
            Err(reason) => left_out.push(reason),
        }
    }
    // How an algorithm is shared changes nothing in what it has room for.
    left_out.dedup();
    for reason in left_out {
        let _ = writeln!(stderr, "replay: {reason}");
    }

    let printed = match args.format {
        Format::Csv => table::csv(stdout, &traffic, &outcomes),
        Format::Table => table::text(stdout, &name, args, &traffic, &outcomes),
    };
    finished(printed, stdout)?;

    if traffic.malformed > 0 {
        let (malformed, lines) = (traffic.malformed, traffic.lines);
        let _ = writeln!(stderr, "replay: {name}: {malformed} of {lines} lines malformed, skipped");
    }
    if let Some(path) = &args.plot {
        let subject = plot::subject(&traffic, &outcomes).ok_or("there is nothing to plot")?;
        if subject.refused == 0 {
            let _ = writeln!(stderr, "replay: no key was refused, so the plot shows the busiest");
        }
        let svg = plot::svg(&subject, args, &traffic, &outcomes)?;
        fs::write(path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// The traffic, and what to call it.
fn read(args: &Args, stdin: impl Read) -> Result<(String, Traffic), Box<dyn Error>> {
    let (name, traffic) = match &args.log {
        None => (trace::NAME.to_owned(), Traffic::read(trace::log().as_bytes(), args.key)),
        Some(path) if path == Path::new("-") => {
            ("standard input".to_owned(), Traffic::read(BufReader::new(stdin), args.key))
        }
        Some(path) => {
            let traffic =
                File::open(path).and_then(|file| Traffic::read(BufReader::new(file), args.key));
            (path.display().to_string(), traffic)
        }
    };
    match traffic {
        Ok(traffic) => Ok((name, traffic)),
        Err(error) => Err(format!("{name}: {error}").into()),
    }
}
