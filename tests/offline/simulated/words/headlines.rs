//! Checks the headline of a run against its history: acknowledged and lost updates, overlapping holders, and the reported events.

use std::collections::HashSet;

use serde_json::Value;

use super::lines::{Lines, Operation, is_length};
use super::pattern::{self, Holes};
use super::sentences::{ensure, is_lost};
use super::summaries;

type Check = fn(&Lines, &Holes) -> Result<(), String>;

/// The forms of the sentence. The explanation is in the hole `why`.
const FORMS: &[(&str, &str, Check)] = &[
    ("headline: lost", "{x=lock} lost {n=lost} of {n=all} acknowledged {w=what} ({x=share}%)[{x=why}].", lost),
    (
        "headline: overlap",
        "{x=lock} let [two clients][a writer and another client] hold the lock at once[{x=why}]: {n=pairs} overlap[s] among {n=holds} hold[s][; {w=none} acknowledged update was lost].",
        overlapped,
    ),
    (
        "headline: kept",
        "{x=lock} kept all {n=all} acknowledged {w=what}[ during {n=faults} fault[s]][, and never let [two clients][a writer and another client][more than {n} clients] hold the lock at once][: {x}].[{x}]",
        kept,
    ),
    (
        "headline: kept",
        "{x=lock} broke none of its claims[ during {n=faults} fault[s]][, and never let [two clients][a writer and another client][more than {n} clients] hold the lock at once].[{x}]",
        through,
    ),
    (
        "headline: kept",
        "{x=lock} broke none of its claims[ during {n=faults} fault[s]], though {n} of {n=all} acknowledged {w} [was][were] lost[, and never let [two clients][a writer and another client] hold the lock at once][: {x}].[{x}]",
        some_lost,
    ),
    (
        "headline: kept",
        "{x=lock} kept all but {n} of {n=all} acknowledged {w}[ during {n=faults} fault[s]]; [that one was][those were] lost to a client's own write in flight[, and never let [two clients][a writer and another client] hold the lock at once][: {x}].[{x}]",
        some_lost,
    ),
    (
        "headline: let in",
        "{x=lock} let [two clients][a writer and another client] hold the lock at the same time ({x=times}[, during {n=faults} fault[s]]), which this workload does not rule out.[{x}]",
        through,
    ),
    (
        "headline: let in",
        "{x=lock} let [two clients][a writer and another client] hold the lock at the same time ({x=times}[, during {n=faults} fault[s]])[; the resource refused {n=refused} late write[s],][;] {n} of {n=all} acknowledged {w} lost[: {x}].[{x}]",
        some_lost,
    ),
    (
        "headline: let in",
        "None of {n=all} acknowledged {w=what} was lost, although {x=lock} let [two clients][a writer and another client] hold the lock at the same time ({x=times}[, during {n=faults} fault[s]])[; the resource refused {n=refused} late write[s]][: {x}].[{x}]",
        let_in,
    ),
    ("headline: tokens", "{x=lock} handed out {n=tokens} token[s] that {w} not increase.", tokens),
    (
        "headline: no order",
        "{x=lock} produced {n} observation[s] that no correct order of the updates explains[{x=why}].",
        explained,
    ),
    ("headline: stale", "{x=lock} let {n} read[s] go stale under the lock[{x=why}].", explained),
    (
        "headline: stuck",
        "{x=lock} could not be acquired: its key `{x=key}` on {x=node}, which has no TTL, was still there at the end[; {x}].",
        nothing_more,
    ),
    (
        "headline: stuck",
        "{x=lock} could not be acquired by any client, though no live client had a valid lock.",
        nothing_more,
    ),
    ("headline: stuck", "{x=lock} kept clients waiting, although a permit was free.", nothing_more),
    (
        "headline: stuck",
        "{x=lock} could not be acquired by any client for {l=long}, though no live client had a valid lock.",
        out_of_reach,
    ),
    ("headline: stuck", "{x=lock} could not be acquired when it should have been available.", nothing_more),
    ("headline: waited", "{x=lock} let {n} attempt[s] exceed {w} timeout[{x=why}].", explained),
    ("headline: amounts", "{x=lock} left a wrong amount: {x=first}.", amount),
    ("headline: amounts", "{x=lock} left {n} wrong amounts, the first: {x=first}.", amount),
    ("headline: left behind", "{x=lock} left a lock behind that outlasts its TTL.", nothing_more),
    ("headline: unknown", "This run proves nothing[ about the lock][: {x}]", nothing_more),
    ("headline: unknown", "This run proves nothing[ about the lock].", nothing_more),
];

