//! What happened to one key over time, as one small panel per algorithm.

use crate::args::Args;
use crate::axis::Axis;
use crate::key::Key;
use crate::replay::Outcome;
use crate::traffic::Traffic;
use plotters::coord::combinators::BindKeyPoints;
use plotters::prelude::*;
use std::error::Error;
use std::iter;
use tollgate::Instant;

/// The key that is drawn.
pub(crate) struct Subject {
    key: usize,
    requests: usize,
    /// Refusals by all algorithms together.
    pub(crate) refused: usize,
}

/// The busiest key that any algorithm refused, or else the busiest key.
pub(crate) fn subject(traffic: &Traffic, outcomes: &[Outcome]) -> Option<Subject> {
    let mut requests = vec![0; traffic.keys.len()];
    let mut refused = vec![0; traffic.keys.len()];
    for (index, request) in traffic.requests.iter().enumerate() {
        requests[request.key] += 1;
        refused[request.key] +=
            algorithms(outcomes).filter(|outcome| outcome.released[index].is_none()).count();
    }
    // The last of several equal ones wins, so the first seen has to come last.
    let newest_first = traffic.requests.iter().rev().map(|request| request.key);
    newest_first
        .max_by_key(|&key| (refused[key] > 0, requests[key], refused[key]))
        .map(|key| Subject { key, requests: requests[key], refused: refused[key] })
}

/// How an algorithm is shared changes nothing in its answers.
fn algorithms(outcomes: &[Outcome]) -> impl Iterator<Item = &Outcome> {
    let mut seen = None;
    outcomes
        .iter()
        .filter(move |outcome| seen.replace(outcome.algorithm) != Some(outcome.algorithm))
}

/// Of a palette that colour-blind readers can tell apart (Okabe and Ito 2008).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];
const OFFERED: RGBColor = RGBColor(205, 205, 205);
const GRID: RGBColor = RGBColor(230, 230, 230);
const INK: RGBColor = RGBColor(40, 40, 40);

// Pixels.
const LEFT: u32 = 70;
const RIGHT: u32 = 40;
const PLOT_WIDTH: u32 = 960;
const HEAD: u32 = 72;
const PANEL: u32 = 148;
const PANEL_TITLE: u32 = 40;
const FOOT: u32 = 44;

/// A panel: requests per bin.
struct Panel {
    title: String,
    colour: RGBColor,
    counts: Vec<u64>,
}

impl Panel {
    fn most(&self) -> u64 {
        self.counts.iter().copied().max().unwrap_or(0)
    }
}

pub(crate) fn svg(
    subject: &Subject,
    args: &Args,
    traffic: &Traffic,
    outcomes: &[Outcome],
) -> Result<String, Box<dyn Error>> {
    let own = |index: &usize| traffic.requests[*index].key == subject.key;
    let own: Vec<usize> = (0..traffic.requests.len()).filter(own).collect();
    let offered: Vec<Instant> = own.iter().map(|&index| traffic.requests[index].at).collect();
    let released: Vec<(&Outcome, Vec<Instant>)> = algorithms(outcomes)
        .map(|outcome| (outcome, own.iter().filter_map(|&i| outcome.released[i]).collect()))
        .collect();

    let times = || offered.iter().chain(released.iter().flat_map(|(_, times)| times)).copied();
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        return Err("there is nothing to draw".into());
    };
    let axis = Axis::covering(first, last);
    let mut panels = vec![Panel {
        title: format!("offered: {}", offered.len()),
        colour: OFFERED,
        counts: count(&axis, &offered),
    }];
    panels.extend(released.iter().zip(COLOURS.iter().cycle()).map(|((outcome, times), colour)| {
        let (name, admitted) = (outcome.algorithm.replace('-', " "), times.len());
        let refused = subject.requests - admitted;
        Panel {
            title: format!("{name}: {admitted} admitted, {refused} refused"),
            colour: *colour,
            counts: count(&axis, times),
        }
    }));
    draw(&heading(subject, args, traffic), &axis, &panels)
}

fn count(axis: &Axis, times: &[Instant]) -> Vec<u64> {
    let mut counts = vec![0; axis.bins as usize];
    for &at in times {
        counts[axis.bin(at)] += 1;
    }
    counts
}

fn heading(subject: &Subject, args: &Args, traffic: &Traffic) -> String {
    const SHOWN: usize = 60;
    // Escaped: a key may hold what no XML file may.
    let mut key = traffic.keys[subject.key].escape_ascii().to_string();
    if key.len() > SHOWN {
        key.truncate(SHOWN - 3);
        key.push_str("...");
    }
    match args.key {
        Key::Client => format!("Client {key} under {}", args.limit),
        Key::Path => format!("Path {key} under {}", args.limit),
        Key::None => format!("All requests under {}", args.limit),
    }
}

