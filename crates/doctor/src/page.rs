//! A diagnosis in sections, the source of the text and the page.

use crate::checks::{UNREACHED, Weight};
use crate::diagnosis::Diagnosis;
use crate::fitness::{Suits, grouped, number_of};
use crate::observations::{Ability, Name, Role, Seen, Server};
use base::words::{count, list, plural, sanitize, small, wrap};

/// A part of the result. The last one has no title.
#[derive(Debug, PartialEq)]
pub struct Section {
    pub title: &'static str,
    pub items: Vec<Item>,
}

/// A paragraph.
#[derive(Debug, PartialEq)]
pub struct Item {
    pub label: Label,
    pub text: String,
    /// Spaces before the text, in the printed form.
    indent: usize,
}

/// The mark or name before a paragraph.
#[derive(Debug, PartialEq)]
pub enum Label {
    /// Nothing: it continues the paragraph before.
    None,
    Bullet,
    /// The remedy for the paragraphs above.
    Remedy,
    /// The name of its subject.
    Name(String),
}

/// All sections below the headline.
pub fn sections(diagnosis: &Diagnosis) -> Vec<Section> {
    let mut page = Page { sections: Vec::new() };
    servers(&mut page, diagnosis);
    findings(&mut page, diagnosis);
    rules(&mut page, diagnosis);
    abilities(&mut page, diagnosis);
    locks(&mut page, diagnosis);
    ending(&mut page, diagnosis);
    page.sections
}

/// The sections below the headline as text, in lines of at most this many characters.
pub fn text(diagnosis: &Diagnosis, width: usize) -> String {
    let mut text = String::new();
    for Section { title, items } in sections(diagnosis) {
        text.push('\n');
        if !title.is_empty() {
            text.push_str(&format!("{title}\n"));
        }
        for Item { label, text: paragraph, indent } in items {
            let label = match label {
                Label::None => String::new(),
                Label::Bullet => "  -".to_string(),
                Label::Remedy => "    →".to_string(),
                Label::Name(name) => format!("  {name}"),
            };
            let lines = wrap(&paragraph, width.saturating_sub(indent).max(20));
            for (number, line) in lines.iter().enumerate() {
                let start = if number == 0 { &label } else { "" };
                text.push_str(format!("{start:<indent$}{line}").trim_end());
                text.push('\n');
            }
        }
    }
    text
}

/// The column of the results in the table of abilities.
const NAMES: usize = 30;

struct Page {
    sections: Vec<Section>,
}

impl Page {
    fn title(&mut self, title: &'static str) {
        self.sections.push(Section { title, items: Vec::new() });
    }

    /// Adds a paragraph to the last section. Lines after the first are indented by `indent` spaces.
    fn item(&mut self, label: Label, text: &str, indent: usize) {
        if let Some(section) = self.sections.last_mut() {
            section.items.push(Item { label, text: sanitize(text, 2000), indent });
        }
    }

    fn named(&mut self, name: &str, text: &str, indent: usize) {
        self.item(Label::Name(name.to_string()), text, indent);
    }
}

fn servers(page: &mut Page, diagnosis: &Diagnosis) {
    page.title("Servers");
    let servers = &diagnosis.observations.servers;
    let width = servers.iter().map(|server| server.address.chars().count()).max().unwrap_or_default();
    for server in servers {
        page.named(&server.address, &described(server), width + 4);
    }
}

fn described(server: &Server) -> String {
    let announced = server.announced_by.as_ref().map(|by| format!("announced by {by}"));
    if let Some(why) = &server.unreached {
        return announced.map_or_else(|| why.clone(), |announced| format!("{announced}. {why}"));
    }
    let version = server.version.as_ref().map_or(String::new(), |version| format!(" {version}"));
    let mut parts = vec![format!("{}{version}", server.kind.name())];
    parts.push(match server.role {
        Role::Primary => "primary".to_string(),
        Role::Replica => format!("replica of {}", server.primary.as_deref().unwrap_or("a primary")),
        Role::Sentinel => "Sentinel".to_string(),
        Role::Unknown => "unknown role".to_string(),
    });
    if let (Role::Primary, Seen::Known(replicas)) = (server.role, &server.replicas) {
        let online = replicas.iter().filter(|replica| replica.online).count() as u64;
        parts.push(match replicas.len() {
            0 => "no replica".to_string(),
            _ => plural(online, "replica") + " online",
        });
    }
    for group in server.groups.known().into_iter().flatten() {
        parts.push(format!("watches {} at {}", group.name, group.primary));
    }
    match (server.append_only.known(), server.fsync.known(), server.snapshots.known()) {
        _ if server.role == Role::Sentinel => {}
        (Some(true), Some(fsync), _) => parts.push(format!("append-only file, fsync {fsync}")),
        (Some(true), None, _) => parts.push("append-only file".to_string()),
        (Some(false), _, Some(true)) => parts.push("snapshots only".to_string()),
        (Some(false), _, Some(false)) => parts.push("nothing on disk".to_string()),
        _ => {}
    }
    if let (Some(max), Some(policy)) = (server.max_memory.known(), server.policy.known()) {
        parts.push(match max {
            0 => "no memory limit".to_string(),
            max => format!("{} MiB, {policy}", count(max >> 20)),
        });
    }
    if let Some(clock) = server.clock {
        let within = base::words::length(clock.within_us.saturating_mul(1000));
        let apart = base::words::length(clock.ahead_us.unsigned_abs().saturating_mul(1000));
        parts.push(match clock.ahead_us {
            ahead if ahead.unsigned_abs() <= clock.within_us => format!("clock within {within} of this machine's"),
            ahead if ahead > 0 => format!("clock {apart} ahead"),
            _ => format!("clock {apart} behind"),
        });
    }
    parts.extend(announced);
    parts.join(", ")
}

