//! Lays out a scene and draws it.

use maud::Markup;

use super::painted::painted;
use super::scene::{Arrow, ArrowKind, Lane, Overlap, Scene, Shade, ShadeKind};
use crate::drawing::{Anchor, Axis, Canvas, EDGE, GUTTER, LabelRow, Planner, Point, SMALL, TEXT, WIDTH, text_width};
use crate::plots::Picture;

/// Room between the gutter and the first moment, for waits that began earlier.
const LEAD: f64 = 26.0;
const RIGHT: f64 = 10.0;
const HEADER_ROW: f64 = 21.0;
const LANE: f64 = 80.0;
/// The place of a lane's bar, below the lane's top.
const BAR_TOP: f64 = 32.0;
const BAR: f64 = 22.0;
const BAR_MIDDLE: f64 = BAR_TOP + BAR / 2.0;
const BAR_BOTTOM: f64 = BAR_TOP + BAR;
const THIN_LANE: f64 = 34.0;
const RESOURCE: f64 = 58.0;
const AXIS: f64 = 28.0;

/// The scene as an SVG element: for a page, or standalone.
pub fn draw(scene: &Scene, title: &str, alone: bool) -> Markup {
    let (canvas, size) = drawn(scene);
    canvas.svg(title, size, alone)
}

pub fn paint(scene: &Scene) -> Picture {
    let (canvas, size) = drawn(scene);
    painted(&canvas, size, EDGE)
}

/// The drawing and its size.
fn drawn(scene: &Scene) -> (Canvas, Point) {
    let rows = scene.moments.len() + usize::from(!scene.overlaps.is_empty());
    let mut drawing =
        Drawing { scene, axis: plan(scene), canvas: Canvas::default(), top: rows as f64 * HEADER_ROW + 6.0 };
    let members: Vec<&[Shade]> = scene.elsewhere.chunk_by(|one, other| one.whose == other.whose).collect();
    let members_top = drawing.lane_top(scene.lanes.len());
    let resource_top = members_top + members.len() as f64 * THIN_LANE;
    let bottom = resource_top + if scene.resource.is_empty() { 8.0 } else { RESOURCE };
    let lanes = || scene.lanes.iter().enumerate();
    for (number, lane) in lanes() {
        let top = drawing.lane_top(number);
        drawing.axis.rail(&mut drawing.canvas, top + BAR_MIDDLE);
        for pause in &lane.pauses {
            drawing.span("shade", pause.from, pause.to, top + 6.0, top + LANE - 10.0);
        }
    }
    drawing.overlaps();
    drawing.moments(bottom);
    for (number, arrow) in lanes().flat_map(|(number, lane)| lane.arrows.iter().map(move |arrow| (number, arrow))) {
        drawing.arrow(arrow, drawing.lane_top(number) + BAR_BOTTOM, resource_top + 12.0);
    }
    for (number, lane) in lanes() {
        drawing.lane(lane, number);
    }
    for (number, shades) in members.iter().enumerate() {
        drawing.member(shades, members_top + number as f64 * THIN_LANE);
    }
    if !scene.resource.is_empty() {
        drawing.resource(resource_top);
    }
    let (what, labels) = match &scene.ticks[..] {
        [] => {
            let seconds = |time: u64| (time, format!("{:.3}", time as f64 / 1e9));
            ("time, s", telling_times(scene).into_iter().map(seconds).collect())
        }
        ticks => ("time, ticks", ticks.to_vec()),
    };
    drawing.axis.draw(&mut drawing.canvas, bottom, what, labels);
    (drawing.canvas, (drawing.axis.right + RIGHT, bottom + AXIS))
}

/// The position of every moment, with room for its labels.
fn plan(scene: &Scene) -> Axis {
    let mut planner = Planner::default();
    // The axis ends after everything else, so that the last labels keep clear of its end.
    let end = scene.end.saturating_add((scene.end - scene.start) / 40).saturating_add(1);
    planner.moment(scene.start);
    planner.moment(end);
    for (place, lane) in scene.lanes.iter().enumerate() {
        planner.room(lane.hold.start, lane.hold.end, 16.0);
        let crossing = crossing_times(scene, place);
        for (number, mark) in lane.marks.iter().enumerate() {
            let next = lane.marks.get(number + 1).map_or(end, |next| next.time);
            let next = crossing.iter().copied().filter(|time| *time > mark.time).fold(next, u64::min);
            planner.room(mark.time, next, text_width(&mark.label, TEXT, mark.bad) + 16.0);
        }
    }
    for shade in scene.lanes.iter().flat_map(|lane| &lane.pauses).chain(&scene.elsewhere) {
        planner.room(shade.from, shade.to, text_width(&shade.label, TEXT, true) + 18.0);
    }
    for (number, value) in scene.resource.iter().enumerate() {
        let next = scene.resource.get(number + 1).map_or(end, |next| next.from);
        let lost = if value.lost { text_width(" lost", TEXT, true) } else { 0.0 };
        planner.room(value.from, next, text_width(&value.text, TEXT, false) + lost + 18.0);
    }
    let is_moment = |time: u64| scene.moments.iter().any(|(moment, _)| *moment == time);
    for overlap in &scene.overlaps {
        planner.room(overlap.from, overlap.to, 10.0);
    }
    // Besides labels, consecutive events need enough room to be distinguished.
    let mut telling = telling_times(scene);
    telling.sort_unstable();
    telling.dedup();
    for pair in telling.windows(2) {
        planner.room(pair[0], pair[1], if is_moment(pair[0]) || is_moment(pair[1]) { 26.0 } else { 9.0 });
    }
    planner.place(GUTTER + LEAD, WIDTH - RIGHT)
}

