//! The clients that believed that they held the lock, over time. Each client has a lane, red where the checker found two
//! holders at once.

use std::collections::{BTreeMap, HashMap, HashSet};

use plotters::style::Color as _;

use super::frame::{Frame, Key, fault_ink, happened};
use super::picture::{BAD, BAR, GRID, Ink, Picture, TEXT};
use crate::drawing::{Anchor, SMALL, text_width};
use base::words::sanitize;
use checker::AnomalyKind;
use model::history::Process;
use summary::{Story, times};

/// If lanes are closer together than this, only some are named.
const NAMED: f64 = 14.0;

pub fn locks(story: &Story) -> Picture {
    let (lanes, names) = lanes(story);
    let gutter = 32.0 + names.iter().map(|name| text_width(name, SMALL, false)).fold(24.0, f64::max);
    let mut frame = Frame::new(story, "Who believed they held the lock", gutter);
    frame.time_axis();
    if lanes.is_empty() {
        frame.nothing("no client did anything");
        return frame.finish();
    }
    let rows = Rows { top: frame.top + 14.0, height: (frame.bottom - frame.top - 14.0) / names.len() as f64 };
    let faults = shade_faults(&mut frame, story, rows, &names);
    name_rows(&mut frame, rows, &names);
    let [holds, shared] = draw_holds(&mut frame, story, rows, &lanes);
    let overlaps = draw_overlaps(&mut frame, story, rows, &lanes);
    if holds + shared == 0 {
        frame.nothing("no client reported that it held the lock");
    }
    frame.key(Key::Area(BAR), format!("holds ({holds})"));
    if shared > 0 {
        frame.key(Key::Area(BAR.mix(SHARED)), format!("for reading ({shared})"));
    }
    if overlaps > 0 {
        frame.key(Key::Area(BAD), format!("overlapping holds ({overlaps})"));
    }
    for (name, (ink, number)) in faults {
        frame.key(Key::Area(ink), format!("{name} ({number})"));
    }
    frame.finish()
}

#[derive(Clone, Copy)]
struct Rows {
    top: f64,
    height: f64,
}

impl Rows {
    fn top_of(self, lane: usize) -> f64 {
        self.top + lane as f64 * self.height
    }

    /// The upper and lower end of a bar in a lane.
    fn bar(self, lane: usize) -> (f64, f64) {
        let gap = (self.height * 0.22).min(9.0);
        (self.top_of(lane) + gap, self.top_of(lane) + (self.height - gap).max(gap + 1.0))
    }
}

/// Shades the times of faults. Returns the colour and the number of each kind.
fn shade_faults(
    frame: &mut Frame,
    story: &Story,
    rows: Rows,
    names: &[String],
) -> BTreeMap<&'static str, (Ink, usize)> {
    let by_name: BTreeMap<&str, usize> = names.iter().map(String::as_str).zip(0..).collect();
    let mut kinds: BTreeMap<&str, (Ink, usize)> = BTreeMap::new();
    let mut shaded = HashSet::new();
    for window in happened(story) {
        let ink = fault_ink(window.kind);
        kinds.entry(window.kind.says.name).or_insert((ink, 0)).1 += 1;
        let (from, to) = frame.span(window);
        for target in &window.targets {
            // A client's fault belongs to its lane; a node's fault affects all lanes.
            let (y0, y1, opacity) = match by_name.get(target.as_str()) {
                Some(lane) => (rows.top_of(*lane), rows.top_of(*lane) + rows.height, 0.75),
                None => (frame.top, frame.bottom, 0.3),
            };
            if shaded.insert((y0 as i32, from as i32, to as i32)) {
                frame.picture.rect((from, y0), (to, y1), ink.mix(opacity));
            }
        }
    }
    kinds
}

