//! A distrustful reader of incidents. It looks up each number, time, name and cause of a sentence in the lines that the sentence
//! cites, and only in the history. A sentence with an unknown form is an error.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::lines::{Lines, Operation, is_length, moment};
use super::pattern::{Holes, read};
use super::summaries;

/// The facts known about an incident when one of its sentences is read.
pub struct Scene<'l> {
    pub lines: &'l Lines,
    /// The operation that the first sentence is about.
    pub first: Option<&'l Operation>,
    /// The operation that, according to the latest sentence about this, acquired the lock.
    pub last: Option<&'l Operation>,
    /// The time of the latest event in the sentences about clients, which are in order of time.
    pub told: u64,
}

impl<'l> Scene<'l> {
    pub fn new(lines: &'l Lines) -> Scene<'l> {
        Scene { lines, first: None, last: None, told: 0 }
    }

    /// Sentences about clients must be in order of time.
    fn now(&mut self, time: u64) -> Result<(), String> {
        let before = std::mem::replace(&mut self.told, time);
        ensure(before <= time, || format!("at {} it is told of {}", moment(before), moment(time)))
    }
}

type Check = for<'l> fn(&mut Scene<'l>, &Holes, &[usize]) -> Result<(), String>;

/// Every form, with its name.
pub const FORMS: &[(&str, &str, Check)] = &[
    (
        "took the lock",
        "{c=who} acquired the lock[ for {w=mode}] at {t=at}[ ([token {n=token}][, ][valid for {l=valid}[, TTL {l=ttl}]])]{x=more}",
        took,
    ),
    (
        "took the lock",
        "{c=who} acquired the lock[ for {w=mode}] at {t=at}[ ([token {n=token}][, ][valid for {l=valid}[, TTL {l=ttl}]])].",
        took,
    ),
    ("began", "{c=who} began its operation at {t=at}.", began),
    ("began", "{c=who} began its operation at {t=at}{x=more}", began),
    ("expired", "Its lock expired at {t=expiry}, before its work was done.", expired),
    (
        "call",
        "At {t=at} {x=struck}[ until {t=until}][, and its lock expired at {t=expiry} {x=how}][; {c=whose}'s lock expired at {t=expiry}].",
        call,
    ),
    (
        "fault",
        "{x=what} at {t=at}[ for {l=long}][, and never resumed] ({x=how})[ while the script kept it at `{w=phase}` until {t=go}][, and its lock expired at {t=expiry} meanwhile][; {c=whose}'s lock expired at {t=expiry}].",
        fault,
    ),
    ("in effect", "Also in effect: {x=what}.", in_effect),
    ("in effect", "In effect meanwhile: {x=what}.", in_effect),
    ("by its own clock", "By its own clock {c=who} still held the lock for another {l=left}.", still_held),
    ("more took part", "{n=count} more operation took part.", more),
    ("more took part", "{n=count} more operations took part.", more),
    ("both held", "For at least {l=long}[ in {w=total},] {x=two} both believed that they held the lock.", both_held),
    (
        "both held",
        "For at least {l=long} in total, two or more of {x=who} believed at the same time that they held the lock.",
        both_held,
    ),
    (
        "cause: extended",
        "At {t=at} {c=who} was notified that its lock was extended, {l=late} after {c=other} had acquired it.",
        extended,
    ),
    (
        "cause: stall",
        "The machine stood still from {t=from} to {t=to}, and {c=who}'s lock expired meanwhile.",
        stood_still,
    ),
    (
        "cause: no processor",
        "{c=who} waited for a processor for {l=waited} from {t=from} to {t=to}, and its lock expired meanwhile.",
        did_not_run,
    ),
    (
        "cause: stopped from outside",
        "{c=who} was stopped by another process for {l=waited} from {t=from} to {t=to}, and its lock expired meanwhile.",
        did_not_run,
    ),
    ("cause: breakpoint", "The script stopped {c=who} at `{w=phase}` at {t=at}, and its lock expired there.", kept),
    (
        "cause: stolen",
        "{c=who} stole the lock from another client, as this kind of lock allows, and was about to report it at {t=at}.",
        stolen,
    ),
    ("cause: promoted", "{w=node} had replaced {w=before} as the primary of {w=key} by {t=at}.", promoted),
    ("cause: no validity", "At {t=at} {c=who} acquired the lock with no validity left.", no_validity),
    (
        "cause: released",
        "{c=who}, which had acquired the lock before at {t=taken}, was releasing it from {t=from}[ to {t=to}].",
        released,
    ),
    (
        "wrote",
        "At {t=at} {c=who}[, kept at work by the script since {t=since},] [went on, believing that it still held the lock, and \
         ]{x=wrote}.",
        wrote_at,
    ),
    ("lost", "{c=who}'s acknowledged update {v=value} is lost: the last value of {w=key} is not based on it.", lost),
    (
        "lost",
        "{n=count} acknowledged updates are lost, since the last value of {w=key} is based on none of them: {x=values}.",
        lost_many,
    ),
    (
        "in flight",
        "The lock did not cause this loss: {c=who} had released the lock while its write of {v=value} was still in flight, \
         which no lock can prevent.",
        in_flight,
    ),
    ("harmless", "Harmless here: {x=why}.", harmless),
    ("overwritten", "The overwritten update had not been acknowledged.", overwritten),
    ("none lost", "No acknowledged update was lost this time.", none_lost),
];

