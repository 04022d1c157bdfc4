//! The common parts of the page: the look of a cell's result, and links to the reports of its runs.

use maud::{Markup, html};

use crate::html::address;
use checker::Validity;
use suite::outcome::CellStatus;
use summary::table::{CellAccount, RunAccount, Shown};

pub fn shown_class(shown: Shown) -> &'static str {
    match shown {
        Shown::Held => "held",
        Shown::Broken => "broken",
        Shown::Unknown => "unproven",
        Shown::NotRun => "open",
    }
}

pub fn runs(cell: &CellAccount, most: usize) -> Markup {
    html! {
        @if !cell.runs.is_empty() { (if cell.runs.len() == 1 { "run " } else { "runs " }) }
        (links(cell, most))
    }
}

/// Links to the reports of the cell's runs, by number, at most `most`.
pub fn links(cell: &CellAccount, most: usize) -> Markup {
    html! {
        @for run in cell.runs.iter().take(most) { (link(run, &run.run.to_string())) " " }
        @if cell.runs.len() > most { "…" }
    }
}

/// A link to a run's report, in the class of its result.
pub fn link(run: &RunAccount, text: &str) -> Markup {
    let (class, word) = match run.valid {
        Some(Validity::Valid) => ("held", "valid"),
        Some(Validity::Invalid) => ("broken", "violation"),
        Some(Validity::Unknown) => ("unproven", "unknown"),
        None => ("unproven", "could not run"),
    };
    let title = format!("run {}, seed {}: {word}", run.run, run.seed);
    html! {
        @if run.folder.is_empty() || run.folder.starts_with('/') || run.valid.is_none() { span class={ "run " (class) } title=(title) { (text) } }
        @else { a class={ "run " (class) } title=(title) href=(reference(&run.folder)) { (text) } }
    }
}

/// The address of a run's report, relative to this page. A browser cannot read a folder name as another kind of address.
fn reference(folder: &str) -> String {
    address(&format!("{folder}/report.html"))
}

pub fn class(cell: &CellAccount) -> &'static str {
    match cell.standing {
        CellStatus::AsExpected => "met",
        CellStatus::Surprise => "surprise",
        CellStatus::Unknown => "unproven",
        CellStatus::NotRun => "open",
        CellStatus::Observed => "observed",
    }
}
