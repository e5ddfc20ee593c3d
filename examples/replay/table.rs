//! The result as text for people and as CSV for programs.

use crate::args::Args;
use crate::key::Key;
use crate::replay::Outcome;
use crate::summary::Summary;
use crate::traffic::Traffic;
use std::io::{self, Write};

const COLUMNS: [&str; 8] = [
    "algorithm",
    "sharing",
    "requests",
    "admitted",
    "refused",
    "keys",
    "keys_refused",
    "worst_span",
];

fn cells(traffic: &Traffic, outcome: &Outcome) -> [String; COLUMNS.len()] {
    let summary = Summary::new(traffic, outcome);
    [
        outcome.algorithm.to_owned(),
        outcome.sharing.to_owned(),
        traffic.requests.len().to_string(),
        summary.admitted.to_string(),
        summary.refused.to_string(),
        traffic.keys.len().to_string(),
        summary.keys_refused.to_string(),
        summary.worst_span.to_string(),
    ]
}

/// No field ever holds a comma or a quote.
pub(crate) fn csv(out: &mut impl Write, traffic: &Traffic, outcomes: &[Outcome]) -> io::Result<()> {
    writeln!(out, "{}", COLUMNS.join(","))?;
    for outcome in outcomes {
        writeln!(out, "{}", cells(traffic, outcome).join(","))?;
    }
    Ok(())
}

pub(crate) fn text(
    out: &mut impl Write,
    name: &str,
    args: &Args,
    traffic: &Traffic,
    outcomes: &[Outcome],
) -> io::Result<()> {
    let key = match args.key {
        Key::Client => "per client",
        Key::Path => "per path",
        Key::None => "for all requests together",
    };
    writeln!(out, "Log:   {name}")?;
    writeln!(out, "Limit: {} {key}\n", args.limit)?;

    let mut header = COLUMNS.map(str::to_owned).to_vec();
    header.push("ns/decision".to_owned());
    let mut rows = vec![header];
    for outcome in outcomes {
        let mut row = cells(traffic, outcome).to_vec();
        row.push(outcome.nanos.map_or(String::new(), |nanos| format!("{nanos:.0}")));
        rows.push(row);
    }
    let widths: Vec<_> = (0..=COLUMNS.len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    for row in &rows {
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            match column {
                0 => write!(out, "{cell:<width$}")?,
                1 => write!(out, "  {cell:<width$}")?,
                _ => write!(out, "  {cell:>width$}")?,
            }
        }
        writeln!(out)?;
    }

    write!(
        out,
        "
keys: distinct keys seen; keys_refused: those that were refused at least once.
worst_span: the most requests of one key let through within any span as long as the
limit's period; a leaky bucket's count when they leave its queue.
ns/decision: real time for moving the clock, finding the key and deciding, in the
fastest of several replays, without reading the log.
"
    )
}
