//! Lays out a scene and writes it as SVG. Text comes from users' clients: maud escapes all of it.

use maud::{Markup, PreEscaped, html};

use super::scene::{Arrow, ArrowKind, Lane, Scale, Scene, Shade, ShadeKind, Value};
use crate::report::axis::{Axis, Planner};
use crate::report::plots::text_width;

const WIDTH: f64 = 940.0;
const GUTTER: f64 = 122.0;
/// Room between the gutter and the first moment, for waits that began earlier.
const LEAD: f64 = 26.0;
const RIGHT: f64 = 10.0;
const HEADER_ROW: f64 = 21.0;
const LANE: f64 = 80.0;
const BAR_TOP: f64 = 32.0;
const BAR: f64 = 22.0;
const THIN_LANE: f64 = 34.0;
const RESOURCE: f64 = 58.0;
const AXIS: f64 = 28.0;
/// Size of labels, as in the style sheet.
const TEXT: f64 = 12.5;
const SMALL: f64 = 11.5;

/// The scene as an SVG element, with its own style if it stands alone.
pub fn draw(scene: &Scene, title: &str, style: Option<&str>) -> Markup {
    let axis = plan(scene);
    let at = |time: u64| GUTTER + LEAD + axis.x(time);
    let right = GUTTER + LEAD + axis.width;
    let width = right + RIGHT;
    let rows = usize::from(scene.expiry.is_some()) + usize::from(!scene.overlaps.is_empty());
    let top = rows as f64 * HEADER_ROW + 6.0;
    let lane_top = |number: usize| top + number as f64 * LANE;
    let thin_top = lane_top(scene.lanes.len());
    let members: Vec<&[Shade]> = scene.elsewhere.chunk_by(|one, other| one.whose == other.whose).collect();
    let resource_top = thin_top + members.len() as f64 * THIN_LANE;
    let bottom = resource_top + if scene.resource.is_empty() { 8.0 } else { RESOURCE };
    let height = bottom + AXIS;
    // A standalone drawing has no page around it to keep it off the edge.
    let margin = if style.is_some() { 16.0 } else { 0.0 };
    let (full_width, full_height) = (width + 2.0 * margin, height + 2.0 * margin);
    let view = format!("{0} {0} {1} {2}", px(-margin), px(full_width), px(full_height));
    html! {
        svg class="incident" xmlns="http://www.w3.org/2000/svg" viewBox=(view) width=(px(full_width)) height=(px(full_height))
            role="img" aria-label=(title) {
            @if let Some(style) = style {
                // A standalone file has no page as its background. The style contains nothing from users.
                title { (title) }
                style { (PreEscaped(style)) }
                rect x=(px(-margin)) y=(px(-margin)) width=(px(full_width)) height=(px(full_height)) fill="var(--paper)" {}
            }
            @for (number, lane) in scene.lanes.iter().enumerate() {
                (rail(lane_top(number) + BAR_TOP + BAR / 2.0, right))
                @for pause in &lane.pauses {
                    (rect("shade", at(pause.from), lane_top(number) + 6.0, at(pause.to), lane_top(number) + LANE - 10.0))
                }
            }
            (overlaps(scene, &at, right, top, &lane_top))
            @if let Some((time, label)) = &scene.expiry {
                (line("expiry", at(*time), HEADER_ROW - 2.0, at(*time), bottom))
                (beside(label, at(*time), 14.0, right))
            }
            @for (number, lane) in scene.lanes.iter().enumerate() {
                @for arrow in &lane.arrows { (arrow_of(arrow, &at, lane_top(number) + BAR_TOP + BAR, resource_top + 12.0)) }
            }
            @for (number, lane) in scene.lanes.iter().enumerate() { (lane_of(lane, &scene.scale, &crossing_times(scene, number), &at, lane_top(number))) }
            @for (number, shades) in members.iter().enumerate() { (member(shades, &at, thin_top + number as f64 * THIN_LANE)) }
            @if !scene.resource.is_empty() { (resource(scene, &at, resource_top, right)) }
            (ticks(scene, &at, bottom, right))
        }
    }
}

