//! The report of a run: a page, pictures, numbers and a few lines of text.
//!
//! Everything here prints or draws a [`Report`], whose content comes from `summary`. Only [`write()`] touches the disk. It must
//! work for every history that loads: without a header, without a clock, truncated, or with values that a user's client made
//! up.
//!
//! - [`incident`]: the drawing of one incident
//! - [`counterexample`]: the smallest set of operations that no order explains, in words and as a drawing
//! - [`linear`]: the result of a check against a model
//! - [`plots`]: the four plots
//! - [`mod@drawing`]: the parts of these drawings
//! - [`matrix`]: the result of a suite run
//! - [`export`]: a run for other tools
//! - [`foreign`]: pages of other programs in a store
//! - `timeline`: the run on a time axis, and the table of its operations
//! - [`store`]: all runs and suites of a store; [`compare`]: one side against another
//! - [`mod@html`], [`terminal`], [`results_json`]: the three ways to read a run

pub mod compare;
mod counterexample;
pub mod doctor;
pub mod drawing;
pub mod export;
pub mod foreign;
pub mod html;
pub mod incident;
pub mod linear;
pub mod matrix;
pub mod plots;
pub mod serve;
pub mod store;
mod terminal;
mod timeline;

use std::io;
use std::path::Path;
use std::sync::OnceLock;

pub use counterexample::{Counterexample, Origin};
pub use html::{html, linear_html};
use plots::Plot;
pub use terminal::{Look, point_to, pointers, summary};

use base::files::{self, FileError, Unwritten};
use base::sync::both;
use checker::{Validity, advise};
use model::history::{RecordedCommand, Sighting};
pub use summary::{RunFacts, Subject};
use summary::{RunSummary, Story};

/// The word of a verdict, and its class on a page.
pub fn verdict_word(valid: Validity) -> (&'static str, &'static str) {
    match valid {
        Validity::Valid => ("VALID", "valid"),
        Validity::Invalid => ("INVALID", "invalid"),
        Validity::Unknown => ("UNKNOWN", "unknown"),
    }
}

pub struct Report<'a> {
    pub summary: RunSummary,
    /// The source of the drawings.
    pub story: Story<'a>,
    /// The smallest proof that updates were lost. None if there is none, or if the search was not run.
    pub minimal_counterexample: Option<&'a Counterexample>,
    /// Records of the run besides the history.
    pub artifacts: Option<&'a RunArtifacts>,
    pub pictures: Pictures,
    /// The plots, drawn on first use.
    plots: OnceLock<Vec<Plot>>,
}

/// Files in a run's folder, besides the history, that the timeline shows. Verdicts do not depend on them.
#[derive(Clone, Debug, Default)]
pub struct RunArtifacts {
    /// The keys that the lock's nodes held. Empty if they were not recorded.
    pub servers: Vec<Sighting>,
    /// Why the records cannot be read. None if they can.
    pub unread: Option<String>,
    /// The members' log lines, in the order of time.
    pub logs: Vec<LogLine>,
    /// The commands that the lock's nodes executed. Empty if they were not recorded.
    pub commands: Vec<RecordedCommand>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Nanoseconds since the run began, by the member's own wall clock.
    pub time: u64,
    pub member: String,
    pub text: String,
}

impl<'a> Report<'a> {
    pub fn new(subject: Subject<'a>, minimal_counterexample: Option<&'a Counterexample>) -> Report<'a> {
        let story = Story::new(subject);
        Report {
            summary: RunSummary::new(&story),
            story,
            minimal_counterexample,
            artifacts: None,
            pictures: Pictures::Painted,
            plots: OnceLock::new(),
        }
    }

    /// The report with records besides the history.
    pub fn with(mut self, artifacts: &'a RunArtifacts) -> Report<'a> {
        if !artifacts.commands.is_empty() {
            let Subject { history, verdict, .. } = self.story.subject;
            self.summary.advisories = advise(history, verdict, &artifacts.commands);
            self.story.follow(&artifacts.commands);
            self.summary.diagnose(&self.story);
        }
        Report { artifacts: Some(artifacts), ..self }
    }

    /// The plots. The page and the folder share them.
    fn plots(&self) -> &[Plot] {
        self.plots.get_or_init(|| plots::all(&self.story))
    }
}

/// At most this many incidents are described and drawn in full. The others are rows of a table.
const INCIDENTS_IN_FULL: usize = 5;

/// The name of the file with an incident's picture, in the report's folder. Incidents count from 0.
fn incident_file(number: usize, kind: &str) -> String {
    format!("incident-{}.{kind}", number + 1)
}

/// Determines if a run gets PNG files, or only the same pictures as SVG on its page. Painting takes as long as simulating a
/// run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pictures {
    Painted,
    OnPageOnly,
}

/// Writes `results.json`, `report.html`, and the SVG drawings of the first incidents and of the counterexample into `dir`. If
/// pictures are painted, also writes the incidents and the four plots as PNG. Each file is written completely or not at all. A
/// failure does not stop the other files.
pub fn write(dir: &Path, report: &Report) -> Result<(), Unwritten> {
    let mut unwritten = Unwritten::default();
    let mut put = |name: &str, content: &[u8]| unwritten.note(files::write(&dir.join(name), content));
    put("results.json", results_json(report).as_bytes());
    let paint = || if report.pictures == Pictures::Painted { paint_pictures(report) } else { Vec::new() };
    let (pictures, page) = both(report.story.subject.history.is_long(), paint, || html(report));
    put("report.html", page.as_bytes());
    if let Some(minimal_counterexample) = report.minimal_counterexample {
        put("counterexample.svg", minimal_counterexample.standalone().as_bytes());
    }
    for number in 0..report.story.incidents.len().min(INCIDENTS_IN_FULL) {
        if let Some(svg) = drawing(report, number) {
            put(&incident_file(number, "svg"), svg.as_bytes());
        }
    }
    for (name, png) in pictures {
        let path = dir.join(name);
        let png = png.map_err(|error| FileError::write(&path, io::Error::other(error)));
        unwritten.note(png.and_then(|png| files::write(&path, png)));
    }
    unwritten.conclude()
}

/// The pictures of the first incidents and the four plots, with the names of their files.
fn paint_pictures(report: &Report) -> Vec<(String, Result<Vec<u8>, String>)> {
    let plots = report.plots().iter().map(|plot| (format!("{}.png", plot.name), plots::png(&plot.picture)));
    let told = report.story.incidents.iter().zip(&report.summary.incidents).enumerate();
    let incidents = told.take(INCIDENTS_IN_FULL).filter_map(|(number, (incident, account))| {
        let scene = incident::Scene::new(&report.story, incident, account)?;
        Some((incident_file(number, "png"), plots::png(&incident::paint(&scene))))
    });
    incidents.chain(plots).collect()
}

/// The content of `results.json`: the summary, for programs.
pub fn results_json(report: &Report) -> String {
    let mut text = serde_json::to_string_pretty(&report.summary).expect("a summary has string keys only");
    text.push('\n');
    text
}

/// The drawing of an incident, counted from 0, as a standalone SVG file; None if there is nothing to draw.
pub fn drawing(report: &Report, number: usize) -> Option<String> {
    let (incident, account) = (report.story.incidents.get(number)?, report.summary.incidents.get(number)?);
    let scene = incident::Scene::new(&report.story, incident, account)?;
    Some(incident::draw(&scene, &account.text(), true).into_string())
}
