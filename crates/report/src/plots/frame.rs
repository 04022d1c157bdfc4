//! The common parts of all plots: title, legend, axes with round numbers, and fault windows.

use std::collections::HashSet;

use plotters::style::Color as _;

use super::picture::{self, AXIS, GRID, HEIGHT, Ink, MUTED, Picture, WIDTH};
use super::{FUNCTIONS, OUTCOMES};
use crate::drawing::{Anchor, Point, SMALL, text_width};
use base::words::sanitize;
use model::history::{FaultKind, FaultWindow, Function, Operation, Outcome};
use summary::Story;

const TOP: f64 = 68.0;
const BOTTOM: f64 = HEIGHT - 44.0;
const RIGHT: f64 = WIDTH - 18.0;
const FAULT_LANE: f64 = 11.0;

/// A plot's inner rectangle, and the scale of its horizontal axis.
pub struct Frame {
    pub picture: Picture,
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
    /// The run's length on the axis, in seconds; never 0.
    pub seconds: f64,
    legend: Vec<(Key, String)>,
}

pub enum Key {
    Mark(Function, Ink),
    Line(Ink),
    Area(Ink),
}

/// Operations of one function with one outcome.
pub struct Series {
    pub f: Function,
    pub outcome: Outcome,
    pub ink: Ink,
    /// The name, without the function if there is only one.
    pub name: String,
}

impl Series {
    pub fn has(&self, operation: &Operation) -> bool {
        (operation.f, operation.outcome) == (self.f, self.outcome)
    }
}

impl Frame {
    pub fn new(story: &Story, title: &str, left: f64) -> Frame {
        let names = [story.workload(), story.nemesis()].into_iter().flatten().map(|name| sanitize(name, 30));
        let mut subtitle: Vec<String> = names.collect();
        subtitle.extend(story.seed().map(|seed| format!("seed {seed}")));
        let last = story.subject.history.last_time.max(1);
        let seconds = last as f64 / 1e9;
        Frame { seconds, ..Frame::titled(title, &subtitle.join("  ·  "), left) }
    }

    /// A frame without a run, and so without a time axis.
    pub fn titled(title: &str, subtitle: &str, left: f64) -> Frame {
        let mut picture = Picture::default();
        picture.heading((16.0, 20.0), title);
        picture.text((WIDTH - 18.0, 20.0), subtitle, SMALL, Anchor::Right, MUTED);
        Frame { picture, left, top: TOP, right: RIGHT, bottom: BOTTOM, seconds: 1.0, legend: Vec::new() }
    }

    pub fn x(&self, time_ns: u64) -> f64 {
        let share = (time_ns as f64 / 1e9 / self.seconds).clamp(0.0, 1.0);
        self.left + (self.right - self.left) * share
    }

    /// Marks and labels the time axis, with light vertical grid lines.
    pub fn time_axis(&mut self) {
        let step = nice_step(self.seconds, 10.0);
        let mut tick = 0.0;
        while tick <= self.seconds * 1.0001 {
            let x = self.x((tick * 1e9) as u64);
            self.picture.line(vec![(x, self.top), (x, self.bottom)], 1.0, GRID);
            self.picture.line(vec![(x, self.bottom), (x, self.bottom + 4.0)], 1.0, AXIS);
            self.picture.text((x, self.bottom + 13.0), decimal(tick, step), SMALL, Anchor::Center, MUTED);
            tick += step;
        }
        let middle = (self.left + self.right) / 2.0;
        self.picture.text((middle, HEIGHT - 13.0), "time since the run began, s", SMALL, Anchor::Center, MUTED);
    }

    /// A horizontal line with a label on the left.
    pub fn level(&mut self, y: f64, label: &str, strong: bool) {
        let ink = if strong { GRID } else { GRID.mix(0.55) };
        self.picture.line(vec![(self.left, y), (self.right, y)], 1.0, ink);
        self.picture.text((self.left - 8.0, y), label, SMALL, Anchor::Right, MUTED);
    }

