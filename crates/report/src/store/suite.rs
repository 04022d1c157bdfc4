//! The page of a suite's runs: the result of each, and the trend of each cell. It marks the first run that changed, and what
//! else changed with it.

use maud::{Markup, PreEscaped, html};

use super::index::verdict;
use super::{At, seconds, when};
use crate::drawing::px;
use crate::html::command;
use base::words::{count, line, percent, sanitize};
use suite::outcome::CellStatus;
use summary::store::night::{Point, Results, Since, Trend, suite_changed, trends, versions_changed};
use summary::store::{Night, NightState};

/// At most this many suite runs are shown in a trend.
const NIGHTS: usize = 60;

pub fn suite(at: At, name: &str, nights: &[Night]) -> String {
    let known: Vec<(&Night, &Results)> = nights.iter().filter_map(|night| Some((night, night.results()?))).collect();
    let shown = &known[known.len().saturating_sub(NIGHTS)..];
    let results: Vec<&Results> = shown.iter().map(|(_, results)| *results).collect();
    let mut trends = trends(&results);
    // Cells that changed come first.
    trends.sort_by_key(|trend| !changed(trend));
    let last = known.last().map(|(_, results)| *results);
    let content = html! {
        p class="about" { span { "suite" } }
        h1 class="plain" { (sanitize(name, 80)) }
        @if let Some(last) = last { p class="headline" { (line(&last.headline, 300)) } (command(&line(&last.repeat, 400))) }
        (list(at, nights))
        @if !trends.is_empty() { (cells(&trends, shown)) }
    };
    at.page(&[name], &html! {}, &content)
}

fn list(at: At, nights: &[Night]) -> Markup {
    html! {
        section id="nights" {
            h2 { "Suite runs " span class="count" { (nights.len()) } }
            div class="wide" tabindex="0" role="group" aria-label="Table" { table class="stack" {
                thead { tr { th { "when" } th { "verdict" } th { "summary" } th class="n" { "duration" } th { "on" } th {} } }
                tbody { @for (place, night) in nights.iter().enumerate().rev() {
                    @let before = place.checked_sub(1).and_then(|before| nights[before].results());
                    tr {
                        td class="n" { (when(night.time())) }
                        td { (verdict(night)) }
                        @match &night.state {
                            NightState::Done(results) => {
                                td { (line(&results.headline, 300)) }
                                td class="n" { (seconds(results.took_s)) }
                                td class="on" { (on(before, results)) }
                            },
                            NightState::Open => td colspan="3" { "no matrix yet" },
                            NightState::Unreadable(why) => td colspan="3" { (line(why, 200)) },
                        }
                        td class="n" {
                            @if night.results().is_some() {
                                a href=(at.file(&format!("{}/matrix.html", night.path))) { "matrix" }
                                @if place > 0 { " · " a href=(at.to(&format!("nights/{}.html", night.path))) { "compare with the \
                                    previous suite run" } }
                            }
                        }
                    }
                } }
            } }
        }
    }
}

/// The versions of a suite run. Changes since the one before are marked.
fn on(before: Option<&Results>, night: &Results) -> Markup {
    let changed = before.map(|before| versions_changed(before, night)).unwrap_or_default();
    html! {
        @for (place, (name, version)) in night.versions.iter().enumerate() {
            @if place > 0 { " · " }
            @if changed.iter().any(|(other, ..)| other == name) { mark { (sanitize(name, 40)) " " (sanitize(version, 60)) } }
            @else { (sanitize(name, 40)) " " (sanitize(version, 60)) }
        }
        @if before.is_some_and(|before| suite_changed(before, night)) { " · " mark { "the suite's file" } }
    }
}

fn cells(trends: &[Trend], nights: &[(&Night, &Results)]) -> Markup {
    html! {
        section id="cells" {
            h2 { "Cells over time " span class="count" { (trends.len()) } }
            p class="note" {
                "Each suite run is a dot: the share of the cell's runs with a violation, and its 95% interval (Wilson). The share counts runs "
                "and not updates, since updates of one run depend on each other."
            }
            div class="tools" hidden {
                label { span { "Search" } input id="cell-search" type="search" placeholder="redlock pause" autocomplete="off"; }
                label class="check" { input id="changed" type="checkbox"; span { "changed cells only" } }
            }
            div class="wide" tabindex="0" role="group" aria-label="Table" { table class="cells stack" {
                thead { tr { th { "cell" } th { (nights.len()) " suite runs, the newest on the right" } th { "last" } th { "since" } } }
                tbody { @for trend in trends {
                    tr data-changed=(u8::from(changed(trend))) {
                        td { b { (sanitize(&trend.workload, 60)) } br; (sanitize(rest(trend), 120)) }
                        td { (drawing(trend, nights)) }
                        td { (last(trend)) }
                        td class="since" data-head=[matches!(trend.since, Since::Night { .. }).then_some("since")] { (since(trend, nights)) }
                    }
                } }
            } }
        }
    }
}

