//! Checks the checker's own summaries like other sentences: each form has its own check of every name, value, time and number in
//! it.

use std::collections::HashSet;

use super::lines::{Lines, Operation, is_length, moment};
use super::pattern::{self, Holes};
use super::sentences::{ensure, is_lost};

/// A summary: the texts in its holes, and the operations of the lines that it cites.
pub struct Summary<'l> {
    pub lines: &'l Lines,
    pub holes: &'l Holes,
    pub cited: Vec<&'l Operation>,
    /// The indices of these lines.
    pub places: &'l [usize],
}

type Check = fn(&Summary) -> Result<(), String>;

pub const SUMMARIES: &[(&str, Check)] = &[
    (
        "{x=readers} read {w=key} = {w=value}[ {x=often}]; {c=by}'s write of {w=new}[ (based on {c=other}'s {w=base})] at {t=at} erased {x=values}, which [[is][are] based on {x=heads} and ][had {w=had} acknowledged][{w=was} nevertheless acknowledged][; {x=blamed}].",
        erased,
    ),
    (
        "{x=readers} read {w=key} = {w=value}[ {x=often}]; {c=by} wrote {w=new}[ (based on {c=other}'s {w=base})] at {t=at} without reading {x=values}, which [[is][are] based on {x=heads} and ][had {w=had} acknowledged][{w=was} nevertheless acknowledged][; {x=blamed}].",
        did_not_build_on,
    ),
    (
        "The final read at {t=at} found {w=key} = {w=value}, but {x=values} [is][are] gone, although [it was][they were] acknowledged and based on that value[; {x=blamed}].",
        reverted,
    ),
    (
        "{x=values} of {w=key} had been acknowledged, but the value that {c=by} saw at {t=at} builds on other values only[; {x=blamed}].",
        left_out,
    ),
    (
        "{x=readers} read {w=key} = {w=value}[ {x=often}], and the values that they then wrote, {x=values}, were acknowledged or seen: no order allows that[; {x=blamed}].",
        two_successors,
    ),
    (
        "{x=readers} read {w=key} = {w=value}, a value that no client was asked to write to {w=other}[; {x=blamed}].",
        from_nowhere,
    ),
    (
        "{x=readers} read {w=key} = {w=value}, although {c=by} had reported that its write of that value failed[; {x=blamed}].",
        of_a_failure,
    ),
    (
        "{x=readers} read {w=key} = {w=value} by {t=at}, before {c=by} began to write it at {t=began}[; {x=blamed}].",
        before_its_write,
    ),
    ("{c=by} read {w=key} = {w=value} before writing it[; {x=blamed}].", its_own),
    ("The writes of {x=values} to {w=key} form a cycle, so none of them can be the first[; {x=blamed}].", in_a_circle),
    (
        "{c=by} began to write {w=value} to {w=key} at {t=at}, but {c=other} had by {t=over} seen or written a value that builds on it[; {x=blamed}].",
        descends_from_later,
    ),
    (
        "{c=by} read {w=key} = {w=value}[ after {t=at}][ and still held the lock for reading at {t=held}], but {c=other}'s [write of {w=wrote}][read of {w} = {w=read}][, {w=later} later value][, on which {w=late} does not build], had completed by {t=over}[; {x=blamed}].",
        stale,
    ),
    (
        "{c=by}'s write of {w=value} to {w=key} began at {t=at}, after {c=other} had by {t=over} seen or written an unrelated value, which fits neither before nor after it[; {x=blamed}].",
        of_another_lineage,
    ),
    (
        "{c=by} read {w=key} = {w=value} with a count of {n=count}, but that value is the result of {n} updates of the empty key[; {x=blamed}].",
        count_found,
    ),
    ("{c=by} found {w=value} twice in the list of {w=key}[{x}].", in_a_list),
    ("{c=by} found {w=value} in the list of {w=key}, but no client was asked to append {w}[{x}].", in_a_list),
    (
        "{c=by} found {w=value} in the list of {w=key}, although {c} had reported that appending it failed[{x}].",
        in_a_list,
    ),
    (
        "{c=by} found {w=value} at the wrong position in the list of {w=key}: {c} had appended it after reading {w} = {w}[{x}].",
        in_a_list,
    ),
    ("{c=by} read a list of {w=key} that does not end with its last update[{x}].", in_a_list),
    (
        "{c=by} read a final count of {n=count} for {w=key}: too small by {n}[ further] acknowledged update[s][; {x=blamed}].",
        count_found,
    ),
    (
        "{x=values} had been acknowledged[ or {w=read}], but after {t=at} {c=by} found[ the {w=older} value] {w=key} = {w=value}[, which is not based on {w=onto}][, and no client saw {w=them} again]: [{w=it} is][they are] lost[; {x=blamed}].",
        rolled_back,
    ),
    (
        "{c=first} and {c=second} both held the lock of {w=key}[, the {w=which} for reading,] for {l=long} from {t=from}: {c=who} acquired it at {t=acquired} and still acted as its holder at {t=until}.",
        overlapping,
    ),
    (
        "{n=count} clients held the lock of {w=key} at once for {l=long} from {t=from}, but at most {n=permits} may: {c=who} acquired it at {t=acquired}, when {x=others} still held it.",
        too_many,
    ),
    (
        "{c=by} acquired the lock of {w=key} with token {n=token} at {t=at}, after {c=other} had acquired it with token {n=greater}.",
        tokens,
    ),
    (
        "{c=by} asked for the lock at {t=at} and [gave up][still did not hold it] {l=long} later, though it should have been available (`{x=step}`).",
        late,
    ),
    ("A working lock would have reached this step by {t=at} (`{x=step}`): {x}.", not_that_far),
    (
        "{c=by} asked for the lock at {t=at} and [acquired it][gave up][had neither acquired it nor given up] {l=long} later, past its timeout of {l=limit}.",
        past_its_timeout,
    ),
    (
        "[After the last client had gone, a lock was left][A node kept a lock] that outlasts its TTL: {x=which}.",
        left_behind,
    ),
    (
        "[No client acquired the lock of {w=key}][Fewer than {n=permits} clients had a valid lock of {w=permit}] for {l=long} from {t=free}, though clients asked for it: longer than the workload allows.",
        nobody_got_it,
    ),
    (
        "[No client acquired the lock of {w=key}][Fewer than {n=permits} clients had a valid lock of {w=permit}] for {l=long} from {t=free}, though [no client had a valid lock][clients asked for it]: [{n=failed} attempt[s] failed][ and {n=waiting} waited for it][{n=waited} attempt[s] waited for it], and no fault was in effect.",
        nobody_got_it,
    ),
];

