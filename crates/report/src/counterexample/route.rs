//! Chooses the route of an arrow from one bar to another, and a place for its label.

use crate::drawing::Point;
use linearizability::explain::Because;

/// An occupied rectangle of the drawing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

/// A cubic curve: its start, two control points, and its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve(pub [Point; 4]);

/// How far an arrow swings out to get around an obstacle, in pixels.
const SWING: f64 = 36.0;
/// The gap between an arrow's head and the bar.
const HEAD: f64 = 8.0;

impl Area {
    pub fn meets(&self, other: &Area) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    pub fn middle(&self) -> Point {
        ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0)
    }

    fn holds(&self, (x, y): Point) -> bool {
        (self.left..=self.right).contains(&x) && (self.top..=self.bottom).contains(&y)
    }
}

impl Curve {
    /// The route from one bar to another that crosses the fewest of `bars`.
    pub fn between(from: Area, to: Area, because: Because, bars: &[Area]) -> Curve {
        let ways = match because {
            Because::RealTime => onwards(from, to),
            Because::Value => back(from, to),
        };
        let crossed = |curve: &Curve| bars.iter().filter(|bar| curve.points().any(|point| bar.holds(point))).count();
        let least = ways.into_iter().min_by_key(crossed);
        least.unwrap_or(Curve([from.middle(), from.middle(), to.middle(), to.middle()]))
    }

    /// Points along the route, without its ends.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        (1..40).map(|step| self.at(f64::from(step) / 40.0))
    }

    /// The point at a fraction of the route, from 0 to 1.
    pub fn at(&self, share: f64) -> Point {
        let Curve([a, b, c, d]) = *self;
        let rest = 1.0 - share;
        let blend = |a: f64, b: f64, c: f64, d: f64| {
            rest.powi(3) * a + 3.0 * rest.powi(2) * share * b + 3.0 * rest * share.powi(2) * c + share.powi(3) * d
        };
        (blend(a.0, b.0, c.0, d.0), blend(a.1, b.1, c.1, d.1))
    }

    /// The direction of the arrow's head, as a vector of length 1.
    pub fn direction(&self) -> Point {
        let Curve([_, _, c, d]) = *self;
        let (x, y) = (d.0 - c.0, d.1 - c.1);
        let length = x.hypot(y).max(0.001);
        (x / length, y / length)
    }

    /// The place of a label of this size, on the curve or beside it, that overlaps nothing in `taken`. None if there is none.
    pub fn label(&self, width: f64, height: f64, within: Area, taken: &[Area]) -> Option<Area> {
        let shares = [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82];
        let offsets = [0.0, -height, height];
        let places = offsets.iter().flat_map(|offset| shares.iter().map(move |share| (*share, *offset)));
        places
            .map(|(share, offset)| {
                let (x, y) = self.at(share);
                let y = y + offset;
                Area { left: x - width / 2.0, top: y - height / 2.0, right: x + width / 2.0, bottom: y + height / 2.0 }
            })
            .find(|area| {
                let inside = area.left >= within.left && area.right <= within.right;
                let inside = inside && area.top >= within.top && area.bottom <= within.bottom;
                inside && taken.iter().all(|other| !area.meets(other))
            })
    }
}

/// Routes from the end of a bar to the start of a later one: straight, as an S, or around the bars between them.
fn onwards(from: Area, to: Area) -> Vec<Curve> {
    let (start, end) = ((from.right, from.middle().1), (to.left - HEAD, to.middle().1));
    let reach = ((end.0 - start.0) / 2.0).max(SWING / 2.0);
    let mut ways = vec![Curve([start, (start.0 + reach, start.1), (end.0 - reach, end.1), end])];
    let x = from.right - 10.0_f64.min((from.right - from.left) / 3.0);
    let far = to.left + 10.0_f64.min((to.right - to.left) / 3.0);
    for (y, other, swing) in [(from.top, to.top, -SWING), (from.bottom, to.bottom, SWING)] {
        let other = other + HEAD.copysign(swing);
        ways.push(Curve([(x, y), (x, y + swing), (far, other + swing), (far, other)]));
    }
    ways
}

/// Routes of an arrow that follows from values. They go around both bars, on the side without an arrow by time. If the bars
/// overlap in time, no such arrow exists, and the route goes straight across.
fn back(from: Area, to: Area) -> Vec<Curve> {
    let leave = from.left + 30.0_f64.min((from.right - from.left) * 0.4);
    let (arrive, _) = to.middle();
    let round = |start: f64, end: f64, swing: f64| {
        let end = end + HEAD.copysign(swing);
        let far = if swing > 0.0 { start.max(end) } else { start.min(end) } + swing;
        Curve([(leave, start), (leave, far), (arrive, far), (arrive, end)])
    };
    let (over, under) = (round(from.top, to.top, -SWING), round(from.bottom, to.bottom, SWING));
    let (is_above, is_below) = (from.bottom < to.top, from.top > to.bottom);
    let is_ahead = !is_below && from.left < to.left;
    let mut ways = if is_above || is_ahead { vec![over, under] } else { vec![under, over] };
    let (left, right) = (from.left.max(to.left), from.right.min(to.right));
    if left < right && (is_above || is_below) {
        // Two arrows that point at each other run side by side.
        let x = left + (right - left) * if is_above { 0.3 } else { 0.7 };
        let (start, end) = if is_above { (from.bottom, to.top - HEAD) } else { (from.top, to.bottom + HEAD) };
        ways.insert(0, Curve([0.0, 0.3, 0.7, 1.0].map(|share| (x, start + (end - start) * share))));
    }
    ways
}
