//! Scenarios of the catalogue, played by threads of one process: what a library keeps of a holder there (a token, a count, a timer)
//! it may keep for all of them.

use super::sent::Upkeep;
use super::strikes::{Scripted, Setting};
use crate::nemesis::Nemesis;
use crate::scenario::catalogue;

/// Two processes of two threads each.
const CLIENTS: u32 = 4;
const THREADS: u32 = 2;

/// A holder may take its time only where something renews its lock meanwhile, and is cancelled only where a client can be.
pub fn scenarios(setting: &Setting) -> Vec<Scripted> {
    let is_renewed = setting.upkeep == Upkeep::InTheBackground;
    let names = [("late-release", true), ("long-work", is_renewed), ("cancelled-holder", setting.cancels)];
    names.into_iter().filter_map(|(name, fits)| by_threads(name).filter(|_| fits)).collect()
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

/// As `cancelled-holder`, whose release is late as well: if that is over for the program before it is for the node, another thread has the
/// lock by then.
const CANCELLED_HOLDER: [&str; 13] = [
    "start client:0 to read",
    "hold request write client:0 to nodes",
    "cancel client:0",
    "await hold request write client:0 to nodes within 0.5ttl or go on",
    "await client:0 end within 0.1ttl or go on",
    "start client:1 to before-write or end giving up after 0.3ttl within 0.5ttl",
    "heal hold request write client:0 to nodes",
    "await client:0 end within 0.3ttl or go on",
    "start client:2 giving up after 0.2ttl",
    "await client:2 end within 0.35ttl or go on",
    "go client:1",
    "await client:1 end",
    "await client:2 end",
];

fn by_threads(name: &str) -> Option<Scripted> {
    let (_, of_processes) = catalogue::nemesis(name).ok()?;
    let description = format!("{} (clients are threads of two processes)", of_processes.description);
    let own: &[&str] = match name {
        "late-release" => &LATE_RELEASE,
        "cancelled-holder" => &CANCELLED_HOLDER,
        _ => &[],
    };
    let script = match own {
        [] => of_processes.script,
        own => own.iter().map(|step| step.parse()).collect::<Result<_, _>>().ok()?,
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

    fn setting(upkeep: Upkeep, cancels: bool) -> Setting {
        Setting {
            nodes: 1,
            expires: true,
            upkeep,
            permits: 1,
            threads: true,
            cancels,
            blocks: false,
            knows_the_catalogue: true,
        }
    }

    #[test]
    fn scenarios_of_processes_are_played_by_threads_where_locks_are_renewed_and_holders_can_be_cancelled() {
        let names =
            |setting: &Setting| scenarios(setting).into_iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
        assert_eq!(names(&setting(Upkeep::None, false)), "late-release-by-threads");
        assert_eq!(
            names(&setting(Upkeep::InTheBackground, true)),
            "late-release-by-threads, long-work-by-threads, cancelled-holder-by-threads"
        );
        for scripted in scenarios(&setting(Upkeep::InTheBackground, true)) {
            let nemesis: Nemesis = toml::from_str(&scripted.toml).unwrap();
            assert_eq!((nemesis.clients, nemesis.threads), (Some(CLIENTS), Some(THREADS)));
            assert!(!nemesis.script.is_empty() && nemesis.expect.is_empty());
            // What is held is what one thread sends, since no other one has begun.
            assert!(nemesis.all_faults().all(|fault| fault.kind.is_at_command()), "others strike all threads");
        }
    }
}
