//! The drawing of one incident, in the manner of Kleppmann's diagrams: a lane for each client, the resource below,
//! time to the right, and the moment when the lock ran out.

mod draw;
mod scene;

use super::story::{Incident, Story};

/// The look of a drawing; the page sets the variables, a drawing on its own has these.
const STYLE: &str = include_str!("style.css");
const COLOURS: &str = ":root{--ink:#1f2328;--muted:#59636e;--line:#d1d9e0;--paper:#ffffff;--bar:#4a5a70;--bar-ink:#ffffff;--bad:#c4314b;--bad-wash:rgba(196,49,75,.11);--by-time:#1a62c5;--pause:#a0b1e9;--pause-ink:#1f2a5a;--pause-wash:rgba(160,177,233,.30);--value:#eef1f4}";

/// The drawing as an SVG element for the page; none where nothing can be drawn.
pub fn inline(story: &Story, incident: &Incident, title: &str) -> Option<maud::Markup> {
    let scene = scene::Scene::new(story, incident)?;
    Some(draw::draw(&scene, title, None))
}

/// The drawing as an SVG file of its own.
pub fn standalone(story: &Story, incident: &Incident) -> Option<String> {
    let scene = scene::Scene::new(story, incident)?;
    let style = format!("{COLOURS}{STYLE}");
    Some(draw::draw(&scene, &super::explain::explain_incident(story, incident), Some(&style)).into_string())
}

/// The colours that a page sets, for drawings that have none around them.
pub fn colours() -> &'static str {
    COLOURS
}

/// The style that drawings on a page need, once.
pub fn style() -> &'static str {
    STYLE
}