/// The kind of a sentence, or its error.
pub fn check(scene: &mut Scene, text: &str, cited: &[u64]) -> Result<&'static str, String> {
    let cited: Vec<usize> = cited.iter().map(|line| usize::try_from(*line).unwrap()).collect();
    if cited.is_empty() || cited.iter().any(|place| *place >= scene.lines.events.len()) {
        return Err(format!("its lines are no lines: {cited:?}"));
    }
    let mut wrong = None;
    for (kind, form, check) in FORMS {
        if let Some(holes) = read(form, text) {
            match check(scene, &holes, &cited) {
                Ok(()) => return Ok(kind),
                Err(reason) => wrong = Some(reason),
            }
        }
    }
    match (summaries::check(scene.lines, text, &cited), wrong) {
        (Some(checked), None) => checked.map(|()| "summary"),
        // A sentence with a form of this list may also be a summary, and must then be one completely.
        (Some(Ok(())), Some(_)) => Ok("summary"),
        (_, Some(reason)) => Err(reason),
        (None, None) => Err("no known form".to_string()),
    }
}

pub fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// The cited stamps of a phase by this client.
fn stamps(lines: &Lines, cited: &[usize], who: &str, phase: &str) -> Vec<usize> {
    cited.iter().copied().filter(|place| lines.is_phase(*place, phase) && lines.client(*place) == who).collect()
}

/// The cited stamp with this time.
fn stamp_at(lines: &Lines, cited: &[usize], who: &str, phase: &str, at: &str) -> Result<usize, String> {
    let found = stamps(lines, cited, who, phase).into_iter().find(|place| moment(lines.time(*place)) == at);
    found.ok_or_else(|| format!("no `{phase}` of {who} at {at} among its lines"))
}

fn took<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let lines = scene.lines;
    let place = stamp_at(lines, cited, &holes["who"], "acquired", &holes["at"])?;
    let event = &lines.events[place];
    if let Some(token) = holes.get("token") {
        ensure(event["token"].as_u64().map(|token| token.to_string()).as_ref() == Some(token), || {
            format!("token {token}")
        })?;
    }
    if let Some(valid) = holes.get("valid") {
        let validity = event["validity_ms"].as_u64().ok_or("no validity was told")?;
        ensure(is_length(valid, validity * 1_000_000), || format!("valid for {validity} ms"))?;
    }
    if let Some(ttl) = holes.get("ttl") {
        let of_run = lines.header["ttl_ms"].as_u64().unwrap();
        ensure(is_length(ttl, of_run * 1_000_000), || format!("the TTL is {of_run} ms"))?;
    }
    let operation = lines.operation_of(place).ok_or("a stamp of no operation")?;
    let mode = lines.is_shared(operation).then_some("reading");
    ensure(holes.get("mode").map(String::as_str) == mode, || format!("it took it for {mode:?}"))?;
    scene.first = scene.first.or(Some(operation));
    scene.last = Some(operation);
    scene.now(lines.time(place))?;
    holes.get("more").map_or(Ok(()), |more| clauses(scene, operation, more, cited))
}

fn began<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let lines = scene.lines;
    let fits = |one: &&Operation| {
        one.client == holes["who"] && moment(one.invoked) == holes["at"] && cited.contains(&one.invoke)
    };
    let operation = lines.operations.iter().find(fits).ok_or("no such invocation")?;
    ensure(lines.stamps(operation, "acquired").is_empty(), || "it did get the lock".to_string())?;
    scene.now(operation.invoked)?;
    scene.first = scene.first.or(Some(operation));
    scene.last = Some(operation);
    holes.get("more").map_or(Ok(()), |more| clauses(scene, operation, more, cited))
}

/// Checks the forms ` and read X.` and `, read X too and wrote Y.`
fn clauses(scene: &mut Scene, operation: &Operation, more: &str, cited: &[usize]) -> Result<(), String> {
    let more = more.strip_suffix('.').ok_or("a sentence ends")?;
    if let Some(one) = more.strip_prefix(" and ") {
        return reading(scene, operation, one).or_else(|_| wrote(scene, operation, one, cited));
    }
    let (read, wrote_what) =
        more.strip_prefix(", ").and_then(|more| more.split_once(" and ")).ok_or("unknown clauses")?;
    reading(scene, operation, read)?;
    wrote(scene, operation, wrote_what, cited)
}

fn unquoted(text: &str) -> &str {
    text.trim_matches('`')
}

fn reading(scene: &Scene, operation: &Operation, clause: &str) -> Result<(), String> {
    let (clause, too) = clause.strip_suffix(" too").map_or((clause, false), |clause| (clause, true));
    let was = scene.lines.read_by(operation).ok_or("nothing says what it read")?;
    if too {
        let first = scene.first.and_then(|first| scene.lines.read_by(first));
        ensure(first.as_ref() == Some(&was), || "the first one read something else".to_string())?;
    }
    if clause == "found the key empty" {
        return ensure(was.is_none(), || format!("it read {was:?}"));
    }
    let value = clause.strip_prefix("read ").ok_or_else(|| format!("unknown clause: {clause}"))?;
    is_value(scene.lines, operation, value, was.as_deref(), 0)
}

