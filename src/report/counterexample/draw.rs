//! Lays out a scene and writes it as SVG. Text comes from foreign files: maud escapes all of it.

use maud::{Markup, PreEscaped, html};

use super::Counterexample;
use super::route::{Area, Curve, Point};
use super::scene::{Arrow, Bar, Look, Scene};
use crate::report::axis::{Axis, Planner};
use crate::report::incident;
use crate::report::plots::text_width;
use crate::words::{line as tamed, plural};
use linearizability::explain::Because;

/// What drawings on a page need besides the style of incidents, once per page.
pub const STYLE: &str = include_str!("style.css");

const WIDTH: f64 = 940.0;
/// On a page the drawing shrinks no further than this.
const NARROWEST: f64 = 640.0;
const GUTTER: f64 = 122.0;
/// Room before the first event and after the last.
const LEAD: f64 = 14.0;
const RIGHT: f64 = 14.0;
/// From one row to the next: with arrows and their labels between the bars, and without.
const ROW: f64 = 88.0;
const ROW_WITHOUT_ARROWS: f64 = 54.0;
const BAR: f64 = 40.0;
/// Above the first row's bars and below the last row's, if arrows go round them, and if none do.
const MARGIN: f64 = 44.0;
const MARGIN_WITHOUT_ARROWS: f64 = 14.0;
const AXIS: f64 = 30.0;
const LEGEND: f64 = 24.0;
const CAPTION_LINE: f64 = 19.0;
/// Between the edge of a standalone file and the drawing.
const EDGE: f64 = 20.0;
/// Sizes of labels, as in the style sheets.
const TEXT: f64 = 12.5;
const SMALL: f64 = 11.5;
const WHO: f64 = 15.0;
/// A sentence is broken into at most this many lines.
const LINES: usize = 4;

const BY_TIME: &str = "by time";
const BY_VALUE: &str = "by value";

/// The drawing for a page that says the rest.
pub fn inline(example: &Counterexample) -> Markup {
    let drawing = Drawing::new(example);
    let view = format!("0 0 {} {}", px(drawing.width), px(drawing.height));
    // The page lets a wide drawing scroll, rather than making its labels too small to read.
    let narrowest = if drawing.width > WIDTH { drawing.width } else { NARROWEST };
    html! {
        svg class="incident counterexample" xmlns="http://www.w3.org/2000/svg" viewBox=(view) width=(px(drawing.width))
            height=(px(drawing.height)) style={ "min-width:" (px(narrowest)) "px" } role="img" aria-label=(example.title()) {
            (drawing.body())
        }
    }
}

/// The drawing with a heading and its sentences, on its own background.
pub fn standalone(example: &Counterexample) -> Markup {
    let drawing = Drawing::new(example);
    let mut caption: Vec<(f64, String)> = Vec::new();
    for sentence in &example.sentences {
        let lines = wrapped(sentence, drawing.width - 24.0).into_iter().enumerate();
        caption.extend(lines.map(|(number, line)| (if number == 0 { 0.0 } else { 16.0 }, line)));
    }
    caption.push((0.0, example.minimality()));
    let heading = 34.0;
    let below = heading + drawing.height + 10.0;
    let (width, height) = (drawing.width + 2.0 * EDGE, below + caption.len() as f64 * CAPTION_LINE + 2.0 * EDGE);
    let view = format!("{0} {0} {1} {2}", px(-EDGE), px(width), px(height));
    // The style is ours alone and contains nothing from the file.
    let style = format!("{}{}{}", incident::colours(), incident::style(), STYLE);
    html! {
        svg class="incident counterexample" xmlns="http://www.w3.org/2000/svg" viewBox=(view) width=(px(width))
            height=(px(height)) role="img" aria-label=(example.title()) {
            title { (example.title()) }
            style { (PreEscaped(style)) }
            rect x=(px(-EDGE)) y=(px(-EDGE)) width=(px(width)) height=(px(height)) fill="var(--paper)" {}
            text class="who" x="0" y="14" { (example.title()) }
            g transform={ "translate(0 " (px(heading)) ")" } { (drawing.body()) }
            @for (number, (indent, line)) in caption.iter().enumerate() {
                text x=(px(*indent)) y=(px(below + 14.0 + number as f64 * CAPTION_LINE)) { (line) }
            }
        }
    }
}

/// A scene with its layout.
struct Drawing {
    scene: Scene,
    axis: Axis,
    /// From one row to the next.
    row: f64,
    /// The upper edge of the first row's bars, and the position of the time axis.
    top: f64,
    bottom: f64,
    width: f64,
    height: f64,
}

