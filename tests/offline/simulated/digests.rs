//! The same seed makes the same history, byte for byte: in one process, in another process, and on any machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use runner::simulate::simulated_history;
use sha2::{Digest, Sha256};

use crate::kit::{on_all_processors, scenario};

/// SHA-256 of whole histories, by workload, nemesis and seed. docs/contributing.md says when they may change.
const DIGESTS: [(&str, &str, u64, &str); 8] = [
    ("redlock", "pause", 7, "6681bb05d66c1dfa43c5accb4e6ac64ef6b1fb04f0a8f5bb70a9eb5b7cd65f6a"),
    ("redlock", "clock", 7, "95bf4290c56248e30b0a7c7914e40f7cd62a861791169de964a8cfc9f0ccc985"),
    ("redlock", "partition", 7, "01395a7e5ac2bfb15618abeb27c1c433c42183bc15756ece60c3643306391f2f"),
    ("redlock", "packets", 7, "5f2cedffce2e48263f816915b524adcf57cefc95146667094ae7a7ddafb85f3f"),
    ("redlock-guarded", "all", 7, "24cdd6702366d17d708b678e90efce1c602a390842a42a08d8046fbb868e8dbd"),
    ("redlock", "crash-everysec", 7, "71c530042f147087c778aedb642c61ced0ebe1493c871ba4f2e64c2c94b5c24d"),
    ("single", "late-acquire-reply", 7, "ed89d7cb589bcc87601275ecfbf76fcdbc3c4a31055ef11b7794dc5082efdf2a"),
    ("perfect", "none", 7, "77532addb12fc223b35ba6509cd5c38dffdaab2f88786e390e7233c18e363611"),
];

/// The digest of a history without the version of the program that wrote it. The version changes nothing else.
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

/// Runs the program as a user would, and returns the history that it wrote.
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

/// Machines differ, for example, in their time zone, locale and number of threads.
#[test]
fn two_processes_write_the_same_history_whatever_their_environment_and_so_does_this_one() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = in_another_process(one.path(), &[("TZ", "UTC"), ("LC_ALL", "C")]);
    let environment = [("TZ", "Asia/Kathmandu"), ("LC_ALL", "tr_TR.UTF-8"), ("TOKIO_WORKER_THREADS", "1")];
    assert!(first == in_another_process(other.path(), &environment), "two processes");
    let here = simulated_history(&scenario("redlock", "all", 11, "5s")).unwrap();
    assert_eq!(digest(&first), digest(&here), "a run that leaves nothing behind is the same run");
}