/// Checks the forms `V`, `7 (V)` of a counter, and `7 elements up to V` of a list, with `more` than the operation had read.
fn is_value(lines: &Lines, operation: &Operation, text: &str, expected: Option<&str>, more: u64) -> Result<(), String> {
    let forms = [
        "{v=value}",
        "{n=count} ({v=value})",
        "{n=count} elements up to {v=value}",
        "{n=count} element up to {v=value}",
    ];
    let holes = forms.iter().find_map(|form| read(form, text)).ok_or_else(|| format!("no value: {text}"))?;
    ensure(Some(unquoted(&holes["value"])) == expected, || format!("it was {expected:?}, not {text}"))?;
    match holes.get("count") {
        None => Ok(()),
        Some(told) => {
            let count = lines.count_of(operation).map(|count| count + more);
            ensure(count == told.replace(',', "").parse().ok(), || format!("the count was {count:?}, not {told}"))
        }
    }
}

fn wrote(scene: &mut Scene, operation: &Operation, clause: &str, cited: &[usize]) -> Result<(), String> {
    let forms: [(&'static str, &str, &[&str]); 4] = [
        ("wrote {x=new} (acknowledged)", "ok", &[]),
        ("tried to write {x=new}, which the resource refused ({w=error})", "fail", &["conflict", "fenced"]),
        ("failed to write {x=new}[ ({w=error})]", "fail", &[]),
        ("{w=verb} [the write of ]{x=new} and got no clear answer[ ({w=error})]", "info", &[]),
    ];
    let lines = scene.lines;
    let sent = lines.stamps(operation, "before-write").last().or(lines.stamps(operation, "written").first()).copied();
    sent.map_or(Ok(()), |sent| scene.now(lines.time(sent)))?;
    let found = forms.iter().find_map(|(form, outcome, errors)| Some((read(form, clause)?, *outcome, *errors)));
    let (holes, outcome, errors) = found.ok_or_else(|| format!("unknown clause: {clause}"))?;
    let answer = operation.answer.map(|place| &lines.events[place]);
    let is = answer.and_then(|event| event["type"].as_str()).unwrap_or("info");
    ensure(is == outcome, || format!("its answer was {is}"))?;
    if let Some(error) = holes.get("error") {
        let said = answer.and_then(|event| event["error"].as_str());
        ensure(said == Some(error) && (errors.is_empty() || errors.contains(&error.as_str())), || format!("{said:?}"))?;
    }
    if let Some(verb) = holes.get("verb") {
        let stored = !lines.stamps(operation, "written").is_empty();
        ensure(verb == if stored { "wrote" } else { "sent" }, || format!("written: {stored}"))?;
    }
    let (new, over) =
        holes["new"].split_once(" over ").map_or((holes["new"].as_str(), None), |(new, over)| (new, Some(over)));
    is_value(lines, operation, new, operation.new.as_deref(), 1)?;
    over.map_or(Ok(()), |over| overwrote(lines, operation, over, cited))
}

/// Checks that the other write was over before this write was sent, but not before this operation had read.
fn overwrote(lines: &Lines, operation: &Operation, over: &str, cited: &[usize]) -> Result<(), String> {
    let value = over.rsplit('`').nth(1).ok_or("no value")?;
    let sent = *lines.stamps(operation, "before-write").last().ok_or("nothing says when it wrote")?;
    let other = lines.operations.iter().find(|other| other.new.as_deref() == Some(value)).ok_or("nobody wrote that")?;
    ensure(other.key == operation.key, || "that was another key".to_string())?;
    let written = *lines.stamps(other, "written").first().ok_or("nothing says that it was written")?;
    ensure(cited.contains(&written) && cited.contains(&sent), || "its lines do not show it".to_string())?;
    ensure(lines.time(written) <= lines.time(sent), || format!("{value} was written later"))?;
    ensure(lines.read_by(operation).flatten().as_deref() != Some(value), || "it had read that".to_string())?;
    let had_read = lines.stamps(operation, "read").first().is_none_or(|read| lines.time(*read) < lines.time(written));
    ensure(had_read, || format!("it read when {value} was there already"))?;
    // No other write can have come between the two.
    let between = lines
        .operations
        .iter()
        .filter(|one| one.key == other.key && one.invoke != other.invoke && one.invoke != operation.invoke);
    let between: Vec<&Operation> = between
        .filter(|one| {
            let Some(began) = lines.stamps(one, "before-write").last().map(|place| lines.time(*place)) else {
                return false;
            };
            let ended = lines.stamps(one, "written").first().map(|place| lines.time(*place));
            let failed = one.answer.is_some_and(|place| lines.events[place]["type"] == "fail");
            let other_sent = lines.stamps(other, "before-write").last().map_or(0, |place| lines.time(*place));
            !failed && began < lines.time(sent) && ended.is_none_or(|ended| ended > other_sent)
        })
        .collect();
    ensure(between.is_empty(), || format!("{:?} may have come in between", between[0].new))
}

fn wrote_at<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let lines = scene.lines;
    let place = stamp_at(lines, cited, &holes["who"], "before-write", &holes["at"])
        .or_else(|_| stamp_at(lines, cited, &holes["who"], "written", &holes["at"]))?;
    let operation = lines.operation_of(place).ok_or("a stamp of no operation")?;
    if let Some(since) = holes.get("since") {
        let reached = stamp_at(lines, cited, &holes["who"], "before-write", since)?;
        let opens = |event: &&Value| {
            let opens = event["script"]["opens"].as_array().map_or(&[][..], Vec::as_slice);
            opens
                .iter()
                .any(|opened| opened["from"] == "before-write" && format!("c{}", opened["client"]) == holes["who"])
        };
        let let_go = lines.events.iter().skip(reached).find(opens).ok_or("no step let it go")?;
        let kept = let_go["time"].as_u64().unwrap().saturating_sub(lines.time(reached));
        ensure(kept >= 20_000_000, || format!("it was kept for {kept} ns"))?;
    }
    wrote(scene, operation, &holes["wrote"], cited)
}

