//! Kinds and libraries that work on certain servers, and those that do not because one ability is missing.

use super::*;
use crate::checks::{findings, safe};
use crate::observations::{Group, Mode, Replica, Role};

fn observed(servers: Vec<Server>) -> Observations {
    Observations { servers, ..Observations::default() }
}

fn suits(seen: &Observations) -> Vec<Suits> {
    fitness(seen, &findings(seen, None)).into_iter().map(|fitness| fitness.suits).collect()
}

/// The result for a library of this kind.
fn said(seen: &Observations, kind: &str, library: &str) -> (Suits, String) {
    let all = fitness(seen, &findings(seen, None));
    let of_kind = all.into_iter().find(|fitness| fitness.kind == kind).unwrap();
    let fit = of_kind.libraries.into_iter().find(|fit| fit.library == library);
    let fit = fit.unwrap_or_else(|| panic!("no {library} among {kind}"));
    (fit.suits, fit.reason)
}

#[test]
fn kinds_suit_the_shape_of_the_servers() {
    use Suits::{WillNot, WithCondition, Works};
    let one = observed(vec![safe("a:1")]);
    assert_eq!(suits(&one), [Works, WillNot, WillNot, WillNot]);
    let two = observed(vec![safe("a:1"), safe("b:1")]);
    assert_eq!(suits(&two)[1], WillNot);
    let three = observed(vec![safe("a:1"), safe("b:1"), safe("c:1")]);
    assert_eq!(suits(&three), [Works, Works, WillNot, WillNot]);
    let four = observed(["a:1", "b:1", "c:1", "d:1"].map(safe).to_vec());
    assert_eq!(suits(&four)[1], WithCondition);

    let mut primary = safe("p:1");
    let replica = Replica { address: "r:1".to_string(), online: true, lag_s: None, behind: None };
    primary.replicas = Seen::Known(vec![replica]);
    let replicated = observed(vec![primary.clone()]);
    assert_eq!(suits(&replicated), [WithCondition, WillNot, WithCondition, WillNot]);
    let group = Group { name: "lock".to_string(), primary: "p:1".to_string(), ..Group::default() };
    let sentinel =
        Server { role: Role::Sentinel, mode: Mode::Sentinel, groups: Seen::Known(vec![group]), ..Server::default() };
    let watched = fitness(&observed(vec![primary.clone(), sentinel]), &[]);
    assert_eq!((watched[2].suits, watched[3].suits), (Works, WillNot));
    primary.mode = Mode::Cluster;
    assert_eq!(suits(&observed(vec![primary]))[3], WithCondition);
    assert_eq!(suits(&observed(Vec::new())), [Suits::Unknown; 4]);
}

#[test]
fn library_that_needs_a_script_will_not_work_without_eval() {
    let mut seen = observed(vec![safe("a:1")]);
    assert_eq!(said(&seen, "single", "redis-py Lock").0, Suits::Works);
    seen.servers[0].abilities.insert(Ability::Eval, Seen::Forbidden);
    let (suits, reason) = said(&seen, "single", "redis-py Lock");
    assert_eq!((suits, reason.as_str()), (Suits::WillNot, "EVAL is not allowed for this user at a:1."));
    // The catalogue does not say if this library sends EVAL.
    assert_eq!(said(&seen, "single", "celery-once").0, Suits::Unknown);
}

#[test]
fn redisson_needs_its_channels_and_others_do_not() {
    let mut seen = observed(vec![safe("a:1")]);
    seen.servers[0].names.insert(Name::RedissonChannel, Seen::Forbidden);
    let (suits, reason) = said(&seen, "single", "Redisson RLock");
    assert!(suits == Suits::WillNot && reason.contains("redisson_lock__channel"), "{reason}");
    assert_eq!(said(&seen, "single", "redis-py Lock").0, Suits::Works);
}

#[test]
fn wait_is_needed_only_by_the_kind_that_waits() {
    let mut seen = observed(vec![safe("a:1")]);
    seen.servers[0].abilities.insert(Ability::Wait, Seen::Refused("ERR unknown command".to_string()));
    assert_eq!(said(&seen, "single", "coredis Lock").0, Suits::Works);
    seen.servers[0].mode = Mode::Cluster;
    let (suits, reason) = said(&seen, "cluster", "coredis Lock");
    assert_eq!((suits, reason.as_str()), (Suits::WillNot, "WAIT fails at a:1: ERR unknown command."));
}

#[test]
fn libraries_on_other_stores_are_left_out() {
    let all = fitness(&observed(vec![safe("a:1")]), &[]);
    let names: Vec<&str> = all.iter().flat_map(|kind| &kind.libraries).map(|fit| fit.library.as_str()).collect();
    assert!(names.len() > 40 && !names.iter().any(|name| name.starts_with("Curator")), "{names:?}");
}