/// Checks a summary with a known form; None if the form is unknown.
pub fn check(lines: &Lines, text: &str, places: &[usize]) -> Option<Result<(), String>> {
    SUMMARIES.iter().find_map(|(form, check)| {
        let holes = pattern::read(form, text)?;
        let mut seen = HashSet::new();
        let cited = places.iter().filter_map(|place| lines.operation_of(*place));
        let cited = cited.filter(|one| seen.insert(one.invoke)).collect();
        let summary = Summary { lines, holes: &holes, cited, places };
        Some(check(&summary).and_then(|()| summary.blamed()))
    })
}

impl<'l> Summary<'l> {
    fn hole(&self, name: &str) -> Option<&'l str> {
        self.holes.get(name).map(String::as_str)
    }

    fn is(&self, name: &str, real: impl AsRef<str>) -> Result<(), String> {
        let real = real.as_ref();
        ensure(self.hole(name) == Some(real), || format!("{name} is {real}"))
    }

    fn is_moment(&self, name: &str, ns: u64) -> Result<(), String> {
        self.is(name, moment(ns))
    }

    fn is_length(&self, name: &str, ns: u64) -> Result<(), String> {
        ensure(self.hole(name).is_some_and(|told| is_length(told, ns)), || format!("{name} is {ns} ns"))
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.hole(name)?.replace(',', "").parse().ok()
    }

    /// The value in a hole; None for an empty key.
    fn value(&self, name: &str) -> Option<&'l str> {
        self.hole(name).filter(|value| *value != "empty")
    }

    /// The values that a hole lists; of a long list, only some.
    fn values(&self, name: &str) -> Vec<&'l str> {
        let words = self.hole(name).unwrap_or_default().split(", ").flat_map(|part| part.split(" and "));
        words.filter(|word| word.contains(':')).collect()
    }

    /// The operation that wrote a value of the summary's key, among the cited lines.
    fn writer(&self, value: &str) -> Result<&'l Operation, String> {
        let writer = self.lines.writer(value).ok_or_else(|| format!("nobody wrote {value}"))?;
        ensure(self.hole("key").is_none_or(|key| key == writer.key), || format!("{value} is of another key"))?;
        ensure(self.cites(writer), || format!("the write of {value} is not cited"))?;
        Ok(writer)
    }

    fn written_by(&self, who: &str, value: &str) -> Result<&'l Operation, String> {
        let writer = self.writer(self.hole(value).ok_or("no value")?)?;
        self.is(who, &writer.client)?;
        Ok(writer)
    }

    fn cites(&self, operation: &Operation) -> bool {
        self.cited.iter().any(|one| one.invoke == operation.invoke)
    }

    /// The clients that all read the same value, each according to a cited line.
    fn readers(&self) -> Result<Vec<&'l str>, String> {
        let text = self.hole("readers").unwrap_or_default();
        let names = text.split([',', ' ']).filter(|word| word.len() > 1 && word.starts_with('c'));
        let names: Vec<&str> = names.filter(|word| word[1..].bytes().all(|b| b.is_ascii_digit())).collect();
        for name in &names {
            let read = |one: &&&Operation| one.client == *name && self.lines.reads(one, self.value("value"));
            ensure(self.cited.iter().any(|one| read(&one)), || format!("{name} did not read that"))?;
        }
        let distinct: HashSet<&&str> = names.iter().collect();
        ensure(distinct.len() == names.len(), || "a client is named twice".to_string())?;
        Ok(names)
    }

    /// The operations that read the common value.
    fn who_read(&self) -> impl Iterator<Item = &&'l Operation> {
        self.cited.iter().filter(|one| self.lines.reads(one, self.value("value")))
    }

    /// `c1 read k0 = v twice` means two operations of one client, `c1 and c2 both` two clients, `all` more clients.
    fn often(&self, names: &[&str]) -> Result<(), String> {
        let readers = self.hole("readers").unwrap_or_default();
        let [name] = names else {
            let word = if names.len() == 2 && !readers.contains(" more") { " both" } else { " all" };
            let is_told = readers.ends_with(word) && self.hole("often").is_none();
            return ensure(is_told, || format!("{} clients", names.len()));
        };
        let times = self.who_read().filter(|one| one.client == *name).count();
        match self.hole("often") {
            Some("twice") => ensure(times == 2, || format!("{times} times")),
            Some(often) => ensure(often == format!("{times} times"), || format!("{times} times")),
            None => Err("one client cannot do that once".to_string()),
        }
    }

    /// Checks a loss that is the client's own fault: it released the lock before it knew the outcome of its write.
    fn blamed(&self) -> Result<(), String> {
        let Some(blamed) = self.hole("blamed") else { return Ok(()) };
        let form =
            "{c=who} had released the lock while its write of {w=value} was still in flight, which no lock can prevent";
        let holes = pattern::read(form, blamed).ok_or_else(|| format!("no known form: {blamed}"))?;
        let writer = self.writer(&holes["value"])?;
        ensure(writer.client == holes["who"], || "another client wrote that".to_string())?;
        ensure(self.lines.over(writer).is_none(), || "its client had the answer".to_string())?;
        ensure(!self.lines.stamps(writer, "releasing").is_empty(), || "its client kept the lock".to_string())
    }
}