/// Acquisitions and extensions of the first operation that report this expiry of its lock.
fn says_expiry(scene: &Scene, cited: &[usize], expiry: &str) -> Result<u64, String> {
    let (lines, first) = (scene.lines, scene.first.ok_or("whose lock?")?);
    let told = ["acquired", "extended"].into_iter().flat_map(|phase| lines.stamps(first, phase));
    let until = |place: usize| Some(lines.time(place) + lines.events[place]["validity_ms"].as_u64()? * 1_000_000);
    let found = told.filter(|place| cited.contains(place)).filter_map(until).find(|until| moment(*until) == expiry);
    let found = found.ok_or_else(|| format!("nothing says that it expired at {expiry}"))?;
    let (_, held_until) = lines.hold(first).ok_or("it held nothing")?;
    ensure(found <= held_until, || format!("it had given it back at {}", moment(held_until)))?;
    Ok(found)
}

fn expired<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    says_expiry(scene, cited, &holes["expiry"]).map(|_| ())
}

/// The cited fault, from its lines: its order, its times, its targets, and the observations.
struct Fault<'l> {
    inject: &'l Value,
    from: u64,
    to: Option<u64>,
    observed: bool,
    seen: Vec<&'l str>,
}

fn cited_fault<'l>(lines: &'l Lines, cited: &[usize]) -> Result<Fault<'l>, String> {
    let steps: Vec<&Value> =
        cited.iter().map(|place| &lines.events[*place]).filter(|event| event["process"] == "nemesis").collect();
    let step = |name: &str| steps.iter().find(|event| event["step"] == name).copied();
    let inject = step("inject").ok_or("no fault was ordered")?;
    ensure(steps.iter().all(|event| event["fault"] == inject["fault"]), || "lines of several faults".to_string())?;
    let injected = step("injected");
    let observed = injected.is_some_and(|event| event["observed"] == true);
    // A fault at a command has no effect before it fires.
    let began = injected.filter(|_| observed && inject["f"] == "call").unwrap_or(inject);
    let seen = steps.iter().filter(|event| event["step"] != "inject").filter_map(|event| event["text"].as_str());
    Ok(Fault {
        inject: injected.unwrap_or(inject),
        from: began["time"].as_u64().unwrap(),
        to: step("healed").map(|event| event["time"].as_u64().unwrap()),
        observed,
        seen: seen.collect(),
    })
}

/// Reasons why a sentence on a fault can't be checked before the first holder is known.
pub const NEEDS_A_HOLDER: [&str; 2] = ["what does it explain?", "whom?"];

/// A fault explains only events during its effect. It must be in effect before the last holder was done, but after the first
/// holder asked for its lock or a client released it.
fn can_explain(scene: &Scene, fault: &Fault) -> Result<(), String> {
    let (lines, first) = (scene.lines, scene.first.ok_or(NEEDS_A_HOLDER[0])?);
    ensure(fault.observed, || "nobody saw it".to_string())?;
    let until = first.answer.map_or(u64::MAX, |place| lines.time(place));
    ensure(fault.from <= until, || "it came later".to_string())
}

fn fault<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let lines = scene.lines;
    let fault = cited_fault(lines, cited)?;
    let targets: Vec<&str> = fault.inject["value"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let first = scene.first.ok_or(NEEDS_A_HOLDER[1])?;
    ensure(moment(fault.from) == holes["at"], || format!("it began at {}", moment(fault.from)))?;
    if let Some(long) = holes.get("long") {
        let to = fault.to.ok_or("it was never healed")?;
        ensure(is_length(long, to - fault.from), || format!("it lasted {} ns", to - fault.from))?;
    }
    let kind = fault.inject["f"].as_str().unwrap();
    let (past, how) = words_of(kind).ok_or_else(|| format!("a fault without words: {kind}"))?;
    let ordered = cited.iter().map(|place| &lines.events[*place]).find(|event| event["step"] == "inject");
    let what = ordered.and_then(|event| event["text"].as_str()).unwrap_or_default();
    let how_told = holes["how"].trim_start_matches("simulated ");
    ensure(how_told == how || how_told == format!("{how}: `{what}`"), || format!("{how}: {what}"))?;
    if past.is_empty() {
        let links = ordered.and_then(|event| event["links"].as_array()).ok_or("no links are known")?;
        on_links(kind, &holes["what"], links)?;
    } else if let Some(done) = holes["what"].strip_prefix("It was ") {
        ensure(targets == [first.client.as_str()], || format!("it hit {targets:?}"))?;
        ensure(done == past, || format!("{kind} is `{past}`"))?;
    } else {
        let verb = if targets.len() == 1 { "was" } else { "were" };
        let (whom, done) =
            holes["what"].split_once(&format!(" {verb} ")).ok_or_else(|| format!("it hit {targets:?}"))?;
        ensure(members(whom) == targets, || format!("it hit {targets:?}"))?;
        ensure(done == past, || format!("{kind} is `{past}`"))?;
    }
    can_explain(scene, &fault)?;
    if let Some(phase) = holes.get("phase") {
        let go = |event: &&Value| event["script"]["step"] == format!("go client:{}", &first.client[1..]);
        let mut gone_on = lines.events.iter().filter(go).map(|event| moment(event["time"].as_u64().unwrap()));
        ensure(gone_on.any(|time| time == holes["go"]), || "the script did not let it go on then".to_string())?;
        ensure(lines.stamps(first, phase).len() > 1, || format!("it did not stop at `{phase}`"))?;
    }
    if let Some(expiry) = holes.get("expiry") {
        ensure(holes.get("whose").is_none_or(|whose| *whose == first.client), || "whose lock?".to_string())?;
        let expiry = says_expiry(scene, cited, expiry)?;
        let in_effect = fault.from <= expiry && fault.to.is_none_or(|to| expiry <= to);
        ensure(holes.contains_key("whose") || in_effect, || "it was over by then".to_string())?;
    }
    Ok(())
}

