//! The page of one run: its result or progress, its files, and the command to repeat it.

use maud::{Markup, html};

use super::{At, FileEntry, bytes, seconds, when, word};
use crate::html::{command, prose};
use base::words::{count, line, percent, plural, sanitize};
use model::scenario::quoted;
use summary::store::{LiveStatus, Results, Run, StoredState};

/// These files come first in the list.
const FIRST: [&str; 2] = ["report.html", "results.json"];

pub fn run(at: At, run: &Run, files: &[FileEntry]) -> String {
    let (word, class) = word(&run.state);
    let heading = match class {
        "held" => "valid",
        "broken" => "invalid",
        "going" => "going",
        _ => "unknown",
    };
    let name = match &run.state {
        StoredState::Done(results) => names(results.workload.as_deref(), results.nemesis.as_deref()),
        StoredState::Going(moment) | StoredState::BrokenOff(Some(moment)) => {
            names(Some(&moment.workload), Some(&moment.nemesis))
        }
        _ => sanitize(&run.path, 120),
    };
    let report = files.iter().find(|file| file.path == "report.html" && file.here);
    let content = html! {
        header class={ "verdict " (heading) } {
            p class="about" { span { (name) } span { (when(run.time())) } }
            h1 { (word.to_uppercase()) }
            @match &run.state {
                StoredState::Done(results) => p class="headline" { (prose(&line(&results.summary, 600))) },
                StoredState::Going(moment) => (going(at, moment)),
                StoredState::BrokenOff(last) => p class="headline" { (prose(&broken_off(last.as_ref()))) },
                StoredState::Unreadable(why) => p class="headline" { "Its results cannot be read: " (line(why, 300)) },
            }
            @if report.is_some() {
                p { a class="button" href=(at.file(&format!("{}/report.html", run.path))) { "Open the report" } }
            }
        }
        @if let StoredState::Done(results) = &run.state { (numbers(results)) (setting(results)) }
        (again(at, run))
        (list(at, run, files))
    };
    let head = html! { @if let Some(suite) = suite_of(&run.path) { a href=(at.suite(suite)) { "suite " (sanitize(suite, 60)) } } };
    at.page(&[word, &name], &head, &content)
}

fn names(workload: Option<&str>, nemesis: Option<&str>) -> String {
    let text = |name: Option<&str>| sanitize(name.unwrap_or("unknown"), 60);
    format!("{} under {}", text(workload), text(nemesis))
}

fn suite_of(path: &str) -> Option<&str> {
    let mut parts = path.split('/');
    parts.find(|part| *part == "suites")?;
    parts.next()
}

/// The progress of a run, in a line.
pub(super) fn far(moment: &LiveStatus) -> String {
    let stage = sanitize(&moment.stage, 60);
    let Some(at_s) = moment.at_s else { return stage };
    let of = moment.of_s.map_or(String::new(), |of| format!(" of {of:.0}"));
    let faults: Vec<String> = moment.faults.iter().map(|fault| sanitize(fault, 60)).collect();
    let faults = if faults.is_empty() { String::new() } else { format!(" · {}", faults.join(", ")) };
    format!("{stage} · {at_s:.0}{of} s · {}{faults}", plural(moment.ok, "update"))
}

fn going(at: At, moment: &LiveStatus) -> Markup {
    let share = moment.at_s.zip(moment.of_s).map(|(at, of)| (at / of.max(1e-3)).clamp(0.0, 1.0));
    let rate = moment.at_s.filter(|at| *at >= 1.0).map(|at| moment.ok as f64 / at);
    let faults: Vec<String> = moment.faults.iter().map(|fault| sanitize(fault, 100)).collect();
    html! {
        div id="live" data-look=[at.live.then_some("")] data-going="1" {
            p class="headline" { (far(moment)) }
            @if let Some(share) = share { progress max="1" value={ (format!("{share:.3}")) } aria-label="progress of the run" {} }
            table class="pairs" { tbody {
                tr { th { "operations" } td {
                    (count(moment.ok)) " ok, " (count(moment.fail)) " fail, " (count(moment.info)) " info"
                    @if let Some(rate) = rate { ", " (format!("{rate:.1}")) " acknowledged per second" }
                } }
                tr { th { "fault now" } td { @if faults.is_empty() { "none" } @else { (faults.join(", ")) } } }
                tr { th { "so far" } td {
                    (plural(moment.overlaps, "overlap")) ", "
                    @if moment.lost == 0 { "nothing lost" } @else { "at least " (plural(moment.lost, "update")) " lost" }
                    ", according to the clients; the verdict is checked at the end"
                } }
                @for note in &moment.notes { tr { th { "note" } td { (line(note, 300)) } } }
            } }
        }
    }
}

