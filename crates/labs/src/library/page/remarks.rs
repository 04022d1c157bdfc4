//! The advisories of a library's runs: behaviour that no claim covers but users want to know.

use std::cmp::Reverse;

use crate::library::examined::{Examined, Tried, TriedRun};
use base::words::{count, plural, sanitize};
use checker::Remark;
use checker::properties::{
    ADVISORIES, Advisory, busy_polling, client_crashes, early_refusals, false_losses, kept_out, slow_releases,
    stray_commands,
};

/// This many early refusals are not an accident.
const NO_ACCIDENT: u64 = 2;

/// In this order:
/// - an advisory, or None for all claims that the library's file does not make
/// - the unit of its counts; empty if they cannot be added
/// - the title of its section
/// - if a run without faults can show it, a word in capitals and a sentence for the head of the page
type RemarkWords = (Option<&'static Advisory>, &'static str, &'static str, Option<(&'static str, &'static str)>);
static WORDS: [RemarkWords; 8] = [
    (
        Some(&client_crashes::DEF),
        "",
        "The client's program exits under a fault that ends no process. This violates no claim, but the client is gone",
        Some(("EXITS", "The client exits although no fault hit it")),
    ),
    (
        Some(&kept_out::ADVISORY),
        "client",
        "A client never acquires the lock. This may violate no claim, but the client waits in vain",
        Some(("KEPT OUT", "A client that no fault hits keeps asking for the lock and never acquires it")),
    ),
    (
        Some(&false_losses::DEF),
        "holder",
        "The library reports a lost lock while its client holds the lock. This violates no claim, but the caller gives up its work",
        Some((
            "FALSE LOSSES",
            "Without any fault, the library reports a loss although its client still holds the lock",
        )),
    ),
    (
        None,
        "",
        "The library returns wrong results. Its file claims nothing about them, but the caller relies on them",
        None,
    ),
    (
        Some(&stray_commands::DEF),
        "operation",
        "The library sends lock commands after the release, or without a lock. This violates no claim",
        Some(("GOES ON", "Without any fault, the library sends lock commands after a release or without a lock")),
    ),
    (
        Some(&early_refusals::DEF),
        "attempt",
        "The library gives up before its time limit. This violates no claim, but the caller is refused too early",
        Some(("GIVES UP EARLY", "Without any fault, the library gives up before its time limit")),
    ),
    (
        Some(&slow_releases::DEF),
        "",
        "The library releases the lock late. This violates no claim, but the caller waits",
        None,
    ),
    (
        Some(&busy_polling::DEF),
        "",
        "The library polls without a pause while it waits. This violates no claim, but it loads the nodes",
        None,
    ),
];

pub struct Remarks<'e> {
    pub id: &'static str,
    pub title: &'static str,
    /// Each scenario with a sentence, the worst first.
    pub of: Vec<(&'e Tried, String)>,
}

pub fn remarks(examined: &Examined) -> Vec<Remarks<'_>> {
    let of = |advisory: Option<&Advisory>, counted: &str| match advisory {
        None => untrue(&examined.tried),
        Some(advisory) => {
            // Remarks of runs without faults stand at the head of the page. Crashes and clients kept out are mentioned only
            // there.
            let once = [client_crashes::DEF.id, kept_out::ADVISORY.id];
            let counts = |remark: &&Remark| remark.disturbed || !once.contains(&advisory.id);
            let mut worst: Vec<(&Tried, &Remark, String)> = Vec::new();
            for tried in &examined.tried {
                let found: Vec<&Remark> =
                    tried.runs.iter().filter_map(|run| of_run(run, advisory)).filter(counts).collect();
                if let Some(remark) = found.iter().rev().max_by_key(|remark| remark.severity) {
                    worst.push((tried, remark, of_runs(remark, &found, counted)));
                }
            }
            worst.sort_by_key(|(_, remark, _)| Reverse(remark.severity));
            worst.into_iter().map(|(tried, _, said)| (tried, said)).collect()
        }
    };
    let all = WORDS.iter().map(|(advisory, counted, title, _)| {
        let id = advisory.map_or("untrue", |advisory| advisory.id);
        Remarks { id, title, of: of(*advisory, counted) }
    });
    all.filter(|remarks| !remarks.of.is_empty()).collect()
}