/// Checks a headline; returns its kind, or the error.
pub fn check(lines: &Lines, headline: &str) -> Result<&'static str, String> {
    let simulated = lines.header["simulated"] == true;
    let text = headline.strip_prefix("Simulated: ");
    ensure(text.is_some() == simulated, || format!("simulated: {simulated}"))?;
    let text = text.unwrap_or(headline);
    let found = FORMS.iter().find_map(|(kind, form, check)| Some((kind, check, pattern::read(form, text)?)));
    let (kind, check, holes) = found.ok_or("no such headline")?;
    check(lines, &holes)?;
    Ok(kind)
}

fn number(text: &str) -> u64 {
    text.replace(',', "").parse().unwrap()
}

fn is(told: &str, real: u64, what: &str) -> Result<(), String> {
    ensure(number(told) == real, || format!("{real} {what}"))
}

/// The updates that were acknowledged to their clients.
fn acknowledged(lines: &Lines) -> impl Iterator<Item = &Operation> {
    lines.operations.iter().filter(|one| {
        let f = lines.events[one.invoke]["f"].as_str().unwrap();
        one.client != "controller" && !["read", "hold", "shared"].contains(&f) && lines.is_acknowledged(one)
    })
}

fn lost(lines: &Lines, holes: &Holes) -> Result<(), String> {
    let all = acknowledged(lines).count() as u64;
    is(&holes["all"], all, "were acknowledged")?;
    let told = number(&holes["lost"]);
    let share = told as f64 / all as f64 * 100.0;
    let written: f64 = holes["share"].parse().map_err(|_| "no share")?;
    ensure((written - share).abs() <= share / 20.0 + 0.05, || format!("{share}%"))?;
    // Losses of counters and lists follow from their amounts, not from descent.
    if lines.header["resource"] == "register" && holes["what"].starts_with("update") {
        let gone = acknowledged(lines).filter(|one| one.new.as_deref().is_some_and(|new| is_lost(lines, new).is_ok()));
        is(&holes["lost"], gone.count() as u64, "were lost")?;
    }
    explained(lines, holes)
}

fn overlapped(lines: &Lines, holes: &Holes) -> Result<(), String> {
    is(&holes["pairs"], pairs(lines), "pairs overlap")?;
    if holes.contains_key("none") {
        none_is_lost(lines)?;
    }
    explained(lines, holes)
}

/// Checks the number of acknowledged updates.
fn some_lost(lines: &Lines, holes: &Holes) -> Result<(), String> {
    is(&holes["all"], acknowledged(lines).count() as u64, "were acknowledged")?;
    through(lines, holes)
}

/// How many pairs of holders wrongly held a lock at once.
fn pairs(lines: &Lines) -> u64 {
    let holds: Vec<_> = (lines.operations.iter()).filter_map(|one| lines.hold(one).map(|hold| (one, hold))).collect();
    let mut pairs = 0;
    for (place, (one, (from, to))) in holds.iter().enumerate() {
        let later = holds[place + 1..].iter().filter(|(other, _)| other.client != one.client && other.key == one.key);
        let later = later.filter(|(other, _)| !(lines.is_shared(one) && lines.is_shared(other)));
        pairs += later.filter(|(_, (began, ended))| began < to && from < ended).count() as u64;
    }
    pairs
}

/// Checks that all acknowledged updates were kept, and that the lock never let two clients in.
fn kept(lines: &Lines, holes: &Holes) -> Result<(), String> {
    is(&holes["all"], acknowledged(lines).count() as u64, "were acknowledged")?;
    none_is_lost(lines)?;
    let several = lines.header["permits"].as_u64().unwrap_or(1) > 1;
    ensure(several || pairs(lines) == 0, || format!("it let two clients in {} times", pairs(lines)))?;
    through(lines, holes)
}

fn none_is_lost(lines: &Lines) -> Result<(), String> {
    let gone = acknowledged(lines).filter(|one| one.new.as_deref().is_some_and(|new| is_lost(lines, new).is_ok()));
    // Blind writes build on no value.
    let is_told = lines.header["resource"] == "register"
        && lines.operations.iter().all(|one| lines.events[one.invoke]["f"] != "write");
    ensure(!is_told || gone.count() == 0, || "some were lost".to_string())
}