/// The names in `n0, n1 and the resource`.
fn members(text: &str) -> Vec<&str> {
    let names = text.split(", ").flat_map(|part| part.split(" and "));
    names.map(|name| if name.eq_ignore_ascii_case("the resource") { "resource" } else { name }).collect()
}

/// Checks that a fault on links affects the links that the sentence names, in the same directions.
fn on_links(kind: &str, text: &str, links: &[Value]) -> Result<(), String> {
    let pair = |link: &Value| Some((link[0].as_str()?.to_string(), link[1].as_str()?.to_string()));
    let real: HashSet<(String, String)> = links.iter().filter_map(pair).collect();
    let between = |from: &[&str], to: &[&str]| -> HashSet<(String, String)> {
        let pairs = from.iter().flat_map(|one| to.iter().map(move |other| (one.to_string(), other.to_string())));
        pairs.filter(|(one, other)| one != other).collect()
    };
    let both = |one: &[&str], other: &[&str]| &between(one, other) | &between(other, one);
    let (what, done) = match kind {
        "partition" => ("Packets", "dropped"),
        "delay" => ("Packets", "delayed"),
        "loss" => ("Packets", "lost"),
        "reset" => ("Connections", "reset"),
        other => return Err(format!("{other} is on no links")),
    };
    let capital = |text: &str| text.replacen("The resource", "resource", 1);
    let told = if kind == "partition" && text.contains(" cut off from ") {
        let (near, far) = text.split_once(" cut off from ").unwrap();
        let near = capital(near.strip_suffix(" was").or(near.strip_suffix(" were")).ok_or("was or were")?);
        let near = members(&near);
        if far == "each other" { between(&near, &near) } else { both(&near, &members(far)) }
    } else {
        let whom = text.strip_prefix(&format!("{what} ")).and_then(|rest| rest.strip_suffix(&format!(" were {done}")));
        let whom = whom.ok_or_else(|| format!("{kind} is `{what} were {done}`"))?;
        if let Some((from, to)) = whom.strip_prefix("from ").and_then(|rest| rest.split_once(" to ")) {
            between(&members(from), &members(to))
        } else if let Some(all) = whom.strip_prefix("among ") {
            between(&members(all), &members(all))
        } else if let Some(all) = whom.strip_prefix("on links among ") {
            let all: HashSet<&str> = members(all).into_iter().collect();
            let names: HashSet<&str> = real.iter().flat_map(|(from, to)| [&from[..], &to[..]]).collect();
            return ensure(all == names, || format!("the links are among {names:?}"));
        } else {
            // `between a, b and c and d` can be split in several ways.
            let whom = whom.strip_prefix("between ").ok_or("between whom?")?;
            let mut ways =
                whom.match_indices(" and ").map(|(at, _)| both(&members(&whom[..at]), &members(&whom[at + 5..])));
            return ensure(ways.any(|way| way == real), || format!("the links are {real:?}"));
        }
    };
    ensure(told == real, || format!("the links are {real:?}"))
}

/// See docs/faults.md: a fault's effect on members, and its means. None if it is on links.
fn words_of(kind: &str) -> Option<(&'static str, &'static str)> {
    Some(match kind {
        "pause" => ("paused", "SIGSTOP"),
        "kill" => ("killed", "SIGKILL"),
        "power-loss" => ("powered off", "SIGKILL, and unsynced data is gone"),
        "partition" => ("", "packets dropped"),
        "loss" => ("", "packets dropped at random"),
        "delay" => ("", "packets held back"),
        "reset" => ("", "connections reset"),
        "clock" => ("skewed", "wall clock"),
        "evict" => ("made to evict keys", "maxmemory"),
        "flush" => ("flushed", "FLUSHALL"),
        "forget-scripts" => ("made to forget scripts", "SCRIPT FLUSH"),
        "refuse-writes" => ("made to refuse writes", "min-replicas-to-write"),
        "snapshot" => ("made to write snapshots", "BGSAVE"),
        "failover" => ("replaced as the primary", "on an operator's command"),
        "pause-background" => ("paused but for the first thread", "ptrace"),
        "busy" => ("kept busy", "a script that does not end"),
        "block" => ("blocked", "by its own event loop"),
        "shutdown" => ("shut down", "SIGTERM"),
        "upgrade" => ("upgraded", "by a restart as another server program"),
        "reconfigure" => ("reconfigured", "by a restart with another list of nodes"),
        "slow-disk" => ("slowed at each sync", "each sync waits"),
        _ => return None,
    })
}

