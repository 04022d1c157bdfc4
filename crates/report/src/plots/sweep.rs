//! Plots the lost updates and the cost of a lock by the values of one option.

use plotters::style::Color as _;

use super::frame::Frame;
use super::picture::{BAD, BAR, HEIGHT, MUTED, Picture, TEXT, WIDTH};
use crate::drawing::{Anchor, SMALL};
use base::words::sanitize;
use summary::table::{SweepAccount, SweepPoint};

/// The x positions where the left half ends and the right half begins.
const HALVES: (f64, f64) = (WIDTH / 2.0 + 40.0, WIDTH / 2.0 + 110.0);

pub fn sweep(of: &SweepAccount, simulated: bool) -> Picture {
    let title = sanitize(&format!("{} by {}", of.title, of.option), 80);
    let mut frame = Frame::titled(&title, if simulated { "simulated" } else { "" }, 64.0);
    frame.right = HALVES.0;
    frame.unit("updates lost, % (dots: runs; bars: 95% from the variation between runs)");
    let percent = |share: f64| share * 100.0;
    let highest = of.points.iter().flat_map(|point| {
        let high = point.numbers.lost_95.map(|(_, high)| high);
        point.shares.iter().copied().chain(high).map(percent)
    });
    let y = frame.linear_axis(highest.fold(0.0, f64::max));
    let x = places(&mut frame, of);
    let mut line = Vec::new();
    for (place, point) in of.points.iter().enumerate() {
        for (number, share) in point.shares.iter().enumerate() {
            // The dots are offset, so that runs with the same share are all visible.
            let aside = (number as f64 - (point.shares.len() as f64 - 1.0) / 2.0) * 5.0;
            frame.picture.dot((x(place) + aside.clamp(-20.0, 20.0), y(percent(*share))), 2.5, BAD.mix(0.45));
        }
        if let Some((low, high)) = point.numbers.lost_95 {
            frame.picture.line(vec![(x(place), y(percent(low))), (x(place), y(percent(high)))], 2.0, BAD.mix(0.45));
        }
        if let Some(share) = point.numbers.lost_share {
            line.push((x(place), y(percent(share))));
            frame.picture.dot((x(place), y(percent(share))), 4.0, BAD);
        }
        let broken = format!("{}/{} failed", point.numbers.broken, point.numbers.judged);
        let ink = if point.numbers.broken > 0 { BAD } else { TEXT };
        frame.picture.text((x(place), frame.top + 10.0), broken, SMALL, Anchor::Center, ink);
    }
    frame.picture.line(line, 1.5, BAD);

    (frame.left, frame.right) = (HALVES.1, WIDTH - 18.0);
    frame.picture.text((HALVES.1 - 48.0, 48.0), "updates per second (median and range)", SMALL, Anchor::Left, MUTED);
    let most = |point: &SweepPoint| point.per_second.map_or(0.0, |(_, _, most)| most);
    let y = frame.linear_axis(of.points.iter().map(most).fold(0.0, f64::max));
    let x = places(&mut frame, of);
    let mut line = Vec::new();
    for (place, point) in of.points.iter().enumerate() {
        let Some((least, median, most)) = point.per_second else { continue };
        frame.picture.line(vec![(x(place), y(least)), (x(place), y(most))], 2.0, BAR.mix(0.45));
        frame.picture.dot((x(place), y(median)), 4.0, BAR);
        line.push((x(place), y(median)));
    }
    frame.picture.line(line, 1.5, BAR);
    frame.finish()
}

/// Labels the values side by side. Returns a function from a value's index to its x position.
fn places(frame: &mut Frame, of: &SweepAccount) -> impl Fn(usize) -> f64 + use<> {
    let (left, step) = (frame.left, (frame.right - frame.left) / of.points.len().max(1) as f64);
    let place = move |number: usize| left + step * (number as f64 + 0.5);
    let longest = (step / 6.5) as usize;
    for (number, point) in of.points.iter().enumerate() {
        let text = sanitize(&point.value, longest.max(4));
        frame.picture.text((place(number), frame.bottom + 13.0), text, SMALL, Anchor::Center, MUTED);
    }
    let middle = (frame.left + frame.right) / 2.0;
    frame.picture.text((middle, HEIGHT - 13.0), sanitize(&of.option, 40), SMALL, Anchor::Center, MUTED);
    place
}
