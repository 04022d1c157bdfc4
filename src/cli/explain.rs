//! `redjepsen explain`: describes a diagnosis for a user who has its code.

use super::console::{Exit, Failure, look, print};
use super::list::{DIAGNOSES_TITLE, diagnoses, section};
use base::words::wrap;
use diagnosis::{KINDS, Kind, find, shown_by};

pub fn explain(word: Option<&str>) -> Result<Exit, Failure> {
    let text = match word {
        None => section(DIAGNOSES_TITLE, &diagnoses(), look().width),
        Some(word) => page(find(word).ok_or_else(|| unknown(word))?),
    };
    print(text)?;
    Ok(Exit::Valid)
}

fn unknown(word: &str) -> Failure {
    let last = KINDS.last().map_or("", |kind| kind.code);
    Failure::arguments(format!(
        "no diagnosis is called {word:?}: the codes are RJ001 to {last}; `redjepsen explain` lists them"
    ))
}

/// The description of a diagnosis, in paragraphs.
fn page(kind: &Kind) -> String {
    let mut text = look().headline(kind.code, "invalid", kind.title).join("\n") + "\n";
    let mut paragraph = |label: &str, lines: Vec<String>| {
        text.push_str(&format!("\n{label}\n"));
        lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    };
    let told = |text: &str| wrap(text, look().line() - 2);
    let mut rule = told(kind.rule);
    rule.push(format!("({}: {})", kind.source.0, kind.source.1));
    paragraph("The rule", rule);
    let mut fix = told(kind.fix);
    fix.extend(kind.commands.iter().map(|line| format!("  {line}")));
    paragraph("What to change", fix);
    if kind.inherent {
        paragraph("Whose fault", told(summary::INHERENT));
    }
    if let Some((workload, nemesis)) = kind.right {
        paragraph("A lock without this defect", vec![shown_by(workload, nemesis)]);
    }
    text
}