fn call<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let fault = cited_fault(scene.lines, cited)?;
    ensure(fault.inject["f"] == "call", || "that was no command".to_string())?;
    ensure(moment(fault.from) == holes["at"], || format!("it struck at {}", moment(fault.from)))?;
    let until = fault.to.map(moment);
    let was = |seen: &str| match holes.contains_key("until") {
        true => match seen.strip_suffix("is held") {
            Some(before) => format!("{before}was held"),
            None => seen.replace("nor is", "nor was").replace("as is everything", "as was everything"),
        },
        false => seen.to_string(),
    };
    let lasts = |seen: &str| seen.ends_with("is held") || seen.contains("as is everything else");
    let told = fault.seen.first().is_some_and(|seen| {
        holes["struck"] == was(seen) && (until.is_some() && lasts(seen)) == holes.contains_key("until")
    });
    ensure(told, || format!("{:?}", fault.seen))?;
    ensure(holes.get("until").is_none_or(|told| until.as_ref() == Some(told)), || format!("until {until:?}"))?;
    if let Some(expiry) = holes.get("expiry") {
        says_expiry(scene, cited, expiry)?;
    }
    can_explain(scene, &fault)
}

fn in_effect<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let (lines, first) = (scene.lines, scene.first.ok_or("during what?")?);
    let end = first.answer.map_or(u64::MAX, |place| lines.events[place]["time"].as_u64().unwrap());
    let mut what = holes["what"].clone();
    let nemesis = || lines.events.iter().enumerate().filter(|(_, event)| event["process"] == "nemesis");
    for (place, inject) in nemesis().filter(|(place, event)| event["step"] == "inject" && cited.contains(place)) {
        let of_it = |name: &'static str| {
            nemesis().find(|(at, event)| *at > place && event["fault"] == inject["fault"] && event["step"] == name)
        };
        let healed = of_it("healed").map(|(_, event)| event["time"].as_u64().unwrap());
        let observed = of_it("injected").is_some_and(|(_, event)| event["observed"] == true);
        let began = inject["time"].as_u64().unwrap();
        ensure(observed && began <= end && healed.is_none_or(|to| to >= first.invoked), || {
            format!("{inject} was not in effect")
        })?;
        let name = format!("`{}`", inject["text"].as_str().unwrap());
        let Some(at) = what.find(&name) else { continue };
        what.replace_range(at..at + name.len(), "");
        if let Some(whom) = what[at..].strip_prefix(" (").and_then(|rest| rest.split(')').next()) {
            let struck: Vec<&str> = inject["value"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            let told: Vec<&str> = whom.split(" and ").flat_map(|some| some.split(", ")).collect();
            ensure(told == struck, || format!("{inject} did not strike {whom}"))?;
        }
    }
    ensure(!what.contains('`'), || format!("no fault {what}"))
}

fn still_held<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let (lines, last) = (scene.lines, scene.last.ok_or("when?")?);
    let taken = lines.stamps(last, "acquired").first().copied().ok_or("nobody took it")?;
    let told = ["acquired", "extended"].into_iter().flat_map(|phase| stamps(lines, cited, &holes["who"], phase));
    let told: Vec<usize> = told.filter(|place| *place != taken && lines.time(*place) <= lines.time(taken)).collect();
    let fits = told.iter().find(|place| {
        let validity = lines.events[**place]["validity_ms"].as_u64().unwrap_or(0) * 1_000_000;
        (lines.time(**place) + validity)
            .checked_sub(lines.time(taken))
            .is_some_and(|left| is_length(&holes["left"], left))
    });
    let place = *fits.ok_or_else(|| format!("nothing says that it had {} left", holes["left"]))?;
    let holder = lines.operation_of(place).ok_or("a stamp of no operation")?;
    let (from, to) = lines.hold(holder).ok_or("it held nothing")?;
    ensure(from <= lines.time(taken) && lines.time(taken) < to, || format!("it had given it back at {}", moment(to)))
}

fn more<'l>(_: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    ensure(holes["count"].replace(',', "").parse() == Ok(cited.len()), || format!("{} operations", cited.len()))
}

fn both_held<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let lines = scene.lines;
    let mut seen = HashSet::new();
    let operations = cited.iter().filter_map(|place| lines.operation_of(*place));
    let of_clients: Vec<(&str, bool, (u64, u64))> = operations
        .filter(|one| seen.insert(one.invoke))
        .filter_map(|one| Some((&*one.client, lines.is_shared(one), lines.hold(one)?)))
        .collect();
    // The named clients are those that held it beside another client.
    let beside = |(client, shared, (from, to)): &(&str, bool, (u64, u64))| {
        of_clients.iter().any(|(other, with, (began, ended))| {
            other != client && !(*shared && *with) && from.max(began) < to.min(ended)
        })
    };
    let overlapping: BTreeSet<&str> = of_clients.iter().filter(|one| beside(one)).map(|(client, ..)| *client).collect();
    let named = holes.get("two").or(holes.get("who")).ok_or("no client is named")?;
    let are_named = match named.split_once(" clients") {
        Some((number, _)) => number == overlapping.len().to_string(),
        None => named.replace(" and ", ", ").split(", ").collect::<BTreeSet<_>>() == overlapping,
    };
    ensure(are_named, || format!("{overlapping:?} held it together, not {named}"))?;
    let holds: Vec<(bool, (u64, u64))> = of_clients.iter().map(|(_, shared, hold)| (*shared, *hold)).collect();
    // Every time at which two clients held the lock that must not hold it together.
    let mut moments: Vec<(u64, i32, bool)> =
        holds.iter().flat_map(|(shared, (from, to))| [(*from, 1, *shared), (*to, -1, *shared)]).collect();
    moments.sort_unstable();
    let (mut sum, mut readers, mut writers, mut before) = (0, 0, 0, 0);
    for (at, change, shared) in moments {
        sum += if writers >= 2 || writers >= 1 && readers >= 1 { at - before } else { 0 };
        before = at;
        *if shared { &mut readers } else { &mut writers } += change;
    }
    ensure(is_length(&holes["long"], sum), || format!("they shared it for {sum} ns"))
}

