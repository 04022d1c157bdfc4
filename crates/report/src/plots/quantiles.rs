//! The latency of acknowledged operations, as quantiles over time windows.

use std::collections::BTreeMap;

use super::frame::{Frame, Key, nice_step};
use super::latency::latency_ms;
use super::picture::{Ink, Picture};
use model::history::Outcome;
use summary::Story;

/// Jepsen's quantiles, from the lowest to the highest.
const QUANTILES: [(f64, &str, Ink); 4] = [
    (0.5, "0.5", Ink(0x81, 0xbf, 0xfc, 1.0)),
    (0.95, "0.95", Ink(0x3f, 0x7f, 0xbf, 1.0)),
    (0.99, "0.99", Ink(0xff, 0xa4, 0x00, 1.0)),
    (1.0, "1", Ink(0xc4, 0x31, 0x4b, 1.0)),
];

pub fn quantiles(story: &Story) -> Picture {
    let mut frame = Frame::new(story, "Latency quantiles of acknowledged operations", 64.0);
    frame.unit("latency, ms");
    frame.time_axis();
    frame.faults(story);
    let acknowledged = || story.client_operations().filter(|operation| operation.outcome == Outcome::Ok);
    // With few operations per window, the highest quantiles would all be the same.
    let wanted = (acknowledged().count() as f64 / 20.0).clamp(4.0, 30.0);
    let window = nice_step(frame.seconds, wanted).max(0.001);
    let mut windows: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for operation in acknowledged() {
        if let Some(ms) = latency_ms(operation) {
            windows.entry((operation.invoked as f64 / 1e9 / window) as u64).or_default().push(ms);
        }
    }
    if windows.is_empty() {
        frame.nothing("no operation was acknowledged");
        return frame.finish();
    }
    for latencies in windows.values_mut() {
        latencies.sort_unstable_by(f64::total_cmp);
    }
    let lowest = windows.values().map(|sorted| quantile(sorted, 0.5)).fold(f64::INFINITY, f64::min);
    let highest = windows.values().map(|sorted| quantile(sorted, 1.0)).fold(0.0, f64::max);
    let y = frame.log_axis(lowest, highest);
    for (share, name, ink) in QUANTILES {
        let points: Vec<(f64, f64)> = (windows.iter())
            .map(|(number, sorted)| {
                let (from, to) = (*number as f64 * window, ((*number + 1) as f64 * window).min(frame.seconds));
                let middle = ((from + to) / 2.0 * 1e9) as u64;
                (frame.x(middle), y(quantile(sorted, share)))
            })
            .collect();
        for point in &points {
            frame.picture.dot(*point, 2.5, ink);
        }
        frame.picture.line(points, 1.5, ink);
        frame.key(Key::Line(ink), name);
    }
    frame.finish()
}

/// The smallest value that at least this share of the values do not exceed (a percentile).
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.max(1) - 1).or(sorted.last()).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact() {
        let numbers: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([0.5, 0.95, 0.99, 1.0].map(|share| quantile(&numbers, share)), [50.0, 95.0, 99.0, 100.0]);
        assert_eq!([0.5, 1.0].map(|share| quantile(&[7.0], share)), [7.0, 7.0]);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
