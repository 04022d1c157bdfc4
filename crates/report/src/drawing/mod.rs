//! The parts of drawings: SVG elements with a style sheet, a time axis, and rows of labels that do not overlap. A drawing
//! belongs to a page, which sets the colours, or stands alone. Plots use the same text sizes, but have shapes of their own,
//! which a library paints.
//!
//! Texts come from users' clients and other programs' files. maud escapes all of them.

mod axis;
mod looks;
mod text;

pub use axis::{Axis, Planner};
pub use looks::{Look, Looks};
use maud::{Markup, PreEscaped, html};
/// The side of a text that its position refers to.
pub use plotters::style::text_anchor::HPos as Anchor;
pub use text::{SMALL, TEXT, WHO, font, text_width};

pub const STYLE: &str = include_str!("style.css");
/// The colours of drawings and pages in light mode.
pub const COLOURS: &str = ":root{--ink:#1f2328;--muted:#59636e;--line:#d1d9e0;--paper:#ffffff;--bar:#4a5a70;--bar-ink:#ffffff;--bad:#c4314b;--bad-wash:rgba(196,49,75,.11);--by-time:#1a62c5;--pause:#a0b1e9;--pause-ink:#1f2a5a;--pause-wash:rgba(160,177,233,.30);--value:#eef1f4}";

/// The width of a drawing, unless its labels need more.
pub const WIDTH: f64 = 940.0;
/// Room for names on the left.
pub const GUTTER: f64 = 122.0;
/// The margin of a drawing without a page.
pub const EDGE: f64 = 16.0;

/// Right and down, in pixels.
pub type Point = (f64, f64);

#[derive(Default)]
pub struct Canvas {
    svg: String,
    shapes: Vec<Shape>,
}

/// A drawn shape with its classes, for programs that paint it without a browser.
pub enum Shape {
    Line {
        class: String,
        from: Point,
        to: Point,
    },
    Rect {
        class: String,
        corner: Point,
        opposite: Point,
    },
    Polygon {
        class: String,
        corners: Vec<Point>,
    },
    /// Pieces of a line of text, each with its classes.
    Text {
        at: Point,
        anchor: Anchor,
        spans: Vec<(String, String)>,
    },
}

impl Canvas {
    /// The shapes that were drawn one by one. Elements added as SVG are not included.
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    pub fn put(&mut self, element: Markup) {
        self.svg.push_str(&element.into_string());
    }

    pub fn line(&mut self, class: &str, (x1, y1): Point, (x2, y2): Point) {
        self.shapes.push(Shape::Line { class: class.to_string(), from: (x1, y1), to: (x2, y2) });
        self.put(html! { line class=(class) x1=(px(x1)) y1=(px(y1)) x2=(px(x2)) y2=(px(y2)) {} });
    }

    /// Draws a rectangle that is at least half a pixel wide.
    pub fn rect(&mut self, class: &str, (x0, y0): Point, (x1, y1): Point) {
        let width = (x1 - x0).max(0.5);
        self.shapes.push(Shape::Rect { class: class.to_string(), corner: (x0, y0), opposite: (x0 + width, y1) });
        self.put(html! { rect class=(class) x=(px(x0)) y=(px(y0)) width=(px(width)) height=(px(y1 - y0)) rx="2" {} });
    }

    pub fn polygon(&mut self, class: &str, corners: &[Point]) {
        self.shapes.push(Shape::Polygon { class: class.to_string(), corners: corners.to_vec() });
        let corners: Vec<String> = corners.iter().map(|(x, y)| format!("{},{}", px(*x), px(*y))).collect();
        self.put(html! { polygon class=(class) points=(corners.join(" ")) {} });
    }

    pub fn text(&mut self, class: &str, (x, y): Point, anchor: Anchor, text: &str) {
        let spans = vec![(class.to_string(), text.to_string())];
        self.shapes.push(Shape::Text { at: (x, y), anchor, spans });
        let anchor = match anchor {
            Anchor::Left => None,
            Anchor::Center => Some("middle"),
            Anchor::Right => Some("end"),
        };
        self.put(html! { text class=(class) x=(px(x)) y=(px(y)) text-anchor=[anchor] { (text) } });
    }

    /// Draws a line of text in pieces, each with its classes. A piece's classes may be empty.
    pub fn spans(&mut self, (x, y): Point, spans: &[(&str, &str)]) {
        let owned = spans.iter().map(|(class, text)| (class.to_string(), text.to_string())).collect();
        self.shapes.push(Shape::Text { at: (x, y), anchor: Anchor::Left, spans: owned });
        self.put(html! {
            text x=(px(x)) y=(px(y)) {
                @for (class, text) in spans { tspan class=[(!class.is_empty()).then_some(class)] { (text) } }
            }
        });
    }

    /// Adds a group with a text that is shown while the mouse is over it.
    pub fn group(&mut self, title: &str, inside: Canvas) {
        self.put(html! { g { title { (title) } (PreEscaped(inside.svg)) } });
    }

    /// The drawing as an SVG element: for a page, or standalone.
    pub fn svg(self, title: &str, (width, height): Point, alone: bool) -> Markup {
        let edge = if alone { EDGE } else { 0.0 };
        let (full_width, full_height) = (px(width + 2.0 * edge), px(height + 2.0 * edge));
        // A page scrolls a wide drawing before its labels become too small to read.
        let wide = (width > WIDTH).then(|| format!("--least:{}px", px(0.75 * width)));
        let corner = px(0.0 - edge);
        html! {
            svg class="drawing" xmlns="http://www.w3.org/2000/svg" viewBox={ (corner) " " (corner) " " (full_width) " " (full_height) }
                width=(full_width) height=(full_height) style=[wide] role="img" aria-label=(title) {
                @if alone {
                    title { (title) }
                    // The styles contain no text of users.
                    style { (PreEscaped(COLOURS)) (PreEscaped(STYLE)) }
                    rect x=(corner) y=(corner) width=(full_width) height=(full_height) fill="var(--paper)" {}
                }
                (PreEscaped(self.svg))
            }
        }
    }
}

/// A row of labels that do not overlap.
pub struct LabelRow {
    left: f64,
    right: f64,
    taken: Vec<(f64, f64)>,
}

impl LabelRow {
    pub fn new(left: f64, right: f64) -> LabelRow {
        LabelRow { left, right, taken: Vec::new() }
    }

    /// Places a label of this width as near to `x` as the ends of the row permit. Returns its middle; None if another label is
    /// there.
    pub fn fit(&mut self, x: f64, width: f64) -> Option<f64> {
        let (first, half) = (self.left + width / 2.0, width / 2.0);
        let middle = x.clamp(first, (self.right - half).max(first));
        let is_free = self.taken.iter().all(|(left, right)| middle + half < *left || middle - half > *right);
        is_free.then(|| {
            self.taken.push((middle - half, middle + half));
            middle
        })
    }
}

/// A number of pixels with one decimal, which is precise enough.
pub fn px(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map(str::to_string).unwrap_or(text)
}