fn extended<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let lines = scene.lines;
    let extended = stamp_at(lines, cited, &holes["who"], "extended", &holes["at"])?;
    let taken = stamps(lines, cited, &holes["other"], "acquired").into_iter().find(|place| {
        lines.time(extended).checked_sub(lines.time(*place)).is_some_and(|late| is_length(&holes["late"], late))
    });
    ensure(taken.is_some(), || format!("{} took it at no such time", holes["other"]))
}

fn did_not_run<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let lines = scene.lines;
    let line = cited.iter().find(|place| lines.events[**place]["type"] == "waited").ok_or("no line of a wait")?;
    let waited = &lines.events[*line]["waited"];
    let is_its = waited["members"].as_array().is_some_and(|members| members.iter().any(|name| *name == holes["who"]));
    ensure(is_its, || "another one did not run".to_string())?;
    let (from, to) = (waited["from_ns"].as_u64().unwrap(), waited["to_ns"].as_u64().unwrap());
    let span = (moment(from), moment(to));
    ensure(span == (holes["from"].clone(), holes["to"].clone()), || format!("it did not run from {span:?}"))?;
    stamps(lines, cited, &holes["who"], "acquired").into_iter().next().ok_or("its acquisition is not cited")?;
    Ok(())
}

fn stood_still<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let lines = scene.lines;
    let stall = cited.iter().find(|place| lines.events[**place]["type"] == "stall").ok_or("no line of a stall")?;
    let (to, lasted) = (lines.time(*stall), lines.events[*stall]["stall"]["lasted_ns"].as_u64().unwrap());
    let span = (moment(to.saturating_sub(lasted)), moment(to));
    ensure(span == (holes["from"].clone(), holes["to"].clone()), || format!("it stood still from {span:?}"))?;
    let told = stamps(lines, cited, &holes["who"], "acquired").into_iter().next();
    let told = told.ok_or("its acquisition is not cited")?;
    let ttl = lines.header["ttl_ms"].as_u64().unwrap();
    let ran_out = lines.time(told) + lines.events[told]["validity_ms"].as_u64().unwrap_or(ttl) * 1_000_000;
    let holder = lines.operation_of(told).ok_or("a stamp of no operation")?;
    let extended = !lines.stamps(holder, "extended").is_empty();
    ensure(extended || (to - lasted..=to).contains(&ran_out), || "it ran out at another time".to_string())
}

fn kept<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let lines = scene.lines;
    let phase = holes["phase"].clone();
    let kept = stamp_at(lines, cited, &holes["who"], &phase, &holes["at"])?;
    let holder = lines.operation_of(kept).ok_or("a stamp of no operation")?;
    let acquired = lines.stamps(holder, "acquired");
    let told = acquired.first().copied().filter(|place| cited.contains(place)).ok_or("its acquisition is not cited")?;
    let ttl = lines.header["ttl_ms"].as_u64().unwrap();
    let ran_out = lines.time(told) + lines.events[told]["validity_ms"].as_u64().unwrap_or(ttl) * 1_000_000;
    let gone_on = lines.stamps(holder, &phase).into_iter().find(|place| *place > kept).ok_or("it never went on")?;
    let extended = !lines.stamps(holder, "extended").is_empty();
    ensure(extended || (lines.time(kept) <= ran_out && ran_out <= lines.time(gone_on)), || {
        "it ran out elsewhere".to_string()
    })?;
    let go = format!("go client:{}", &holes["who"][1..]);
    let early = lines.events.iter().enumerate().skip(kept).find(|(_, event)| event["script"]["step"] == go.as_str());
    ensure(early.is_none_or(|(_, event)| event["time"].as_u64().unwrap() > ran_out || extended), || {
        "it was let go before".to_string()
    })
}

fn stolen<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    ensure(scene.lines.header["steals"] == true, || "this lock lets nobody steal".to_string())?;
    stamp_at(scene.lines, cited, &holes["who"], "half-acquired", &holes["at"]).map(|_| ())
}

fn promoted<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let events = cited.iter().map(|place| &scene.lines.events[*place]).filter(|event| event["type"] == "promotion");
    let fits = |event: &&Value| {
        let told = &event["promotion"];
        moment(event["time"].as_u64().unwrap()) == holes["at"]
            && told["node"] == holes["node"].as_str()
            && told["instead_of"] == holes["before"].as_str()
            && told["key"] == holes["key"].as_str()
    };
    let place = events.into_iter().find(fits).ok_or("no such promotion")?;
    // In a story of two holders, it came before the second holder.
    let taken = scene.last.filter(|last| scene.first.is_some_and(|first| first.invoke != last.invoke));
    let taken =
        taken.and_then(|last| scene.lines.stamps(last, "acquired").first().map(|place| scene.lines.time(*place)));
    ensure(taken.is_none_or(|taken| place["time"].as_u64().unwrap() <= taken), || "it came later".to_string())
}