/// The times at which something crosses a lane from top to bottom: messages of the lanes above, and the ends of locks.
fn crossing_times(scene: &Scene, lane: usize) -> Vec<u64> {
    let arrows = scene.lanes.iter().take(lane).flat_map(|lane| &lane.arrows).map(|arrow| arrow.to);
    arrows.chain(scene.moments.iter().map(|(time, _)| *time)).collect()
}

/// The moments that the drawing is about, most important first.
fn telling_times(scene: &Scene) -> Vec<u64> {
    let arrows = || scene.lanes.iter().flat_map(|lane| &lane.arrows);
    let shades = scene.lanes.iter().flat_map(|lane| &lane.pauses).chain(&scene.elsewhere);
    let mut times: Vec<u64> = scene.moments.iter().map(|(time, _)| *time).collect();
    times.extend(scene.lanes.iter().map(|lane| lane.hold.start));
    times.extend(arrows().filter(|arrow| arrow.kind != ArrowKind::Read).map(|arrow| arrow.to));
    times.extend(shades.flat_map(|shade| [shade.from, shade.to]));
    times.extend(scene.lanes.iter().map(|lane| lane.hold.end));
    times.extend(arrows().filter(|arrow| arrow.kind == ArrowKind::Read).map(|arrow| arrow.to));
    times
}

struct Drawing<'a> {
    scene: &'a Scene,
    axis: Axis,
    canvas: Canvas,
    /// The top of the first lane.
    top: f64,
}

