//! What a reader of a report sees, and that no history can keep it from being written.

mod support;

use redjepsen::report;
use redjepsen::scenario::Fencing;
use support::{Play, play};

/// Writes sample reports where a person can look at them: `REPORTS_TO=/tmp/rep cargo test --test report samples`.
#[test]
fn samples() {
    let Ok(folder) = std::env::var("REPORTS_TO") else { return };
    let samples =
        [("invalid", play(&Play::default())), ("valid", play(&Play { fencing: Fencing::OldValue, ..Play::default() }))];
    for (name, run) in samples {
        let folder = std::path::Path::new(&folder).join(name);
        std::fs::create_dir_all(&folder).expect("a folder for the samples");
        report::write(&folder, &run.report()).expect("a report");
        println!("{}", report::terminal(&run.report(), false));
    }
}