/// Checks that a write replaced values that others had acknowledged. It was over after them, builds on none of them, and is the
/// first of its line that was sent after them. No client that asked later saw them.
fn did_not_build_on(said: &Summary) -> Result<(), String> {
    let lines = said.lines;
    let by = said.written_by("by", "new")?;
    let at = lines.effective(by);
    said.is_moment("at", at)?;
    let base = if said.hole("base").is_some() { said.written_by("other", "base")? } else { by };
    ensure(lines.reads(base, said.value("value")), || "it did not build on that value".to_string())?;
    let line = lines.lineage(by);
    let until = line.iter().position(|one| one.invoke == base.invoke).ok_or("it does not build on that write")?;
    let names = said.readers()?;
    said.often(&names)?;
    let all_named = !said.hole("readers").unwrap_or_default().contains(" more");
    ensure(names.contains(&base.client.as_str()) || !all_named, || "one who read it is not named".to_string())?;
    let heads = said.values("heads");
    for value in said.values("values") {
        let lost = said.writer(value)?;
        is_lost(lines, value)?;
        let over = lines.over(lost).ok_or("it was never acknowledged")?;
        match said.hole("had") {
            Some(had) => {
                ensure(had == "been", || had.to_string())?;
                ensure(over <= at, || format!("{value} was acknowledged at {}", moment(over)))?;
            }
            None => ensure(lines.sent(lost) <= at, || format!("{value} was sent at {}", moment(lines.sent(lost))))?,
        }
        ensure(!line.iter().any(|one| one.invoke == lost.invoke), || format!("it builds on {value}"))?;
        let own = lines.lineage(lost);
        let head = own.iter().find(|one| lines.reads(one, said.value("value")));
        let head = head.ok_or_else(|| format!("{value} does not build on what was read"))?;
        ensure(names.contains(&head.client.as_str()) || !all_named, || format!("{} read it too", head.client))?;
        let is_head = head.invoke == lost.invoke;
        let named = head.new.as_deref().is_some_and(|head| heads.contains(&head));
        ensure(heads.is_empty() || (named && !is_head), || format!("{value} builds on {:?}", head.new))?;
        for other in &line[1..(until + 1).max(1)] {
            ensure(lines.sent(other) < over, || format!("{:?} had erased {value} before", other.new))?;
        }
        let again = lines.readings(value).find(|one| one.invoked >= at);
        ensure(again.is_none(), || format!("{} saw {value} after that", again.unwrap().client))?;
    }
    Ok(())
}

