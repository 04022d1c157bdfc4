//! `redjepsen list`: the catalogue as a user reads it.

use super::{Exit, Failure};
use crate::catalogue::{self, Entry, NEMESES, WORKLOADS};

pub fn list(name: Option<&str>) -> Result<Exit, Failure> {
    match name {
        None => {
            println!("Workloads (--workload):");
            for (name, _) in WORKLOADS {
                let (_, workload) = catalogue::workload(name).map_err(Failure::could_not_run)?;
                println!("  {name:<12} {}", workload.description);
            }
            let mut nemeses = Vec::new();
            for (name, _) in NEMESES {
                nemeses.push(catalogue::nemesis(name).map_err(Failure::could_not_run)?);
            }
            let (scenarios, nemeses): (Vec<_>, Vec<_>) =
                nemeses.into_iter().partition(|(_, nemesis)| !nemesis.script.is_empty());
            for (title, entries) in [
                ("Nemeses, which break things again and again (--nemesis, several with commas)", nemeses),
                ("Scenarios, which bring one moment about step by step (--nemesis)", scenarios),
            ] {
                println!("\n{title}:");
                let width = entries.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
                for (name, nemesis) in entries {
                    println!("  {name:<width$}  {}", nemesis.description);
                }
            }
            println!(
                "\n`redjepsen list NAME` shows one with its file; copy it, change it, and give its path to `run`."
            );
        }
        Some(name) => {
            let files: Vec<(&str, &Entry)> = [("workloads", WORKLOADS), ("nemeses", NEMESES)]
                .into_iter()
                .flat_map(|(folder, entries)| entries.iter().map(move |entry| (folder, entry)))
                .filter(|(_, (entry, _))| *entry == name)
                .collect();
            if files.is_empty() {
                return Err(Failure::arguments(format!(
                    "there is no workload or nemesis `{name}`; `redjepsen list` shows them"
                )));
            }
            for (folder, (name, text)) in files {
                println!("# {folder}/{name}.toml\n{text}");
            }
        }
    }
    Ok(Exit::Valid)
}
