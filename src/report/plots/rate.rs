//! Answers a second, by function and by how the operation ended.

use super::frame::{Frame, Key, nice_step};
use super::picture::Picture;
use super::{FUNCTIONS, OUTCOMES, function_word, outcome_ink, outcome_word};
use crate::history::{Function, Operation};
use crate::report::story::Story;

pub fn rate(story: &Story) -> Picture {
    let mut frame = Frame::new(story, "Rate of answers", 64.0);
    frame.unit("answers a second");
    frame.faults(story, true);
    frame.time_axis();
    let window = nice_step(frame.seconds, 40.0).max(0.001);
    let places = (frame.seconds / window).ceil() as usize;
    let mut series = Vec::new();
    for f in FUNCTIONS {
        for outcome in OUTCOMES {
            let mut counts = vec![0u64; places.max(1)];
            let of_series = |operation: &&Operation| operation.f == f && operation.outcome == outcome;
            for time in story.client_operations().filter(of_series).filter_map(|operation| operation.completed) {
                let place = (time as f64 / 1e9 / window) as usize;
                counts[place.min(places.saturating_sub(1))] += 1;
            }
            if counts.iter().any(|count| *count > 0) {
                series.push((f, outcome, counts));
            }
        }
    }
    if series.is_empty() {
        frame.nothing("no operation was completed");
        return frame.finish();
    }
    let highest = series.iter().flat_map(|(_, _, counts)| counts).max().copied().unwrap_or(0) as f64 / window;
    let y = frame.linear_axis(highest);
    let one_function = series.iter().all(|(f, _, _)| *f == series[0].0);
    for (f, outcome, counts) in series {
        let ink = outcome_ink(outcome);
        let points: Vec<(f64, f64)> = (counts.iter().enumerate())
            .map(|(number, count)| {
                let middle = ((number as f64 + 0.5) * window * 1e9) as u64;
                (frame.x(middle), y(*count as f64 / window))
            })
            .collect();
        for point in &points {
            match f {
                Function::Rmw => frame.picture.dot(*point, 2.5, ink),
                Function::Read => frame.picture.triangle(*point, 3.0, ink),
            }
        }
        frame.picture.line(points, 1.5, ink);
        let name = if one_function { String::new() } else { format!("{} ", function_word(f)) };
        frame.key(Key::Line(ink), format!("{name}{}", outcome_word(outcome)));
    }
    frame.finish()
}