/// The same check, and no other value certainly replaced the lost values before this write.
fn erased(said: &Summary) -> Result<(), String> {
    did_not_build_on(said)?;
    let (lines, by) = (said.lines, said.written_by("by", "new")?);
    let lost = said.values("values").into_iter().map(|value| said.writer(value)).collect::<Result<Vec<_>, _>>()?;
    let over = lost.iter().filter_map(|one| lines.over(one)).max().unwrap_or(0);
    let builds = |one: &Operation| {
        let line = lines.lineage(one);
        lost.iter().any(|lost| line.iter().any(|other| other.invoke == lost.invoke))
    };
    let is_between = |one: &&Operation| {
        one.key == by.key
            && one.new.is_some()
            && lines.sent(one) > over
            && lines.over(one).is_some_and(|over| over < lines.sent(by))
            && !builds(one)
    };
    match lines.operations.iter().find(is_between) {
        Some(other) => Err(format!("{:?} had taken its place", other.new)),
        None => Ok(()),
    }
}

fn reverted(said: &Summary) -> Result<(), String> {
    let lines = said.lines;
    let last = |one: &&&Operation| one.client == "controller" && lines.reads(one, said.value("value"));
    let read = said.cited.iter().find(last).ok_or("the controller read something else")?;
    let at = lines.answered(read).ok_or("that read has no answer")?;
    said.is_moment("at", at)?;
    for value in said.values("values") {
        let lost = said.writer(value)?;
        ensure(lines.over(lost).is_some_and(|over| over <= at), || format!("{value} was not acknowledged by then"))?;
        is_lost(lines, value)?;
        let builds = lines.lineage(lost).iter().any(|one| lines.reads(one, said.value("value")));
        ensure(builds, || format!("{value} does not build on that"))?;
    }
    Ok(())
}

fn left_out(said: &Summary) -> Result<(), String> {
    let lines = said.lines;
    for value in said.values("values") {
        ensure(lines.over(said.writer(value)?).is_some(), || format!("{value} was not acknowledged"))?;
        is_lost(lines, value)?;
    }
    let saw = |one: &&Operation| {
        Some(&one.client[..]) == said.hole("by") && lines.answered(one).map(moment).as_deref() == said.hole("at")
    };
    ensure(lines.operations.iter().any(|one| saw(&one)), || "nothing was seen then".to_string())
}