impl Drawing {
    fn new(example: &Counterexample) -> Drawing {
        let scene = Scene::new(example);
        let axis = plan(&scene);
        let width = GUTTER + LEAD + axis.width + RIGHT;
        let row = if scene.arrows.is_empty() { ROW_WITHOUT_ARROWS } else { ROW };
        let mut drawing = Drawing { scene, axis, row, top: MARGIN, bottom: 0.0, width, height: 0.0 };
        let areas = drawing.areas();
        let curves = drawing.curves(&areas);
        let points = || curves.iter().flat_map(|(_, curve)| curve.points());
        let lowest = areas.iter().map(|area| area.bottom).fold(0.0, f64::max);
        if points().all(|point| point.y >= MARGIN) {
            drawing.top = MARGIN_WITHOUT_ARROWS;
        }
        let below = if points().any(|point| point.y > lowest) { MARGIN } else { MARGIN_WITHOUT_ARROWS };
        drawing.bottom = lowest - MARGIN + drawing.top + below;
        drawing.height = drawing.bottom + AXIS + LEGEND;
        drawing
    }

    fn areas(&self) -> Vec<Area> {
        self.scene.bars.iter().map(|bar| self.area(bar)).collect()
    }

    fn curves(&self, areas: &[Area]) -> Vec<(Arrow, Curve)> {
        let curve = |arrow: &Arrow| Curve::between(areas[arrow.from], areas[arrow.to], arrow.because, areas);
        self.scene.arrows.iter().map(|arrow| (*arrow, curve(arrow))).collect()
    }

    fn x(&self, rank: u64) -> f64 {
        GUTTER + LEAD + self.axis.x(rank)
    }

    fn area(&self, bar: &Bar) -> Area {
        let top = self.top + bar.row as f64 * self.row;
        Area {
            left: self.x(bar.from),
            top,
            right: bar.to.map_or(self.width - RIGHT, |to| self.x(to)),
            bottom: top + BAR,
        }
    }

    fn body(&self) -> Markup {
        let right = self.width - RIGHT;
        let areas = self.areas();
        let curves = self.curves(&areas);
        html! {
            @for (number, row) in self.scene.rows.iter().enumerate() {
                @let middle = self.top + number as f64 * self.row + BAR / 2.0;
                (line("rail", GUTTER, middle, right, middle))
                @if let Some(name) = &row.name {
                    g { title { (name) } text class="who" x="0" y=(px(middle + 5.0)) { (fitting(name)) } }
                }
            }
            @for (bar, area) in self.scene.bars.iter().zip(&areas) { (bar_of(bar, area)) }
            @for (arrow, curve) in &curves { (arrow_of(arrow, curve)) }
            (self.labels(&curves, &areas))
            (self.ticks(self.bottom, right))
            (legend(&self.scene, self.bottom + AXIS))
        }
    }

    /// The labels of the arrows; an arrow without room for a label is explained by the legend alone.
    fn labels(&self, curves: &[(Arrow, Curve)], bars: &[Area]) -> Markup {
        let within = Area { left: GUTTER, top: 2.0, right: self.width - RIGHT, bottom: self.bottom - 2.0 };
        let mut taken = bars.to_vec();
        let mut placed = Vec::new();
        for (arrow, curve) in curves {
            let (label, class) = words(arrow.because);
            if let Some(area) = curve.label(text_width(label, TEXT, true) + 8.0, 18.0, within, &taken) {
                taken.push(area);
                placed.push((label, class, Point { x: (area.left + area.right) / 2.0, y: area.bottom - 4.5 }));
            }
        }
        html! {
            @for (label, class, Point { x, y }) in placed {
                text class={ "halo strong " (class) "-text" } x=(px(x)) y=(px(y)) text-anchor="middle" { (label) }
            }
        }
    }

    /// Times below the drawing if they are known, as many as there is room for.
    fn ticks(&self, bottom: f64, right: f64) -> Markup {
        let mut free = GUTTER;
        let mut shown = Vec::new();
        let times = self.scene.times();
        for (rank, text) in &times {
            let half = text_width(text, SMALL, false) / 2.0 + 5.0;
            let x = self.x(*rank).clamp(GUTTER + half, (right - half).max(GUTTER + half));
            if x - half >= free {
                free = x + half;
                shown.push((self.x(*rank), x, text));
            }
        }
        html! {
            (line("rail", GUTTER, bottom, right, bottom))
            text class="small" x="0" y=(px(bottom + 17.0)) { (if times.is_empty() { "order of events" } else { "time" }) }
            @for rank in 0..self.scene.end() { (line("tick", self.x(rank), bottom - 3.0, self.x(rank), bottom + 3.0)) }
            @for (_, x, text) in shown {
                text class="small" x=(px(x)) y=(px(bottom + 17.0)) text-anchor="middle" { (text) }
            }
        }
    }
}

/// Where every rank lies, with room for its labels, spaced as evenly as those allow.
fn plan(scene: &Scene) -> Axis {
    let mut planner = Planner::default();
    // After the last event come only operations without an end.
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
        // On one row the label lies between the two bars, else between the rows.
        let room = if from.row == to.row { text_width(BY_TIME, TEXT, true) + 44.0 } else { 48.0 };
        planner.room(from.to.unwrap_or(from.from), to.from, room);
    }
    planner.place(WIDTH - GUTTER - LEAD - RIGHT)
}

