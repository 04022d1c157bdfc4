//! What a person takes away from a run: a page, pictures, numbers and a few lines of text.
//!
//! Everything here is a pure function of a [`Report`]; only [`write()`] touches the disk. A report never decides
//! anything: it says in words and drawings what the checker concluded. It must be able to do so for every history that
//! loads: without a header, without a clock, cut off in the middle, or with values that a user's client made up.
//!
//! - [`facts`]: what neither scenario nor history contains
//! - [`story`]: anomalies grouped into incidents, and the names of those involved
//! - [`explain`]: the sentences
//! - [`ends`]: how counters and lists ended, in words
//! - [`incident`]: the drawing of one incident
//! - [`counterexample`]: the smallest set of operations that no order explains, in words and as a drawing
//! - [`linear`]: what a check against a model found
//! - [`plots`]: the four plots
//! - [`matrix`]: what a suite of runs showed
//! - [`html`], [`terminal`], [`results_json`]: the three ways to read it

mod axis;
mod claims;
mod counterexample;
mod ends;
mod explain;
mod facts;
mod html;
mod incident;
pub mod linear;
pub mod matrix;
mod moments;
mod plots;
mod results;
mod story;
mod terminal;

use std::io;
use std::path::Path;

pub use counterexample::{Counterexample, Origin};
pub use explain::{explain, headline};
pub use facts::RunFacts;
pub use html::{html, linear_html};
pub use results::results_json;
pub use story::{Incident, Story};
pub use terminal::terminal;

use crate::checker::Verdict;
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

/// Writes `report.html`, `results.json`, the four plots as PNG, a drawing of each of the first incidents, and one of
/// the counterexample into `dir`.
pub fn write(dir: &Path, report: &Report) -> io::Result<()> {
    std::fs::write(dir.join("results.json"), results_json(report))?;
    std::fs::write(dir.join("report.html"), html(report))?;
    let story = Story::new(report);
    for plot in plots::all(&story) {
        let png = plots::png(&plot.picture).map_err(io::Error::other)?;
        std::fs::write(dir.join(format!("{}.png", plot.name)), png)?;
    }
    if let Some(minimal_counterexample) = report.minimal_counterexample {
        std::fs::write(dir.join("counterexample.svg"), minimal_counterexample.standalone())?;
    }
    for number in 0..story.incidents.len().min(INCIDENTS_IN_FULL) {
        if let Some(svg) = drawing(report, number) {
            std::fs::write(dir.join(format!("incident-{}.svg", number + 1)), svg)?;
        }
    }
    Ok(())
}

/// The drawing of an incident, counted from 0, as a standalone SVG file; None if there is nothing to draw.
pub fn drawing(report: &Report, number: usize) -> Option<String> {
    let story = Story::new(report);
    story.incidents.get(number).and_then(|incident| incident::standalone(&story, incident))
}
