//! Widths of texts, in a font that is at least as wide as those of browsers.

use std::sync::Once;

use plotters::style::{FontDesc, FontStyle, IntoFont, register_font};

/// Sizes of labels, as in the style sheet.
pub const TEXT: f64 = 12.5;
pub const SMALL: f64 = 11.5;
pub const WHO: f64 = 15.0;

const FONT: &str = "sans-serif";
/// The font's height per em. The library measures sizes as heights, CSS as ems.
const EM: f64 = 1.164;

/// The font in a size as in CSS.
pub fn font(size: f64, bold: bool) -> FontDesc<'static> {
    static REGISTERED: Once = Once::new();
    // Without a registered font, drawing any text fails. The licence of DejaVu allows bundling it.
    REGISTERED.call_once(|| {
        // A font that can't be read shows up as an error when the first text is drawn.
        let _ = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
        let _ = register_font(FONT, FontStyle::Bold, dejavu::sans::bold());
    });
    (FONT, size * EM, if bold { FontStyle::Bold } else { FontStyle::Normal }).into_font()
}

/// The width of a line of text; `size` as in CSS.
pub fn text_width(text: &str, size: f64, bold: bool) -> f64 {
    // Glyphs that the font lacks count as full squares, as browsers draw them.
    let foreign = text.chars().filter(|c| *c as u32 >= 0x2e80).count() as f64;
    let width = font(size, bold).box_size(text).map(|(width, _)| f64::from(width));
    width.unwrap_or(size * 0.65 * text.chars().count() as f64) + foreign * size * 0.5
}
