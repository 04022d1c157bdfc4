//! `redjepsen replay` on a real cluster: a scenario that breaks a lock in virtual time breaks it on real servers.

use std::process::Command;

use crate::turns;

#[test]
fn what_a_hunt_found_comes_back_on_real_servers() {
    let _turn = turns::local();
    let folder = tempfile::tempdir().unwrap();
    let redjepsen = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
        let output = command.args(arguments.split(' ')).current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), said)
    };
    let (code, said) = redjepsen("fuzz --workload none --runs 1 --seed 6 --jobs 1");
    assert_eq!(code, Some(1), "{said}");
    let run = said.lines().find_map(|line| line.split("redjepsen replay ").nth(1)).unwrap();
    let (code, said) = redjepsen(&format!("replay {run} --cluster local --times 2 --store again"));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("CAME BACK  lost update, without a fault: in 2 of 2 runs on cluster local ("), "{said}");
}
