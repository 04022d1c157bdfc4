//! A counterexample as a scene. Each client has a lane. Each node has a row that shows whose key it holds. The resource is at
//! the bottom.
//!
//! The time axis counts steps, from 1, and shows where each tick begins.

use redlock_model::{Claim, Counterexample, Move, Settings, Step};

use report::incident::scene::{Arrow, ArrowKind, Lane, Mark, Overlap, Scene, Shade, ShadeKind, Value};
use summary::times::Hold;

pub fn scene(settings: &Settings, counterexample: &Counterexample) -> Scene {
    let moves = &counterexample.moves;
    // Leave room after the last step, where both clients hold the lock.
    let end = moves.len() as u64 + 1;
    let mut ticks: Vec<(u64, String)> = (1..).zip(moves.iter().map(|made| made.time.to_string())).collect();
    ticks.dedup_by(|later, earlier| later.1 == earlier.1);
    let lanes: Vec<Lane> = (0..settings.bounds.clients).filter_map(|client| lane(client, moves, end)).collect();
    let expiry = at(moves).find_map(|(time, step)| match step {
        Step::Expire { .. } => Some((time, step.to_string())),
        _ => None,
    });
    Scene {
        start: 1,
        end,
        overlaps: overlaps(&lanes),
        lanes,
        elsewhere: (0..settings.bounds.nodes).flat_map(|node| shades(node, moves, end)).collect(),
        resource: if settings.claim == Claim::MutualExclusion { Vec::new() } else { values(moves) },
        resource_name: "value".to_string(),
        moments: expiry.into_iter().collect(),
        ticks,
    }
}

/// The steps, each with its number from 1.
fn at(moves: &[Move]) -> impl Iterator<Item = (u64, Step)> {
    (1..).zip(moves.iter().map(|made| made.step))
}

/// The lane of a client. None if the client did nothing.
fn lane(client: u32, moves: &[Move], end: u64) -> Option<Lane> {
    let own = || at(moves).filter(|(_, step)| step.actor() == redlock_model::Actor::Client(client));
    let (began, _) = own().next()?;
    let find = |wanted: fn(&Step) -> bool| own().find(|(_, step)| wanted(step)).map(|(time, _)| time);
    let acquired = find(|step| matches!(step, Step::Acquire { .. }));
    let released = find(|step| matches!(step, Step::Release { .. }));
    let (mut marks, mut arrows) = (Vec::new(), Vec::new());
    for (time, step) in own() {
        let (label, bad) = label(&step, moves[time as usize - 1].time);
        let kind = match step {
            Step::Read { refused: false, .. } => Some(ArrowKind::Read),
            Step::Write { denied: Some(_), .. } => Some(ArrowKind::NoWrite),
            Step::Write { .. } if bad => Some(ArrowKind::BadWrite),
            Step::Write { .. } => Some(ArrowKind::Write),
            _ => None,
        };
        arrows.extend(kind.map(|kind| Arrow { from: time, to: time, kind }));
        marks.push(Mark { time, label, bad });
    }
    Some(Lane {
        name: format!("c{client}"),
        under_name: if acquired.is_some() && released.is_none() { "holds the lock" } else { "" }.to_string(),
        token: None,
        hold: Hold { start: acquired.unwrap_or(began), end: released.unwrap_or(end), ended: released.is_some() },
        held: acquired.is_some(),
        words: ["believes it holds the lock", "believes it holds the lock", "holds it"].map(str::to_string).to_vec(),
        waits_from: acquired.map(|_| began),
        waiting: None,
        marks,
        pauses: Vec::new(),
        arrows,
    })
}

/// The label of a step, and true if the step violates the property.
fn label(step: &Step, tick: u32) -> (String, bool) {
    let label = match *step {
        Step::Start { .. } => "asks".to_string(),
        Step::Set { node, .. } => format!("n{node} yes"),
        Step::Taken { node, .. } => format!("n{node} no"),
        Step::Silent { node, .. } => format!("n{node} silent"),
        // The slow clock is why the client does not notice.
        Step::Acquire { votes, clock, .. } if clock < tick => format!("{votes} yes, clock {clock}: holds the lock"),
        Step::Acquire { votes, .. } => format!("{votes} yes: holds the lock"),
        Step::GiveUp { .. } => "gives up".to_string(),
        Step::Read { refused: true, .. } => "read refused".to_string(),
        Step::Read { writer, .. } => format!("reads {}", value(writer)),
        Step::Write { client, denied: None, .. } => format!("writes {}", value(Some(client))),
        Step::Write { .. } => "write refused".to_string(),
        Step::Release { .. } => "releases".to_string(),
        _ => String::new(),
    };
    (label, matches!(step, Step::Write { seen, replaces, denied: None, .. } if seen != replaces))
}

fn value(writer: Option<u32>) -> String {
    writer.map_or("first".to_string(), |client| format!("c{client}'s"))
}

/// The times in which a node held a client's key, and in which it was down.
fn shades(node: u32, moves: &[Move], end: u64) -> Vec<Shade> {
    let mut shades: Vec<Shade> = Vec::new();
    let (mut key, mut down): (Option<(u64, u32)>, Option<u64>) = (None, None);
    let shade =
        |from: u64, to: u64, label: String, kind: ShadeKind| Shade { from, to, label, whose: format!("n{node}"), kind };
    let of_client = |(from, client): (u64, u32), to: u64| shade(from, to, format!("c{client}'s key"), ShadeKind::Key);
    for (time, step) in at(moves) {
        match step {
            Step::Set { node: of, client, .. } if of == node => key = Some((time, client)),
            Step::Expire { node: of, .. } | Step::Crash { node: of, loses: Some(_) } if of == node => {
                shades.extend(key.take().map(|key| of_client(key, time)));
            }
            Step::GiveUp { client, .. } | Step::Release { client } if down.is_none() => {
                shades.extend(key.take_if(|(_, owner)| *owner == client).map(|key| of_client(key, time)));
            }
            _ => {}
        }
        match step {
            Step::Crash { node: of, .. } if of == node => down = Some(time),
            Step::Restart { node: of } if of == node => {
                shades.extend(down.take().map(|from| shade(from, time, "down".to_string(), ShadeKind::Fault)));
            }
            _ => {}
        }
    }
    shades.extend(key.map(|key| of_client(key, end)));
    shades.extend(down.map(|from| shade(from, end, "down".to_string(), ShadeKind::Fault)));
    shades
}

fn overlaps(lanes: &[Lane]) -> Vec<Overlap> {
    let mut overlaps = Vec::new();
    for (one, first) in lanes.iter().enumerate().filter(|(_, lane)| lane.held) {
        for (other, second) in lanes.iter().enumerate().skip(one + 1).filter(|(_, lane)| lane.held) {
            let (from, to) = (first.hold.start.max(second.hold.start), first.hold.end.min(second.hold.end));
            if from < to {
                overlaps.push(Overlap { from, to, lanes: (one, other), label: "two holders".to_string() });
            }
        }
    }
    overlaps
}

fn values(moves: &[Move]) -> Vec<Value> {
    let mut values = vec![Value { from: 1, text: "first".to_string(), lost: false }];
    for (time, step) in at(moves) {
        if let Step::Write { client, seen, replaces, denied: None } = step {
            if let Some(last) = values.last_mut() {
                last.lost = seen != replaces;
            }
            values.push(Value { from: time, text: value(Some(client)), lost: false });
        }
    }
    values
}