impl Drawing<'_> {
    fn lane_top(&self, lane: usize) -> f64 {
        self.top + lane as f64 * LANE
    }

    fn span(&mut self, class: &str, from: u64, to: u64, top: f64, bottom: f64) {
        self.canvas.rect(class, (self.axis.x(from), top), (self.axis.x(to), bottom));
    }

    /// A label in the middle of a time interval.
    fn label(&mut self, class: &str, from: u64, to: u64, y: f64, text: &str) {
        let middle = (self.axis.x(from) + self.axis.x(to)) / 2.0;
        self.canvas.text(class, (middle, y), Anchor::Center, text);
    }

    /// A member without a lane of its own, and what happened to it.
    fn member(&mut self, shades: &[Shade], y: f64) {
        if let Some(shade) = shades.first() {
            self.canvas.text("who", (0.0, y + 21.0), Anchor::Left, &shade.whose);
        }
        for shade in shades {
            let (look, text) = match shade.kind {
                ShadeKind::Fault => ("paused", "onpause"),
                ShadeKind::Key => ("bar", "onbar"),
            };
            self.span(look, shade.from, shade.to, y + 7.0, y + 27.0);
            self.label(text, shade.from, shade.to, y + 21.5, &shade.label);
        }
    }

    fn lane(&mut self, lane: &Lane, number: usize) {
        let top = self.lane_top(number);
        let (left, right) = (self.axis.x(lane.hold.start), self.axis.x(lane.hold.end));
        let right = right.max(left + 3.0);
        let (bar_top, middle, bar_bottom) = (top + BAR_TOP, top + BAR_MIDDLE, top + BAR_BOTTOM);
        let is_bad = lane.under_name == "update lost";
        let under = if is_bad { "small badtext strong" } else { "small" };
        self.canvas.text("who", (0.0, middle - 3.0), Anchor::Left, &lane.name);
        if !lane.under_name.is_empty() {
            self.canvas.text(under, (0.0, middle + 13.0), Anchor::Left, &lane.under_name);
        }
        if let Some(token) = lane.token {
            self.canvas.text("small", (0.0, middle + 28.0), Anchor::Left, &format!("token {token}"));
        }
        self.wait(lane, number, left, middle);
        self.canvas.rect(if lane.held { "bar" } else { "bar hollow" }, (left, bar_top), (right, bar_bottom));
        if !lane.hold.ended {
            self.canvas.line("wait", (right + 3.0, middle), (right + 22.0, middle));
        }
        let fits = lane.words.iter().find(|text| text_width(text, SMALL, false) + 10.0 < right - left);
        if let Some(text) = fits.filter(|_| lane.held && lane.pauses.is_empty()) {
            self.canvas.text("onbar", ((left + right) / 2.0, middle + 4.0), Anchor::Center, text);
        }
        for pause in &lane.pauses {
            self.span("paused", pause.from, pause.to, bar_top, bar_bottom);
            self.label("onpause", pause.from, pause.to, middle + 4.5, &pause.label);
        }
        for mark in &lane.marks {
            let x = self.axis.x(mark.time);
            self.canvas.line("tick", (x, top + 14.0), (x, bar_top));
            let look = if mark.bad { "halo badtext strong" } else { "halo" };
            self.canvas.text(look, (x + 4.0, top + 24.0), Anchor::Left, &mark.label);
        }
    }

    /// Draws the wait of a client until it acquires the lock. Its bar begins at `left`.
    fn wait(&mut self, lane: &Lane, number: usize, left: f64, middle: f64) {
        let Some(from) = lane.waits_from.map(|from| self.axis.x(from)) else { return };
        // The line starts a little early if the wait may have begun before the drawing does.
        let from = from - if lane.waiting.is_some() { LEAD - 8.0 } else { 0.0 };
        self.canvas.line("wait", (from, middle), (left - 2.0, middle));
        let Some(waiting) = lane.waiting else { return };
        let room = left - 14.0 - text_width(waiting, SMALL, false);
        let x = |time| self.axis.x(time);
        let crossed = crossing_times(self.scene, number).into_iter().any(|time| (room..left).contains(&x(time)));
        let covered = lane.pauses.iter().any(|pause| x(pause.from) < left && x(pause.to) > room);
        if room > from && !crossed && !covered {
            self.canvas.text("small halo", (left - 10.0, middle - 6.0), Anchor::Right, waiting);
        }
    }

    /// A message between the end of a bar and the resource's upper edge.
    fn arrow(&mut self, arrow: &Arrow, bar: f64, resource: f64) {
        let (from, to) = (self.axis.x(arrow.from), self.axis.x(arrow.to));
        let head = |x: f64, tip: f64, base: f64| [(x, tip), (x - 4.0, base), (x + 4.0, base)];
        let canvas = &mut self.canvas;
        match arrow.kind {
            ArrowKind::Read => {
                canvas.line("arrow", (from, resource), (from, bar + 7.0));
                canvas.polygon("head", &head(from, bar, bar + 8.0));
            }
            ArrowKind::Write | ArrowKind::BadWrite => {
                let bad = if arrow.kind == ArrowKind::BadWrite { " bad" } else { "" };
                canvas.line(&format!("arrow{bad}"), (from, bar), (to, resource - 7.0));
                canvas.polygon(&format!("head{bad}"), &head(to, resource, resource - 8.0));
            }
            ArrowKind::NoWrite => {
                canvas.line("arrow none", (from, bar), (to, resource - 9.0));
                canvas.line("arrow", (to - 4.0, resource - 11.0), (to + 4.0, resource - 3.0));
                canvas.line("arrow", (to - 4.0, resource - 3.0), (to + 4.0, resource - 11.0));
            }
        }
    }

    /// The times at which two clients held the lock at once, above their lanes and across them.
    fn overlaps(&mut self) {
        let mut row = LabelRow::new(GUTTER, self.axis.right);
        let top = self.top - 8.0;
        for Overlap { from, to, lanes, label } in &self.scene.overlaps {
            let bottom = self.lane_top(lanes.0.max(lanes.1)) + LANE - 10.0;
            self.span("wash", *from, *to, top, bottom);
            let (left, right) = (self.axis.x(*from), self.axis.x(*to));
            for x in [left, right] {
                self.canvas.line("edge", (x, top), (x, bottom));
            }
            if let Some(middle) = row.fit((left + right) / 2.0, text_width(label, TEXT, true) + 8.0) {
                self.canvas.text("halo badtext strong", (middle, top - 5.0), Anchor::Center, label);
            }
        }
    }

    /// Draws the moments at which the lock expired or was ended. Each label has a row of its own, on the side with enough room.
    fn moments(&mut self, bottom: f64) {
        for (row, (time, label)) in self.scene.moments.iter().enumerate() {
            let (x, top) = (self.axis.x(*time), row as f64 * HEADER_ROW);
            let fits = x + 6.0 + text_width(label, TEXT, true) < self.axis.right;
            let (place, anchor) = if fits { (x - 2.0, Anchor::Left) } else { (x + 2.0, Anchor::Right) };
            self.canvas.line("expiry", (x, top + HEADER_ROW - 2.0), (x, bottom));
            self.canvas.text("strong halo", (place, top + 14.0), anchor, label);
        }
    }

    fn resource(&mut self, top: f64) {
        self.canvas.text("who", (0.0, top + 27.0), Anchor::Left, &self.scene.resource_name);
        self.canvas.text("small", (0.0, top + 42.0), Anchor::Left, "resource");
        let values = &self.scene.resource;
        for (number, value) in values.iter().enumerate() {
            let from = if number == 0 { GUTTER } else { self.axis.x(value.from) };
            let to = values.get(number + 1).map_or(self.axis.right, |next| self.axis.x(next.from));
            let look = if value.lost { "value lost" } else { "value" };
            self.canvas.rect(look, (from, top + 12.0), (to.max(from + 2.0), top + 40.0));
            let (plain, lost) = ([("", &value.text[..])], [("struck", &value.text[..]), ("badtext strong", " lost")]);
            self.canvas.spans((from + 8.0, top + 30.5), if value.lost { &lost } else { &plain });
        }
    }
}
