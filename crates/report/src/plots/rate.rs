//! Replies per second, by function and outcome.

use super::frame::{Frame, Key, Series, nice_step, series_of};
use super::picture::Picture;
use crate::drawing::Point;
use model::history::Operation;
use summary::Story;

pub fn rate(story: &Story) -> Picture {
    let mut frame = Frame::new(story, "Rate of answers", 64.0);
    frame.unit("answers per second");
    frame.time_axis();
    frame.faults(story);
    let window = nice_step(frame.seconds, 40.0).max(0.001);
    // The last window includes the remainder: a short window of its own would look like a collapse.
    let places = ((frame.seconds / window).round() as usize).max(1);
    let seconds = frame.seconds;
    let answers = story.client_operations().filter_map(|operation| Some((operation, operation.completed?)));
    let answers: Vec<(&Operation, u64)> = answers.collect();
    // The middle of each window, and the rate in it.
    let rates = |series: &Series| -> Vec<(f64, f64)> {
        let mut counts = vec![0u64; places];
        for (_, time) in answers.iter().filter(|(operation, _)| series.has(operation)) {
            counts[((*time as f64 / 1e9 / window) as usize).min(places - 1)] += 1;
        }
        let rate = |(number, count): (usize, u64)| {
            let from = number as f64 * window;
            let to = if number + 1 == places { seconds } else { from + window };
            ((from + to) / 2.0, count as f64 / (to - from).max(window / 2.0))
        };
        counts.into_iter().enumerate().map(rate).collect()
    };
    let series: Vec<Series> = series_of(answers.iter().map(|(operation, _)| *operation));
    if series.is_empty() {
        frame.nothing("no operation was completed");
        return frame.finish();
    }
    let y = frame.linear_axis(series.iter().flat_map(rates).map(|(_, rate)| rate).fold(0.0, f64::max));
    for one in series {
        let points: Vec<Point> =
            rates(&one).iter().map(|(time, rate)| (frame.x((time * 1e9) as u64), y(*rate))).collect();
        for point in &points {
            frame.mark(one.f, *point, 2.5, one.ink);
        }
        frame.picture.line(points, 1.5, one.ink);
        frame.key(Key::Line(one.ink), one.name);
    }
    frame.finish()
}
