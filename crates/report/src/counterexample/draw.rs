//! Lays out a scene and draws it.

use maud::{Markup, html};

use super::Counterexample;
use super::route::{Area, Curve};
use super::scene::{Arrow, Bar, OperationLook, Scene};
use crate::drawing::{Anchor, Axis, Canvas, GUTTER, Planner, SMALL, TEXT, WHO, WIDTH, px, text_width};
use base::words::{line as tamed, plural, wrap_by};
use linearizability::explain::Because;

/// Room before the first event and after the last.
const LEAD: f64 = 14.0;
const RIGHT: f64 = 14.0;
/// The distance from one row to the next: with arrows and their labels between the bars, and without.
const ROW: f64 = 88.0;
const ROW_WITHOUT_ARROWS: f64 = 54.0;
const BAR: f64 = 40.0;
/// The margin above the first row's bars and below the last row's: if arrows go round them, and if none do.
const MARGIN: f64 = 44.0;
const MARGIN_WITHOUT_ARROWS: f64 = 14.0;
const AXIS: f64 = 30.0;
const LEGEND: f64 = 24.0;
const HEADING: f64 = 34.0;
const CAPTION_LINE: f64 = 19.0;

const BY_TIME: &str = "by time";
const BY_VALUE: &str = "by value";

impl Counterexample {
    /// The drawing for a page, which has its own heading and sentences.
    pub fn inline(&self) -> Markup {
        let mut canvas = Canvas::default();
        let size = draw(self, &mut canvas, 0.0);
        canvas.svg(&self.title(), size, false)
    }

    /// The drawing with a heading and its sentences, on its own background.
    pub fn standalone(&self) -> String {
        let mut canvas = Canvas::default();
        canvas.text("who", (0.0, 14.0), Anchor::Left, &self.title());
        let (width, bottom) = draw(self, &mut canvas, HEADING);
        let mut y = bottom + 24.0;
        for sentence in self.sentences.iter().chain([&self.minimality()]) {
            let fits = |line: &str| text_width(line, TEXT, false) <= width - 24.0;
            for (number, line) in wrap_by(&tamed(sentence, 600), fits).iter().enumerate() {
                canvas.text("", (if number == 0 { 0.0 } else { 16.0 }, y), Anchor::Left, line);
                y += CAPTION_LINE;
            }
        }
        canvas.svg(&self.title(), (width, y - 14.0), true).into_string()
    }
}

/// Draws the counterexample below `top`. Returns the width and the lower end.
fn draw(example: &Counterexample, canvas: &mut Canvas, top: f64) -> (f64, f64) {
    let scene = Scene::new(example);
    let axis = plan(&scene);
    let row = if scene.arrows.is_empty() { ROW_WITHOUT_ARROWS } else { ROW };
    // Places the bars and the arrows between them, if the first row's bars begin at `first`.
    let layout = |first: f64| {
        let area = |bar: &Bar| {
            let (top, right) = (first + bar.row as f64 * row, bar.to.map_or(axis.right, |to| axis.x(to)));
            Area { left: axis.x(bar.from), top, right, bottom: top + BAR }
        };
        let areas: Vec<Area> = scene.bars.iter().map(area).collect();
        let curve = |arrow: &Arrow| Curve::between(areas[arrow.from], areas[arrow.to], arrow.because, &areas);
        let curves: Vec<(Arrow, Curve)> = scene.arrows.iter().map(|arrow| (*arrow, curve(arrow))).collect();
        (areas, curves)
    };
    let (areas, curves) = layout(0.0);
    let lowest = areas.iter().map(|area| area.bottom).fold(0.0, f64::max);
    let goes = |round: &dyn Fn(f64) -> bool| curves.iter().flat_map(|(_, curve)| curve.points()).any(|(_, y)| round(y));
    let margin = |is_used: bool| if is_used { MARGIN } else { MARGIN_WITHOUT_ARROWS };
    let first = top + margin(goes(&|y| y < 0.0));
    let bottom = first + lowest + margin(goes(&|y| y > lowest));

    let (areas, curves) = layout(first);
    for (number, name) in scene.rows.iter().enumerate() {
        let middle = first + number as f64 * row + BAR / 2.0;
        axis.rail(canvas, middle);
        if let Some(name) = name {
            let mut shown = Canvas::default();
            shown.text("who", (0.0, middle + 5.0), Anchor::Left, &fitting(name));
            canvas.group(name, shown);
        }
    }
    for (bar, area) in scene.bars.iter().zip(&areas) {
        canvas.group(&bar.full, bar_of(bar, area));
    }
    for (arrow, curve) in &curves {
        draw_arrow(canvas, arrow, curve);
    }
    label(canvas, &curves, areas, Area { left: GUTTER, top: top + 2.0, right: axis.right, bottom: bottom - 2.0 });
    for x in (0..scene.end()).map(|rank| axis.x(rank)) {
        canvas.line("tick", (x, bottom - 3.0), (x, bottom + 3.0));
    }
    let times = scene.times();
    axis.draw(canvas, bottom, if times.is_empty() { "order of events" } else { "time" }, times);
    legend(canvas, &scene, bottom + AXIS);
    (axis.right + RIGHT, bottom + AXIS + LEGEND)
}

/// Labels the arrows. If a label does not fit, only the legend explains the arrow.
fn label(canvas: &mut Canvas, curves: &[(Arrow, Curve)], mut taken: Vec<Area>, within: Area) {
    for (arrow, curve) in curves {
        let (label, class) = words(arrow.because);
        if let Some(area) = curve.label(text_width(label, TEXT, true) + 8.0, 18.0, within, &taken) {
            let place = (area.middle().0, area.bottom - 4.5);
            canvas.text(&format!("halo strong {class}-text"), place, Anchor::Center, label);
            taken.push(area);
        }
    }
}

