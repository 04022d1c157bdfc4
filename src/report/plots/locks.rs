//! Who believed that they held the lock, over time: a lane per client, red where the checker found two holders at once.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::fault_ink;
use super::frame::{Frame, Key, happened, widest};
use super::picture::{Anchor, Ink, Picture};
use crate::checker::AnomalyKind;
use crate::history::Process;
use crate::telling::Story;
use crate::telling::moments;
use crate::telling::story::fault_words;
use crate::words::tame;

/// If lanes are closer together than this, only some are named.
const NAMED: f64 = 14.0;

pub fn locks(story: &Story) -> Picture {
    let (lanes, names) = lanes(story);
    let gutter = 32.0 + widest(names.iter().map(String::as_str)).max(24.0);
    let mut frame = Frame::new(story, "Who believed they held the lock", gutter);
    frame.time_axis();
    if lanes.is_empty() {
        frame.nothing("no client did anything");
        return frame.finish();
    }
    let height = (frame.bottom - frame.top - 14.0) / names.len() as f64;
    let top_of = |lane: usize| frame.top + 14.0 + lane as f64 * height;
    let gap = (height * 0.22).min(9.0);
    let by_name: BTreeMap<&str, usize> = names.iter().map(String::as_str).zip(0..).collect();
    let (left, right, top, bottom) = (frame.left, frame.right, frame.top, frame.bottom);

    let mut pauses: BTreeMap<&str, (Ink, usize)> = BTreeMap::new();
    let mut shaded = HashSet::new();
    for window in happened(story) {
        let ink = fault_ink(window.kind);
        pauses.entry(fault_words(window.kind).0).or_insert((ink, 0)).1 += 1;
        let (from, to) = window.span();
        let (from, to) = (frame.x(from), to.map_or(right, |to| frame.x(to)));
        for target in &window.targets {
            // A client's fault belongs to its lane; a node's fault affects all lanes.
            let (y0, y1) = match by_name.get(target.as_str()) {
                Some(lane) => (top_of(*lane), top_of(*lane) + height),
                None => (top, bottom),
            };
            if !shaded.insert((y0 as i32, from as i32, to as i32)) {
                continue;
            }
            let opacity = if by_name.contains_key(target.as_str()) { 0.75 } else { 0.3 };
            frame.picture.rect((from, y0), (to.max(from + 1.0), y1), ink.faded(opacity));
        }
    }
    let every = (NAMED / height).ceil().max(1.0) as usize;
    for (lane, name) in names.iter().enumerate() {
        let y = top_of(lane);
        if every == 1 {
            frame.picture.line(vec![(left, y), (right, y)], 1.0, Ink::GRID);
        }
        if lane % every == 0 {
            frame.picture.text((left - 8.0, y + height / 2.0), name.as_str(), 11.5, Anchor::Right, Ink::TEXT);
        }
    }

    let bar = |lane: usize| (top_of(lane) + gap, top_of(lane) + (height - gap).max(gap + 1.0));
    let mut holds = 0;
    let mut drawn = HashSet::new();
    for operation in story.client_operations() {
        let (Some(hold), Some(lane)) = (moments::hold(operation), lanes.get(&operation.process)) else { continue };
        holds += 1;
        let (from, to) = (frame.x(hold.start), frame.x(hold.end).max(frame.x(hold.start) + 1.0));
        // Thousands of holds in one pixel are one bar.
        if drawn.insert((*lane, (from * 2.0) as i32, (to * 2.0) as i32)) {
            let (y0, y1) = bar(*lane);
            frame.picture.rect((from, y0), (to, y1), Ink::BAR);
        }
    }
    let mut overlaps = 0;
    for anomaly in &story.subject.verdict.anomalies {
        if anomaly.kind != AnomalyKind::OverlappingHolders {
            continue;
        }
        let [one, other, ..] = anomaly.operations[..] else { continue };
        let (Some(one), Some(other)) = (story.operation(one), story.operation(other)) else { continue };
        let Some((from, to)) = moments::overlap(one, other) else { continue };
        overlaps += 1;
        let (from, to) = (frame.x(from), frame.x(to).max(frame.x(from) + 2.0));
        if !drawn.insert((usize::MAX, (from * 2.0) as i32, (to * 2.0) as i32)) {
            continue;
        }
        for process in [one.process, other.process] {
            if let Some(lane) = lanes.get(&process) {
                let (y0, y1) = bar(*lane);
                frame.picture.rect((from, y0), (to, y1), Ink::BAD);
            }
        }
        // An overlap of milliseconds would be a hairline; the pointer above it catches the eye.
        let middle = (from + to) / 2.0;
        let ends = vec![(middle, top + 12.0), (middle - 4.5, top + 3.0), (middle + 4.5, top + 3.0)];
        frame.picture.shapes.push(super::picture::Shape::Polygon { points: ends, ink: Ink::BAD });
    }
    if holds == 0 {
        frame.nothing("no client said that it held the lock");
    }
    frame.key(Key::Area(Ink::BAR), format!("holds ({holds})"));
    if overlaps > 0 {
        frame.key(Key::Area(Ink::BAD), format!("two at once ({overlaps})"));
    }
    for (name, (ink, number)) in pauses {
        frame.key(Key::Area(ink), format!("{name} ({number})"));
    }
    frame.finish()
}

/// The lane of each process, and the names of the lanes: all processes of one client share its lane.
fn lanes(story: &Story) -> (BTreeMap<Process, usize>, Vec<String>) {
    let mut processes: Vec<Process> = story.client_operations().map(|operation| operation.process).collect();
    if let Some(run) = &story.subject.history.run {
        // A client that never did anything gets an empty lane, which shows just that.
        processes.extend((0..run.clients.min(200)).map(Process::Client));
    }
    processes.sort_unstable();
    processes.dedup();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    let mut names = Vec::new();
    let mut lanes = BTreeMap::new();
    for process in processes {
        let name = tame(&story.name(process), 16);
        let lane = *by_name.entry(name.clone()).or_insert_with(|| {
            names.push(name);
            names.len() - 1
        });
        lanes.insert(process, lane);
    }
    (lanes, names)
}
