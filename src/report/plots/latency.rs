//! Every operation as a point: when it began, how long it took, how it ended.

use std::collections::HashSet;

use super::frame::{Frame, Key};
use super::picture::Picture;
use super::{FUNCTIONS, OUTCOMES, function_word, outcome_ink, outcome_word};
use crate::history::{Function, Operation};
use crate::telling::Story;

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
    // Points on the same spot are drawn once: a million operations do not make a picture any darker.
    let mut drawn = HashSet::new();
    for outcome in OUTCOMES {
        for (operation, ms) in points.iter().filter(|(operation, _)| operation.outcome == outcome) {
            let place = (frame.x(operation.invoked), y(*ms));
            if !drawn.insert((operation.f, outcome, (place.0 * 2.0) as i32, (place.1 * 2.0) as i32)) {
                continue;
            }
            let ink = outcome_ink(outcome).faded(0.85);
            match operation.f {
                Function::Rmw | Function::Hold | Function::Write | Function::Cas => frame.picture.dot(place, 2.5, ink),
                Function::Read => frame.picture.triangle(place, 3.0, ink),
            }
        }
    }
    let one_function = FUNCTIONS.iter().filter(|f| points.iter().any(|(operation, _)| operation.f == **f)).count() == 1;
    for f in FUNCTIONS {
        for outcome in OUTCOMES {
            if points.iter().any(|(operation, _)| operation.f == f && operation.outcome == outcome) {
                let ink = outcome_ink(outcome);
                let key = if f != Function::Read { Key::Dot(ink) } else { Key::Triangle(ink) };
                let name = if one_function { String::new() } else { format!("{} ", function_word(f)) };
                frame.key(key, format!("{name}{}", outcome_word(outcome)));
            }
        }
    }
    frame.finish()
}

/// From the invocation to the answer. At least 0.01 ms, since a shorter one has no place on a logarithmic axis.
pub fn latency_ms(operation: &Operation) -> Option<f64> {
    let ns = operation.completed?.saturating_sub(operation.invoked);
    Some((ns as f64 / 1e6).max(0.01))
}