/// Checks how often two clients held the lock at once, and how many late writes the resource refused.
fn let_in(lines: &Lines, holes: &Holes) -> Result<(), String> {
    let times = holes["times"].as_str();
    let times = if times == "once" { "1" } else { times.strip_suffix(" times").ok_or("how many times?")? };
    let times = number(times);
    ensure(times == pairs(lines), || format!("{} pairs overlap", pairs(lines)))?;
    let refused = lines
        .events
        .iter()
        .filter(|event| event["type"] == "fail" && (event["error"] == "conflict" || event["error"] == "fenced"));
    let told = holes.get("refused").map_or(0, |told| number(told));
    ensure(told == refused.clone().count() as u64, || format!("{} writes were refused", refused.count()))?;
    is(&holes["all"], acknowledged(lines).count() as u64, "were acknowledged")?;
    none_is_lost(lines)?;
    through(lines, holes)
}

/// The faults whose effect was observed.
fn seen(lines: &Lines) -> Vec<&Value> {
    lines.events.iter().filter(|event| event["step"] == "injected" && event["observed"] == true).collect()
}

fn through(lines: &Lines, holes: &Holes) -> Result<(), String> {
    let told = holes.get("faults").map_or(0, |told| number(told));
    ensure(told == seen(lines).len() as u64, || format!("{} faults were seen", seen(lines).len()))
}

/// Checks that a client did not run, for this reason.
fn did_not_run(lines: &Lines, why: &str) -> Result<(), String> {
    let of_client = |event: &Value| {
        let waited = &event["waited"];
        waited["why"] == why && waited["members"][0].as_str().is_some_and(|member| member.starts_with('c'))
    };
    ensure(lines.events.iter().any(of_client), || "it ran".to_string())
}

/// Checks that the reported fault or state existed, for a member of the named kind.
fn explained(lines: &Lines, holes: &Holes) -> Result<(), String> {
    let Some(why) = holes.get("why") else { return Ok(()) };
    let why = why.trim_start_matches(", mostly").split(": ").next().unwrap_or_default().trim_start();
    if why == ", without a fault, though some members did not always run or answer" {
        let kept = lines.events.iter().any(|event| event["type"] == "waited" || event["type"] == "stall");
        return ensure(kept, || "all ran".to_string());
    }
    if why == ", without any fault" || why == "without any fault" || why.is_empty() {
        let injected = lines.events.iter().any(|event| event["step"] == "injected");
        return ensure(!injected || why.is_empty(), || "there was a fault".to_string());
    }
    let kind = |kinds: &[&str], whom: &str| {
        let hits = |event: &&Value| {
            kinds.iter().any(|kind| event["f"] == *kind)
                && event["value"].as_array().is_some_and(|hit| {
                    hit.iter().filter_map(Value::as_str).any(|one| whom.is_empty() || one.starts_with(whom))
                })
        };
        ensure(seen(lines).iter().any(hits), || format!("nobody saw {kinds:?}"))
    };
    match why {
        "when a holder took longer than its lock lasted" => {
            let opens = lines.events.iter().any(|event| event["script"]["opens"].is_array());
            ensure(opens, || "no step opened a breakpoint".to_string())
        }
        "when the machine stood still" => {
            ensure(lines.events.iter().any(|event| event["type"] == "stall"), || "it never did".to_string())
        }
        "when its holder waited for a processor" => did_not_run(lines, "processor"),
        "when its holder was stopped by another process" => did_not_run(lines, "stopped"),
        "when a client stole the lock from another client, as the lock allows" => {
            ensure(lines.header["steals"] == true, || "nobody steals".to_string())
        }
        "after a replica was promoted" => {
            let promoted = lines.events.iter().any(|event| event["type"] == "promotion");
            ensure(promoted, || "nobody was promoted".to_string())
        }
        "when its holder was paused" => while_it_held(lines, "pause"),
        "when a client was paused" => kind(&["pause"], "c"),
        "when a node was paused" => kind(&["pause"], "n"),
        "when its holder was killed" => while_it_held(lines, "kill"),
        "when a client was killed" => kind(&["kill"], "c"),
        "when a node was killed" => kind(&["kill"], "n"),
        "when a node was upgraded" => kind(&["upgrade"], "n"),
        "when a node was shut down" => kind(&["shutdown"], "n"),
        "when a node lost power" => kind(&["power-loss"], "n"),
        "when its holder's clock was wrong" => while_it_held(lines, "clock"),
        "when a client's clock was wrong" => kind(&["clock"], "c"),
        "when a node's clock was wrong" => kind(&["clock"], "n"),
        "when the network was partitioned" => kind(&["partition"], ""),
        "when packets were lost" => kind(&["loss"], ""),
        "when packets were delayed" => kind(&["delay"], ""),
        "when connections were reset" => kind(&["reset"], ""),
        "when nodes evicted keys" => kind(&["evict"], "n"),
        "when nodes lost their keys" => kind(&["flush"], "n"),
        "when a node had forgotten its scripts" => kind(&["forget-scripts"], "n"),
        "when a node refused writes" => kind(&["refuse-writes"], "n"),
        "when nodes wrote snapshots" => kind(&["snapshot"], "n"),
        "when a replica was promoted to primary" => kind(&["failover"], ""),
        "when a fault hit one of its commands" => kind(&["call"], "c"),
        "when its holder's background threads were paused" => while_it_held(lines, "pause-background"),
        "when its holder had another list of nodes" => while_it_held(lines, "reconfigure"),
        "when a client had another list of nodes" => kind(&["reconfigure"], "c"),
        "when a node's disk was slow" => kind(&["slow-disk"], "n"),
        other => Err(format!("`{other}` explains nothing that is known")),
    }
}

