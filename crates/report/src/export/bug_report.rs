//! A report of one run for the maintainers of a library, as self-contained Markdown. It names no machine, user, path or
//! environment of the person who made the run.

use std::fmt::Write;

use crate::Report;
use base::units::nanos;
use base::words::{length, list, plural, sanitize};
use checker::Validity;
use checker::properties::Property;
use model::history::Phase;
use model::nemesis::{Expectation, Nemesis};
use model::scenario::{Cause, Options, Scenario, catalogue};
use model::topology::ClusterKind;
use summary::{Incident, Story, times};

/// The reference lock of the same kind, and its expected result under the same nemesis.
pub struct Reference {
    /// `a lock with a TTL, on one node`
    pub kind: String,
    pub workload: String,
    pub expected: Expectation,
}

const COLUMNS: usize = 56;
const CLIENTS: usize = 6;
/// At most this many characters of a text are quoted.
const LONGEST: usize = 600;

/// The report as text. `drawing` names the picture of an incident in the same folder. None if the run has no violation.
pub fn bug_report(report: &Report, reference: Option<&Reference>, drawing: Option<&str>) -> Option<String> {
    let (summary, story) = (&report.summary, &report.story);
    let account = summary.incidents.first().filter(|_| summary.valid == Validity::Invalid);
    let incident = story.incidents.first().filter(|_| summary.valid == Validity::Invalid)?;
    let scenario = story.subject.scenario;
    let mut text = format!("# {}\n\n", public(&summary.headline));
    let mut paragraph = |title: &str, body: &str| {
        if !body.is_empty() {
            let _ = write!(text, "## {title}\n\n{}\n\n", body.trim_end());
        }
    };
    paragraph("Tested", &tested(report));
    paragraph("Claims", &promises(report));
    let explained = summary.diagnoses.iter().find(|account| account.incidents.contains(&1));
    let sentences = account.map(|account| &account.sentences[..]).unwrap_or_default();
    let mut seen = sentences.iter().map(|sentence| public(sentence.text())).collect::<Vec<_>>().join(" ");
    if let Some(drawn) = drawn(story, incident) {
        let _ = write!(seen, "\n\n```text\n{drawn}```");
    }
    if let Some(file) = drawing {
        let _ = write!(seen, "\n\n![The incident on a time axis]({file})");
    }
    paragraph("What happened", &seen);
    let diagnosis = explained.map(|account| {
        let of = &account.diagnosis;
        let whose = if of.inherent { "\n\nEvery lock with a TTL has this limitation." } else { "" };
        let commands: String = of.commands.iter().map(|line| format!("{line}\n")).collect();
        let commands = if commands.is_empty() { commands } else { format!("\n\n```text\n{commands}```") };
        format!(
            "{} ({}): {}\n\nSeen: {}\n\nRule: {} ({})\n\nFix: {}{commands}{whose}",
            of.code,
            of.name,
            of.title,
            public(account.sentence()),
            of.rule,
            of.source,
            of.fix
        )
    });
    paragraph("Diagnosis", &diagnosis.unwrap_or_default());
    paragraph("In the source", &in_source(report));
    paragraph("How to repeat it", &scenario.map_or_else(String::new, |scenario| repeat(report, scenario)));
    paragraph("A similar lock", &reference.map_or_else(String::new, |of| similar(of, scenario)));
    text.push_str(
        "Written by redjepsen, which starts servers and clients, injects faults, and checks the recorded history.\n",
    );
    Some(text)
}