/// The position of every rank, with room for its labels and otherwise evenly spaced.
fn plan(scene: &Scene) -> Axis {
    let mut planner = Planner::default();
    // Only operations without an end follow the last event.
    let open = scene.bars.iter().any(|bar| bar.to.is_none());
    let end = if open { scene.end() } else { scene.end().saturating_sub(1) };
    planner.moment(0);
    for rank in 0..end {
        planner.room(rank, rank + 1, 22.0);
    }
    for (number, bar) in scene.bars.iter().enumerate() {
        let text = text_width(&bar.label, TEXT, true).max(text_width(&bar.under, SMALL, false));
        let open = if bar.to.is_none() { 40.0 } else { 0.0 };
        planner.room(bar.from, bar.to.unwrap_or(end), text + 20.0 + open);
        let next = scene.bars[number + 1..].iter().find(|next| next.row == bar.row);
        if let (Some(to), Some(next)) = (bar.to, next) {
            planner.room(to, next.from, 22.0);
        }
    }
    for arrow in scene.arrows.iter().filter(|arrow| arrow.because == Because::RealTime) {
        let (from, to) = (&scene.bars[arrow.from], &scene.bars[arrow.to]);
        // On one row the label lies between the two bars. Otherwise it lies between the rows.
        let room = if from.row == to.row { text_width(BY_TIME, TEXT, true) + 44.0 } else { 48.0 };
        planner.room(from.to.unwrap_or(from.from), to.from, room);
    }
    planner.place(GUTTER + LEAD, WIDTH - RIGHT)
}

fn bar_of(bar: &Bar, area: &Area) -> Canvas {
    let Area { left, top, right, bottom } = *area;
    let (class, text) = match bar.look {
        OperationLook::Plain => ("bar", "onbar"),
        OperationLook::Refused => ("bar refused", "onbar"),
        OperationLook::Open => ("bar open", "onopen"),
    };
    let mut canvas = Canvas::default();
    if bar.to.is_some() {
        canvas.rect(class, (left, top), (right, bottom));
    } else {
        // The operation has no end, so its bar stays open and fades out.
        let solid = (right - 34.0).max(left);
        let edge = format!("M{1} {2}H{0}V{3}H{1}", px(left), px(solid), px(top), px(bottom));
        canvas.put(html! { path class=(class) d=(edge) {} });
        canvas.line("outgoing", (solid + 5.0, top), (right, top));
        canvas.line("outgoing", (solid + 5.0, bottom), (right, bottom));
    }
    canvas.text(&format!("{text} label"), (left + 10.0, top + 17.0), Anchor::Left, &bar.label);
    canvas.text(text, (left + 10.0, top + 32.0), Anchor::Left, &bar.under);
    canvas
}

fn words(because: Because) -> (&'static str, &'static str) {
    match because {
        Because::RealTime => (BY_TIME, "bytime"),
        Because::Value => (BY_VALUE, "byvalue"),
    }
}

fn draw_arrow(canvas: &mut Canvas, arrow: &Arrow, curve: &Curve) {
    let (_, class) = words(arrow.because);
    let [start, control, other, end] = curve.0.map(|(x, y)| format!("{} {}", px(x), px(y)));
    let path = format!("M{start}C{control} {other} {end}");
    canvas.put(html! { path class="under" d=(path) {} path class={ "way " (class) } d=(path) {} });
    let (x, y) = curve.direction();
    let (tip_x, tip_y) = curve.0[3];
    let corner = |along: f64, across: f64| (tip_x + along * x - across * y, tip_y + along * y + across * x);
    canvas.polygon(&format!("{class}-head"), &[corner(8.0, 0.0), corner(-1.0, 4.5), corner(-1.0, -4.5)]);
}

/// The meaning of the arrows and colours, and the number of operations that are not drawn.
fn legend(canvas: &mut Canvas, scene: &Scene, top: f64) {
    let mut x = GUTTER;
    for (because, meaning) in [
        (Because::RealTime, "by time: the first had returned when the second was invoked"),
        (Because::Value, "by value: the values read and written leave only this order"),
    ] {
        if scene.arrows.iter().any(|arrow| arrow.because == because) {
            canvas.line(&format!("way {}", words(because).1), (x, top + 10.0), (x + 26.0, top + 10.0));
            canvas.text("small", (x + 34.0, top + 14.0), Anchor::Left, meaning);
            x += 34.0 + text_width(meaning, SMALL, false) + 22.0;
        }
    }
    let refused = scene.bars.iter().any(|bar| bar.look == OperationLook::Refused).then_some(match scene.bars.len() {
        1 => "red: fits nowhere",
        _ => "red: does not fit after the others",
    });
    let omitted = (scene.omitted > 0).then(|| format!("{} not drawn", plural(scene.omitted as u64, "more operation")));
    let remarks: Vec<String> = refused.map(str::to_string).into_iter().chain(omitted).collect();
    if !remarks.is_empty() {
        canvas.text("small", (x, top + 14.0), Anchor::Left, &remarks.join("; "));
    }
}

/// The beginning of a name that fits before the first bar.
fn fitting(name: &str) -> String {
    let fits = |longest: &usize| text_width(&tamed(name, *longest), WHO, true) <= GUTTER - 8.0;
    tamed(name, (4..24).rev().find(fits).unwrap_or(3))
}