    pub fn unit(&mut self, text: &str) {
        self.picture.text((16.0, 48.0), text, SMALL, Anchor::Left, MUTED);
    }

    /// Draws a vertical axis of round numbers from 0 to at least `highest`. Returns a function from a number to its y position.
    pub fn linear_axis(&mut self, highest: f64) -> impl Fn(f64) -> f64 + use<> {
        let highest = if highest.is_finite() && highest > 0.0 { highest } else { 1.0 };
        let step = nice_step(highest, 6.0);
        let top_value = (highest * 1.05 / step).ceil() * step;
        let (top, bottom) = (self.top, self.bottom);
        let place = move |value: f64| bottom - (bottom - top) * (value / top_value).clamp(0.0, 1.0);
        let mut level = 0.0;
        while level <= top_value * 1.0001 {
            self.level(place(level), &decimal(level, step), true);
            level += step;
        }
        place
    }

    /// Draws a logarithmic vertical axis for this range. Returns a function from a number to its y position.
    pub fn log_axis(&mut self, lowest: f64, highest: f64) -> impl Fn(f64) -> f64 + use<> {
        let lowest = lowest.max(1e-3);
        let highest = highest.max(lowest * 1.5);
        let (low, high) = (round_down(lowest), round_up(highest));
        let (top, bottom) = (self.top, self.bottom);
        let place = move |value: f64| {
            let share = (value.max(1e-9) / low).ln() / (high / low).ln();
            bottom - (bottom - top) * share.clamp(0.0, 1.0)
        };
        let decades = (high / low).log10();
        let mut power = low.log10().floor() as i32;
        while 10f64.powi(power) <= high * 1.0001 {
            for digit in 1..10 {
                let value = f64::from(digit) * 10f64.powi(power);
                if value < low * 0.9999 || value > high * 1.0001 {
                    continue;
                }
                let labelled = digit == 1 || (decades <= 2.5 && (digit == 2 || digit == 5));
                if labelled {
                    self.level(place(value), &decimal(value, value), true);
                } else if decades <= 5.0 {
                    self.level(place(value), "", false);
                }
            }
            power += 1;
        }
        place
    }

    /// Draws a triangle for a read, and a dot for any other operation.
    pub fn mark(&mut self, f: Function, (x, y): Point, radius: f64, ink: Ink) {
        if !matches!(f, Function::Read | Function::Shared) {
            return self.picture.dot((x, y), radius, ink);
        }
        let radius = radius * 1.2;
        self.picture.polygon(vec![(x, y - radius), (x + radius, y + radius), (x - radius, y + radius)], ink);
    }

    /// The left and right end of a fault window, at least a pixel apart.
    pub fn span(&self, window: &FaultWindow) -> (f64, f64) {
        let (from, to) = window.span();
        let from = self.x(from);
        (from, to.map_or(self.right, |to| self.x(to)).max(from + 1.0))
    }

    /// Shades fault windows: strongly in a lane per kind of fault at the top, lightly below it.
    pub fn faults(&mut self, story: &Story) {
        let mut kinds = Vec::new();
        for window in happened(story) {
            if !kinds.contains(&window.kind) {
                kinds.push(window.kind);
            }
        }
        for (lane, kind) in kinds.iter().enumerate() {
            let ink = fault_ink(*kind);
            let top = self.top + lane as f64 * FAULT_LANE;
            let number = happened(story).filter(|window| window.kind == *kind).count();
            let mut drawn = HashSet::new();
            for window in happened(story).filter(|window| window.kind == *kind) {
                let (from, to) = self.span(window);
                if !drawn.insert((from as i32, to as i32)) {
                    continue;
                }
                self.picture.rect((from, top), (to, self.bottom), ink.mix(0.22));
                // With more windows than this, only their edges would be visible.
                if number <= 200 {
                    for x in [from, to] {
                        self.picture.line(vec![(x, top), (x, self.bottom)], 1.0, ink.mix(0.6));
                    }
                }
                self.picture.rect((from, top), (to, top + FAULT_LANE - 1.0), ink);
            }
            self.key(Key::Area(ink), format!("{} ({number})", kind.says.name));
        }
    }