/// The library, its version, the servers and the setting.
fn tested(report: &Report) -> String {
    let (story, summary) = (&report.story, &report.summary);
    let library = story.subject.scenario.and_then(|scenario| scenario.workload.library.as_ref());
    let mut rows = vec![match library {
        Some(library) => format!("Library: {} {}", library.name, library.version),
        None => format!("Lock: {}", story.lock_name()),
    }];
    let package = library.and_then(|library| library.package.as_ref());
    rows.extend(package.map(|package| format!("Package: `{package}`")));
    // Other versions, such as the kernel's, would reveal the machine.
    let versions = ["redis", "redjepsen"].into_iter().filter_map(|name| Some((name, summary.versions.get(name)?)));
    rows.extend(versions.map(|(name, version)| format!("{name}: {}", public(version))));
    if let Some(scenario) = story.subject.scenario {
        let (clients, nodes) = (scenario.clients, scenario.nodes);
        let (clients, nodes) = (plural(clients.into(), "client"), plural(nodes.into(), "node"));
        rows.push(format!("{clients}, {nodes}, TTL {}", length(nanos(scenario.ttl))));
        let description = scenario.nemesis.description.trim_end_matches('.');
        rows.push(format!("Fault: {} (`{}`)", public(description), scenario.nemesis_name));
    }
    if summary.simulated {
        rows.push("Servers, network and time were simulated.".to_string());
    }
    rows.iter().map(|row| format!("- {row}\n")).collect()
}

/// The claims of the workload, and the library's home page.
fn promises(report: &Report) -> String {
    let claims = report.summary.claims.iter().filter(|of| of.checked.claimed);
    let rows: String = claims
        .map(|of| {
            let broken = if of.contradictions > 0 { " **violated here**" } else { "" };
            format!("- {}{broken}\n", Property::of(of.checked.claim).title)
        })
        .collect();
    let library = report.story.subject.scenario.and_then(|scenario| scenario.workload.library.as_ref());
    let home = library.and_then(|library| library.home.as_ref());
    rows + &home.map_or_else(String::new, |home| format!("\nProject: <{}>\n", sanitize(home, 200)))
}

/// The catalogue's findings on this library that this run shows.
fn in_source(report: &Report) -> String {
    let scenario = report.story.subject.scenario;
    let Some(library) = scenario.and_then(|scenario| scenario.workload.library.as_ref()) else { return String::new() };
    // Line numbers differ between versions.
    if library.instead_of.is_some() {
        return String::new();
    }
    let nemesis = scenario.map_or("", |scenario| scenario.nemesis_name.as_str());
    let findings = library.findings.iter().filter(|finding| finding.nemesis.iter().any(|name| name == nemesis));
    let told = |finding: &model::scenario::Finding| {
        let places = finding.source.iter().map(|source| format!("`{source}`")).chain(finding.issue.clone());
        let places: Vec<String> = places.collect();
        let places = if places.is_empty() { String::new() } else { format!(" ({})", list(&places)) };
        let kind = if finding.cause == Cause::Kind { " Similar locks have the same limitation." } else { "" };
        format!("- {}{places}.{kind}\n", finding.what.trim_end_matches('.'))
    };
    findings.map(told).collect()
}

/// The command, and the script if the catalogue has none of that name.
fn repeat(report: &Report, scenario: &Scenario) -> String {
    let is_known = |names: &[catalogue::EmbeddedFile], wanted: &str| names.iter().any(|(name, _)| *name == wanted);
    let knows_nemesis = is_known(catalogue::NEMESES, &scenario.nemesis_name);
    let knows_workload = is_known(catalogue::WORKLOADS, &scenario.workload_name);
    let file = |name: &str, is_known: bool| if is_known { name.to_string() } else { format!("./{name}.toml") };
    let cluster = report.summary.simulated.then_some(ClusterKind::SIM);
    let options = Options { cluster, ..Options::of(scenario) };
    let (workload, nemesis) =
        (file(&scenario.workload_name, knows_workload), file(&scenario.nemesis_name, knows_nemesis));
    let command = options.command(&workload, &nemesis, None).unwrap_or_default();
    let mut text = format!("```console\n$ {command} --seed {}\n```\n\n{}\n", scenario.seed, report.summary.repeat_text);
    if scenario.client.is_some() {
        text += "\nThe client is the reporter's own program: give yours with `--client-cmd`.\n";
    }
    if !knows_workload {
        text += "\nThe workload is the reporter's own file and is not included in this report.\n";
    }
    if knows_nemesis && !scenario.nemesis.script.is_empty() {
        text += "\nThe script, step by step:\n\n";
        scenario.nemesis.script.iter().enumerate().for_each(|(number, step)| {
            let _ = writeln!(text, "{}. `{step}`", number + 1);
        });
    }
    if !knows_nemesis {
        let nemesis = Nemesis { expect: Default::default(), ..scenario.nemesis.clone() };
        let file = toml::to_string(&nemesis).unwrap_or_default();
        let _ = write!(text, "\n`{}.toml`:\n\n```toml\n{}```\n", scenario.nemesis_name, public_lines(&file));
    }
    text
}

