//! Keys beside a lock that never expire. If one run shows that such a key keeps no client out, this holds for all runs of the
//! library.

use std::collections::{BTreeMap, BTreeSet};

use model::history::{FactName, History};

/// The words by which a run's fact says that a key has no TTL.
const NEVER: &str = ", which never ends";
/// The words before the keys that kept no client out, in a run's fact.
const NO_LOCK: &str = "; no lock is ";
/// A shorter sequence of hexadecimal digits may be a word.
const LONG: usize = 8;

/// The keys without a TTL that the nodes kept to the end of a run, by name pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endless {
    /// Keys that the run reports as abandoned locks.
    pub accused: BTreeSet<String>,
    /// Keys that every node kept while a client acquired the lock. So they are not locks.
    pub no_locks: BTreeSet<String>,
}

/// The keys without a TTL that a run reports.
pub fn endless(history: &History) -> Endless {
    let mut endless = Endless::default();
    let nodes = history.run.as_ref().map_or(0, |run| run.nodes as usize);
    for fact in history.facts.iter().filter(|fact| fact.name == FactName::NothingEndless) {
        match fact.text.split_once(NO_LOCK) {
            // A key on a minority of the nodes may still be a lock: clients acquire it on the other nodes.
            Some((_, keys)) if fact.holds => {
                let on_all = never_ending(keys).into_iter().flatten().filter(|(_, on)| on.len() >= nodes.max(1));
                endless.no_locks.extend(on_all.map(|(key, _)| key));
            }
            None if !fact.holds => {
                // A run that also accuses other keys is left unchanged.
                let keys = never_ending(&fact.text).unwrap_or_default();
                endless.accused.extend(keys.into_keys());
            }
            _ => {}
        }
    }
    endless
}

/// The history without the accusation. None if it accuses no key, or a key that may be a lock.
pub fn acquitted(mut history: History, no_locks: &BTreeSet<String>) -> Option<History> {
    let accused = endless(&history).accused;
    if accused.is_empty() || !accused.is_subset(no_locks) {
        return None;
    }
    let of_it = history.facts.iter_mut().filter(|fact| fact.name == FactName::NothingEndless);
    of_it.for_each(|fact| fact.holds = true);
    Some(history)
}

/// The patterns of these keys, each with the nodes that keep it. None if the text says anything else.
fn never_ending(text: &str) -> Option<BTreeMap<String, BTreeSet<&str>>> {
    let mut keys: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for one in text.strip_suffix(NEVER)?.split(&format!("{NEVER}, ")) {
        let (key, node) = one.strip_prefix('`')?.rsplit_once("` on ")?;
        // A truncated name may stand for several keys.
        let is_whole = !key.contains(['`', '…', ',']) && !node.contains([' ', ',']);
        keys.entry(is_whole.then(|| pattern(key))?).or_default().insert(node);
    }
    Some(keys)
}

/// A key's name without its numbers and identifiers, which differ from run to run.
fn pattern(key: &str) -> String {
    let mut pattern = String::new();
    let is_of_an_id = |c: char| c.is_ascii_hexdigit() || c == '-';
    let mut rest = key;
    while let Some(first) = rest.chars().next() {
        let id = rest.len() - rest.trim_start_matches(is_of_an_id).len();
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (as_it_is, length) = match () {
            () if id >= LONG => ("*", id),
            () if number > 0 => ("*", number),
            () => (&rest[..first.len_utf8()], first.len_utf8()),
        };
        pattern.push_str(as_it_is);
        rest = &rest[length..];
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::history::Fact;

    fn run(holds: bool, text: &str) -> History {
        let fact = Fact { name: FactName::NothingEndless, holds, text: text.to_string() };
        History { facts: vec![fact], ..History::default() }
    }

    const BESIDE: &str = "3 keys looked at; no lock is `lock:k0:made-by-0a1b2c3d-77` on n0, which never ends";

    #[test]
    fn key_that_kept_no_client_out_in_one_run_is_no_lock_in_another() {
        let known = endless(&run(true, BESIDE)).no_locks;
        assert_eq!(known, ["lock:k*:made-by*".to_string()].into());
        let accused = "`lock:k1:made-by-99887766-1` on n0, which never ends, `lock:k0:made-by-0a1b2c3d-77` on n0, which never ends";
        let acquitted = |text: &str| acquitted(run(false, text), &known).is_some_and(|history| history.facts[0].holds);
        assert!(acquitted(accused));
        for other in [
            "`lock:k0` on n0, which never ends",
            "`lock:k0:made-by-0a1b2c3d-77` on n0, which never ends, `lock:k0` on n0, which never ends",
            "`lock:k0:made-by-0a1b2c3d-77` on n0, which ends after another 29.8 s",
            "`lock:k0:made-by-0a1b2c3d-77` on n0, which never ends, `lock:k0` on n0, which ends after another 29.8 s",
            "`lock:k0:made-by-0a1b2c3d…` on n0, which never ends",
            "",
        ] {
            assert!(!acquitted(other), "{other}");
        }
    }

    #[test]
    fn key_on_some_of_the_nodes_may_be_a_lock_that_was_left_behind() {
        let of_three = |text: &str| {
            let mut history = run(true, text);
            let line = r#"{"index":0,"time":0,"type":"run","run":{"format":1,"redjepsen":"0.1.0","workload":"w","nemesis":"none","seed":1,"clients":2,"nodes":3,"keys":1,"ttl_ms":1000,"time_limit_ms":9000,"resource":"register","claims":["updates"],"faults_expected":false,"script_steps":0,"progress":"any","started":"2026-11-24T00:00:00Z"}}"#;
            history.run = model::history::load_reader(format!("{line}\n").as_bytes(), "a test").unwrap().run;
            endless(&history).no_locks
        };
        let on = |nodes: &[&str]| {
            let keys: Vec<String> = nodes.iter().map(|node| format!("`lock:k0` on {node}{NEVER}")).collect();
            of_three(&format!("9 keys looked at{NO_LOCK}{}", keys.join(", ")))
        };
        assert!(on(&["n0", "n1"]).is_empty());
        assert_eq!(on(&["n0", "n1", "n2"]), ["lock:k*".to_string()].into());
    }
}
