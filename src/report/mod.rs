//! What a person takes away from a run: a page, pictures, numbers and a few lines of text.
//!
//! Everything here is a pure function of a [`Report`]; only [`write()`] touches the disk. A report never decides
//! anything: it says in words and drawings what the checker concluded. It must be able to do so for every history that
//! loads: without a header, without a clock, cut off in the middle, or with values that a user's client made up.
//!
//! - [`facts`]: what neither scenario nor history contains
//! - [`story`]: anomalies grouped into incidents, and the names of those involved
//! - [`headline`], [`explain`]: the sentences on a run and on an incident
//! - [`ends`]: how counters and lists ended, in words
//! - [`incident`]: the drawing of one incident
//! - [`counterexample`]: the smallest set of operations that no order explains, in words and as a drawing
//! - [`linear`]: what a check against a model found
//! - [`exploration`]: what a search of a model found
//! - [`risk`]: how often a lock loses updates
//! - [`plots`]: the four plots
//! - [`matrix`]: what a suite of runs showed
//! - [`html`], [`terminal`], [`results_json`]: the three ways to read it

mod axis;
mod claims;
mod counterexample;
mod ends;
mod explain;
pub mod exploration;
mod facts;
mod headline;
mod html;
mod incident;
pub mod linear;
pub mod matrix;
mod moments;
mod plots;
mod results;
pub mod risk;
mod story;
mod terminal;

use std::io;
use std::path::Path;

pub use counterexample::{Counterexample, Origin};
pub use explain::{explain, tell};
pub use facts::RunFacts;
pub use headline::headline;
pub use html::{html, linear_html};
pub use results::results_json;
pub use story::{Incident, Story};
pub use terminal::{Look, point_to, pointers, summary, terminal};

use crate::checker::Verdict;
use crate::files::{self, FileError, Unwritten};
use crate::history::History;
use crate::scenario::Scenario;

/// Everything that a report is made from.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// None if only a history was given.
    pub scenario: Option<&'a Scenario>,
    pub history: &'a History,
    pub verdict: &'a Verdict,
    pub facts: &'a RunFacts,
    /// The smallest argument for a verdict that updates were lost; None if there is none, or nobody searched for it.
    pub minimal_counterexample: Option<&'a Counterexample>,
}

/// How many incidents are told and drawn in full; the rest are rows of a table.
const INCIDENTS_IN_FULL: usize = 5;

/// Writes `results.json`, `report.html`, the four plots as PNG, a drawing of each of the first incidents, and one of
/// the counterexample into `dir`: each whole or not at all, and as many of them as can be written.
pub fn write(dir: &Path, report: &Report) -> Result<(), Unwritten> {
    let mut unwritten = Unwritten::default();
    let mut put = |name: &str, content: &[u8]| unwritten.note(files::write(&dir.join(name), content));
    put("results.json", results_json(report).as_bytes());
    put("report.html", html(report).as_bytes());
    if let Some(minimal_counterexample) = report.minimal_counterexample {
        put("counterexample.svg", minimal_counterexample.standalone().as_bytes());
    }
    let story = Story::new(report);
    for number in 0..story.incidents.len().min(INCIDENTS_IN_FULL) {
        if let Some(svg) = drawing(report, number) {
            put(&format!("incident-{}.svg", number + 1), svg.as_bytes());
        }
    }
    for plot in plots::all(&story) {
        let path = dir.join(format!("{}.png", plot.name));
        let png = plots::png(&plot.picture).map_err(|error| FileError::write(&path, io::Error::other(error)));
        unwritten.note(png.and_then(|png| files::write(&path, png)));
    }
    unwritten.conclude()
}

/// The drawing of an incident, counted from 0, as a standalone SVG file; None if there is nothing to draw.
pub fn drawing(report: &Report, number: usize) -> Option<String> {
    let story = Story::new(report);
    story.incidents.get(number).and_then(|incident| incident::standalone(&story, incident))
}
