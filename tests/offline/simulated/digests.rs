//! The same seed makes the same history, byte for byte: in one process, in another one, and on any machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use redjepsen::runner::simulate::simulated_history;
use sha2::{Digest, Sha256};

use super::{on_all_processors, scenario};

/// SHA-256 of whole histories, by workload, nemesis and seed. See docs/contributing.md for when they may change.
const DIGESTS: [(&str, &str, u64, &str); 8] = [
    ("redlock", "pause", 7, "98c6d7ee28b45dedf8ee5999258ec24b9208c384ed3d9d67c81cb2c13024982f"),
    ("redlock", "clock", 7, "8f61fd8ecc838527868f1aed05643c7df94c6de2efd63466cc7f5612fb17c74c"),
    ("redlock", "partition", 7, "39f1033f04f169f1f047947d01ccd18945ee8168f1532e9cb0eb6e27af3d2f71"),
    ("redlock", "packets", 7, "8b0f14640a29c6b653ca016baa1479266b3c6dbfc526bd3cba69ae140c4a8179"),
    ("redlock-guarded", "all", 7, "c4e7ba42c811aff4e5fa3ddbdb56f7343c1900d86be4fd58075e68a2996129fd"),
    ("redlock", "crash-everysec", 7, "4ae190add9541ddd6d6fe4a21ce6b7a5b545360f048581e04e07cfdb0dcedd1d"),
    ("single", "late-acquire-reply", 7, "c35ca7419ea9bf69aefa01b910c3b0d1f9121bd29692753fa575233a864a679e"),
    ("perfect", "none", 7, "ff1d5270d42351c3819a780161c8192a4698215ea35a8fec52730ca8a05cae1f"),
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