fn no_validity<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let place = stamp_at(scene.lines, cited, &holes["who"], "acquired", &holes["at"])?;
    ensure(scene.lines.events[place]["validity_ms"] == 0, || "it had some".to_string())
}

fn released<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let lines = scene.lines;
    let acquired = stamp_at(lines, cited, &holes["who"], "acquired", &holes["taken"])?;
    stamp_at(lines, cited, &holes["who"], "releasing", &holes["from"])?;
    if let Some(to) = holes.get("to") {
        stamp_at(lines, cited, &holes["who"], "released", to)?;
    }
    let first = scene.first.and_then(|first| lines.stamps(first, "acquired").first().copied()).ok_or("before whom?")?;
    ensure(lines.time(acquired) < lines.time(first), || "it came later".to_string())
}

/// Checks that the value was acknowledged, and is not an ancestor of the key's final value, if that is known.
pub fn is_lost(lines: &Lines, value: &str) -> Result<(), String> {
    let of_value = |value: &str| lines.operations.iter().find(|one| one.new.as_deref() == Some(value));
    let operation = of_value(value).ok_or("nobody wrote that")?;
    ensure(lines.is_acknowledged(operation), || "it was not acknowledged".to_string())?;
    let last = lines.operations.iter().rfind(|one| one.client == "controller" && one.key == operation.key);
    let mut value_now = last.and_then(|read| lines.read_by(read)).flatten();
    let mut steps = 0;
    while let Some(current) = value_now {
        ensure(current != value, || "the final value builds on it".to_string())?;
        steps += 1;
        ensure(steps <= lines.operations.len(), || "values go in a circle".to_string())?;
        value_now = of_value(&current).and_then(|writer| lines.read_by(writer)).flatten();
    }
    Ok(())
}

fn lost<'l>(scene: &mut Scene<'l>, holes: &Holes, _: &[usize]) -> Result<(), String> {
    let value = unquoted(&holes["value"]);
    let writer = scene.lines.operations.iter().find(|one| one.new.as_deref() == Some(value));
    ensure(writer.is_some_and(|writer| writer.client == holes["who"]), || "another client wrote that".to_string())?;
    ensure(writer.is_some_and(|writer| writer.key == holes["key"]), || "that is of another key".to_string())?;
    is_lost(scene.lines, value)
}

/// Checks that the writer got no answer for its write, and released the lock.
fn in_flight<'l>(scene: &mut Scene<'l>, holes: &Holes, _: &[usize]) -> Result<(), String> {
    let lines = scene.lines;
    let value = unquoted(&holes["value"]);
    let writer = lines.operations.iter().find(|one| one.new.as_deref() == Some(value)).ok_or("nobody wrote that")?;
    ensure(writer.client == holes["who"], || "another client wrote that".to_string())?;
    ensure(!lines.is_acknowledged(writer), || "it was acknowledged".to_string())?;
    ensure(lines.stamps(writer, "written").is_empty(), || "its client had the answer".to_string())?;
    ensure(!lines.stamps(writer, "releasing").is_empty(), || "its client kept the lock".to_string())
}

fn lost_many<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let lines = scene.lines;
    let lost: HashSet<&str> = cited.iter().filter_map(|place| lines.operation_of(*place)?.new.as_deref()).collect();
    ensure(holes["count"].replace(',', "").parse() == Ok(lost.len()), || format!("{} are cited", lost.len()))?;
    for value in holes["values"].split('`').skip(1).step_by(2) {
        ensure(lost.contains(value), || format!("{value} is not cited"))?;
    }
    lost.into_iter().try_for_each(|value| is_lost(lines, value))
}

fn none_lost<'l>(scene: &mut Scene<'l>, _: &Holes, cited: &[usize]) -> Result<(), String> {
    let lines = scene.lines;
    let operations =
        cited.iter().filter_map(|place| lines.operation_of(*place)).filter(|one| lines.is_acknowledged(one));
    for value in operations.filter_map(|one| one.new.as_deref()) {
        let followed = lines.operations.iter().any(|one| lines.read_by(one).flatten().as_deref() == Some(value));
        ensure(followed || is_lost(lines, value).is_err(), || format!("{value} is lost"))?;
    }
    Ok(())
}

/// The ways in which a resource refuses late writes: see docs/resources.md.
const REFUSALS: [&str; 5] = [
    "the database ends the transaction of a holder that comes too late",
    "the resource refuses a write whose old value is no longer current",
    "the resource refuses a write with a token older than the newest it has seen",
    "the resource refuses a write whose token is not greater than the newest it has seen",
    "the resource refuses any request with a token older than the newest it has seen",
];

/// No line shows a refusal by the resource, but the lines show that nothing was lost.
fn harmless<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    ensure(REFUSALS.contains(&holes["why"].as_str()), || "no resource refuses like that".to_string())?;
    none_lost(scene, holes, cited)
}

/// Checks that some write has no answer, and that no answered write is lost.
fn overwritten<'l>(scene: &mut Scene<'l>, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let mut operations = cited.iter().filter_map(|place| scene.lines.operation_of(*place));
    ensure(operations.any(|one| !scene.lines.is_acknowledged(one)), || "all were acknowledged".to_string())?;
    none_lost(scene, holes, cited)
}
