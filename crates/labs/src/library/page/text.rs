//! The results of a library, for the terminal.

use super::defects::{Defect, defects};
use super::remarks::{FaultFree, fault_free, remarks};
use super::{broken, command, facts, headline, meaning, shrunk, symptom, withstood};
use crate::library::examined::Examined;
use base::words::{line, plural, sanitize, wrap};
use checker::Validity;
use report::Look;

/// Lines are cut off after this many characters, unless the user needs the whole line.
const LONGEST: usize = 300;
/// At most this many passed scenarios are listed.
const MOST_HELD: usize = 25;

/// A defect: what happened, which scenarios show it, what to change, and the run to look at.
fn wrong(defect: &Defect, examined: &Examined, look: Look) -> Vec<String> {
    let diagnosis = defect.diagnosis;
    let told = |text: &str| wrap(&sanitize(text, 2 * LONGEST), look.line() - 4);
    let mut lines = vec![format!("  {} {}: {}", diagnosis.code, diagnosis.name, diagnosis.title)];
    let fix = format!("→ {}", diagnosis.fix);
    let texts = [diagnosis.sentence().to_string(), defect.shown_by(examined) + ".", fix];
    lines.extend(texts.iter().flat_map(|text| told(text)).map(|line| format!("    {line}")));
    lines.push(format!("    repeat  {}", sanitize(&defect.run.repeat, 400)));
    lines
}

/// The headline, what breaks it by symptom, what it passes, and what is inconclusive.
pub fn terminal(examined: &Examined, look: Look) -> String {
    let mut lines = vec![format!("{}.", look.paint("1", &line(&headline(examined), LONGEST)))];
    for FaultFree { what, run, .. } in fault_free(examined) {
        lines.push(look.paint("1;31", &format!("{}.", line(&what, 2 * LONGEST))));
        lines.push(format!("  repeat  {}", sanitize(&run.repeat, 400)));
    }
    let all = defects(examined);
    for (title, inherent) in [("Defects", false), ("Limitations of every lock with a TTL", true)] {
        let of_kind = all.iter().filter(|defect| defect.diagnosis.inherent == inherent);
        let told: Vec<String> = of_kind.flat_map(|defect| wrong(defect, examined, look)).collect();
        if !told.is_empty() {
            lines.extend([String::new(), look.paint(if inherent { "1" } else { "1;31" }, title)]);
            lines.extend(told);
        }
    }
    lines.push(String::new());
    lines.extend(facts(examined).into_iter().map(|(name, text)| format!("  {name:<14} {}", line(&text, LONGEST))));
    for (place, sent) in examined.sent.iter().enumerate() {
        let name = if place == 0 { "sends" } else { "" };
        lines.push(format!("  {name:<14} {}, {}", sanitize(&command(sent), LONGEST), sent.when));
    }
    let mut said = None;
    for group in examined.unexplained() {
        let means = meaning(&group, examined);
        if said.as_ref() != Some(&means) {
            let code = if group.of_its_kind.is_inherent() && !group.is_plain() { "1" } else { "1;31" };
            lines.extend([String::new(), look.paint(code, &means)]);
            said = Some(means);
        }
        lines.push(format!("  {}", symptom(&group, examined)));
        let account = line(group.account(), 2 * LONGEST).replace('`', "");
        lines.extend(wrap(&account, look.line() - 4).into_iter().map(|line| format!("    {line}")));
        for tried in &group.tried {
            lines.push(format!("    {} ({})", tried.scenario, broken(tried)));
        }
        if let Some(run) = group.tried.first().and_then(|tried| tried.telling()) {
            lines.push(format!("    {}", sanitize(&run.summary, LONGEST)));
            lines.push(format!("    repeat  {}", sanitize(&run.repeat, 400)));
        }
    }
    if !examined.found.is_empty() {
        lines.extend([String::new(), look.paint("1", "Minimal reproductions")]);
        for found in &examined.found {
            lines.push(format!("  {}: {}", found.scenario, shrunk(found)));
            lines.push(format!("    repeat  {}", sanitize(&found.repeat, 400)));
        }
    }
    let held = examined.that(Validity::Valid);
    if !held.is_empty() {
        lines.extend([String::new(), look.paint("1;32", &format!("Passes {}", plural(held.len() as u64, "scenario")))]);
        for tried in held.iter().take(MOST_HELD) {
            let struck = withstood(tried);
            let struck = if struck.is_empty() { struck } else { format!(": {}", sanitize(&struck, LONGEST)) };
            lines.push(format!("  {}{struck}", tried.scenario));
        }
        if held.len() > MOST_HELD {
            lines.push(format!("  and {} more, on the page", held.len() - MOST_HELD));
        }
    }
    for remarks in remarks(examined) {
        lines.extend([String::new(), look.paint("1;33", remarks.title)]);
        lines.extend(remarks.of.iter().map(|(tried, what)| format!("  {}: {}", tried.scenario, line(what, LONGEST))));
    }
    let nothing = examined.nothing_shown();
    if !nothing.is_empty() {
        lines.extend([String::new(), look.paint("1;33", "Inconclusive scenarios")]);
        for (why, tried) in nothing {
            let names: Vec<&str> = tried.iter().map(|tried| &*tried.scenario).collect();
            lines.push(format!("  {}: {}", names.join(", "), sanitize(&why, LONGEST)));
        }
    }
    if !examined.not_about.is_empty() {
        let count = plural(examined.not_about.len() as u64, "scenario");
        lines.extend([
            String::new(),
            look.paint("2", &format!("Left out: {count}; the page gives the reason for each")),
        ]);
    }
    lines.join("\n") + "\n"
}