/// A member without a lane of its own, and what happened to it.
fn member(shades: &[Shade], at: &impl Fn(u64) -> f64, y: f64) -> Markup {
    html! {
        @if let Some(shade) = shades.first() { text class="who" x="0" y=(px(y + 21.0)) { (shade.whose) } }
        @for shade in shades {
            @let (look, text) = match shade.kind { ShadeKind::Fault => ("paused", "onpause"), ShadeKind::Key => ("bar", "onbar") };
            (rect(look, at(shade.from), y + 7.0, at(shade.to), y + 27.0))
            text class=(text) x=(px((at(shade.from) + at(shade.to)) / 2.0)) y=(px(y + 21.5)) text-anchor="middle" { (shade.label) }
        }
    }
}

/// Where every moment lies, with room for its labels.
fn plan(scene: &Scene) -> Axis {
    let mut planner = Planner::default();
    // After everything else, so that the last labels have an end to keep clear of.
    let end = scene.end.saturating_add((scene.end - scene.start) / 40).saturating_add(1);
    planner.moment(scene.start);
    planner.moment(end);
    for (place, lane) in scene.lanes.iter().enumerate() {
        planner.room(lane.hold.start, lane.hold.end, 16.0);
        let crossing = crossing_times(scene, place);
        for (number, mark) in lane.marks.iter().enumerate() {
            let next = lane.marks.get(number + 1).map_or(end, |next| next.time);
            let next = crossing.iter().copied().filter(|time| *time > mark.time).fold(next, u64::min);
            planner.room(mark.time, next, text_width(&mark.label, TEXT, mark.bad) + 16.0);
        }
        for pause in &lane.pauses {
            planner.room(pause.from, pause.to, text_width(&pause.label, TEXT, true) + 18.0);
        }
    }
    for shade in &scene.elsewhere {
        planner.room(shade.from, shade.to, text_width(&shade.label, TEXT, true) + 18.0);
    }
    for (number, value) in scene.resource.iter().enumerate() {
        let next = scene.resource.get(number + 1).map_or(end, |next| next.from);
        planner.room(value.from, next, value_width(value));
    }
    let expiry = scene.expiry.as_ref().map(|(time, _)| *time);
    for overlap in &scene.overlaps {
        planner.room(overlap.from, overlap.to, 10.0);
    }
    // Apart from labels, events that follow one another need enough room to be told apart.
    let mut telling = telling_times(scene);
    telling.sort_unstable();
    telling.dedup();
    for pair in telling.windows(2) {
        planner.room(pair[0], pair[1], if Some(pair[0]) == expiry || Some(pair[1]) == expiry { 26.0 } else { 9.0 });
    }
    planner.place(WIDTH - GUTTER - LEAD - RIGHT)
}

/// When something crosses a lane from top to bottom: messages of the lanes above, and the expiry of the lock.
fn crossing_times(scene: &Scene, lane: usize) -> Vec<u64> {
    let arrows = scene.lanes.iter().take(lane).flat_map(|lane| &lane.arrows).map(|arrow| arrow.to);
    arrows.chain(scene.expiry.iter().map(|(time, _)| *time)).collect()
}

/// The moments that the drawing is about, most important first.
fn telling_times(scene: &Scene) -> Vec<u64> {
    let arrows = || scene.lanes.iter().flat_map(|lane| &lane.arrows);
    let shades = scene.lanes.iter().flat_map(|lane| &lane.pauses).chain(&scene.elsewhere);
    let mut times: Vec<u64> = scene.expiry.iter().map(|(time, _)| *time).collect();
    times.extend(scene.lanes.iter().map(|lane| lane.hold.start));
    times.extend(arrows().filter(|arrow| arrow.kind != ArrowKind::Read).map(|arrow| arrow.to));
    times.extend(shades.flat_map(|shade| [shade.from, shade.to]));
    times.extend(scene.lanes.iter().map(|lane| lane.hold.end));
    times.extend(arrows().filter(|arrow| arrow.kind == ArrowKind::Read).map(|arrow| arrow.to));
    times
}

fn value_width(value: &Value) -> f64 {
    text_width(&value.text, TEXT, false) + if value.lost { text_width(" lost", TEXT, true) } else { 0.0 } + 18.0
}

