//! The same seed makes the same history, byte for byte: in one process, in another one, and on any machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use redjepsen::runner::simulate::simulated_history;
use sha2::{Digest, Sha256};

use super::{on_all_processors, scenario};

/// SHA-256 of whole histories, by workload, nemesis and seed. See docs/contributing.md for when they may change.
const DIGESTS: [(&str, &str, u64, &str); 8] = [
    ("redlock", "pause", 7, "f67e0b13a07f3f0af10193b26e07ae2ccdabc3914ede9db452d569f325c9c49e"),
    ("redlock", "clock", 7, "530b5eb58775a7a2f449c4ee490d0b7a2e1a30d234fc86b53e8742142bd8853c"),
    ("redlock", "partition", 7, "8880d1e1e74304b13b610117684c33e2c7ff91a281a46425bf03f2898ac9dd36"),
    ("redlock", "packets", 7, "ef33d3ea7a31220c189fdcce7904f159ba10c7e3564b807018490521bccdba55"),
    ("redlock-guarded", "all", 7, "7a42ceac484a15284aa407c21551a67d0e04cc974a05cea5d1d1e98cc0ea40da"),
    ("redlock", "crash-everysec", 7, "157aa1454a0dab3d62546670c80427807855f23bacdeb3513234a0d15459fde4"),
    ("single", "late-acquire-reply", 7, "669bc1a0bb9797171d56f2efb85160d2b46b4cfb7e9577890ac1cd63071673e5"),
    ("perfect", "none", 7, "25df53f537eccbbbd17dc4ab48b5cbc9d8523086c2648485aed066bc16c60f98"),
];

/// A history without the number of the version that wrote it, which changes nothing else.
fn digest(history: &[u8]) -> String {
    let text = String::from_utf8(history.to_vec()).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let (header, client) = (format!("\"redjepsen\":\"{version}\""), format!("\"redjepsen {version}\""));
    assert!(text.contains(&header) && text.contains(&client), "{}", text.lines().next().unwrap_or_default());
    let text = text.replace(&header, "").replace(&client, "");
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn histories_are_the_committed_ones_byte_for_byte() {
    let now = on_all_processors(&DIGESTS, |(workload, nemesis, seed, _)| {
        digest(&simulated_history(&scenario(workload, nemesis, *seed, "12s")).unwrap())
    });
    let changed = DIGESTS.iter().zip(&now).any(|((.., committed), now)| committed != now);
    let lines = DIGESTS.iter().zip(&now).map(|((workload, nemesis, seed, committed), now)| {
        let note = if committed == now { "" } else { " // changed" };
        format!("    ({workload:?}, {nemesis:?}, {seed}, {now:?}),{note}\n")
    });
    assert!(
        !changed,
        "simulated histories have changed. If this change was meant to change them (docs/contributing.md), commit:\n{}",
        lines.collect::<String>()
    );
}

#[test]
fn two_runs_of_a_seed_are_the_same_and_of_two_seeds_are_not() {
    for (workload, nemesis) in [("redlock", "all"), ("single", "packets"), ("perfect", "pause")] {
        let history = |seed| simulated_history(&scenario(workload, nemesis, seed, "8s")).unwrap();
        let first = history(3);
        assert!(first == history(3), "{workload} under {nemesis}");
        assert!(first != history(4), "{workload} under {nemesis}");
    }
}

/// Runs it as a user would, and returns the history that it wrote.
fn in_another_process(store: &Path, environment: &[(&str, &str)]) -> Vec<u8> {
    let words = "run --cluster sim --workload redlock --nemesis all --time-limit 5s --seed 11 --store";
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    let output = command.args(words.split(' ')).arg(store).envs(environment.iter().copied()).output().unwrap();
    assert!(output.status.code().is_some_and(|code| code <= 2), "{}", String::from_utf8_lossy(&output.stderr));
    let found = history_below(store).unwrap_or_else(|| panic!("no history below {}", store.display()));
    fs::read(found).unwrap()
}

fn history_below(folder: &Path) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let is_file = |path: &&PathBuf| path.file_name().is_some_and(|name| name == "history.jsonl");
    entries.iter().find(is_file).cloned().or_else(|| entries.iter().find_map(|path| history_below(path)))
}

/// Time zone, locale and the number of threads are among what differs between machines.
#[test]
fn two_processes_write_the_same_history_whatever_their_environment_and_so_does_this_one() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = in_another_process(one.path(), &[("TZ", "UTC"), ("LC_ALL", "C")]);
    let environment = [("TZ", "Asia/Kathmandu"), ("LC_ALL", "tr_TR.UTF-8"), ("TOKIO_WORKER_THREADS", "1")];
    assert!(first == in_another_process(other.path(), &environment), "two processes");
    let here = simulated_history(&scenario("redlock", "all", 11, "5s")).unwrap();
    assert_eq!(digest(&first), digest(&here), "a run that leaves nothing behind is the same run");
}
