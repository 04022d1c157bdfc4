//! A plot as a list of shapes, and its conversion to PNG and SVG.
//!
//! Plots are made of shapes first and painted afterwards, so that the same drawing becomes a file and part of the page,
//! and so that it is known in advance how many shapes the page would have to carry.

use std::sync::Once;

use plotters::prelude::{BitMapBackend, DrawingBackend, IntoFont, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, FontStyle, RGBAColor, ShapeStyle, TextStyle, register_font};

/// Size of every plot, the same as Jepsen's.
pub const WIDTH: f64 = 900.0;
pub const HEIGHT: f64 = 400.0;

const FONT: &str = "sans-serif";
/// Canvas pixels per picture pixel: the backends draw whole pixels only.
const PIXEL_RATIO: u32 = 2;
/// Plots with more shapes than this go onto the page as pixels.
const SHAPES_ON_A_PAGE: usize = 2000;

/// A colour with its opacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ink(pub u8, pub u8, pub u8, pub f64);

impl Ink {
    pub const TEXT: Ink = Ink(0x1f, 0x23, 0x28, 1.0);
    pub const MUTED: Ink = Ink(0x59, 0x63, 0x6e, 1.0);
    pub const GRID: Ink = Ink(0xe4, 0xe8, 0xec, 1.0);
    pub const AXIS: Ink = Ink(0xaf, 0xb8, 0xc1, 1.0);
    pub const PAPER: Ink = Ink(0xff, 0xff, 0xff, 1.0);
    pub const BAR: Ink = Ink(0x4a, 0x5a, 0x70, 1.0);
    pub const BAD: Ink = Ink(0xc4, 0x31, 0x4b, 1.0);

    pub fn faded(self, opacity: f64) -> Ink {
        Ink(self.0, self.1, self.2, opacity)
    }

    fn color(self) -> RGBAColor {
        RGBAColor(self.0, self.1, self.2, self.3)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Anchor {
    Left,
    Center,
    Right,
}

/// A shape, in pixels from the picture's upper left corner.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Rect { x0: f64, y0: f64, x1: f64, y1: f64, ink: Ink },
    Line { points: Vec<(f64, f64)>, width: f64, ink: Ink },
    Polygon { points: Vec<(f64, f64)>, ink: Ink },
    Dot { x: f64, y: f64, radius: f64, ink: Ink },
    Text { x: f64, y: f64, text: String, size: f64, bold: bool, anchor: Anchor, ink: Ink },
}

/// A plot, ready to be painted.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    pub shapes: Vec<Shape>,
}

impl Picture {
    pub fn rect(&mut self, (x0, y0): (f64, f64), (x1, y1): (f64, f64), ink: Ink) {
        self.shapes.push(Shape::Rect { x0, y0, x1, y1, ink });
    }

    pub fn line(&mut self, points: Vec<(f64, f64)>, width: f64, ink: Ink) {
        self.shapes.push(Shape::Line { points, width, ink });
    }

    pub fn dot(&mut self, (x, y): (f64, f64), radius: f64, ink: Ink) {
        self.shapes.push(Shape::Dot { x, y, radius, ink });
    }

    pub fn triangle(&mut self, (x, y): (f64, f64), radius: f64, ink: Ink) {
        let points = vec![(x, y - radius), (x + radius, y + radius), (x - radius, y + radius)];
        self.shapes.push(Shape::Polygon { points, ink });
    }

    pub fn text(&mut self, (x, y): (f64, f64), text: impl Into<String>, size: f64, anchor: Anchor, ink: Ink) {
        self.shapes.push(Shape::Text { x, y, text: text.into(), size, bold: false, anchor, ink });
    }

    pub fn bold(&mut self, (x, y): (f64, f64), text: impl Into<String>, size: f64, ink: Ink) {
        let text = text.into();
        self.shapes.push(Shape::Text { x, y, text, size, bold: true, anchor: Anchor::Left, ink });
    }

    /// Whether the page should carry pixels instead.
    pub fn is_large(&self) -> bool {
        self.shapes.len() > SHAPES_ON_A_PAGE
    }
}

/// The width of a line of text in a font at least as wide as those of browsers; `size` as in CSS.
pub fn text_width(text: &str, size: f64, bold: bool) -> f64 {
    fonts();
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    // Glyphs that the font lacks count as full squares, as browsers draw them.
    let foreign = text.chars().filter(|c| *c as u32 >= 0x2e80).count() as f64;
    let width = (FONT, size * EM, style).into_font().box_size(text).map(|(width, _)| f64::from(width));
    width.unwrap_or(size * 0.65 * text.chars().count() as f64) + foreign * size * 0.5
}

/// The font's height per em: the library's sizes are heights, those of CSS are ems.
const EM: f64 = 1.164;

