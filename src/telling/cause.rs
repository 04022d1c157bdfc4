//! What most incidents of a run have in common, in a few words.

use super::moments;
use super::story::{Incident, Story};
use crate::checker::HowKind;
use crate::history::{Claim, FaultKind, FaultWindow, Operation};

/// ` while its holder was paused`, if most incidents have that in common.
pub(super) fn cause(story: &Story, of_updates: bool) -> String {
    let relevant: Vec<Option<Why>> = story
        .incidents
        .iter()
        .filter(|incident| {
            !of_updates || incident.anomalies.iter().any(|a| a.kind.contradicts() == Some(Claim::Updates))
        })
        .map(|incident| Why::of(story, incident))
        .collect();
    let number = |why: &Why| relevant.iter().filter(|one| one.as_ref() == Some(why)).count();
    let most = relevant.iter().flatten().rev().max_by_key(|why| number(why));
    match most {
        Some(why) if number(why) == relevant.len() => why.words(story.is_unlocked()),
        Some(why) if number(why) * 2 >= relevant.len() => format!(", mostly{}", why.words(story.is_unlocked())),
        _ if story.subject.history.run.is_some()
            && story.subject.history.faults.iter().all(|fault| fault.injected.is_none()) =>
        {
            ", with no fault at all".to_string()
        }
        _ => String::new(),
    }
}

/// What explains an incident, in a few words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Breakpoint,
    Stolen,
    Promoted,
    Fault(FaultKind, Whose),
}

/// Whom a fault struck.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Holder,
    OtherClient,
    Server,
}

impl Why {
    fn of(story: &Story, incident: &Incident) -> Option<Why> {
        match incident.how().map(|how| how.kind) {
            Some(HowKind::Breakpoint) => return Some(Why::Breakpoint),
            Some(HowKind::Stolen) => return Some(Why::Stolen),
            Some(HowKind::Promoted) => return Some(Why::Promoted),
            Some(HowKind::Extended | HowKind::Expired | HowKind::Released) | None => {}
        }
        let fault = incident.fault?;
        let (from, to) = (fault.inject, fault.heal.or(fault.span().1));
        let held_meanwhile = |operation: &Operation| {
            incident.fault_hits(&story.name(operation.process))
                && moments::hold(operation).is_some_and(|hold| from <= hold.end && to.is_none_or(|to| hold.start <= to))
        };
        let whose = match incident.operations.iter().any(|operation| held_meanwhile(operation)) {
            true => Whose::Holder,
            false if hits_a_client(story, fault) => Whose::OtherClient,
            false => Whose::Server,
        };
        Some(Why::Fault(fault.kind, whose))
    }

    fn words(self, unlocked: bool) -> String {
        match self {
            Why::Breakpoint => " while a script kept its holder at a breakpoint".to_string(),
            Why::Stolen => " when one client took it from another, as the lock allows".to_string(),
            Why::Promoted => " after a replica was promoted".to_string(),
            Why::Fault(kind, whose) => {
                let was = fault_clause(kind, whose).to_string();
                format!(" while {}", if unlocked { was.replace("its holder", "a client") } else { was })
            }
        }
    }
}

fn hits_a_client(story: &Story, fault: &FaultWindow) -> bool {
    let mut operations = story.client_operations();
    operations.any(|operation| fault.targets.contains(&story.name(operation.process)))
}

/// What was going on, in a few words.
fn fault_clause(kind: FaultKind, whose: Whose) -> &'static str {
    match whose {
        Whose::Holder => kind.says.holder,
        Whose::OtherClient => kind.says.client,
        Whose::Server => kind.says.node,
    }
}
