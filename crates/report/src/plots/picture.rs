//! A plot as a list of shapes, and its conversion to PNG and SVG.
//!
//! Plots are first built from shapes and then painted. So one drawing serves the file and the page, and the number of shapes is
//! known before painting.

use plotters::prelude::{BitMapBackend, DrawingBackend, SVGBackend};
/// A colour with its opacity.
pub use plotters::style::RGBAColor as Ink;
use plotters::style::text_anchor::{Pos, VPos};
use plotters::style::{Color as _, ShapeStyle, TextStyle};

use crate::drawing::{Anchor, Point, font};

/// Size of every plot, the same as Jepsen's.
pub const WIDTH: f64 = 900.0;
pub const HEIGHT: f64 = 400.0;

/// Canvas pixels per picture pixel, in each direction: the backends draw whole pixels only.
const PIXEL_RATIO: u32 = 2;
/// Plots with more shapes than this are pixels on the page.
const SHAPES_ON_A_PAGE: usize = 2000;

pub const TEXT: Ink = Ink(0x1f, 0x23, 0x28, 1.0);
pub const MUTED: Ink = Ink(0x59, 0x63, 0x6e, 1.0);
pub const GRID: Ink = Ink(0xe4, 0xe8, 0xec, 1.0);
pub const AXIS: Ink = Ink(0xaf, 0xb8, 0xc1, 1.0);
const PAPER: Ink = Ink(0xff, 0xff, 0xff, 1.0);
pub const BAR: Ink = Ink(0x4a, 0x5a, 0x70, 1.0);
pub const BAD: Ink = Ink(0xc4, 0x31, 0x4b, 1.0);

/// A shape, in pixels from the picture's upper left corner.
enum PixelShape {
    Rect(Point, Point, Ink),
    Line(Vec<Point>, f64, Ink),
    Polygon(Vec<Point>, Ink),
    Dot(Point, f64, Ink),
    Text { at: Point, text: String, size: f64, bold: bool, anchor: Anchor, ink: Ink },
}

pub struct Picture {
    size: (u32, u32),
    shapes: Vec<PixelShape>,
}

impl Default for Picture {
    fn default() -> Picture {
        Picture::sized((WIDTH, HEIGHT))
    }
}

impl Picture {
    /// A picture of another size than plots have.
    pub fn sized((width, height): Point) -> Picture {
        Picture { size: (width.ceil() as u32, height.ceil() as u32), shapes: Vec::new() }
    }

    fn canvas(&self) -> (u32, u32) {
        (self.size.0 * PIXEL_RATIO, self.size.1 * PIXEL_RATIO)
    }

    pub fn rect(&mut self, corner: Point, opposite: Point, ink: Ink) {
        self.shapes.push(PixelShape::Rect(corner, opposite, ink));
    }

    pub fn line(&mut self, points: Vec<Point>, width: f64, ink: Ink) {
        self.shapes.push(PixelShape::Line(points, width, ink));
    }

    pub fn polygon(&mut self, points: Vec<Point>, ink: Ink) {
        self.shapes.push(PixelShape::Polygon(points, ink));
    }

    pub fn dot(&mut self, at: Point, radius: f64, ink: Ink) {
        self.shapes.push(PixelShape::Dot(at, radius, ink));
    }

    pub fn text(&mut self, at: Point, text: impl Into<String>, size: f64, anchor: Anchor, ink: Ink) {
        self.label(at, text, size, false, anchor, ink);
    }

    pub fn label(&mut self, at: Point, text: impl Into<String>, size: f64, bold: bool, anchor: Anchor, ink: Ink) {
        self.shapes.push(PixelShape::Text { at, text: text.into(), size, bold, anchor, ink });
    }

    pub fn heading(&mut self, at: Point, text: &str) {
        let text = text.to_string();
        self.shapes.push(PixelShape::Text { at, text, size: 15.0, bold: true, anchor: Anchor::Left, ink: TEXT });
    }

    /// True if the page should contain pixels instead of shapes.
    pub fn is_large(&self) -> bool {
        self.shapes.len() > SHAPES_ON_A_PAGE
    }
}

pub fn svg(picture: &Picture) -> Result<String, String> {
    let mut text = String::new();
    paint(picture, SVGBackend::with_string(&mut text, picture.canvas()))?;
    Ok(text)
}

/// The picture as a PNG file of its size, which is 900 x 400 pixels for a plot.
pub fn png(picture: &Picture) -> Result<Vec<u8>, String> {
    let fine = pixels(picture)?;
    let row = picture.canvas().0 as usize * 3;
    // Averaging smooths edges that the library leaves jagged. Plain indexes: in a debug build, a chain of iterators takes a
    // third of a run's time.
    const { assert!(PIXEL_RATIO == 2) };
    let mut coarse = vec![0; fine.len() / 4];
    let (mut from, mut to) = (0, 0);
    while to < coarse.len() {
        let mut colour = from;
        while colour < from + 3 {
            let above = u16::from(fine[colour]) + u16::from(fine[colour + 3]);
            let below = u16::from(fine[colour + row]) + u16::from(fine[colour + row + 3]);
            coarse[to] = ((above + below) / 4) as u8;
            to += 1;
            colour += 1;
        }
        from += 6;
        if from % row == 0 {
            // The row below was already read.
            from += row;
        }
    }
    encode(&coarse, picture.size.0, picture.size.1)
}

/// The picture as a PNG file with twice the pixels, for the page.
pub fn fine_png(picture: &Picture) -> Result<Vec<u8>, String> {
    encode(&pixels(picture)?, picture.canvas().0, picture.canvas().1)
}

fn pixels(picture: &Picture) -> Result<Vec<u8>, String> {
    let (width, height) = picture.canvas();
    let mut buffer = vec![0xff; (width * height * 3) as usize];
    paint(picture, BitMapBackend::with_buffer(&mut buffer, (width, height)))?;
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

fn paint<B: DrawingBackend>(picture: &Picture, mut backend: B) -> Result<(), String> {
    let scale = f64::from(PIXEL_RATIO);
    let at = |(x, y): &Point| ((x * scale).round() as i32, (y * scale).round() as i32);
    let path = |points: &[Point]| points.iter().map(at).collect::<Vec<_>>();
    let thick = |width: f64| (width * scale).round() as u32;
    backend
        .draw_rect((0, 0), at(&(picture.size.0.into(), picture.size.1.into())), &PAPER.filled(), true)
        .map_err(|error| error.to_string())?;
    for shape in &picture.shapes {
        match shape {
            PixelShape::Rect(corner, opposite, ink) => {
                let ((left, top), (right, bottom)) = (at(corner), at(opposite));
                // The library draws both edges; a shape without width still gets one pixel.
                backend.draw_rect((left, top), ((right - 1).max(left), (bottom - 1).max(top)), ink, true)
            }
            PixelShape::Line(points, width, ink) => {
                let style = ShapeStyle { color: *ink, filled: false, stroke_width: thick(*width) };
                backend.draw_path(path(points), &style)
            }
            PixelShape::Polygon(points, ink) => backend.fill_polygon(path(points), ink),
            PixelShape::Dot(middle, radius, ink) => backend.draw_circle(at(middle), thick(*radius), ink, true),
            PixelShape::Text { at: place, text, size, bold, anchor, ink } => {
                let style = TextStyle::from(font(size * scale, *bold)).color(ink);
                backend.draw_text(text, &style.pos(Pos::new(*anchor, VPos::Center)), at(place))
            }
        }
        .map_err(|error| error.to_string())?;
    }
    backend.present().map_err(|error| error.to_string())
}
