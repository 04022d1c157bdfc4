//! Checks the history in a file against a model: `cargo run --example check -- owner-mutex history.edn`.

use std::path::Path;
use std::process::ExitCode;

use linearizability::explain::explain_object;
use linearizability::history::Op;
use linearizability::words::Words;
use linearizability::{Answer, ModelSpec, Options, check, formats};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, path] = arguments.as_slice() else {
        eprintln!("usage: check MODEL FILE");
        return ExitCode::from(254);
    };
    match answers(model, Path::new(path)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(255)
        }
    }
}

/// Prints an answer for each key; true if all of them are linearizable.
fn answers(model: &str, path: &Path) -> Result<bool, Box<dyn std::error::Error>> {
    let spec: ModelSpec = model.parse()?;
    let loaded = formats::load(path, &formats::FormatOptions::default())?;
    let options = Options::default();
    let process = |process| loaded.process_name(process);
    let words = Words { values: &loaded.table.values, process: &process };
    let mut all = true;
    for object in check(&loaded.table, spec, &options) {
        let key = &loaded.table.keys[object.key as usize];
        let name = if key.is_empty() { String::new() } else { format!("{key}: ") };
        all &= object.answer == Answer::Linearizable;
        match &object.answer {
            Answer::Linearizable => println!("{name}linearizable"),
            Answer::Undecided(reason) => println!("{name}unknown: {reason}"),
            Answer::NotLinearizable(conflict) => {
                println!("{name}not linearizable");
                let ops: Vec<Op> =
                    object.operations.iter().map(|place| loaded.table.operations[*place as usize]).collect();
                let explanation = explain_object(spec, &ops, &words, conflict, &options);
                for place in &explanation.operations {
                    println!("  {}", words.operation(&ops[*place as usize]));
                }
                println!("  {}", explanation.sentences.join("\n  "));
            }
        }
    }
    Ok(all)
}
