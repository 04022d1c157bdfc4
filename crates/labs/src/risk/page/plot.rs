//! Plots the lost updates by TTL, and the cost of a longer TTL.

use plotters::style::Color as _;

use crate::risk::{Interval, Row, YEAR};
use report::drawing::{Anchor, SMALL};
use report::plots::{BAD, BAR, Frame, HEIGHT, MUTED, Picture, TEXT, WIDTH};

/// The x positions where the left half ends and the right half begins.
const HALVES: (f64, f64) = (WIDTH / 2.0 - 20.0, WIDTH / 2.0 + 60.0);

/// The plot. `asked` is the index of the TTL that the answer is about.
pub fn risk(rows: &[Row], asked: usize, title: &str) -> Picture {
    let mut frame = Frame::titled(title, "simulated", 64.0);
    frame.right = HALVES.0;
    frame.unit("lost updates per year, with 95% intervals");
    let rows_with_losses = rows.iter().map(|row| row.lost.times(YEAR)).filter(|lost| lost.mean > 0.0);
    let lost: Vec<Interval> = rows_with_losses.collect();
    let finite = |value: f64| Some(value).filter(|value| value.is_finite() && *value > 0.0);
    let lowest = lost.iter().filter_map(|lost| finite(lost.low)).fold(f64::INFINITY, f64::min);
    let highest = lost.iter().flat_map(|lost| [finite(lost.mean), finite(lost.high)]).flatten().fold(0.0, f64::max);
    let (lowest, highest) = if lost.is_empty() { (0.1, 10.0) } else { (lowest.min(highest), highest) };
    let y = frame.log_axis(lowest, highest);
    let x = ttl_axis(&mut frame, rows);
    let mut means = Vec::new();
    for (place, row) in rows.iter().enumerate() {
        let (lost, x) = (row.lost.times(YEAR), x(row));
        if lost.mean <= 0.0 {
            frame.picture.text((x, frame.bottom - 9.0), "0", SMALL, Anchor::Center, TEXT);
            continue;
        }
        means.push((x, y(lost.mean)));
        let ends = (finite(lost.low).map_or(frame.bottom, &y), finite(lost.high).map_or(frame.top, &y));
        frame.picture.line(vec![(x, ends.0), (x, ends.1)], 2.0, BAD.mix(0.45));
        frame.picture.dot((x, y(lost.mean)), if place == asked { 5.5 } else { 3.5 }, BAD);
    }
    frame.picture.line(means, 1.5, BAD);

    (frame.left, frame.right) = (HALVES.1, WIDTH - 18.0);
    let unit = "seconds per year in which a dead holder keeps its lock";
    frame.picture.text((HALVES.1 - 48.0, 48.0), unit, SMALL, Anchor::Left, MUTED);
    let y = frame.linear_axis(rows.iter().map(|row| row.unavailable_s).fold(0.0, f64::max));
    let x = ttl_axis(&mut frame, rows);
    let points: Vec<(f64, f64)> = rows.iter().map(|row| (x(row), y(row.unavailable_s))).collect();
    for (place, point) in points.iter().enumerate() {
        frame.picture.dot(*point, if place == asked { 5.5 } else { 3.5 }, BAR);
    }
    frame.picture.line(points, 1.5, BAR);
    frame.finish()
}

/// A logarithmic axis of the TTLs. Returns a function from a row to its x position.
fn ttl_axis(frame: &mut Frame, rows: &[Row]) -> impl Fn(&Row) -> f64 + use<> {
    let logarithm = |row: &Row| row.ttl.as_secs_f64().max(1e-3).ln();
    let first = rows.first().map_or(0.0, logarithm);
    let range = (rows.last().map_or(1.0, logarithm) - first).max(1e-9);
    let (left, right) = (frame.left + 24.0, frame.right - 24.0);
    let place = move |row: &Row| left + (right - left) * (logarithm(row) - first) / range;
    for row in rows {
        let text = humantime::format_duration(row.ttl).to_string();
        frame.picture.text((place(row), frame.bottom + 13.0), text, SMALL, Anchor::Center, MUTED);
    }
    let middle = (frame.left + frame.right) / 2.0;
    frame.picture.text((middle, HEIGHT - 13.0), "the lock's TTL", SMALL, Anchor::Center, MUTED);
    place
}
