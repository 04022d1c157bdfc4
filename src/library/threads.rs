//! Scenarios of the catalogue, played by threads of one process: what a library keeps of a holder there (a token, a count, a timer)
//! it may keep for all of them.

use super::strikes::Scripted;
use crate::nemesis::Nemesis;
use crate::scenario::catalogue;

/// Two processes of two threads each.
const CLIENTS: u32 = 4;
const THREADS: u32 = 2;

/// `renewed`: whether the library renews its locks, so that a holder may take its time.
pub fn scenarios(renewed: bool) -> Vec<Scripted> {
    let names = ["late-release", "long-work"].into_iter().filter(|name| renewed || *name != "long-work");
    names.filter_map(by_threads).collect()
}

/// As `late-release`, whose pause would stop all threads of the process.
const LATE_RELEASE: [&str; 11] = [
    "start client:0 to releasing",
    "wait 1.1ttl",
    "start client:1 to before-write giving up after 1ttl",
    "go client:0",
    "await client:0 end within 0.3ttl or go on",
    "start client:2 giving up after 0.2ttl",
    "await client:2 end within 0.35ttl or go on",
    "go client:1",
    "await client:1 end",
    "await client:2 end",
    "await client:0 end",
];

fn by_threads(name: &str) -> Option<Scripted> {
    let (_, of_processes) = catalogue::nemesis(name).ok()?;
    let description = format!("{} (clients are threads of two processes)", of_processes.description);
    let script = match name {
        "late-release" => LATE_RELEASE.iter().map(|step| step.parse()).collect::<Result<_, _>>().ok()?,
        _ => of_processes.script,
    };
    let nemesis = Nemesis {
        description: description.clone(),
        clients: Some(CLIENTS),
        threads: Some(THREADS),
        expect: Default::default(),
        script,
        ..of_processes
    };
    let toml = toml::to_string_pretty(&nemesis).ok()?;
    Some(Scripted { name: format!("{name}-by-threads"), description, toml, aims: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_of_processes_are_played_by_threads_and_holders_take_their_time_only_where_locks_are_renewed() {
        let names = |renewed| scenarios(renewed).into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(names(false), ["late-release-by-threads"]);
        assert_eq!(names(true), ["late-release-by-threads", "long-work-by-threads"]);
        for scripted in scenarios(true) {
            let nemesis: Nemesis = toml::from_str(&scripted.toml).unwrap();
            assert_eq!((nemesis.clients, nemesis.threads), (Some(CLIENTS), Some(THREADS)));
            assert!(!nemesis.script.is_empty() && nemesis.expect.is_empty());
            assert!(!nemesis.injects(), "a fault would strike all threads of a process");
        }
    }
}
