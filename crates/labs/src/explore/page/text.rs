//! A search on the terminal: the verdict, the steps, what was searched, and the way to real Redis.

use std::fmt::Write;
use std::path::Path;

use super::Exploration;
use report::Look;

/// Where files go in a command that nobody has typed yet.
const FOLDER: &str = "explored";

impl Exploration<'_> {
    /// The report as text for people. `folder` is where its files were written, if they were.
    pub fn text(&self, folder: Option<&Path>, look: Look) -> String {
        let (word, class) = self.verdict();
        let word = look.verdict(word, class);
        let mut text = format!("{word}  {}\n\n", self.headline());
        if let Some(counterexample) = self.counterexample() {
            let mut last = None;
            for made in &counterexample.moves {
                let tick = if last.replace(made.time) == Some(made.time) {
                    String::new()
                } else {
                    format!("tick {}", made.time)
                };
                let _ = writeln!(text, "  {tick:8}{}", made.step);
            }
            text.push('\n');
        }
        for (name, fact) in self.facts() {
            let _ = writeln!(text, "  {name:12}{fact}");
        }
        if let Some(folder) = folder {
            let _ = writeln!(text, "  {:12}{}", "page", folder.join("explore.html").display());
        }
        match &self.script {
            None => {}
            Some(Err(reason)) => {
                let _ = write!(text, "\n  There is no script that does this to real Redis: {reason}.\n");
            }
            Some(Ok(script)) => {
                let _ = write!(text, "\n  The same on real Redis:\n");
                if folder.is_none() {
                    let _ = writeln!(text, "    {} --out {FOLDER}", self.command);
                }
                let command = Self::run_command(script, folder.unwrap_or(Path::new(FOLDER)));
                let _ = writeln!(text, "    {command}");
            }
        }
        text
    }
}
