//! A check against a model, for the terminal.

use std::fmt::Write;

use super::{KeyAnswer, LinearReport};
use crate::counterexample::Counterexample;
use crate::{Look, verdict_word};
use base::words;
use linearizability::Answer;

/// At most this many keys are described in full, of those that are not linearizable or undecided.
const TOLD: usize = 5;
/// At most this many operations of a counterexample are listed.
const LISTED: usize = 20;
/// At most this many operations of a legal order are shown.
const ORDER: usize = 5;

impl LinearReport<'_> {
    pub fn text(&self, look: Look) -> String {
        let mut text = String::new();
        let (word, class) = verdict_word(self.valid);
        let _ = writeln!(text, "{}  {}", look.verdict(word, class), self.summary());
        let _ = writeln!(text);
        let troubled = self.troubled();
        for answer in troubled.iter().take(TOLD) {
            self.tell(&mut text, answer);
        }
        if troubled.len() > TOLD {
            let _ = writeln!(text, "  and {} more keys; --json has them all\n", troubled.len() - TOLD);
        }
        for (name, fact) in self.facts() {
            let _ = writeln!(text, "  {name:12}{fact}");
        }
        text
    }

    fn tell(&self, text: &mut String, key: &KeyAnswer) {
        let of_key = self.key(key.key).map_or(String::new(), |name| format!("key {}: ", words::quoted(name)));
        match (&key.answer, &key.counterexample) {
            (Answer::Linearizable, _) => {}
            (Answer::Undecided(reason), _) => {
                let _ = writeln!(text, "  {of_key}{reason}\n");
            }
            (Answer::NotLinearizable(conflict), example) => {
                let _ = writeln!(text, "  {of_key}{}", conflict.reason.replace('\n', "\n  "));
                if let Some(example) = example {
                    operations(text, example);
                    place(text, example);
                }
                let _ = writeln!(text);
            }
        }
    }
}

fn operations(text: &mut String, example: &Counterexample) {
    for op in example.operations.iter().take(LISTED) {
        let process = words::line(&op.process, 20);
        let note = if op.weakened { "   (any value would fail here)" } else { "" };
        let _ = writeln!(text, "    line {:>8}  process {process:>4}  {:4}  {}{note}", op.line, op.outcome, op.text);
    }
    if example.operations.len() > LISTED {
        let _ = writeln!(text, "    and {} more", example.operations.len() - LISTED);
    }
}

/// Adds the point at which the history fails, and the legal order before it.
fn place(text: &mut String, example: &Counterexample) {
    let Some(sentence) = example.legal.sentence() else { return };
    if example.legal.order.is_empty() {
        let _ = writeln!(text, "  {sentence}");
    } else {
        let _ = writeln!(text, "  {sentence}:\n    {}", example.legal.order_in_words(ORDER));
    }
}