fn bar_of(bar: &Bar, area: &Area) -> Markup {
    let Area { left, top, right, bottom } = *area;
    let (class, text) = match bar.look {
        Look::Plain => ("bar", "onbar"),
        Look::Refused => ("bar refused", "onbar"),
        Look::Open => ("bar open", "onopen"),
    };
    html! {
        g {
            title { (bar.full) }
            @if bar.to.is_some() {
                rect class=(class) x=(px(left)) y=(px(top)) width=(px((right - left).max(2.0))) height=(px(bottom - top)) rx="3" {}
            } @else {
                // It has no end, so its bar stays open and fades out.
                @let solid = (right - 34.0).max(left);
                path class=(class) d={ "M" (px(solid)) " " (px(top)) "H" (px(left)) "V" (px(bottom)) "H" (px(solid)) } {}
                (line("outgoing", solid + 5.0, top, right, top))
                (line("outgoing", solid + 5.0, bottom, right, bottom))
            }
            text class={ (text) " label" } x=(px(left + 10.0)) y=(px(top + 17.0)) { (bar.label) }
            text class=(text) x=(px(left + 10.0)) y=(px(top + 32.0)) { (bar.under) }
        }
    }
}

fn words(because: Because) -> (&'static str, &'static str) {
    match because {
        Because::RealTime => (BY_TIME, "bytime"),
        Because::Value => (BY_VALUE, "byvalue"),
    }
}

fn arrow_of(arrow: &Arrow, curve: &Curve) -> Markup {
    let (_, class) = words(arrow.because);
    let Curve([a, b, c, d]) = curve;
    let path =
        format!("M{} {}C{} {} {} {} {} {}", px(a.x), px(a.y), px(b.x), px(b.y), px(c.x), px(c.y), px(d.x), px(d.y));
    let Point { x, y } = curve.direction();
    let corner =
        |along: f64, across: f64| format!("{},{}", px(d.x + along * x - across * y), px(d.y + along * y + across * x));
    let head = format!("{} {} {}", corner(8.0, 0.0), corner(-1.0, 4.5), corner(-1.0, -4.5));
    html! {
        path class="under" d=(path) {}
        path class={ "way " (class) } d=(path) {}
        polygon class={ (class) "-head" } points=(head) {}
    }
}

/// What the arrows and colours mean, and what is not drawn.
fn legend(scene: &Scene, top: f64) -> Markup {
    let mut x = GUTTER;
    let mut entries = Vec::new();
    for (because, meaning) in [
        (Because::RealTime, "by time: it had returned when the other was invoked"),
        (Because::Value, "by value: what they read and wrote leaves only this order"),
    ] {
        if scene.arrows.iter().any(|arrow| arrow.because == because) {
            entries.push((x, words(because).1, meaning));
            x += 34.0 + text_width(meaning, SMALL, false) + 22.0;
        }
    }
    let refused = scene.bars.iter().any(|bar| bar.look == Look::Refused).then_some(match scene.bars.len() {
        1 => "red: fits nowhere",
        _ => "red: does not fit after the others",
    });
    let omitted = (scene.omitted > 0).then(|| format!("{} not drawn", plural(scene.omitted as u64, "more operation")));
    let remarks: Vec<String> = refused.map(str::to_string).into_iter().chain(omitted).collect();
    html! {
        @for (x, class, meaning) in entries {
            (line(&format!("way {class}"), x, top + 10.0, x + 26.0, top + 10.0))
            text class="small" x=(px(x + 34.0)) y=(px(top + 14.0)) { (meaning) }
        }
        @if !remarks.is_empty() { text class="small" x=(px(x)) y=(px(top + 14.0)) { (remarks.join("; ")) } }
    }
}

/// As much of a name as fits before the first bar.
fn fitting(name: &str) -> String {
    let fits = |longest: &usize| text_width(&tamed(name, *longest), WHO, true) <= GUTTER - 8.0;
    tamed(name, (4..24).rev().find(fits).unwrap_or(3))
}

/// A sentence in lines of at most this width.
fn wrapped(sentence: &str, width: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in tamed(sentence, 600).split(' ') {
        let last = lines.len() - 1;
        let longer = if lines[last].is_empty() { word.to_string() } else { format!("{} {word}", lines[last]) };
        if lines[last].is_empty() || text_width(&longer, TEXT, false) <= width {
            lines[last] = longer;
        } else if lines.len() == LINES {
            lines[last].push('…');
            break;
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}

fn line(class: &str, x1: f64, y1: f64, x2: f64, y2: f64) -> Markup {
    html! { line class=(class) x1=(px(x1)) y1=(px(y1)) x2=(px(x2)) y2=(px(y2)) {} }
}

/// Nobody sees more than a tenth of a pixel.
fn px(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map(str::to_string).unwrap_or(text)
}