/// Names the lanes, or some of them if they are close together.
fn name_rows(frame: &mut Frame, rows: Rows, names: &[String]) {
    let (left, right) = (frame.left, frame.right);
    let every = (NAMED / rows.height).ceil().max(1.0) as usize;
    for (lane, name) in names.iter().enumerate() {
        let y = rows.top_of(lane);
        if every == 1 {
            frame.picture.line(vec![(left, y), (right, y)], 1.0, GRID);
        }
        if lane % every == 0 {
            frame.picture.text((left - 8.0, y + rows.height / 2.0), name.as_str(), SMALL, Anchor::Right, TEXT);
        }
    }
}

/// The opacity of a hold as reader, relative to other holds.
const SHARED: f64 = 0.45;

/// Draws a bar for each hold. Returns the number of exclusive holds and of holds as reader.
fn draw_holds(frame: &mut Frame, story: &Story, rows: Rows, lanes: &BTreeMap<Process, usize>) -> [usize; 2] {
    let mut drawn = HashSet::new();
    let mut holds = [0, 0];
    for operation in story.client_operations() {
        let (Some(hold), Some(lane)) = (times::hold(operation), lanes.get(&operation.process)) else { continue };
        let is_shared = operation.f.is_shared();
        holds[usize::from(is_shared)] += 1;
        let (from, to) = (frame.x(hold.start), frame.x(hold.end).max(frame.x(hold.start) + 1.0));
        // Thousands of holds in one pixel are one bar.
        if drawn.insert((*lane, (from * 2.0) as i32, (to * 2.0) as i32, is_shared)) {
            let (y0, y1) = rows.bar(*lane);
            frame.picture.rect((from, y0), (to, y1), if is_shared { BAR.mix(SHARED) } else { BAR });
        }
    }
    holds
}

/// Draws the times at which the checker found two holders at once, in red. Returns their number.
fn draw_overlaps(frame: &mut Frame, story: &Story, rows: Rows, lanes: &BTreeMap<Process, usize>) -> usize {
    let mut drawn = HashSet::new();
    let mut overlaps = 0;
    let anomalies = story.subject.verdict.anomalies.iter();
    for anomaly in anomalies.filter(|anomaly| anomaly.kind == AnomalyKind::OverlappingHolders) {
        let holders = anomaly.operations.iter().map(|index| story.operation(*index)).collect::<Option<Vec<_>>>();
        let Some(holders) = holders else { continue };
        let Some((from, to)) = times::overlap(&holders) else { continue };
        overlaps += 1;
        let (from, to) = (frame.x(from), frame.x(to).max(frame.x(from) + 2.0));
        if !drawn.insert(((from * 2.0) as i32, (to * 2.0) as i32)) {
            continue;
        }
        for lane in holders.into_iter().filter_map(|operation| lanes.get(&operation.process)) {
            let (y0, y1) = rows.bar(*lane);
            frame.picture.rect((from, y0), (to, y1), BAD);
        }
        // An overlap of milliseconds would be a hairline, so a pointer above it catches the eye.
        let (middle, top) = ((from + to) / 2.0, frame.top);
        let points = vec![(middle, top + 12.0), (middle - 4.5, top + 3.0), (middle + 4.5, top + 3.0)];
        frame.picture.polygon(points, BAD);
    }
    overlaps
}

/// The lane of each process, and the names of the lanes: all processes of one client share its lane.
fn lanes(story: &Story) -> (BTreeMap<Process, usize>, Vec<String>) {
    let mut processes: Vec<Process> = story.client_operations().map(|operation| operation.process).collect();
    if let Some(run) = &story.subject.history.run {
        // A client that never did anything gets an empty lane.
        processes.extend((0..run.clients.min(200)).map(Process::Client));
    }
    processes.sort_unstable();
    processes.dedup();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    let mut names = Vec::new();
    let mut lanes = BTreeMap::new();
    for process in processes {
        let name = sanitize(&story.name(process), 16);
        let lane = *by_name.entry(name.clone()).or_insert_with(|| {
            names.push(name);
            names.len() - 1
        });
        lanes.insert(process, lane);
    }
    (lanes, names)
}