fn two_successors(said: &Summary) -> Result<(), String> {
    let lines = said.lines;
    let names = said.readers()?;
    said.often(&names)?;
    for value in said.values("values") {
        let writer = said.writer(value)?;
        ensure(lines.reads(writer, said.value("value")), || format!("{value} does not build on that"))?;
        ensure(names.contains(&writer.client.as_str()), || format!("{} is not named", writer.client))?;
        let is_there = lines.over(writer).is_some() || lines.readings(value).next().is_some();
        ensure(is_there, || format!("{value} was neither acknowledged nor seen"))?;
    }
    Ok(())
}

fn from_nowhere(said: &Summary) -> Result<(), String> {
    said.readers()?;
    said.is("other", said.hole("key").unwrap_or_default())?;
    let value = said.value("value").ok_or("an empty key is no value")?;
    ensure(said.lines.writer(value).is_none(), || format!("somebody was asked to write {value}"))
}

fn of_a_failure(said: &Summary) -> Result<(), String> {
    said.readers()?;
    let writer = said.lines.writer(said.value("value").ok_or("no value")?).ok_or("nobody wrote that")?;
    said.is("by", &writer.client)?;
    ensure(said.lines.outcome(writer) == "fail", || "it did not fail".to_string())
}

fn before_its_write(said: &Summary) -> Result<(), String> {
    said.readers()?;
    let lines = said.lines;
    let writer = said.written_by("by", "value")?;
    said.is_moment("began", writer.invoked)?;
    let early = said.who_read().filter_map(|one| lines.answered(one)).min().ok_or("no reader had an answer")?;
    said.is_moment("at", early)?;
    ensure(early < writer.invoked, || "that was later".to_string())
}

fn its_own(said: &Summary) -> Result<(), String> {
    let writer = said.written_by("by", "value")?;
    ensure(said.lines.reads(writer, said.value("value")), || "it read something else".to_string())
}

fn in_a_circle(said: &Summary) -> Result<(), String> {
    said.values("values").into_iter().try_for_each(|value| {
        let writer = said.writer(value)?;
        let before = said.lines.read_by(writer).flatten().ok_or("it read nothing")?;
        let origin = said.lines.writer(&before).ok_or("what it read is of nobody")?;
        ensure(said.lines.lineage(origin).iter().any(|one| one.invoke == writer.invoke), || {
            format!("{value} has a first")
        })
    })
}

/// Checks that an operation of the summary's other client had seen or written a value by the reported time; `fits` selects the
/// operations.
fn by_then<'l>(said: &Summary<'l>, fits: impl Fn(&'l Operation) -> bool) -> Result<(), String> {
    let lines = said.lines;
    let over = |one: &Operation| {
        let ends = [lines.answered(one), lines.over(one)].into_iter().flatten().map(moment);
        ends.into_iter()
            .chain(lines.stamps(one, "read").iter().map(|place| moment(lines.events[*place]["time"].as_u64().unwrap())))
            .any(|at| Some(&at[..]) == said.hole("over"))
    };
    let mut others = said.cited.iter().filter(|one| Some(&one.client[..]) == said.hole("other") && over(one));
    ensure(others.any(|one| fits(one)), || "the other one saw or wrote no such thing by then".to_string())?;
    let seconds = |name: &str| said.hole(name)?.trim_end_matches(" s").parse::<f64>().ok();
    ensure(seconds("over") <= seconds("at").or(seconds("held")), || "that was later".to_string())
}

fn descends_from_later(said: &Summary) -> Result<(), String> {
    let writer = said.written_by("by", "value")?;
    said.is_moment("at", writer.invoked)?;
    by_then(said, |one| {
        said.lines.known_to(one).iter().any(|seen| seen.invoke == writer.invoke && one.invoke != writer.invoke)
    })
}

fn stale(said: &Summary) -> Result<(), String> {
    let lines = said.lines;
    let is_it = |one: &&&Operation| {
        let at = match said.hole("held") {
            Some(held) => lines.is_shared(one) && lines.hold(one).is_some_and(|(_, to)| moment(to) == held),
            None => said.hole("at") == Some(&moment(one.invoked)),
        };
        Some(&one.client[..]) == said.hole("by") && lines.reads(one, said.value("value")) && at
    };
    let reader = said.cited.iter().find(is_it).ok_or("it read no such thing then")?;
    // The later value must differ, and the value that was read must not build on it.
    let later = said.value("wrote").or(said.value("read"));
    ensure(later != said.value("value"), || "it is the same value".to_string())?;
    let own: Vec<&Operation> =
        said.value("value").and_then(|value| lines.writer(value)).map_or(Vec::new(), |one| lines.lineage(one));
    ensure(!own.iter().any(|one| one.new.as_deref() == later), || "it is an earlier value".to_string())?;
    by_then(said, |one| {
        let fits = match said.hole("wrote") {
            Some(_) => one.new.as_deref() == later,
            None => lines.reads(one, later),
        };
        fits && one.invoke != reader.invoke && (said.hole("late").is_some() || is_older(said, one))
    })?;
    ensure(said.hole("late").is_none() || said.value("late") == said.value("value"), || "it names another value".into())
}

