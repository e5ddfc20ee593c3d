//! The command line.

use crate::key::Key;
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use tollgate::Limit;

/// The exit code when anything went wrong.
pub(crate) const FAILURE: u8 = 2;

/// Replays an access log through every rate-limiting algorithm and shows how
/// they differ.
#[derive(Parser, Debug)]
#[command(
    name = "replay",
    after_help = "An algorithm that has no room for the limit is left out.\n\n\
                  Exit code: 0, or 2 when the command line is wrong, the log cannot be read, or \
                  the output cannot be written."
)]
pub(crate) struct Args {
    /// Access log in Common or Combined Log Format, - for standard input
    /// [default: a built-in trace]
    pub(crate) log: Option<PathBuf>,

    /// COUNT/[N]UNIT [burst B]; UNIT is one of ns us ms s min h d
    ///
    /// The burst is the capacity of the token bucket and the length of the
    /// leaky bucket's queue, and is the count unless given. Windows have none.
    #[arg(long, value_name = "SPEC", default_value = "30/min")]
    pub(crate) limit: Limit,

    /// What shares a limit
    #[arg(long, value_enum, default_value_t)]
    pub(crate) key: Key,

    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,

    /// Draws what happened to the busiest refused key over time
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Format {
    /// For people, with the time that a decision takes
    #[default]
    Table,
    /// For programs, the same at every run
    Csv,
}
