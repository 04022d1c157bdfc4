//! Every operation as a point: its start, its duration and its outcome.

use std::collections::HashSet;

use plotters::style::Color as _;

use super::OUTCOMES;
use super::frame::{Frame, Key, series_of};
use super::picture::Picture;
use model::history::Operation;
use summary::Story;

pub fn latency(story: &Story) -> Picture {
    let mut frame = Frame::new(story, "Latency of operations", 64.0);
    frame.unit("latency, ms");
    let points: Vec<(&Operation, f64)> =
        story.client_operations().filter_map(|operation| Some((operation, latency_ms(operation)?))).collect();
    frame.time_axis();
    frame.faults(story);
    if points.is_empty() {
        frame.nothing("no operation was completed");
        return frame.finish();
    }
    let lowest = points.iter().map(|(_, ms)| *ms).fold(f64::INFINITY, f64::min);
    let highest = points.iter().map(|(_, ms)| *ms).fold(0.0, f64::max);
    let y = frame.log_axis(lowest, highest);
    // Points at the same place are drawn once: further ones would not change the picture.
    let mut drawn = HashSet::new();
    for (outcome, _, ink) in OUTCOMES {
        for (operation, ms) in points.iter().filter(|(operation, _)| operation.outcome == outcome) {
            let place = (frame.x(operation.invoked), y(*ms));
            if drawn.insert((operation.f, outcome, (place.0 * 2.0) as i32, (place.1 * 2.0) as i32)) {
                frame.mark(operation.f, place, 2.5, ink.mix(0.85));
            }
        }
    }
    for series in series_of(points.iter().map(|(operation, _)| *operation)) {
        frame.key(Key::Mark(series.f, series.ink), series.name);
    }
    frame.finish()
}

/// The time from the invocation to the reply. At least 0.01 ms, because a logarithmic axis has no 0.
pub fn latency_ms(operation: &Operation) -> Option<f64> {
    let ns = operation.completed?.saturating_sub(operation.invoked);
    Some((ns as f64 / 1e6).max(0.01))
}