/// Checks that a client was seen to be hit, and held the lock between the fault's beginning and its heal.
fn while_it_held(lines: &Lines, kind: &str) -> Result<(), String> {
    let of_fault = |seen: &Value, step: &str| {
        let event = lines.events.iter().find(|event| event["fault"] == seen["fault"] && event["step"] == step)?;
        event["time"].as_u64()
    };
    let hits = |seen: &&Value| {
        let (from, to) = (of_fault(seen, "inject").unwrap_or(0), of_fault(seen, "heal").unwrap_or(u64::MAX));
        lines.operations.iter().any(|one| {
            let is_hit = seen["value"].as_array().is_some_and(|hit| hit.iter().any(|name| *name == one.client[..]));
            is_hit && lines.hold(one).is_some_and(|(acquired, last)| acquired < to && from <= last)
        })
    };
    let struck = seen(lines).into_iter().filter(|event| event["f"] == kind).any(|event| hits(&event));
    ensure(struck, || format!("no holder was hit by a {kind}"))
}

/// Checks the number of tokens that are not greater than an earlier token.
fn tokens(lines: &Lines, holes: &Holes) -> Result<(), String> {
    let told = lines.events.iter().filter(|event| event["type"] == "phase" && event["token"].is_u64()).count();
    ensure((1..=told as u64).contains(&number(&holes["tokens"])), || format!("{told} tokens in all"))
}

/// Checks that for some key, no acquisition was stamped for this long, although clients asked meanwhile.
fn out_of_reach(lines: &Lines, holes: &Holes) -> Result<(), String> {
    let keys: HashSet<&str> = lines.operations.iter().map(|one| one.key.as_str()).collect();
    let end = lines.events.iter().filter_map(|event| event["time"].as_u64()).max().unwrap_or(0);
    let long_enough = |key: &&str| {
        let of_key = || lines.operations.iter().filter(|one| one.key == *key);
        let taken = of_key().flat_map(|one| lines.stamps(one, "acquired")).map(|place| lines.time(place));
        let mut taken: Vec<u64> = std::iter::once(0).chain(taken).chain([end]).collect();
        taken.sort_unstable();
        taken.windows(2).any(|pair| {
            let wide = (0..=(pair[1] - pair[0]) / 1_000_000).rev().any(|ms| is_length(&holes["long"], ms * 1_000_000));
            wide && of_key().any(|one| one.invoked < pair[1])
        })
    };
    ensure(keys.iter().any(long_enough), || "every key was acquired sooner".to_string())
}

/// The first amount is reported in the checker's words.
fn amount(lines: &Lines, holes: &Holes) -> Result<(), String> {
    let all: Vec<usize> = (0..lines.events.len()).collect();
    summaries::check(lines, &format!("{}.", holes["first"]), &all).ok_or("no such amount")?
}

fn nothing_more(_: &Lines, _: &Holes) -> Result<(), String> {
    Ok(())
}