fn changed(trend: &Trend) -> bool {
    !matches!(trend.since, Since::Always | Since::Never)
}

/// A cell's name without its workload.
fn rest(trend: &Trend) -> &str {
    trend.name.split_once(" under ").map_or(&trend.nemesis, |(_, rest)| rest)
}

fn last(trend: &Trend) -> Markup {
    let Some(point) = trend.nights.iter().rev().flatten().next() else {
        return html! { span class="open" { "not run" } };
    };
    let (class, word) = if point.broken > 0 { ("broken", "failed") } else { ("held", "passed") };
    let seen = if point.broken > 0 { point.broken } else { point.judged };
    html! {
        b class=(class) { (word) } " " small { (seen) "/" (point.judged) }
        @match point.standing {
            CellStatus::Surprise => { br; b class="badge" { "UNEXPECTED" } },
            CellStatus::Unknown => { br; span class="unproven" { "unknown" } },
            _ => {},
        }
        @if point.lost > 0 { br; small { (count(point.lost)) " of " (count(point.acknowledged)) " lost" } }
    }
}

fn since(trend: &Trend, nights: &[(&Night, &Results)]) -> Markup {
    match &trend.since {
        Since::Never => html! { "–" },
        Since::Always if nights.len() == 1 => html! { "the only suite run" },
        Since::Always => html! { "all suite runs" },
        Since::Changes(times) => html! { "unstable: " (times) " changes" },
        Since::Night { first, before } => {
            let (was, is) = (&nights[*before], &nights[*first]);
            let changed = versions_changed(was.1, is.1);
            let other_suite = suite_changed(was.1, is.1);
            html! {
                b { (when(is.0.time())) } "; before, until " (when(was.0.time())) br;
                @if other_suite { mark { "the suite itself changed" } br; }
                @for (name, before, after) in &changed {
                    mark { (sanitize(name, 40)) " " (sanitize(before, 60)) " → " (sanitize(after, 60)) } br;
                }
                @if changed.is_empty() && !other_suite { "with the same versions" }
            }
        }
    }
}

const STEP: f64 = 14.0;
const HEIGHT: f64 = 40.0;
const EDGE: f64 = 5.0;

/// The trend as a line of dots. Failures are at the top.
fn drawing(trend: &Trend, nights: &[(&Night, &Results)]) -> Markup {
    let width = STEP * nights.len() as f64;
    let y = |share: f64| px(HEIGHT - EDGE - share * (HEIGHT - 2.0 * EDGE));
    let x = |night: usize| STEP * (night as f64 + 0.5);
    let mut svg = String::new();
    let mut put = |element: Markup| svg.push_str(&element.into_string());
    put(html! { line class="rail" x1="0" x2=(px(width)) y1=(y(0.0)) y2=(y(0.0)) {} });
    put(html! { line class="rail" x1="0" x2=(px(width)) y1=(y(1.0)) y2=(y(1.0)) {} });
    if let Since::Night { first, .. } = trend.since {
        let at = px(x(first) - STEP / 2.0);
        put(html! { line class="turn" x1=(at) x2=(at) y1="0" y2=(px(HEIGHT)) {} });
    }
    for (night, point) in trend.nights.iter().enumerate() {
        let time = when(nights[night].0.time());
        let Some(point) = point else { continue };
        let (share, low, high) = point.share();
        let class = if point.broken > 0 { "broken" } else { "held" };
        put(html! {
            g class=(class) {
                title { (told(point, &time)) }
                rect class="hit" x=(px(x(night) - STEP / 2.0)) y="0" width=(px(STEP)) height=(px(HEIGHT)) {}
                line class="interval" x1=(px(x(night))) x2=(px(x(night))) y1=(y(low)) y2=(y(high)) {}
                circle cx=(px(x(night))) cy=(y(share)) r="3.2" {}
            }
        });
    }
    let seen = trend.nights.iter().flatten().count();
    let broken = trend.nights.iter().flatten().filter(|point| point.broken > 0).count();
    html! {
        svg class="trend" width=(px(width)) height=(px(HEIGHT)) viewBox={ "0 0 " (px(width)) " " (px(HEIGHT)) } role="img"
            aria-label={ "failed in " (broken) " of " (seen) " suite runs" } { (PreEscaped(svg)) }
    }
}

fn told(point: &Point, time: &str) -> String {
    let (_, low, high) = point.share();
    format!("{time}: {} of {} runs failed ({} to {})", point.broken, point.judged, percent(low), percent(high))
}