fn findings(page: &mut Page, diagnosis: &Diagnosis) {
    for (weight, title) in [
        (Weight::Loses, "Causes of lost locks"),
        (Weight::Blocks, "Obstacles for clients"),
        (Weight::Unseen, "Not seen"),
        (Weight::Note, "Notes"),
    ] {
        // The list of servers already says why a named server was not reached.
        let is_listed = |check: &str| check == UNREACHED.id;
        let found: Vec<_> = (diagnosis.findings.iter())
            .filter(|finding| finding.weight == weight && !is_listed(&finding.check))
            .collect();
        if found.is_empty() {
            continue;
        }
        page.title(title);
        for (number, finding) in found.iter().enumerate() {
            page.item(Label::Bullet, &finding.sentence, 4);
            // A remedy that several findings share follows the last of them.
            let again = found.get(number + 1).is_some_and(|next| next.check == finding.check);
            if !again && !finding.remedy.is_empty() {
                page.item(Label::Remedy, &finding.remedy, 6);
            }
        }
    }
}

fn rules(page: &mut Page, diagnosis: &Diagnosis) {
    if diagnosis.missing_rules.is_empty() {
        return;
    }
    page.title("Missing ACL rules");
    let rules: Vec<&str> = diagnosis.missing_rules.iter().map(String::as_str).collect();
    page.item(
        Label::None,
        "These ACL rules would allow these checks. Each refused command leaves a line in the server's ACL LOG.",
        2,
    );
    page.item(Label::None, &format!("`ACL SETUSER NAME {}`", rules.join(" ")), 4);
}

fn abilities(page: &mut Page, diagnosis: &Diagnosis) {
    let tried: Vec<&Server> =
        diagnosis.observations.servers.iter().filter(|server| !server.abilities.is_empty()).collect();
    if tried.is_empty() {
        return;
    }
    page.title("Commands");
    for ability in Ability::ALL {
        let seen = tried.iter().filter_map(|server| Some((*server, server.abilities.get(ability)?)));
        outcome(page, ability.name(), tried.len(), seen.collect());
    }
    for name in Name::ALL {
        let seen = tried.iter().filter_map(|server| Some((*server, server.names.get(name)?)));
        outcome(page, name.pattern(), tried.len(), seen.collect());
    }
}

/// One line for all servers with the same result.
fn outcome(page: &mut Page, name: &str, servers: usize, seen: Vec<(&Server, &Seen<String>)>) {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (server, seen) in seen {
        let text = match seen {
            Seen::Known(detail) if detail.is_empty() => "works".to_string(),
            Seen::Known(detail) => format!("works: {detail}"),
            Seen::Forbidden => "not allowed for this user".to_string(),
            Seen::Refused(error) => format!("no: {error}"),
            Seen::Unknown => "unknown: no reply shows it".to_string(),
        };
        match groups.iter_mut().find(|(other, _)| *other == text) {
            Some((_, addresses)) => addresses.push(server.address.clone()),
            None => groups.push((text, vec![server.address.clone()])),
        }
    }
    for (text, addresses) in &groups {
        let at = if groups.len() > 1 && servers > 1 { format!(" ({})", list(addresses)) } else { String::new() };
        page.named(name, &format!("{text}{at}"), NAMES);
    }
}

fn locks(page: &mut Page, diagnosis: &Diagnosis) {
    page.title("Locks");
    for lock in &diagnosis.locks {
        let reason = if lock.reason.is_empty() { String::new() } else { format!(": {}", begun_small(&lock.reason)) };
        page.named(&lock.kind, &format!("{}{reason}", lock.suits.words()), 12);
        if lock.suits == Suits::WillNot || lock.suits == Suits::Unknown {
            continue;
        }
        for (suits, reason, names) in grouped(lock) {
            let number = number_of(names.len());
            let why = if reason == lock.reason { String::new() } else { format!(" {reason}") };
            page.item(Label::None, &format!("{number}: {}.{why}", suits.words()), 12);
            page.item(Label::None, &format!("{}.", list(&names)), 14);
        }
    }
}

/// A sentence after a colon. A name or a command keeps its capitals.
fn begun_small(sentence: &str) -> String {
    let is_word = sentence.chars().nth(1).is_none_or(|second| second.is_lowercase() || second == ' ');
    if is_word { small(sentence) } else { sentence.to_string() }
}

fn ending(page: &mut Page, diagnosis: &Diagnosis) {
    let seen = &diagnosis.observations;
    let took = base::words::length(seen.took_ms.saturating_mul(1_000_000));
    let wrote = seen.servers.iter().any(|server| server.abilities.get(&Ability::SetNxPx).is_some_and(Seen::is_known));
    let keys = match seen.left_keys {
        0 if !wrote => "No key was written.".to_string(),
        0 => "Doctor removed its keys.".to_string(),
        number => format!("{} of doctor may be left: the server deletes them within 3 s.", plural(number, "key")),
    };
    page.title("");
    let all = seen.servers.len() as u64;
    let asked = match seen.servers.iter().any(|server| server.unreached.is_none()) {
        true => format!("{} contacted in {took}", plural(all, "server")),
        false => format!("{} tried in {took}", plural(all, "address")),
    };
    page.item(Label::None, &format!("{asked}. {keys}"), 0);
}
