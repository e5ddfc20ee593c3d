//! Vectors: call by call, what the five algorithms must answer, computed from
//! their definitions with integers and fractions and compared with the programs
//! that made them known (redis-cell, nginx and others; each vector names its
//! source). They run on lock-free limiters and behind a mutex, with the clock's
//! origin at 0, 1 and 2^63; windows on the wall clock's time and beyond 2^63.
//!
//! Where a source follows a convention of its own, the crate's law stands and
//! the difference is stated where the vector is run. A vector that is neither
//! run nor listed below fails.

#[path = "conformance/gcra.rs"]
mod gcra;
#[path = "conformance/leaky.rs"]
mod leaky;
#[path = "conformance/nginx.rs"]
mod nginx;
mod subject;
#[path = "conformance/vectors.rs"]
mod vectors;
#[path = "conformance/windows.rs"]
mod windows;

use vectors::{File, Vector};

const WINDOWS: &str = include_str!("vectors/windows.json");
const GCRA: &str = include_str!("vectors/gcra.json");
const LEAKY: &str = include_str!("vectors/leaky.json");
const NGINX: &str = include_str!("vectors/nginx.json");

const FROM_FIRST: &str = "a window that begins with its first request: another algorithm";
const ROUNDED: &str = "a counter that rounds its estimate down, where this one compares exactly";
const TICK: &str = "departures at the ticks of a clock: another algorithm";

/// The vectors that do not apply, and why.
const NOT_COVERED: &[(&str, &str)] = &[
    ("win-010", FROM_FIRST),
    ("win-012", FROM_FIRST),
    ("win-013", FROM_FIRST),
    ("win-024", ROUNDED),
    ("win-028", ROUNDED),
    ("win-032", ROUNDED),
    ("leaky-012", TICK),
    ("leaky-013", TICK),
    ("leaky-014", TICK),
    ("nginx-032", "how nginx reads its configuration"),
];

fn listed(vector: &Vector) -> bool {
    NOT_COVERED.iter().any(|(id, _)| *id == vector.id)
}

/// Runs all vectors of a file that are not listed; `run` knows no others.
fn run_all(text: &str, run: impl Fn(&Vector)) {
    for vector in File::read(text).vectors.iter().filter(|vector| !listed(vector)) {
        println!("vector {}", vector.id); // shown beside a failure
        run(vector);
    }
}

#[test]
fn windows() {
    run_all(WINDOWS, windows::run);
}

#[test]
fn gcra() {
    run_all(GCRA, gcra::run);
}

#[test]
fn leaky() {
    run_all(LEAKY, leaky::run);
}

#[test]
fn nginx() {
    run_all(NGINX, nginx::run);
}

#[test]
fn the_list_names_vectors_that_exist_once_each() {
    let files = [WINDOWS, GCRA, LEAKY, NGINX].map(File::read);
    let ids: Vec<&str> =
        files.iter().flat_map(|file| &file.vectors).map(|vector| &*vector.id).collect();
    for (at, (id, _)) in NOT_COVERED.iter().enumerate() {
        assert_eq!(ids.iter().filter(|known| *known == id).count(), 1, "{id}");
        assert!(NOT_COVERED[..at].iter().all(|(other, _)| other != id), "{id} is listed twice");
    }
    assert_eq!(ids.len(), 90);
}
