//! Answers per second, by function and outcome.

use super::frame::{Frame, Key, nice_step};
use super::picture::Picture;
use super::{FUNCTIONS, OUTCOMES, function_word, outcome_ink, outcome_word};
use crate::history::{Function, Operation};
use crate::telling::Story;

pub fn rate(story: &Story) -> Picture {
    let mut frame = Frame::new(story, "Rate of answers", 64.0);
    frame.unit("answers a second");
    frame.time_axis();
    frame.faults(story);
    let window = nice_step(frame.seconds, 40.0).max(0.001);
    // The remainder at the end belongs to the last window: a sliver of its own would look like a collapse.
    let places = ((frame.seconds / window).round() as usize).max(1);
    let seconds = frame.seconds;
    let bounds = move |number: usize| {
        (number as f64 * window, if number + 1 == places { seconds } else { (number + 1) as f64 * window })
    };
    let rate = move |number: usize, count: u64| {
        let (from, to) = bounds(number);
        count as f64 / (to - from).max(window / 2.0)
    };
    let mut series = Vec::new();
    for f in FUNCTIONS {
        for outcome in OUTCOMES {
            let mut counts = vec![0u64; places];
            let of_series = |operation: &&Operation| operation.f == f && operation.outcome == outcome;
            for time in story.client_operations().filter(of_series).filter_map(|operation| operation.completed) {
                let place = (time as f64 / 1e9 / window) as usize;
                counts[place.min(places - 1)] += 1;
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
    let rates =
        |counts: &[u64]| counts.iter().enumerate().map(|(number, count)| rate(number, *count)).collect::<Vec<_>>();
    let highest = series.iter().flat_map(|(_, _, counts)| rates(counts)).fold(0.0, f64::max);
    let y = frame.linear_axis(highest);
    let one_function = series.iter().all(|(f, _, _)| *f == series[0].0);
    for (f, outcome, counts) in series {
        let ink = outcome_ink(outcome);
        let points: Vec<(f64, f64)> = (rates(&counts).into_iter().enumerate())
            .map(|(number, rate)| {
                let (from, to) = bounds(number);
                (frame.x(((from + to) / 2.0 * 1e9) as u64), y(rate))
            })
            .collect();
        for point in &points {
            match f {
                Function::Rmw | Function::Hold | Function::Write | Function::Cas => frame.picture.dot(*point, 2.5, ink),
                Function::Read => frame.picture.triangle(*point, 3.0, ink),
            }
        }
        frame.picture.line(points, 1.5, ink);
        let name = if one_function { String::new() } else { format!("{} ", function_word(f)) };
        frame.key(Key::Line(ink), format!("{name}{}", outcome_word(outcome)));
    }
    frame.finish()
}
