//! The links of a run's page: its own parts, each incident, and the suite.

use maud::{Markup, html};

use super::diagnoses;
use crate::INCIDENTS_IN_FULL;
use base::words::sanitize;
use summary::RunSummary;

pub fn contents(summary: &RunSummary) -> Markup {
    let incidents = summary.incidents.len();
    html! {
        nav class="contents" aria-label="Contents" {
            @if let Some(matrix) = matrix(&summary.folder) { a href=(matrix) { "← the suite's matrix" } }
            @if diagnoses::is_shown(summary) { a href="#diagnoses" { (diagnoses::title(summary)) } }
            a href="#incidents" { "Incidents" }
            @for (number, incident) in summary.incidents.iter().enumerate().take(INCIDENTS_IN_FULL) {
                a href={ "#incident-" (number + 1) } title=(sanitize(&incident.what, 200)) { (number + 1) }
            }
            @if incidents > INCIDENTS_IN_FULL { span { "of " (incidents) } }
            @if summary.counts.ok + summary.counts.fail + summary.counts.info > 0 {
                a href="#timeline" { "Time axis" }
            }
            a href="#claims" { "Claims" }
            a href="#plots" { "Plots" }
            a href="#gates" { "Gates" }
            a href="#terms" { "Words" }
            a href="#scenario" { "Setting" }
            a href="#repeat" { "Repeat" }
        }
    }
}

/// The relative path to the suite's matrix, for a run in this folder. None if the run belongs to no suite.
fn matrix(folder: &str) -> Option<&'static str> {
    let parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    match parts[..] {
        [.., "suites", _, _, "runs", _, _] => Some("../../../matrix.html"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_a_suite_leads_back_to_it_and_no_other_does() {
        let back = Some("../../../matrix.html");
        for (folder, expected) in [
            ("store/suites/smoke/20261124T1/runs/redlock-pause/20261124T2", back),
            ("/a/store/suites/smoke/20261124T1/runs/redlock-pause/20261124T2/", back),
            ("store/redlock-pause/20261124T2", None),
            ("store/suites/smoke/20261124T1", None),
            ("", None),
        ] {
            assert_eq!(matrix(folder), expected, "{folder}");
        }
    }
}