fn lane_of(lane: &Lane, scale: &Scale, crossing: &[u64], at: &impl Fn(u64) -> f64, top: f64) -> Markup {
    let (left, right) = (at(lane.hold.start), at(lane.hold.end).max(at(lane.hold.start) + 3.0));
    let (bar_top, bar_bottom) = (top + BAR_TOP, top + BAR_TOP + BAR);
    let middle = bar_top + BAR / 2.0;
    let texts = scale.hold_words(&lane.hold);
    let fits = texts.iter().find(|text| text_width(text, SMALL, false) + 10.0 < right - left);
    html! {
        text class="who" x="0" y=(px(middle - 3.0)) { (lane.name) }
        text class={ "small" @if lane.under_name == "update lost" { " badtext strong" } } x="0" y=(px(middle + 13.0)) { (lane.under_name) }
        @if let Some(token) = lane.token { text class="small" x="0" y=(px(middle + 28.0)) { "token " (token) } }
        @if let Some(from) = lane.waits_from {
            // The line starts a little early if the wait may have begun before the drawing does.
            @let from = at(from) - if lane.waiting.is_some() { LEAD - 8.0 } else { 0.0 };
            (line("wait", from, middle, left - 2.0, middle))
            @if let Some(waiting) = lane.waiting {
                @let room = left - 14.0 - text_width(waiting, SMALL, false);
                @let crossed = crossing.iter().any(|time| (room..left).contains(&at(*time)));
                @let covered = lane.pauses.iter().any(|pause| at(pause.from) < left && at(pause.to) > room);
                @if room > from && !crossed && !covered {
                    text class="small halo" x=(px(left - 10.0)) y=(px(middle - 6.0)) text-anchor="end" { (waiting) }
                }
            }
        }
        (rect(if lane.held { "bar" } else { "bar open" }, left, bar_top, right, bar_bottom))
        @if !lane.hold.ended { (line("wait", right + 3.0, middle, right + 22.0, middle)) }
        @if lane.held && lane.pauses.is_empty() && let Some(text) = fits {
            text class="onbar" x=(px((left + right) / 2.0)) y=(px(middle + 4.0)) text-anchor="middle" { (text) }
        }
        @for pause in &lane.pauses {
            (rect("paused", at(pause.from), bar_top, at(pause.to), bar_bottom))
            text class="onpause" x=(px((at(pause.from) + at(pause.to)) / 2.0)) y=(px(middle + 4.5)) text-anchor="middle" { (pause.label) }
        }
        @for mark in &lane.marks {
            (line("tick", at(mark.time), top + 14.0, at(mark.time), bar_top))
            text class={ "halo" @if mark.bad { " badtext strong" } } x=(px(at(mark.time) + 4.0)) y=(px(top + 24.0)) { (mark.label) }
        }
    }
}

fn arrow_of(arrow: &Arrow, at: &impl Fn(u64) -> f64, bar: f64, resource: f64) -> Markup {
    let (from, to) = (at(arrow.from), at(arrow.to));
    let (class, head) = match arrow.kind {
        ArrowKind::BadWrite => ("arrow bad", "head bad"),
        ArrowKind::NoWrite => ("arrow none", "head"),
        ArrowKind::Read | ArrowKind::Write => ("arrow", "head"),
    };
    let triangle = |x: f64, tip: f64, base: f64| {
        format!("{},{} {},{} {},{}", px(x), px(tip), px(x - 4.0), px(base), px(x + 4.0), px(base))
    };
    html! {
        @match arrow.kind {
            ArrowKind::Read => {
                (line(class, from, resource, from, bar + 7.0))
                polygon class=(head) points=(triangle(from, bar, bar + 8.0)) {}
            }
            ArrowKind::NoWrite => {
                (line(class, from, bar, to, resource - 9.0))
                (line(class.trim_end_matches(" none"), to - 4.0, resource - 11.0, to + 4.0, resource - 3.0))
                (line(class.trim_end_matches(" none"), to - 4.0, resource - 3.0, to + 4.0, resource - 11.0))
            }
            _ => {
                (line(class, from, bar, to, resource - 7.0))
                polygon class=(head) points=(triangle(to, resource, resource - 8.0)) {}
            }
        }
    }
}

