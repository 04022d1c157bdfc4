//! The page of all runs and suites of a store.

use maud::{Markup, PreEscaped, html};
use serde_json::json;

use super::{At, seconds, when, word};
use base::words::{count, line, percent, plural, sanitize};
use suite::matrix::Overall;
use summary::store::{LiveStatus, Night, NightState, Run, Snapshot, StoredState};

/// At most this many runs are shown at once.
const SHOWN: usize = 100;

pub fn index(at: At, snapshot: &Snapshot) -> String {
    let content = html! {
        h1 class="plain" { (answer(snapshot)) }
        (in_progress(at, snapshot))
        @if !snapshot.suites.is_empty() { (suites(at, snapshot)) }
        (runs(at, snapshot))
    };
    at.page(&["store"], &html! {}, &content)
}

/// The state of the store in a sentence: that of its suites or, without any, of its runs.
fn answer(snapshot: &Snapshot) -> String {
    if snapshot.suites.is_empty() {
        let all = snapshot.runs.len() as u64;
        let is_invalid = |run: &&Run| word(&run.state).0 == "invalid";
        return match (snapshot.runs.iter().filter(is_invalid).count() as u64, all) {
            (_, 0) => "No runs yet".to_string(),
            (0, all) => format!("No violation in {}", plural(all, "run")),
            (invalid, all) => format!("Violations in {} of {}", count(invalid), plural(all, "run")),
        };
    }
    let of = |wanted: Option<Overall>| -> Vec<String> {
        let last = |nights: &[Night]| nights.last().and_then(Night::results).map(|results| results.verdict);
        let judged = snapshot.suites.iter().filter(|(_, nights)| !nights.last().is_some_and(is_observed));
        judged.filter(|(_, nights)| last(nights) == wanted).map(|(name, _)| sanitize(name, 40)).collect()
    };
    let (surprises, unfinished) = (of(Some(Overall::Surprise)), [of(Some(Overall::Unknown)), of(None)].concat());
    match (&surprises[..], &unfinished[..]) {
        ([], []) if of(Some(Overall::AsExpected)).len() < snapshot.suites.len() => "No unexpected results".to_string(),
        ([], []) => "All suites are as expected".to_string(),
        ([], [one]) => format!("Results are missing in {one}"),
        ([], several) => format!("Results are missing in {} suites", several.len()),
        ([one], _) => format!("Unexpected results in {one}"),
        (several, _) => format!("Unexpected results in {} suites", several.len()),
    }
}

/// True if a suite run is complete and has no expectations, such as a sweep. Then no result is missing.
fn is_observed(night: &Night) -> bool {
    night.results().is_some_and(|results| results.counts.observed == results.cells.len() as u64)
}

/// Only the runs in progress. The page of all runs fetches this part repeatedly.
pub fn live(at: At, snapshot: &Snapshot) -> String {
    in_progress(at, snapshot).into_string()
}

fn in_progress(at: At, snapshot: &Snapshot) -> Markup {
    let going = snapshot.runs.iter().filter_map(|run| match &run.state {
        StoredState::Going(moment) => Some((run, moment)),
        _ => None,
    });
    let going: Vec<(&Run, &LiveStatus)> = going.collect();
    html! {
        section id="live" data-look=[at.live.then_some("live.html")] data-going=(going.len())
            class=[going.is_empty().then_some("nothing")] {
            @if !going.is_empty() {
                h2 { "In progress " span class="count" { (going.len()) } }
                @for (run, moment) in going {
                    p class="going" {
                        a href=(at.run(&run.path)) { (sanitize(&moment.workload, 60)) " under " (sanitize(&moment.nemesis, 60)) }
                        " · seed " (moment.seed) " · " (super::run::far(moment))
                    }
                }
            }
        }
    }
}

fn suites(at: At, snapshot: &Snapshot) -> Markup {
    html! {
        section id="suites" {
            h2 { "Suites" }
            div class="wide" tabindex="0" role="group" aria-label="Table" { table class="stack" {
                thead { tr { th { "suite" } th { "last result" } th { "when" } th { "summary" } th class="n" { "suite runs" } } }
                tbody { @for (name, nights) in &snapshot.suites {
                    @let last = nights.last();
                    tr {
                        td { a href=(at.suite(name)) { b { (sanitize(name, 60)) } } }
                        td { (last.map_or(html! {}, verdict)) }
                        td class="n" { (last.map_or(String::new(), |night| when(night.time()))) }
                        td { (last.and_then(Night::results).map_or("–".to_string(), |results| line(&results.headline, 300))) }
                        td class="n" data-head="suite runs" { (nights.len()) }
                    }
                } }
            } }
        }
    }
}

pub(super) fn verdict(night: &Night) -> Markup {
    let (class, word) = match &night.state {
        NightState::Done(results) => {
            let class = match results.verdict {
                Overall::AsExpected => "held",
                Overall::Surprise => "broken",
                Overall::Unknown if is_observed(night) => "open",
                Overall::Unknown => "unproven",
            };
            (class, results.word.to_lowercase())
        }
        NightState::Open => ("open", "not finished".to_string()),
        NightState::Unreadable(_) => ("open", "unreadable".to_string()),
    };
    html! { b class={ "mark " (class) } { (word) } }
}

