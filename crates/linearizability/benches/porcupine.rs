//! How long the search takes on Porcupine's public histories: `cargo bench --bench porcupine -- DIR`, where DIR is your own copy
//! of github.com/anishathalye/porcupine. Prints a line for each file: its name, its operations, whether it is linearizable, and
//! microseconds (the best of several runs of the check alone). `benches/porcupine.sh` compares the times with Porcupine's own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linearizability::history::Table;
use linearizability::{Answer, FailedCas, ModelSpec, Options, check, formats};

fn main() {
    let Some(folder) = std::env::args().skip(1).find(|arg| !arg.starts_with("--")) else {
        println!("nothing to do: name a copy of porcupine");
        return;
    };
    let data = Path::new(&folder).join("test_data");
    for (path, spec) in files(&data.join("jepsen"), ModelSpec::CasRegister)
        .into_iter()
        .chain(files(&data.join("kv"), ModelSpec::TextAppend))
    {
        let table = read(&path);
        let (legal, time) = measure(&table, spec);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        println!("{name},{},{legal},{:.1}", table.operations.len(), time.as_secs_f64() * 1e6);
    }
}

fn files(folder: &Path, spec: ModelSpec) -> Vec<(PathBuf, ModelSpec)> {
    let entries = std::fs::read_dir(folder).expect("a folder of histories");
    let mut paths: Vec<_> = entries.map(|entry| (entry.expect("an entry").path(), spec)).collect();
    paths.sort_by(|(one, _), (other, _)| one.cmp(other));
    paths
}

/// The best of several runs; short checks run more often.
fn measure(table: &Table, spec: ModelSpec) -> (bool, Duration) {
    let (mut best, mut legal) = (Duration::MAX, true);
    let started = Instant::now();
    for run in 0..50 {
        if run >= 3 && started.elapsed() > Duration::from_secs(2) {
            break;
        }
        let begun = Instant::now();
        let objects = check(table, spec, &Options { failed_cas: FailedCas::Check, ..Options::default() });
        best = best.min(begun.elapsed());
        legal = objects.iter().all(|object| object.answer == Answer::Linearizable);
    }
    (legal, best)
}

/// Reads a history of etcd or of a key-value store. One file is empty.
fn read(path: &Path) -> Table {
    if path.metadata().expect("a history").len() == 0 {
        return Table::default();
    }
    formats::load(path, &formats::FormatOptions::default()).expect("a history").table
}