fn overlaps(scene: &Scene, at: &impl Fn(u64) -> f64, right: f64, top: f64, lane_top: &impl Fn(usize) -> f64) -> Markup {
    let mut taken: Vec<(f64, f64)> = Vec::new();
    let row = top - 6.0 - HEADER_ROW;
    html! {
        @for overlap in &scene.overlaps {
            @let (from, to) = (at(overlap.from), at(overlap.to));
            @let bottom = lane_top(overlap.lanes.0.max(overlap.lanes.1)) + LANE - 10.0;
            (rect("wash", from, row + HEADER_ROW - 2.0, to, bottom))
            (line("edge", from, row + HEADER_ROW - 2.0, from, bottom))
            (line("edge", to, row + HEADER_ROW - 2.0, to, bottom))
            @let half = text_width(&overlap.label, TEXT, true) / 2.0 + 4.0;
            @let middle = ((from + to) / 2.0).clamp(GUTTER + half, (right - half).max(GUTTER + half));
            @if taken.iter().all(|(left, right)| middle + half < *left || middle - half > *right) {
                ({ taken.push((middle - half, middle + half)); "" })
                text class="halo badtext strong" x=(px(middle)) y=(px(row + 14.0)) text-anchor="middle" { (overlap.label) }
            }
        }
    }
}

fn resource(scene: &Scene, at: &impl Fn(u64) -> f64, top: f64, right: f64) -> Markup {
    html! {
        text class="who" x="0" y=(px(top + 27.0)) { (scene.resource_name) }
        text class="small" x="0" y=(px(top + 42.0)) { "resource" }
        @for (number, value) in scene.resource.iter().enumerate() {
            @let from = if number == 0 { GUTTER } else { at(value.from) };
            @let to = scene.resource.get(number + 1).map_or(right, |next| at(next.from));
            (rect(if value.lost { "value lost" } else { "value" }, from, top + 12.0, to.max(from + 2.0), top + 40.0))
            text x=(px(from + 8.0)) y=(px(top + 30.5)) {
                tspan class=[value.lost.then_some("struck")] { (value.text) }
                @if value.lost { tspan class="badtext strong" { " lost" } }
            }
        }
    }
}

/// Times below the drawing; the most important come first if there is no room for all.
fn ticks(scene: &Scene, at: &impl Fn(u64) -> f64, bottom: f64, right: f64) -> Markup {
    let mut taken: Vec<(f64, f64)> = Vec::new();
    let mut shown = Vec::new();
    let labelled: Vec<(u64, String)> = match &scene.scale {
        Scale::Seconds => {
            telling_times(scene).into_iter().map(|time| (time, format!("{:.3}", time as f64 / 1e9))).collect()
        }
        // Where a tick begins.
        Scale::Ticks(ticks) => (0..)
            .zip(ticks)
            .filter(|(time, tick)| *time == 0 || scene.scale.tick(*time - 1) != **tick)
            .map(|(time, tick)| (time.max(scene.start), tick.to_string()))
            .collect(),
    };
    for (time, text) in labelled {
        let half = text_width(&text, SMALL, false) / 2.0 + 5.0;
        let x = at(time).clamp(GUTTER + half, (right - half).max(GUTTER + half));
        if taken.iter().all(|(left, right)| x + half < *left || x - half > *right) {
            taken.push((x - half, x + half));
            shown.push((at(time), x, text));
        }
    }
    html! {
        (line("rail", GUTTER, bottom, right, bottom))
        text class="small" x="0" y=(px(bottom + 17.0)) { (match scene.scale { Scale::Seconds => "time, s", Scale::Ticks(_) => "time, ticks" }) }
        @for (place, x, text) in shown {
            (line("tick", place, bottom - 3.0, place, bottom + 3.0))
            text class="small" x=(px(x)) y=(px(bottom + 17.0)) text-anchor="middle" { (text) }
        }
    }
}

/// A label beside a vertical line, on the side where there is room.
fn beside(label: &str, x: f64, y: f64, right: f64) -> Markup {
    let fits = x + 6.0 + text_width(label, TEXT, true) < right;
    html! {
        text class="strong halo" x=(px(if fits { x - 2.0 } else { x + 2.0 })) y=(px(y)) text-anchor=(if fits { "start" } else { "end" }) { (label) }
    }
}

fn rail(y: f64, right: f64) -> Markup {
    line("rail", GUTTER, y, right, y)
}

fn line(class: &str, x1: f64, y1: f64, x2: f64, y2: f64) -> Markup {
    html! { line class=(class) x1=(px(x1)) y1=(px(y1)) x2=(px(x2)) y2=(px(y2)) {} }
}

fn rect(class: &str, x1: f64, y1: f64, x2: f64, y2: f64) -> Markup {
    html! { rect class=(class) x=(px(x1)) y=(px(y1)) width=(px((x2 - x1).max(0.5))) height=(px(y2 - y1)) rx="2" {} }
}

/// Nobody sees more than a tenth of a pixel.
fn px(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map(str::to_string).unwrap_or(text)
}
