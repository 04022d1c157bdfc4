//! The drawing of an incident as pixels, for programs that cannot show SVG. It has the same shapes and looks, painted by the
//! library that paints the plots. Corners are not rounded.

use crate::drawing::{Anchor, Canvas, Look, Looks, Point, Shape, text_width};
use crate::plots::Picture;

/// The height of a text's middle above its baseline, as a fraction of its size.
const MIDDLE: f64 = 0.36;

/// The drawing on a white background, as large as its SVG file.
pub fn painted(canvas: &Canvas, size: Point, edge: f64) -> Picture {
    let mut painting = Painting {
        looks: Looks::of_pages(),
        edge,
        picture: Picture::sized((size.0 + 2.0 * edge, size.1 + 2.0 * edge)),
    };
    canvas.shapes().iter().for_each(|shape| painting.shape(shape));
    painting.picture
}

struct Painting {
    looks: Looks,
    edge: f64,
    picture: Picture,
}

impl Painting {
    fn shape(&mut self, shape: &Shape) {
        let edge = self.edge;
        let at = |(x, y): Point| (x + edge, y + edge);
        match shape {
            Shape::Line { class, from, to } => {
                let look = self.looks.of(class, false);
                self.stroke(&look, &[at(*from), at(*to)]);
            }
            Shape::Rect { class, corner, opposite } => {
                let look = self.looks.of(class, false);
                let ((left, top), (right, bottom)) = (at(*corner), at(*opposite));
                if let Some(ink) = look.fill {
                    self.picture.rect((left, top), (right, bottom), ink);
                }
                self.stroke(&look, &[(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]);
            }
            Shape::Polygon { class, corners } => {
                if let Some(ink) = self.looks.of(class, false).fill {
                    self.picture.polygon(corners.iter().copied().map(at).collect(), ink);
                }
            }
            Shape::Text { at: place, anchor, spans } => self.text(at(*place), *anchor, spans),
        }
    }

    fn text(&mut self, (x, y): Point, anchor: Anchor, spans: &[(String, String)]) {
        let mut left = x;
        for (class, text) in spans {
            let look = self.looks.of(class, true);
            let middle = y - MIDDLE * look.size;
            if let Some(halo) = look.stroke.filter(|_| look.is_halo) {
                let reach = look.stroke_width / 2.0;
                for (right, down) in [(0.0, 1.0), (1.0, 0.0), (0.7, 0.7), (0.7, -0.7)] {
                    for reach in [reach, -reach] {
                        let place = (left + right * reach, middle + down * reach);
                        self.picture.label(place, text, look.size, look.bold, anchor, halo);
                    }
                }
            }
            let Some(ink) = look.fill else { continue };
            self.picture.label((left, middle), text, look.size, look.bold, anchor, ink);
            let width = text_width(text, look.size, look.bold);
            if look.struck {
                self.picture.line(vec![(left, middle), (left + width, middle)], 1.0, ink);
            }
            left += width;
        }
    }

    fn stroke(&mut self, look: &Look, points: &[Point]) {
        let Some(ink) = look.stroke else { return };
        let Some((dash, gap)) = look.dash else {
            return self.picture.line(points.to_vec(), look.stroke_width, ink);
        };
        for ends in points.windows(2) {
            let ((x0, y0), (x1, y1)) = (ends[0], ends[1]);
            let length = (x1 - x0).hypot(y1 - y0);
            let along = |far: f64| (x0 + (x1 - x0) * far / length, y0 + (y1 - y0) * far / length);
            let dashes = (length / (dash + gap)).ceil() as usize;
            for from in (0..dashes).map(|number| number as f64 * (dash + gap)) {
                self.picture.line(vec![along(from), along((from + dash).min(length))], look.stroke_width, ink);
            }
        }
    }
}