fn similar(of: &Reference, scenario: Option<&Scenario>) -> String {
    let Some(scenario) = scenario else { return String::new() };
    let Reference { kind, workload, expected } = of;
    let does = match expected {
        Expectation::Valid => "passes",
        Expectation::Violation => "fails",
    };
    format!(
        "`{workload}`, redjepsen's own example of {kind}, {does} the same scenario:\n\n```console\n$ redjepsen run --workload \
         {workload} --nemesis {}\n```\n",
        scenario.nemesis_name
    )
}

/// The holds of each client, one line per client. None if no client held the lock.
fn drawn(story: &Story, incident: &Incident) -> Option<String> {
    let holds: Vec<_> = incident.operations.iter().filter_map(|one| Some((*one, times::hold(one)?))).collect();
    let ends = |hold: &times::Hold, write: Option<times::Write>| {
        write.and_then(|write| write.acknowledged).unwrap_or(0).max(hold.end)
    };
    let from = holds.iter().map(|(_, hold)| hold.start).min()?;
    let to = holds.iter().map(|(one, hold)| ends(hold, times::write(one))).max()?;
    let span = to.saturating_sub(from).max(1);
    let column = |time: u64| {
        let share = time.clamp(from, to).saturating_sub(from) as f64 / span as f64;
        (share * (COLUMNS - 1) as f64) as usize
    };
    let mut text = format!("{:8}{:.3} s{:>width$.3} s\n", "", from as f64 / 1e9, to as f64 / 1e9, width = COLUMNS - 10);
    for (operation, hold) in holds.iter().take(CLIENTS) {
        let mut line: Vec<char> = vec![' '; COLUMNS];
        line[column(hold.start)..=column(hold.end)].fill('=');
        if let Some(expired) = story.expiry(operation).filter(|expired| *expired < hold.end) {
            line[column(expired)..=column(hold.end)].fill('!');
        }
        if let Some(read) = times::at(operation, Phase::Read) {
            line[column(read)] = 'R';
        }
        if let Some(write) = times::write(operation) {
            line[column(write.acknowledged.unwrap_or(write.sent))] = 'W';
        }
        let line: String = line.into_iter().collect();
        let _ = writeln!(text, "{:8}{}", sanitize(&story.name(operation.process), 7), line.trim_end());
    }
    text += "= client holds the lock   ! its lock has expired   R read   W write\n";
    Some(text)
}

/// A text of a run without paths and addresses.
fn public(text: &str) -> String {
    let is_private = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/');
        let is_path = bare.starts_with('/') && bare.len() > 1 || bare.starts_with("~/") || bare.contains(":\\");
        let is_address = bare.split([':', '/']).any(|part| part.parse::<std::net::Ipv4Addr>().is_ok());
        is_path || is_address || word.contains("://") && !word.contains("https://")
    };
    let text = sanitize(text, LONGEST);
    text.split(' ').map(|word| if is_private(word) { "…" } else { word }).collect::<Vec<_>>().join(" ")
}

fn public_lines(text: &str) -> String {
    text.lines().map(|line| public(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_addresses_are_left_out() {
        for (text, told) in [
            ("c0 ended: cannot open /home/ann/lock.py, line 3", "c0 ended: cannot open … line 3"),
            ("redis://10.9.8.2:6379/0 refused", "… refused"),
            ("at 127.0.0.1:6379 and/or later", "at … and/or later"),
            ("see https://redis.io/docs for 1.586 s", "see https://redis.io/docs for 1.586 s"),
        ] {
            assert_eq!(public(text), told);
        }
    }
}
