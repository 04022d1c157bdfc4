//! The process that started a run. Everything that the run makes records its owner. So leftovers of a dead controller can be told
//! from objects that a living controller uses.
//!
//! A PID alone proves nothing. It counts only on the same machine, in the same boot and PID namespace, and if the process started
//! at the recorded time. If in doubt, the controller counts as alive.

use std::collections::HashMap;
use std::fs;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub pid: u32,
    /// Clock ticks from boot to the process's start.
    pub start_ticks: u64,
    pub boot_id: String,
    pub host: String,
    pub pid_namespace: String,
}

/// Says whether a run's controller is still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    Alive,
    Dead,
    /// The controller runs or ran elsewhere, or before the last boot of a machine with this machine's name.
    Unknown,
}

const PID: &str = "redjepsen.controller.pid";
const START: &str = "redjepsen.controller.start";
const BOOT: &str = "redjepsen.controller.boot";
const HOST: &str = "redjepsen.controller.host";
const NAMESPACE: &str = "redjepsen.controller.pidns";

impl Owner {
    pub fn current() -> Owner {
        let pid = std::process::id();
        Owner {
            pid,
            start_ticks: start_ticks(pid).unwrap_or(0),
            boot_id: kernel("random/boot_id"),
            host: kernel("hostname"),
            pid_namespace: fs::read_link("/proc/self/ns/pid")
                .map(|link| link.to_string_lossy().into_owned())
                .unwrap_or_default(),
        }
    }

    pub fn labels(&self) -> [(String, String); 5] {
        [
            (PID, self.pid.to_string()),
            (START, self.start_ticks.to_string()),
            (BOOT, self.boot_id.clone()),
            (HOST, self.host.clone()),
            (NAMESPACE, self.pid_namespace.clone()),
        ]
        .map(|(name, value)| (name.to_string(), value))
    }

    pub fn from_labels(labels: &HashMap<String, String>) -> Option<Owner> {
        Some(Owner {
            pid: labels.get(PID)?.parse().ok()?,
            start_ticks: labels.get(START)?.parse().ok()?,
            boot_id: labels.get(BOOT)?.clone(),
            host: labels.get(HOST)?.clone(),
            pid_namespace: labels.get(NAMESPACE)?.clone(),
        })
    }

    pub fn liveness(&self) -> Liveness {
        let here = Owner::current();
        let same_place =
            self.host == here.host && self.boot_id == here.boot_id && self.pid_namespace == here.pid_namespace;
        if !same_place || self.boot_id.is_empty() || self.start_ticks == 0 {
            return Liveness::Unknown;
        }
        if start_ticks(self.pid) == Some(self.start_ticks) { Liveness::Alive } else { Liveness::Dead }
    }
}

/// The start time of a process; `None` if it does not exist or is a zombie.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = crate::faults::process_stat(pid)?;
    (!matches!(stat.0, 'Z' | 'X')).then_some(stat.1)
}

fn kernel(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).map(|text| text.trim().to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_the_dead_and_the_unknown_are_told_apart() {
        let me = Owner::current();
        assert_eq!(me.liveness(), Liveness::Alive);
        let labels: HashMap<String, String> = me.labels().into_iter().collect();
        assert_eq!(Owner::from_labels(&labels).unwrap(), me);
        assert_eq!(Owner::from_labels(&HashMap::new()), None);

        let reused_pid = Owner { start_ticks: me.start_ticks + 1, ..me.clone() };
        assert_eq!(reused_pid.liveness(), Liveness::Dead);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let owner = Owner { pid: child.id(), start_ticks: start_ticks(child.id()).unwrap(), ..me.clone() };
        assert_eq!(owner.liveness(), Liveness::Alive);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(owner.liveness(), Liveness::Dead);

        let elsewhere = Owner { host: "another-machine".to_string(), ..owner.clone() };
        assert_eq!(elsewhere.liveness(), Liveness::Unknown);
        let namesake = Owner { boot_id: "another boot".to_string(), ..owner.clone() };
        assert_eq!(namesake.liveness(), Liveness::Unknown);
        let in_a_container = Owner { pid_namespace: "pid:[1]".to_string(), ..owner };
        assert_eq!(in_a_container.liveness(), Liveness::Unknown);
    }
}
