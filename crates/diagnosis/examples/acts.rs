//! Prints the life of a key: run folder, key, from and to in seconds.
use model::history::{self, RecordedCommand};
use std::path::Path;
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let path = Path::new(&words[1]);
    let history = history::load(&path.join("history.jsonl")).unwrap();
    let commands = RecordedCommand::read(&std::fs::read_to_string(path.join(RecordedCommand::FILE)).unwrap()).unwrap();
    let ns = |word: &str| (word.parse::<f64>().unwrap() * 1e9) as u64;
    for event in diagnosis::biography(&history, &commands, &words[2], ns(&words[3]), ns(&words[4])) {
        println!("{:.3} {} {}", event.time as f64 / 1e9, event.node, event.text);
    }
}
