//! The cost of loading. Run `cargo test --release -p linearizability --test all -- --ignored --nocapture figures`.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::time::Instant;

use linearizability::formats::{FormatOptions, load};

use super::generate::{Generator, Object, json};

#[test]
#[ignore = "figures, not a test; a million operations"]
fn figures() {
    let folder = tempfile::tempdir().unwrap();
    for (name, object, strings) in [
        ("register, integers", Object::Register, false),
        ("register, strings", Object::Register, true),
        ("rmw, integers", Object::Rmw, false),
        ("rmw, strings", Object::Rmw, true),
    ] {
        for operations in [1_000, 10_000, 100_000, 1_000_000] {
            let path = folder.path().join("history.jsonl");
            let mut file = BufWriter::new(File::create(&path).unwrap());
            for line in Generator::new(object, strings, operations, 20, 10) {
                file.write_all(json(&line, "").as_bytes()).unwrap();
            }
            file.into_inner().unwrap().sync_all().unwrap();
            measure(name, operations, &path);
        }
        let path = folder.path().join("history.jsonl");
        for (tool, flags, ending) in [("zstd", &["-1", "-q", "-k"][..], "zst"), ("gzip", &["-1", "-k"][..], "gz")] {
            let done = std::process::Command::new(tool).args(flags).arg(&path).status();
            if done.is_ok_and(|status| status.success()) {
                let packed = path.with_extension(format!("jsonl.{ending}"));
                measure(&format!("{name}, {tool}"), 1_000_000, &packed);
                std::fs::remove_file(packed).unwrap();
            }
        }
    }
}

fn measure(name: &str, operations: u32, path: &std::path::Path) {
    let mut best = f64::MAX;
    let mut peak = 0;
    for _ in 0..5 {
        // On Linux this resets the peak of resident memory.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let start = Instant::now();
        let loaded = load(path, &FormatOptions::default()).unwrap();
        best = best.min(start.elapsed().as_secs_f64());
        peak = peak.max(peak_kib());
        assert_eq!(loaded.table.operations.len(), operations as usize);
    }
    let size = path.metadata().unwrap().len() as f64 / 1e6;
    println!("{name:28} {operations:>8} operations {size:6.1} MB  {:8.2} ms  peak {:4} MiB", best * 1e3, peak / 1024);
}

fn peak_kib() -> u64 {
    let mut status = String::new();
    File::open("/proc/self/status").unwrap().read_to_string(&mut status).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
