//! Prints what is wrong with the lock of each of these run folders.

use std::fs;
use std::path::Path;

use diagnosis::diagnose;
use model::history::{self, RecordedCommand};

fn main() {
    for folder in std::env::args().skip(1) {
        let path = Path::new(&folder);
        let Ok(history) = history::load(&path.join("history.jsonl")) else { continue };
        let Ok(text) = fs::read_to_string(path.join(RecordedCommand::FILE)) else { continue };
        let commands = RecordedCommand::read(&text).expect("it was written by redjepsen");
        println!("{folder}");
        for diagnosis in diagnose(&history, &commands) {
            let harmful = diagnosis.findings.iter().filter(|finding| finding.harm != diagnosis::Harm::None).count();
            println!("  {} {} of {}: {}", diagnosis.code, harmful, diagnosis.findings.len(), diagnosis.sentence());
        }
    }
}
