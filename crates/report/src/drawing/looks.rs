//! The looks of drawings, read from the style sheet of pages and SVG files, for programs that have no browser.
//!
//! The parser handles only this one file: class rules for fills, strokes and fonts, and the named colours of light pages.

use std::collections::HashMap;

use plotters::style::RGBAColor as Ink;

use super::{COLOURS, STYLE, TEXT};

#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    pub fill: Option<Ink>,
    pub stroke: Option<Ink>,
    pub stroke_width: f64,
    /// The lengths of a dash and of the gap after it.
    pub dash: Option<(f64, f64)>,
    pub size: f64,
    pub bold: bool,
    pub struck: bool,
    /// True if the stroke lies below the fill, so that a text stands out from its background.
    pub is_halo: bool,
}

pub struct Looks {
    colours: HashMap<&'static str, Ink>,
    /// The rules, weaker ones first.
    rules: Vec<Rule>,
}

/// The classes that an element must have, and the properties that the rule sets. Without classes, the rule is for every text.
type Rule = (Vec<&'static str>, Vec<(&'static str, &'static str)>);

impl Looks {
    pub fn of_pages() -> Looks {
        let values = COLOURS.trim_start_matches(":root{").trim_end_matches('}');
        let colours = values.split(';').filter_map(|pair| pair.split_once(':'));
        let colours = colours.filter_map(|(name, value)| Some((name, colour(value)?))).collect();
        let mut rules = Vec::new();
        for (selectors, body) in STYLE.lines().filter_map(|line| line.strip_suffix('}')?.split_once('{')) {
            let set: Vec<_> = body.split(';').filter_map(|pair| pair.split_once(':')).collect();
            for selector in selectors.split(',').filter_map(|selector| selector.strip_prefix(".drawing ")) {
                rules.push((selector.split('.').skip(1).collect::<Vec<_>>(), set.clone()));
            }
        }
        rules.sort_by_key(|(classes, _)| classes.len());
        Looks { colours, rules }
    }

    pub fn of(&self, classes: &str, is_text: bool) -> Look {
        let classes: Vec<&str> = classes.split(' ').collect();
        let mut look = Look {
            fill: Some(Ink(0, 0, 0, 1.0)),
            stroke: None,
            stroke_width: 1.0,
            dash: None,
            size: TEXT,
            bold: false,
            struck: false,
            is_halo: false,
        };
        let mut opacity = 1.0;
        let fits = |wanted: &[&str]| match wanted {
            [] => is_text,
            wanted => wanted.iter().all(|class| classes.contains(class)),
        };
        for (name, value) in self.rules.iter().filter(|(wanted, _)| fits(wanted)).flat_map(|(_, set)| set) {
            let pixels = || value.trim_end_matches("px").parse::<f64>().unwrap_or_default();
            match *name {
                "fill" => look.fill = self.ink(value),
                "stroke" => look.stroke = self.ink(value),
                "stroke-width" => look.stroke_width = pixels(),
                "stroke-opacity" => opacity = pixels(),
                "stroke-dasharray" => {
                    let lengths = value.split_once(' ');
                    look.dash = lengths.and_then(|(dash, gap)| Some((dash.parse().ok()?, gap.parse().ok()?)));
                }
                "font-size" => look.size = pixels(),
                "font-weight" => look.bold = *value == "700",
                "text-decoration" => look.struck = *value == "line-through",
                "paint-order" => look.is_halo = *value == "stroke",
                _ => {}
            }
        }
        look.stroke = look.stroke.map(|Ink(red, green, blue, alpha)| Ink(red, green, blue, alpha * opacity));
        look
    }

    fn ink(&self, value: &str) -> Option<Ink> {
        let name = value.strip_prefix("var(").and_then(|rest| rest.strip_suffix(')'));
        name.map_or_else(|| colour(value), |name| self.colours.get(name).copied())
    }
}

fn colour(value: &str) -> Option<Ink> {
    if let Some(digits) = value.strip_prefix('#') {
        let part = |from: usize| u8::from_str_radix(digits.get(from..from + 2)?, 16).ok();
        return Some(Ink(part(0)?, part(2)?, part(4)?, 1.0));
    }
    let mut parts = value.strip_prefix("rgba(")?.strip_suffix(')')?.split(',');
    let mut part = || parts.next();
    Some(Ink(part()?.parse().ok()?, part()?.parse().ok()?, part()?.parse().ok()?, part()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_those_of_the_style_sheet() {
        let looks = Looks::of_pages();
        let bar = looks.of("bar", false);
        assert_eq!((bar.fill, bar.stroke), (Some(Ink(0x4a, 0x5a, 0x70, 1.0)), None));
        let open = looks.of("bar open", false);
        assert_eq!((open.fill, open.stroke_width), (Some(Ink(0xff, 0xff, 0xff, 1.0)), 1.5), "the later rule counts");
        let lost = looks.of("halo badtext strong", true);
        assert_eq!((lost.fill, lost.bold, lost.is_halo), (Some(Ink(0xc4, 0x31, 0x4b, 1.0)), true, true));
        assert_eq!((lost.stroke, lost.stroke_width), (Some(Ink(0xff, 0xff, 0xff, 1.0)), 4.0));
        let plain = looks.of("", true);
        assert_eq!((plain.fill, plain.size), (Some(Ink(0x1f, 0x23, 0x28, 1.0)), 12.5));
        assert_eq!(looks.of("wash", false).fill, Some(Ink(196, 49, 75, 0.11)));
        assert_eq!(looks.of("edge", false).stroke.map(|ink| ink.3), Some(0.55));
        assert_eq!(looks.of("arrow none", false).dash, Some((3.0, 3.0)));
    }

    /// A misspelled colour would be invisible.
    #[test]
    fn each_colour_of_the_style_sheet_is_understood() {
        let looks = Looks::of_pages();
        for (classes, set) in &looks.rules {
            for (name, value) in
                set.iter().filter(|(name, value)| ["fill", "stroke"].contains(name) && *value != "none")
            {
                assert!(looks.ink(value).is_some(), "{classes:?} {name}: {value}");
            }
        }
    }
}
