//! The command that repeats a run, and that command with other options.

use super::story::Story;
use model::scenario::quoted;

/// The command of the run, with these options in place of its own.
pub(super) fn changed(story: &Story, changes: &[(&str, String)]) -> Option<String> {
    let mut words = shlex::split(&story.subject.facts.repeat).filter(|words| !words.is_empty())?;
    // A saved scenario or a numbered issue is repeated without changes.
    if !changes.is_empty() && words.iter().any(|word| word == "--scenario" || word == "--issue") {
        return None;
    }
    for (flag, value) in changes {
        let flag = format!("--{flag}");
        match words.iter().position(|word| *word == flag).filter(|place| place + 1 < words.len()) {
            Some(place) => words[place + 1] = value.clone(),
            None => words.extend([flag, value.clone()]),
        }
    }
    Some(words.iter().map(|word| quoted(word)).collect::<Vec<String>>().join(" "))
}

/// The value of this flag in the command that repeats the run.
pub(super) fn said(story: &Story, flag: &str) -> Option<String> {
    shlex::split(&story.subject.facts.repeat)?.into_iter().skip_while(|word| word != flag).nth(1)
}
