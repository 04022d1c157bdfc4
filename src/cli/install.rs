//! `redjepsen install`: installs the clients of published libraries, and Redis servers, each in its own folder in the user's
//! cache.

use super::console::{Exit, Failure, print, tell};
use super::progress::CONSOLE;
use model::scenario::catalogue;
use model::topology::NamedServer;
use runner::signals;

const INTERRUPTED: &str = "interrupted; finished installations stay. To continue, run the same command again";

/// Installs missing clients, and prints the command of each client. Continues after a client that cannot be installed.
pub async fn install(wanted: &[String]) -> Result<Exit, Failure> {
    let (interrupt, _leftovers) = signals::listen(CONSOLE).map_err(Failure::could_not_run)?;
    let all: Vec<String> = match wanted {
        [] => catalogue::WORKLOADS.iter().map(|(name, _)| (*name).to_string()).collect(),
        some => some.to_vec(),
    };
    let mut failed = 0;
    for name in &all {
        let (name, workload) = catalogue::workload(name).map_err(Failure::arguments)?;
        match runner::install(&name, &workload, &interrupt, tell).await {
            Ok(Some(command)) => print(format!("{name}: {}\n", command.join(" ")))?,
            Ok(None) if wanted.is_empty() => {}
            Ok(None) => print(format!("{name} needs no installation: redjepsen's own client acquires its lock\n"))?,
            Err(_) if interrupt.is_raised() => return Err(Failure::could_not_run(INTERRUPTED)),
            Err(error) => {
                failed += 1;
                tell(&format!("redjepsen: {error}"));
            }
        }
    }
    conclude(failed, all.len())
}

/// Installs missing servers, and prints the program of each server. Continues after a server that cannot be installed.
pub async fn servers(wanted: &[NamedServer]) -> Result<Exit, Failure> {
    let (interrupt, _leftovers) = signals::listen(CONSOLE).map_err(Failure::could_not_run)?;
    let all = match runner::install_servers(wanted, &interrupt, tell).await {
        Err(_) if interrupt.is_raised() => return Err(Failure::could_not_run(INTERRUPTED)),
        all => all?,
    };
    let mut failed = 0;
    for server in &all {
        match &server.program {
            Ok(program) => print(format!("{}: {}\n", server.name, program.display()))?,
            Err(why) => {
                failed += 1;
                tell(&format!("redjepsen: {}: {why}", server.name));
            }
        }
    }
    conclude(failed, all.len())
}

fn conclude(failed: usize, all: usize) -> Result<Exit, Failure> {
    match failed {
        0 => Ok(Exit::Valid),
        _ => Err(Failure::could_not_run(format!("{failed} of {all} could not be installed"))),
    }
}
