//! Time and memory from the history of a run to its report: all of `redjepsen report FOLDER`, in a separate process, for
//! runs of many operations. `cargo bench --bench reports`. The time on all cores tells whether others used them meanwhile:
//! on two cores, what is above half of it was not used, or was not to be had.

mod used;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use used::used;

const CLIENTS: u64 = 5;
const PHASES: [&str; 7] = ["acquiring", "acquired", "read", "before-write", "written", "releasing", "released"];

fn main() -> io::Result<()> {
    println!("{:>12} {:>10} {:>8} {:>12} {:>8}", "operations", "history MB", "s", "s, all cores", "peak MB");
    for operations in [10_000, 100_000, 1_000_000] {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reports");
        fs::create_dir_all(&folder)?;
        let history = folder.join("history.jsonl");
        write(operations, BufWriter::new(File::create(&history)?))?;
        let bytes = fs::metadata(&history)?.len();
        let begun = Instant::now();
        let child = Command::new(env!("CARGO_BIN_EXE_redjepsen")).arg("report").arg(&folder).arg("--quiet").spawn()?;
        let (peak, of_all) = used(child.id());
        println!(
            "{operations:>12} {:>10} {:>8.2} {of_all:>12.2} {:>8}",
            bytes / 1_000_000,
            begun.elapsed().as_secs_f64(),
            peak / 1_000_000
        );
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// Writes a run in which clients take turns: each line as the recorder writes it.
fn write(operations: u64, mut out: impl Write) -> io::Result<()> {
    let start = 30_000_000_000_000_u64;
    writeln!(out, r#"{{"index":0,"time":0,"type":"clock","clock":{{"mono_at_start_ns":{start},"error_ns":13516}}}}"#)?;
    let (mut index, mut time, mut before) = (1, 0, "null".to_string());
    for operation in 0..operations {
        let process = operation % CLIENTS;
        let value = format!("\"c{process}:{}\"", operation / CLIENTS);
        let mut line = |content: &str| {
            time += 400_000;
            index += 1;
            let index = index - 1;
            writeln!(out, r#"{{"index":{index},"time":{time},{content}}}"#).map(|()| start + time - 20_000)
        };
        let whole = |kind, old: &str| {
            format!(r#""type":"{kind}","process":{process},"f":"rmw","key":"k0","value":[{old},{value}]"#)
        };
        let mut stamp = line(&whole("invoke", "null"))?;
        for phase in PHASES {
            let more = match phase {
                "acquired" => r#","validity_ms":977"#.to_string(),
                "read" => format!(r#","value":{before}"#),
                _ => String::new(),
            };
            stamp += 400_000;
            line(&format!(r#""type":"phase","process":{process},"phase":"{phase}","mono_ns":{stamp}{more}"#))?;
        }
        line(&whole("ok", &before))?;
        before = value;
    }
    out.flush()
}