    pub fn key(&mut self, key: Key, text: impl Into<String>) {
        self.legend.push((key, text.into()));
    }

    /// Writes that there is nothing to draw.
    pub fn nothing(&mut self, text: &str) {
        let middle = ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0);
        self.picture.text(middle, text, 13.0, Anchor::Center, MUTED);
    }

    /// Draws the outer lines and the legend.
    pub fn finish(mut self) -> Picture {
        let corner = vec![(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)];
        self.picture.line(corner, 1.0, AXIS);
        let mut x = self.right;
        for (key, text) in std::mem::take(&mut self.legend).into_iter().rev() {
            x -= text_width(&text, SMALL, false);
            self.picture.text((x, 48.0), text, SMALL, Anchor::Left, picture::TEXT);
            x -= 12.0;
            match key {
                Key::Mark(f, ink) => self.mark(f, (x, 48.0), 4.0, ink),
                Key::Line(ink) => self.picture.line(vec![(x - 9.0, 48.0), (x + 6.0, 48.0)], 2.0, ink),
                Key::Area(ink) => self.picture.rect((x - 7.0, 43.0), (x + 6.0, 53.0), ink),
            }
            x -= 24.0;
        }
        self.picture
    }
}

/// Faults that were ordered and not skipped.
pub fn happened<'a>(story: &Story<'a>) -> impl Iterator<Item = &'a FaultWindow> + use<'a> {
    story.subject.history.faults.iter().filter(|window| window.skipped.is_none())
}

/// Jepsen's colours for fault windows.
pub fn fault_ink(kind: FaultKind) -> Ink {
    let (red, green, blue) = kind.colour;
    Ink(red, green, blue, 1.0)
}

pub fn series_of<'a>(operations: impl Iterator<Item = &'a Operation>) -> Vec<Series> {
    let seen: HashSet<(Function, Outcome)> = operations.map(|operation| (operation.f, operation.outcome)).collect();
    let one_function = seen.iter().map(|(f, _)| f).collect::<HashSet<_>>().len() == 1;
    let all = FUNCTIONS.into_iter().flat_map(|f| OUTCOMES.into_iter().map(move |outcome| (f, outcome)));
    all.filter(|((f, _), (outcome, ..))| seen.contains(&(*f, *outcome)))
        .map(|((f, word), (outcome, ended, ink))| {
            let name = if one_function { ended.to_string() } else { format!("{word} {ended}") };
            Series { f, outcome, ink, name }
        })
        .collect()
}

/// A round number (1, 2 or 5 times a power of ten) that fits into `range` about `wanted` times.
pub fn nice_step(range: f64, wanted: f64) -> f64 {
    round_up((range / wanted).max(1e-9) * 0.7)
}

fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let mut rounds = [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power);
    rounds.find(|round| *round >= value * 0.9999).unwrap_or(power * 10.0)
}

/// Round numbers below 1 are the inverses of those above 1.
fn round_down(value: f64) -> f64 {
    1.0 / round_up(1.0 / value)
}

/// A number with enough digits to distinguish neighbouring ticks.
fn decimal(number: f64, step: f64) -> String {
    let digits = if step >= 1.0 { 0 } else { (-step.log10()).ceil().max(0.0) as usize };
    let text = format!("{number:.digits$}");
    if number >= 10_000.0 { base::words::count(number.round() as u64) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        for (range, step) in [(20.0, 2.0), (21.3, 2.0), (1.0, 0.1), (0.004, 0.0005), (3600.0, 500.0), (1e-9, 1e-9)] {
            assert!((nice_step(range, 10.0) / step - 1.0).abs() < 1e-6, "{range}: {}", nice_step(range, 10.0));
        }
        assert_eq!([round_down(37.0), round_up(37.0), round_up(50.0), round_up(501.0)], [20.0, 50.0, 50.0, 1000.0]);
        assert_eq!([decimal(0.5, 0.1), decimal(20.0, 5.0), decimal(0.0, 0.05)], ["0.5", "20", "0.00"]);
    }
}