/// True if the value that was found certainly is older than what an operation wrote or read.
fn is_older(said: &Summary, than: &Operation) -> bool {
    let lines = said.lines;
    let Some(writer) = said.value("value").and_then(|value| lines.writer(value)) else { return true };
    lines.certainly_there(writer).is_some_and(|there| there < lines.sent(than))
        || lines.known_to(than).iter().any(|seen| seen.invoke == writer.invoke && than.invoke != writer.invoke)
}

fn of_another_lineage(said: &Summary) -> Result<(), String> {
    let writer = said.written_by("by", "value")?;
    said.is_moment("at", writer.invoked)?;
    by_then(said, |one| !said.lines.known_to(one).iter().any(|seen| seen.invoke == writer.invoke))
}

fn count_found(said: &Summary) -> Result<(), String> {
    let found = |one: &&&Operation| {
        Some(&one.client[..]) == said.hole("by") && said.lines.count_of(one) == said.number("count")
    };
    ensure(said.cited.iter().any(|one| found(&one)), || "nobody found that count".to_string())
}

fn in_a_list(said: &Summary) -> Result<(), String> {
    let found = |one: &&&Operation| Some(&one.client[..]) == said.hole("by") && Some(&one.key[..]) == said.hole("key");
    ensure(said.cited.iter().any(|one| found(&one)), || "that client read no such list".to_string())
}

/// Checks that an operation found a value although others had come after it.
fn rolled_back(said: &Summary) -> Result<(), String> {
    let lines = said.lines;
    let found = |one: &&&Operation| {
        Some(&one.client[..]) == said.hole("by")
            && said.hole("at") == Some(&moment(one.invoked))
            && lines.reads(one, said.value("value"))
    };
    let at = said.cited.iter().find(found).ok_or("nobody found that then")?.invoked;
    let old: Vec<&Operation> =
        said.value("value").and_then(|value| lines.writer(value)).map_or(Vec::new(), |one| lines.lineage(one));
    // The time by which a part of the lineage of the found value had certainly been there.
    let known = old.iter().filter_map(|one| lines.certainly_there(one)).min();
    let from_empty = old.last().map_or(said.value("value").is_none(), |one| lines.reads(one, None));
    for value in said.values("values") {
        let lost = said.writer(value)?;
        let over = lines.over(lost).ok_or_else(|| format!("{value} was never acknowledged"))?;
        let read =
            lines.readings(value).filter_map(|one| lines.answered(one)).min().filter(|_| said.hole("read").is_some());
        ensure(over < at || read.is_some_and(|read| read < at), || format!("{value} was not over by then"))?;
        ensure(!old.iter().any(|one| one.invoke == lost.invoke), || format!("what was found builds on {value}"))?;
        let after = from_empty
            || lines.lineage(lost).iter().any(|one| lines.reads(one, said.value("value")))
            || known.is_some_and(|known| known < lost.invoked);
        ensure(after, || format!("{value} did not come after it"))?;
        ensure(said.hole("onto").is_some() != said.hole("older").is_some(), || "one relation".to_string())?;
        ensure(said.hole("it").is_none_or(|it| it == value), || "another value".to_string())?;
        ensure(said.hole("onto").is_some() || is_older(said, lost), || format!("{value} may be older"))?;
        if said.hole("them").is_some() {
            let again = lines.readings(value).find(|one| lines.answered(one).is_none_or(|answered| answered >= at));
            ensure(again.is_none(), || format!("{} saw {value} again", again.unwrap().client))?;
        }
    }
    let many = said.hole("values").is_some_and(|values| values.contains(" and "));
    ensure(said.hole("onto").is_none_or(|them| them == if many { "them" } else { "it" }), || {
        "one or many".to_string()
    })?;
    ensure(said.hole("them").is_none_or(|them| them == if many { "them" } else { "it" }), || "one or many".to_string())
}