fn runs(at: At, snapshot: &Snapshot) -> Markup {
    let heads = [
        ("verdict", ""),
        ("workload and nemesis", ""),
        ("lost", "n"),
        ("overlaps", "n"),
        ("took", "n"),
        ("on", ""),
        ("when", "n"),
    ];
    html! {
        section id="runs" data-shown=(SHOWN) {
            h2 { "Runs " span class="count" id="found" { (count(snapshot.runs.len() as u64)) } }
            div class="tools" hidden {
                label { span { "Search" } input id="search" type="search" placeholder="redlock pause 7.0.15 …" autocomplete="off"; }
                label { span { "Verdict" } select id="verdict" {
                    option value="" { "all" }
                    @for word in ["valid", "invalid", "unknown", "in progress", "broken off"] { option { (word) } }
                } }
                label { span { "Of" } select id="kind" {
                    option value="" { "all" } option value="s" { "simulated" } option value="r" { "real" }
                } }
            }
            div class="wide" tabindex="0" role="group" aria-label="Table" { table class="runs" {
                thead { tr { @for (head, class) in heads { th class=[(!class.is_empty()).then_some(class)] scope="col" { (head) } } } }
                tbody { @for run in snapshot.runs.iter().take(SHOWN) { (row(at, run)) } }
            } }
            p class="fine" id="more" {
                @if snapshot.runs.len() > SHOWN { "The newest " (SHOWN) " of " (plural(snapshot.runs.len() as u64, "run")) "." }
                @if snapshot.runs.is_empty() { "This store has no runs yet. " code { "redjepsen run" } " creates one." }
            }
            script type="application/json" id="data" { (PreEscaped(data(at, snapshot))) }
        }
    }
}

/// The fields of a row, for the page and for its script.
#[derive(Default)]
struct RowFields {
    word: &'static str,
    class: &'static str,
    workload: String,
    nemesis: String,
    seed: Option<u64>,
    lost: String,
    overlaps: String,
    took_s: f64,
    on: String,
    simulated: bool,
    /// The sort key of the column.
    share: f64,
}

impl RowFields {
    fn of(run: &Run) -> RowFields {
        let (word, class) = word(&run.state);
        let name = run.path.rsplit('/').nth(1).unwrap_or_default();
        let fields = RowFields { word, class, workload: sanitize(name, 80), ..RowFields::default() };
        match &run.state {
            StoredState::Done(results) => {
                let lost = results.lost_updates;
                let text = |name: &Option<String>| name.as_deref().map_or(String::new(), |name| sanitize(name, 60));
                let versions = ["redjepsen", "server"].iter().filter_map(|name| results.versions.get(*name));
                let versions: Vec<String> = versions.map(|version| sanitize(version, 60)).collect();
                RowFields {
                    workload: if results.workload.is_some() {
                        text(&results.workload)
                    } else {
                        fields.workload.clone()
                    },
                    nemesis: text(&results.nemesis),
                    seed: results.seed,
                    lost: match (lost.count, lost.acknowledged) {
                        (0, 0) => "–".to_string(),
                        (0, of) => format!("0 of {}", count(of)),
                        (some, of) => format!("{} of {}, {}", count(some), count(of), percent(lost.fraction)),
                    },
                    overlaps: count(results.mutual_exclusion.violations),
                    took_s: results.busy_s,
                    on: versions.join(" · "),
                    simulated: results.simulated,
                    share: if lost.fraction.is_finite() { lost.fraction } else { 0.0 },
                    ..fields
                }
            }
            StoredState::Going(moment) | StoredState::BrokenOff(Some(moment)) => RowFields {
                workload: sanitize(&moment.workload, 60),
                nemesis: sanitize(&moment.nemesis, 60),
                seed: Some(moment.seed),
                took_s: moment.at_s.unwrap_or_default(),
                ..fields
            },
            StoredState::BrokenOff(None) | StoredState::Unreadable(_) => fields,
        }
    }
}

/// A row, as the script would write it.
fn row(at: At, run: &Run) -> Markup {
    let fields = RowFields::of(run);
    html! {
        tr {
            td { b class={ "mark " (fields.class) } { (fields.word) } @if fields.simulated { " " span class="sim" { "simulated" } } }
            td {
                a href=(at.run(&run.path)) {
                    (fields.workload) @if !fields.nemesis.is_empty() { " under " (fields.nemesis) }
                }
                @if let Some(seed) = fields.seed { " " span class="seed" { "seed " (seed) } }
            }
            td class="n" { (fields.lost) }
            td class="n" { (fields.overlaps) }
            td class="n" { (seconds(fields.took_s)) }
            td class="on" { (fields.on) }
            td class="n" { (when(run.time())) }
        }
    }
}

/// All runs, for the script. The text cannot close the element that contains it.
fn data(at: At, snapshot: &Snapshot) -> String {
    let rows = snapshot.runs.iter().map(|run| {
        let of = RowFields::of(run);
        json!([
            at.run(&run.path),
            of.word,
            of.class,
            of.workload,
            of.nemesis,
            of.seed,
            of.lost,
            of.share,
            of.overlaps,
            seconds(of.took_s),
            of.took_s,
            of.on,
            when(run.time()),
            run.time(),
            u8::from(of.simulated)
        ])
    });
    serde_json::Value::Array(rows.collect()).to_string().replace('<', "\\u003c")
}