fn draw(heading: &str, axis: &Axis, panels: &[Panel]) -> Result<String, Box<dyn Error>> {
    // A bin is a whole number of pixels wide, so that equal bars look equal.
    let bins = axis.bins as u32;
    let width = LEFT + bins * (PLOT_WIDTH / bins) + RIGHT;
    let height = HEAD + PANEL * panels.len() as u32 + FOOT;
    // What gets through must be seen even where it is little of what is offered.
    let (offered, others) = panels.split_first().ok_or("there is nothing to draw")?;
    let most_offered = offered.most();
    let most_released = others.iter().map(Panel::most).max().unwrap_or(0);
    let shown = most_offered.max(most_released).min(2 * most_released).max(1);

    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let cut_off = if shown < most_offered { " (cut off at the top)" } else { "" };
    let explanation = format!(
        "requests let through per {}, grey where refused or still waiting{cut_off}; {}",
        axis.bin_width(),
        axis.days()
    );
    root.draw_text(heading, &text(24), (LEFT as i32, 16))?;
    root.draw_text(&explanation, &text(17), (LEFT as i32, 46))?;

    let (_, mut rest) = root.split_vertically(HEAD);
    for (index, panel) in panels.iter().enumerate() {
        let top = if index == 0 { most_offered.max(1) } else { shown };
        let last = index + 1 == panels.len();
        let (area, below) = rest.split_vertically(if last { PANEL + FOOT } else { PANEL });
        rest = below;
        area.draw_text(&panel.title, &text(18), (LEFT as i32, 20))?;
        let mut chart = ChartBuilder::on(&area)
            .margin_top(PANEL_TITLE)
            .margin_right(RIGHT)
            .y_label_area_size(LEFT)
            .x_label_area_size(if last { FOOT } else { 0 })
            .build_cartesian_2d(
                (axis.start..axis.end()).with_key_points(axis.ticks().collect()),
                (0..top).with_key_points(levels(top)),
            )?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(text(16))
            .x_label_formatter(&|second| axis.label(*second))
            .draw()?;
        chart.draw_series(bars(axis, top, &offered.counts, OFFERED))?;
        chart.draw_series(bars(axis, top, &panel.counts, panel.colour))?;
    }
    root.present()?;
    drop((root, rest));
    Ok(svg)
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// Zero, and up to three whole steps of one, two or five times a power of ten.
fn levels(highest: u64) -> Vec<u64> {
    let steps = (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    let step = steps.take(57).find(|step| highest / step <= 3).unwrap_or(highest.max(1));
    (0..=highest / step).map(|level| level * step).collect()
}

fn bars<'a>(
    axis: &'a Axis,
    top: u64,
    counts: &'a [u64],
    colour: RGBColor,
) -> impl Iterator<Item = Rectangle<(u64, u64)>> + 'a {
    let edges = iter::successors(Some(axis.start), |edge| Some(edge + axis.width));
    counts.iter().zip(edges).filter(|(count, _)| **count > 0).map(move |(&count, edge)| {
        Rectangle::new([(edge, count.min(top)), (edge + axis.width, 0)], colour.filled())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::ROWS;

    /// The key that is drawn for requests at these (second, key), in a log in
    /// which they stand in this order.
    fn drawn(limit: &str, requests: &[(u64, &str)]) -> String {
        let log: String = requests
            .iter()
            .map(|(at, key)| format!("{key} - - [01/Jun/2026:12:00:{at:02} +0000] \"-\" 400 0\n"))
            .collect();
        let traffic = Traffic::read(log.as_bytes(), Key::Client).unwrap();
        let limit = limit.parse().unwrap();
        let outcomes: Vec<_> =
            ROWS.iter().map(|row| row.replay(limit, &traffic).unwrap()).collect();
        let subject = subject(&traffic, &outcomes).unwrap();
        String::from_utf8(traffic.keys[subject.key].clone()).unwrap()
    }

    #[test]
    fn the_busiest_refused_key_is_drawn() {
        let steady = [(1, "steady"), (20, "steady"), (40, "steady")];
        assert_eq!(drawn("2/15s", &steady), "steady");
        let refused = [(2, "refused"); 3];
        assert_eq!(drawn("1/10s burst 1", &[&steady[..], &refused[..2]].concat()), "refused");
        // as many requests: more refusals; as many of those: the earlier
        let (a, b) = ([(1, "a"), (1, "a"), (9, "a")], [(1, "b"), (1, "b"), (1, "b")]);
        assert_eq!(drawn("1/5s burst 1", &[a, b].concat()), "b");
        let later = [(5, "later"); 3];
        assert_eq!(drawn("1/5s burst 1", &[later, refused].concat()), "refused");
    }

    #[test]
    fn levels_are_few_and_round() {
        assert_eq!(levels(1), [0, 1]);
        assert_eq!(levels(3), [0, 1, 2, 3]);
        assert_eq!(levels(4), [0, 2, 4]);
        assert_eq!(levels(20), [0, 10, 20]);
        assert_eq!(levels(75), [0, 20, 40, 60]);
        for highest in (0..64).map(|shift| u64::MAX >> shift) {
            assert!((2..=4).contains(&levels(highest).len()), "{highest}");
        }
    }
}