fn overlapping(said: &Summary) -> Result<(), String> {
    let lines = said.lines;
    let of = |name: &str| {
        said.cited
            .iter()
            .filter(|one| Some(&one.client[..]) == said.hole(name))
            .filter_map(|one| Some((*one, lines.hold(one)?)))
            .collect::<Vec<_>>()
    };
    said.is("who", said.hole("first").unwrap_or_default())?;
    let fits = |(one, (from, to)): &(&Operation, (u64, u64)), (other, (taken, end)): &(&Operation, (u64, u64))| {
        let which = match (lines.is_shared(one), lines.is_shared(other)) {
            (true, true) => return false,
            (true, false) => Some("first"),
            (false, true) => Some("second"),
            (false, false) => None,
        };
        one.key == other.key
            && Some(&one.key[..]) == said.hole("key")
            && from <= taken
            && taken < to
            && which == said.hole("which")
            && said.is_moment("acquired", *from).is_ok()
            && said.is_moment("until", *to).is_ok()
            && said.is_moment("from", *taken).is_ok()
            && said.is_length("long", to.min(end) - taken).is_ok()
    };
    let (firsts, seconds) = (of("first"), of("second"));
    let found = firsts.iter().any(|one| seconds.iter().any(|other| one.0.client != other.0.client && fits(one, other)));
    ensure(found, || "these two held it at other times".to_string())
}

fn too_many(said: &Summary) -> Result<(), String> {
    let lines = said.lines;
    let permits = lines.header["permits"].as_u64().unwrap_or(1);
    ensure(said.number("permits") == Some(permits), || format!("{permits} may"))?;
    let holds: Vec<(&Operation, (u64, u64))> =
        said.cited.iter().filter_map(|one| Some((*one, lines.hold(one)?))).collect();
    let is_last = |(one, (from, _)): &&(&Operation, (u64, u64))| {
        Some(&one.client[..]) == said.hole("who") && said.is_moment("acquired", *from).is_ok()
    };
    let (last, (taken, end)) = holds.iter().find(is_last).ok_or("nobody acquired it then")?;
    said.is_moment("from", *taken)?;
    let beside = holds.iter().filter(|(one, (from, to))| one.invoke != last.invoke && from <= taken && taken < to);
    let ends: Vec<u64> = beside.map(|(_, (_, to))| *to).collect();
    ensure(said.number("count") == Some(ends.len() as u64 + 1) && ends.len() as u64 >= permits, || {
        format!("{} others had it", ends.len())
    })?;
    said.is_length("long", ends.into_iter().fold(*end, u64::min) - taken)
}

/// Checks the tokens in the lines of the acquisitions.
fn tokens(said: &Summary) -> Result<(), String> {
    let lines = said.lines;
    let acquired = |who: &str, token: &str| {
        let mut places = said.places.iter().copied().filter(|place| lines.is_phase(*place, "acquired"));
        let found = places.find(|place| {
            Some(&lines.client(*place)[..]) == said.hole(who)
                && lines.events[*place]["token"].as_u64() == said.number(token)
        });
        found.ok_or_else(|| format!("no line of an acquisition of {who} has its token"))
    };
    let (late, early) = (acquired("by", "token")?, acquired("other", "greater")?);
    said.is_moment("at", lines.time(late))?;
    ensure(said.number("token") <= said.number("greater"), || "it does rise".to_string())?;
    let asked = lines.operation_of(late).and_then(|one| lines.stamps(one, "acquiring").first().copied());
    let asked = asked.filter(|place| said.places.contains(place)).ok_or("the line in which it asked is not cited")?;
    ensure(lines.time(early) < lines.time(asked), || "it was not over before the other one began".to_string())
}

/// The client's operation that began at this time.
fn asked<'l>(said: &Summary<'l>) -> Result<&'l Operation, String> {
    let began = |one: &&&Operation| {
        let stamps = said.lines.stamps(one, "acquiring");
        let times = stamps.first().map(|place| said.lines.time(*place)).into_iter().chain([one.invoked]);
        Some(&one.client[..]) == said.hole("by") && times.map(moment).any(|at| Some(&at[..]) == said.hole("at"))
    };
    said.cited.iter().find(began).copied().ok_or("it did not ask then".to_string())
}

