//! The time axis of a drawing: the positions of moments on it, and its look.
//!
//! The interesting moments of an incident are milliseconds apart, with pauses of seconds between them. Drawn to scale, their
//! labels would overlap. So the axis only keeps the order. Each interval is as wide as its duration or its labels need,
//! whichever is more.

use std::collections::BTreeMap;

use super::{Anchor, Canvas, GUTTER, LabelRow, SMALL, text_width};

/// Moments to be placed, and the room between them.
#[derive(Default)]
pub struct Planner {
    moments: BTreeMap<u64, usize>,
    room: Vec<(u64, u64, f64)>,
}

pub struct Axis {
    places: BTreeMap<u64, f64>,
    pub right: f64,
}

impl Planner {
    pub fn moment(&mut self, time: u64) {
        self.moments.insert(time, 0);
    }

    /// Keeps at least `pixels` between two moments. `from` must be the earlier one.
    pub fn room(&mut self, from: u64, to: u64, pixels: f64) {
        if from < to {
            self.moment(from);
            self.moment(to);
            self.room.push((from, to, pixels));
        }
    }

    /// Places all moments from `left` to `right`, or further to the right if the labels need more.
    pub fn place(mut self, left: f64, right: f64) -> Axis {
        let width = right - left;
        for (number, slot) in self.moments.values_mut().enumerate() {
            *slot = number;
        }
        let times: Vec<u64> = self.moments.keys().copied().collect();
        let mut room = vec![Vec::new(); times.len()];
        for (from, to, pixels) in &self.room {
            room[self.moments[to]].push((self.moments[from], *pixels));
        }
        let place = |scale: f64| {
            let mut places: Vec<f64> = Vec::with_capacity(times.len());
            for number in 0..times.len() {
                let flow = match number {
                    0 => 0.0,
                    _ => places[number - 1] + (times[number] - times[number - 1]) as f64 * scale,
                };
                places.push(room[number].iter().map(|(from, pixels)| places[*from] + pixels).fold(flow, f64::max));
            }
            places
        };
        let end = |places: &[f64]| places.last().copied().unwrap_or(0.0);
        let span = times.last().zip(times.first()).map_or(0, |(last, first)| last - first);
        // Find the largest scale that fits. At 0, only the labels take up room. At `high`, the time alone fills the width.
        let (mut low, mut high) = (0.0, width / span.max(1) as f64);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if end(&place(middle)) <= width { low = middle } else { high = middle }
        }
        let places = place(low);
        let right = left + end(&places).max(width);
        Axis { places: times.into_iter().zip(places.iter().map(|place| left + place)).collect(), right }
    }
}

impl Axis {
    /// The position of a moment: interpolated between two known moments, and outside them at the nearer end.
    pub fn x(&self, time: u64) -> f64 {
        let before = self.places.range(..=time).next_back();
        let after = self.places.range(time..).next();
        match (before, after) {
            (Some((t0, x0)), Some((t1, x1))) if t1 > t0 => x0 + (x1 - x0) * (time - t0) as f64 / (t1 - t0) as f64,
            (Some((_, x)), _) | (None, Some((_, x))) => *x,
            (None, None) => GUTTER,
        }
    }

    /// Draws a line from end to end, such as below the bars of a client.
    pub fn rail(&self, canvas: &mut Canvas, y: f64) {
        canvas.line("rail", (GUTTER, y), (self.right, y));
    }

    /// Draws the axis with the name of its unit, and as many of these labels as fit. Earlier labels take precedence.
    pub fn draw(&self, canvas: &mut Canvas, y: f64, what: &str, labels: impl IntoIterator<Item = (u64, String)>) {
        self.rail(canvas, y);
        canvas.text("small", (0.0, y + 17.0), Anchor::Left, what);
        let mut row = LabelRow::new(GUTTER, self.right);
        for (time, label) in labels {
            let x = self.x(time);
            if let Some(middle) = row.fit(x, text_width(&label, SMALL, false) + 10.0) {
                canvas.line("tick", (x, y - 3.0), (x, y + 3.0));
                canvas.text("small", (middle, y + 17.0), Anchor::Center, &label);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_flows_to_the_right_and_labels_get_their_room() {
        let mut planner = Planner::default();
        for time in [0, 1, 2, 1000, 1001, 1002] {
            planner.moment(time);
        }
        planner.room(0, 1, 50.0);
        planner.room(1, 1000, 20.0);
        planner.room(1001, 1002, 60.0);
        let axis = planner.place(100.0, 600.0);
        assert!((axis.right - 600.0).abs() < 1e-6);
        assert!(axis.x(1) - axis.x(0) >= 50.0 && axis.x(1002) - axis.x(1001) >= 60.0);
        assert!(axis.x(1000) - axis.x(2) > 350.0, "what is left goes to the long stretch");
        assert!(axis.x(0) < axis.x(500) && axis.x(500) < axis.x(1000));
    }

    #[test]
    fn more_labels_than_room_make_the_drawing_wider() {
        let mut planner = Planner::default();
        planner.room(0, 1, 300.0);
        planner.room(1, 2, 300.0);
        assert_eq!(planner.place(50.0, 450.0).right, 650.0);
        assert_eq!(Planner::default().place(50.0, 450.0).x(7), GUTTER);
    }
}
