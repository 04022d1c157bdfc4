//! How processor time grows with each size of a simulated run and of a suite: `cargo bench --bench growth [-- SIZE...]`.
//!
//! Each row doubles the size of the row above. The exponents compare the last row with the first: 1 is linear, 2 quadratic. A run with
//! more clients on one key has as many operations as before, but all the longer waits.

mod used;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use used::used;

/// What grows: its name, its first value, and the flags of a run for a value.
struct Size {
    name: &'static str,
    first: u64,
    flags: fn(u64) -> String,
}

const ROWS: u32 = 4;

const SIZES: [Size; 5] = [
    Size { name: "seconds", first: 15, flags: |n| format!("--nemesis none --time-limit {n}s") },
    Size { name: "faults", first: 4, flags: |n| format!("--nemesis pause --time-limit {}s", n * 5) },
    Size { name: "clients", first: 5, flags: |n| format!("--nemesis none --time-limit 20s --clients {n}") },
    Size { name: "keys", first: 1, flags: |n| format!("--nemesis none --time-limit 20s --clients 8 --keys {n}") },
    Size { name: "nodes", first: 3, flags: |n| format!("--nemesis none --time-limit 20s --nodes {n}") },
];

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    let store = Path::new(env!("CARGO_TARGET_TMPDIR")).join("growth");
    println!("{:>8} {:>6} {:>10} {:>9} {:>9} {:>9}", "size", "", "operations", "run s", "check s", "report s");
    for size in SIZES.iter().filter(|size| wanted(size.name)) {
        let rows = (0..ROWS).map(|row| of_run(&store, size, size.first << row)).collect::<io::Result<Vec<_>>>()?;
        exponents(&rows);
    }
    if wanted("cells") {
        let rows = (0..ROWS).map(|row| of_suite(&store, 4 << row)).collect::<io::Result<Vec<_>>>()?;
        exponents(&rows);
    }
    fs::remove_dir_all(&store)
}

/// The seconds that each step of a run takes on all cores.
fn of_run(store: &Path, size: &Size, value: u64) -> io::Result<Vec<f64>> {
    let folder = store.join(format!("{}-{value}", size.name));
    let flags = format!(
        "run --cluster sim --workload redlock {} --seed 1 --quiet --store {}",
        (size.flags)(value),
        folder.display()
    );
    let run = seconds(flags.split(' '))?;
    let latest = latest(&folder)?;
    let latest = latest.display().to_string();
    let check = seconds(["check", &latest, "--json"].into_iter())?;
    let report = seconds(["report", &latest, "--quiet"].into_iter())?;
    let history = fs::read_to_string(Path::new(&latest).join("history.jsonl"))?;
    let operations = history.lines().filter(|line| line.contains(r#""type":"invoke""#)).count();
    println!("{:>8} {value:>6} {operations:>10} {run:>9.2} {check:>9.2} {report:>9.2}", size.name);
    Ok(vec![run, check, report])
}

/// The same of a suite of so many cells: to make it, and to make its pages from its store.
fn of_suite(store: &Path, cells: u64) -> io::Result<Vec<f64>> {
    let folder = store.join(format!("cells-{cells}"));
    fs::create_dir_all(&folder)?;
    let file = folder.join("growth.toml");
    let cell =
        |number| format!("[[cells]]\nworkload = \"single\"\nnemesis = \"crash-holder\"\nname = \"cell {number}\"\n");
    fs::write(&file, (0..cells).map(cell).collect::<String>())?;
    let (file, store) = (file.display().to_string(), folder.display().to_string());
    let run = seconds(["suite", &file, "--cluster", "sim", "--quiet", "--store", &store].into_iter())?;
    let pages = folder.join("pages").display().to_string();
    let serve = seconds(["serve", &store, "--export", &pages].into_iter())?;
    println!("{:>8} {cells:>6} {:>10} {run:>9.2} {:>9} {serve:>9.2}", "cells", "", "");
    Ok(vec![run, serve])
}

/// The folder of the only run of a store.
fn latest(store: &Path) -> io::Result<PathBuf> {
    let of_pair = fs::read_dir(store)?.flatten().map(|entry| entry.path().join("latest")).find(|path| path.exists());
    of_pair.ok_or_else(|| io::Error::other(format!("{}: there is no run", store.display())))
}

fn seconds<'a>(args: impl Iterator<Item = &'a str>) -> io::Result<f64> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    let child = command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    Ok(used(child.id()).1)
}

/// Prints by which power each time grew over all rows.
fn exponents(rows: &[Vec<f64>]) {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return };
    let doublings = (rows.len() - 1) as f64;
    let grown: Vec<String> =
        first.iter().zip(last).map(|(first, last)| format!("{:.2}", (last / first).log2() / doublings)).collect();
    println!("{:>8} {:>17} {}", "", "grows by", grown.join(", "));
}