fn late(said: &Summary) -> Result<(), String> {
    let lines = said.lines;
    let operation = asked(said)?;
    let step = |event: &&serde_json::Value| {
        event["script"]["step"].as_str() == said.hole("step") && event["script"]["outcome"] == "not-live"
    };
    let step = lines.events.iter().find(step).ok_or("no such step failed")?["time"].as_u64().unwrap();
    let ends = [Some(step), lines.answered(operation)].into_iter().flatten();
    ensure(ends.into_iter().any(|end| said.is_length("long", end.saturating_sub(operation.invoked)).is_ok()), || {
        "another length".to_string()
    })?;
    let got = lines.stamps(operation, "acquired").first().is_none_or(|place| lines.time(*place) > step);
    ensure(got, || "it had got it by then".to_string())
}

fn not_that_far(said: &Summary) -> Result<(), String> {
    let step = |event: &serde_json::Value| {
        event["script"]["step"].as_str() == said.hole("step")
            && event["time"].as_u64().map(moment).as_deref() == said.hole("at")
    };
    ensure(said.lines.events.iter().any(step), || "no such step then".to_string())
}

fn past_its_timeout(said: &Summary) -> Result<(), String> {
    let lines = said.lines;
    let operation = asked(said)?;
    let own = lines.events[operation.invoke]["acquire_timeout_ms"].as_u64();
    let limit = own.or(lines.header["acquire_timeout_ms"].as_u64()).ok_or("it had no timeout")? * 1_000_000;
    said.is_length("limit", limit)?;
    let begins: Vec<u64> = lines
        .stamps(operation, "acquiring")
        .iter()
        .map(|place| lines.time(*place))
        .chain([operation.invoked])
        .collect();
    let got = lines.stamps(operation, "acquired").first().copied();
    let ends: Vec<u64> = match got {
        Some(place) => vec![lines.time(place), lines.events[place]["time"].as_u64().unwrap()],
        None => lines.answered(operation).into_iter().collect(),
    };
    let fits =
        |from: u64, to: u64| to.saturating_sub(from) > limit && said.is_length("long", to.saturating_sub(from)).is_ok();
    ensure(begins.iter().any(|from| ends.iter().any(|to| fits(*from, *to))), || "another length".to_string())
}

fn left_behind(said: &Summary) -> Result<(), String> {
    let told = |place: &usize| {
        let fact = &said.lines.events[*place]["fact"];
        fact["holds"] == false && fact["text"].as_str() == said.hole("which")
    };
    ensure(said.places.iter().any(told), || "no line says so".to_string())
}

/// Checks that no client acquired the key's lock during this time, to the last reported digit, although clients asked for it.
fn nobody_got_it(said: &Summary) -> Result<(), String> {
    let (lines, key) = (said.lines, said.hole("key").or(said.hole("permit")).unwrap_or_default());
    let ns = |text: &str| (text.split(' ').next().unwrap().parse::<f64>().unwrap() * 1e9) as u64;
    let (from, margin) = (ns(&said.holes["free"]), 6_000_000);
    let long = &said.holes["long"];
    let length = (0..200_000u64).map(|ms| ms * 1_000_000).find(|length| is_length(long, *length)).ok_or("no length")?;
    let of_key = || lines.operations.iter().filter(|one| one.key == key);
    let got = of_key().flat_map(|one| lines.stamps(one, "acquired")).map(|place| lines.time(place));
    let meanwhile = got.filter(|time| (from + margin..(from + length).saturating_sub(margin)).contains(time)).count();
    let permits = lines.header["permits"].as_u64().unwrap_or(1);
    ensure((permits > 1) == said.hole("permit").is_some(), || format!("it has {permits} permits"))?;
    ensure(meanwhile == 0 || permits > 1, || format!("{meanwhile} got it"))?;
    let asked =
        of_key().any(|one| one.invoked < from + length && one.answer.is_none_or(|place| lines.time(place) > from));
    ensure(asked, || "nobody asked".to_string())
}