fn broken_off(last: Option<&LiveStatus>) -> String {
    match last {
        Some(moment) if moment.stage == "done" => "The run ended, but its results are gone.".to_string(),
        Some(moment) => match moment.reason() {
            Some(why) => format!("The run ended without results: {}.", line(why, 600).trim_end_matches('.')),
            None => format!("The run ended without results. Its last reported state: {}.", far(moment)),
        },
        None => "It has no results: it ended before its first operation, or an earlier version of redjepsen wrote it."
            .to_string(),
    }
}

fn numbers(results: &Results) -> Markup {
    let lost = results.lost_updates;
    let latency = results.latency.map(|latency| (latency.median_ms, latency.p99_ms));
    let rate = results.acknowledged_per_second;
    html! {
        dl class="numbers" {
            div class=[(lost.count > 0).then_some("bad")] {
                dt { "acknowledged updates lost" }
                dd { (count(lost.count)) small { " of " (count(lost.acknowledged)) ", " (percent(lost.fraction)) } }
            }
            div class=[(results.mutual_exclusion.violations > 0).then_some("bad")] {
                dt { "overlaps" }
                dd { (count(results.mutual_exclusion.violations)) small { " among " (count(results.mutual_exclusion.comparable_holds)) " holds" } }
            }
            div {
                dt { "latency of acknowledged operations" }
                dd { @match latency {
                    Some((median, p99)) => { (ms(median)) small { " median, " (ms(p99)) " p99" } },
                    None => small { "not recorded" },
                } }
            }
            div {
                dt { "acknowledged per second" }
                dd { @match rate { Some(rate) => { (format!("{rate:.1}")) }, None => small { "none" } } small { " in " (seconds(results.busy_s)) } }
            }
        }
    }
}

pub(super) fn ms(ms: f64) -> String {
    base::words::length((ms.clamp(0.0, 1e12) * 1e6) as u64)
}

fn setting(results: &Results) -> Markup {
    html! {
        details {
            summary { "What was run, and where" }
            table class="pairs" { tbody {
                @for row in &results.setting { tr { th { (sanitize(&row.name, 60)) } td { (line(&row.text, 600)) } } }
                @for (name, version) in &results.versions { tr { th { (sanitize(name, 60)) } td { (sanitize(version, 200)) } } }
            } }
        }
    }
}

fn again(at: At, run: &Run) -> Markup {
    let repeat = match &run.state {
        StoredState::Done(results) if !results.repeat.is_empty() => line(&results.repeat, 600),
        _ => format!("redjepsen run --scenario {}", line(&quoted(&format!("{}/{}", at.store, run.path)), 400)),
    };
    html! {
        section id="again" {
            h2 { "Run again" }
            @if matches!(&run.state, StoredState::BrokenOff(Some(last)) if last.reason().is_some()) {
                p { "Remove the reason above first: the same command would end in the same way." }
            }
            (command(&repeat))
        }
    }
}

fn list(at: At, run: &Run, files: &[FileEntry]) -> Markup {
    let mut sorted: Vec<&FileEntry> = files.iter().collect();
    let rank = |file: &FileEntry| FIRST.iter().position(|name| file.path == *name).unwrap_or(FIRST.len());
    sorted.sort_by_key(|file| (rank(file), file.path.matches('/').count(), file.path.clone()));
    html! {
        section id="files" {
            h2 { "Files " span class="count" { (files.len()) } }
            ul class="files" { @for file in sorted {
                li {
                    @if file.here { a href=(at.file(&format!("{}/{}", run.path, file.path))) { (sanitize(&file.path, 120)) } }
                    @else { (sanitize(&file.path, 120)) }
                    " " span class="fine" { (bytes(file.bytes)) @if !file.here { ", in the store only" } }
                }
            } }
        }
    }
}