/// Without a registered font, drawing any text fails. The licence of DejaVu allows bundling it.
fn fonts() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // A font that can't be read shows up as an error when the first text is drawn.
        let _ = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
        let _ = register_font(FONT, FontStyle::Bold, dejavu::sans::bold());
    });
}

/// The picture as an SVG element.
pub fn svg(picture: &Picture) -> Result<String, String> {
    let mut text = String::new();
    let scale = f64::from(PIXEL_RATIO);
    let mut backend = SVGBackend::with_string(&mut text, canvas());
    paint(picture, &mut backend, scale)?;
    drop(backend);
    Ok(text)
}

/// The picture as a PNG file of 900 x 400 pixels.
pub fn png(picture: &Picture) -> Result<Vec<u8>, String> {
    let (width, height) = canvas();
    let fine = pixels(picture)?;
    let step = PIXEL_RATIO as usize;
    let row = width as usize * 3;
    let (width, height) = (width as usize / step, height as usize / step);
    // Averaging the fine pixels smooths edges that the library leaves jagged.
    let mut coarse = Vec::with_capacity(width * height * 3);
    let mut sums = vec![0u32; width * 3];
    for rows in fine.chunks_exact(row * step) {
        sums.fill(0);
        for (place, value) in rows.iter().enumerate() {
            let x = place % row;
            sums[x / 3 / step * 3 + x % 3] += u32::from(*value);
        }
        coarse.extend(sums.iter().map(|sum| (sum / (PIXEL_RATIO * PIXEL_RATIO)) as u8));
    }
    encode(&coarse, width as u32, height as u32)
}

/// The picture as a PNG file with twice the pixels, for the page.
pub fn fine_png(picture: &Picture) -> Result<Vec<u8>, String> {
    let (width, height) = canvas();
    encode(&pixels(picture)?, width, height)
}

fn canvas() -> (u32, u32) {
    (WIDTH as u32 * PIXEL_RATIO, HEIGHT as u32 * PIXEL_RATIO)
}

fn pixels(picture: &Picture) -> Result<Vec<u8>, String> {
    let (width, height) = canvas();
    let mut buffer = vec![0xff; (width * height * 3) as usize];
    let mut backend = BitMapBackend::with_buffer(&mut buffer, canvas());
    paint(picture, &mut backend, f64::from(PIXEL_RATIO))?;
    drop(backend);
    Ok(buffer)
}

fn encode(rgb: &[u8], width: u32, height: u32) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(|error| error.to_string())?;
    writer.write_image_data(rgb).map_err(|error| error.to_string())?;
    writer.finish().map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn paint<B: DrawingBackend>(picture: &Picture, backend: &mut B, scale: f64) -> Result<(), String> {
    fonts();
    let at = |x: f64, y: f64| ((x * scale).round() as i32, (y * scale).round() as i32);
    let path = |points: &[(f64, f64)]| points.iter().map(|(x, y)| at(*x, *y)).collect::<Vec<_>>();
    let paper = Ink::PAPER.color().filled();
    backend.draw_rect((0, 0), at(WIDTH, HEIGHT), &paper, true).map_err(|error| error.to_string())?;
    for shape in &picture.shapes {
        match shape {
            Shape::Rect { x0, y0, x1, y1, ink } => {
                let ((left, top), (right, bottom)) = (at(*x0, *y0), at(*x1, *y1));
                // The library draws both edges; a shape without width still gets one pixel.
                let corner = ((right - 1).max(left), (bottom - 1).max(top));
                backend.draw_rect((left, top), corner, &ink.color(), true)
            }
            Shape::Line { points, width, ink } => {
                let style =
                    ShapeStyle { color: ink.color(), filled: false, stroke_width: (width * scale).round() as u32 };
                backend.draw_path(path(points), &style)
            }
            Shape::Polygon { points, ink } => backend.fill_polygon(path(points), &ink.color()),
            Shape::Dot { x, y, radius, ink } => {
                backend.draw_circle(at(*x, *y), (radius * scale).round() as u32, &ink.color(), true)
            }
            Shape::Text { x, y, text, size, bold, anchor, ink } => {
                let weight = if *bold { FontStyle::Bold } else { FontStyle::Normal };
                let side = match anchor {
                    Anchor::Left => HPos::Left,
                    Anchor::Center => HPos::Center,
                    Anchor::Right => HPos::Right,
                };
                let color = ink.color();
                let style = TextStyle::from((FONT, size * scale * EM, weight).into_font())
                    .color(&color)
                    .pos(Pos::new(side, VPos::Center));
                backend.draw_text(text, &style, at(*x, *y))
            }
        }
        .map_err(|error| error.to_string())?;
    }
    backend.present().map_err(|error| error.to_string())
}
