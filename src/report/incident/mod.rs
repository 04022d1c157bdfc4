//! The drawing of one incident, in the style of Kleppmann's diagrams: a lane per client, the resource below, time
//! running to the right, and the moment when the lock expired.

mod draw;
pub mod scene;

use crate::telling::{Incident, Story};

/// The look of a drawing; a page sets the variables, a standalone drawing uses these.
const STYLE: &str = include_str!("style.css");
const COLOURS: &str = ":root{--ink:#1f2328;--muted:#59636e;--line:#d1d9e0;--paper:#ffffff;--bar:#4a5a70;--bar-ink:#ffffff;--bad:#c4314b;--bad-wash:rgba(196,49,75,.11);--by-time:#1a62c5;--pause:#a0b1e9;--pause-ink:#1f2a5a;--pause-wash:rgba(160,177,233,.30);--value:#eef1f4}";

/// The drawing as an SVG element for the page; None if there is nothing to draw.
pub fn inline(story: &Story, incident: &Incident, title: &str) -> Option<maud::Markup> {
    Some(of_scene(&scene::Scene::new(story, incident)?, title))
}

/// The drawing as a standalone SVG file.
pub fn standalone(story: &Story, incident: &Incident, title: &str) -> Option<String> {
    Some(standalone_of_scene(&scene::Scene::new(story, incident)?, title))
}

/// A scene as an SVG element for a page.
pub fn of_scene(scene: &scene::Scene, title: &str) -> maud::Markup {
    draw::draw(scene, title, None)
}

/// A scene as a standalone SVG file.
pub fn standalone_of_scene(scene: &scene::Scene, title: &str) -> String {
    draw::draw(scene, title, Some(&format!("{COLOURS}{STYLE}"))).into_string()
}

/// The colours that a page sets, for drawings without a page.
pub fn colours() -> &'static str {
    COLOURS
}

/// The style that drawings on a page need, once per page.
pub fn style() -> &'static str {
    STYLE
}