/// How many scenarios ended the library's program, though no fault was to end it.
pub fn crashes(examined: &Examined) -> u64 {
    let crashed = |tried: &&Tried| {
        let mut remarks = tried.runs.iter().filter_map(|run| of_run(run, &client_crashes::DEF));
        remarks.any(|remark| remark.disturbed)
    };
    examined.tried.iter().filter(crashed).count() as u64
}

fn of_run<'r>(run: &'r TriedRun, advisory: &Advisory) -> Option<&'r Remark> {
    run.advisories.iter().find(|remark| remark.id == advisory.id)
}

/// The text, followed by the number of other cases.
fn and_so(text: &str, of: usize, what: &str) -> String {
    let more = of as u64 - 1;
    let more =
        if more > 0 { format!("; the same in {}", plural(more, &format!("other {what}"))) } else { String::new() };
    sanitize(text, 400) + &more
}

/// The worst remark of these runs. If the counts can be added, their sum and the number of possible cases follow. A run without
/// a remark does not say how many cases were possible.
fn of_runs(worst: &Remark, found: &[&Remark], counted: &str) -> String {
    let said = and_so(&worst.text, found.len(), "run");
    if found.len() < 2 || counted.is_empty() {
        return said;
    }
    let sum = |number: fn(&Remark) -> u64| found.iter().map(|remark| number(remark)).sum();
    format!("{said}, in total {} of {}", count(sum(|remark| remark.count)), plural(sum(|remark| remark.of), counted))
}

/// One scenario for each unclaimed property that does not hold, and the number of other scenarios in which it does not.
fn untrue(all: &[Tried]) -> Vec<(&Tried, String)> {
    let is_claim = |remark: &&Remark| ADVISORIES.iter().all(|advisory| advisory.id != remark.id);
    let mut told: Vec<(&Remark, Vec<&Tried>)> = Vec::new();
    for tried in all {
        for remark in tried.runs.iter().flat_map(|run| &run.advisories).filter(is_claim) {
            match told.iter_mut().find(|(other, _)| other.id == remark.id) {
                Some((_, of)) if of.last().is_some_and(|last| std::ptr::eq(*last, tried)) => {}
                Some((_, of)) => of.push(tried),
                None => told.push((remark, vec![tried])),
            }
        }
    }
    let one = |(remark, of): (&Remark, Vec<_>)| (of[0], and_so(&remark.text, of.len(), "scenario"));
    told.into_iter().map(one).collect()
}

/// A defect that a run without faults shows.
pub struct FaultFree<'e> {
    /// A word in capitals, for a page without a worse result.
    pub word: &'static str,
    pub what: String,
    pub run: &'e TriedRun,
}

/// The defects that runs without faults show. They stand at the head of the page.
pub fn fault_free(examined: &Examined) -> Vec<FaultFree<'_>> {
    let runs = || examined.tried.iter().flat_map(|tried| &tried.runs);
    let of = |(advisory, counted, _, alone): &RemarkWords| {
        let (advisory, (word, what)) = ((*advisory)?, (*alone)?);
        let alone = |run| Some((run, of_run(run, advisory).filter(|remark| !remark.disturbed)?));
        let found: Vec<(&TriedRun, &Remark)> = runs().filter_map(alone).collect();
        let (run, remark) = found.iter().rev().max_by_key(|(_, remark)| remark.severity)?;
        let each: Vec<&Remark> = found.iter().map(|(_, remark)| *remark).collect();
        if advisory.id == early_refusals::DEF.id && each.iter().map(|remark| remark.count).sum::<u64>() < NO_ACCIDENT {
            return None;
        }
        // For a crash, its frequency matters. A crash may also have prevented a run.
        let what = match advisory.id == client_crashes::DEF.id {
            true => {
                let made = runs().filter(|run| run.valid.is_some() || alone(run).is_some()).count() as u64;
                format!("{what}, in {} of {}: {}", found.len(), plural(made, "run"), remark.text)
            }
            false => format!("{what}: {}", of_runs(remark, &each, counted)),
        };
        Some(FaultFree { word, what, run })
    };
    WORDS.iter().filter_map(of).collect()
}
