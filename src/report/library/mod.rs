//! What was tried of a library and what came of it, as text and as a page.

mod html;
mod text;

pub use html::html;
pub use text::terminal;

use crate::library::examined::{Came, Examined, Symptom, Tried};
use crate::library::kind::OfItsKind;
use crate::library::sent::Sent;
use crate::words::{length, plural};

/// The page's name, in the folder of the catalogue's runs.
pub const FILE: &str = "library.html";

/// `redis-py Lock 8.1.0 falls to 8 of 46 scenarios: to 3 as every lock with a TTL, on one node; to 5 that such a lock can withstand`.
fn headline(examined: &Examined) -> String {
    let fell = examined.that(Came::Fell).len();
    let shown = fell + examined.that(Came::Held).len();
    if shown == 0 {
        return format!("Nothing is known of {}: no run shows anything", examined.name);
    }
    let of = |kind| examined.that(Came::Fell).iter().filter(|tried| tried.of_its_kind == kind).count();
    let (beyond, as_all, unknown) = (of(OfItsKind::Holds), of(OfItsKind::Falls), of(OfItsKind::Unknown));
    let mut parts = Vec::new();
    if as_all > 0 {
        parts.push(format!("to {as_all} as {} does", examined.kind));
    }
    if beyond > 0 {
        parts.push(format!("to {beyond} that {} withstands", reference(examined)));
    }
    if unknown > 0 {
        parts.push(format!("to {unknown} unexplained"));
    }
    let scenarios = plural(shown as u64, "scenario");
    match fell {
        0 => format!("{} withstood all of {scenarios} that show anything", examined.name),
        _ => format!("{} falls to {fell} of {scenarios}: {}", examined.name, parts.join("; ")),
    }
}

/// The lock that it is compared with.
fn reference(examined: &Examined) -> String {
    examined.kind.reference.as_ref().map_or("nothing".to_string(), |name| format!("`{name}`"))
}

/// What symptoms of this rank mean.
fn meaning(of_its_kind: OfItsKind, examined: &Examined) -> String {
    match of_its_kind {
        OfItsKind::Holds => format!("Its own: {}, {}, withstands the same", reference(examined), examined.kind),
        OfItsKind::Unknown => {
            "Unexplained: nothing to compare it with that was struck in the same way, or it does not happen every time"
                .to_string()
        }
        OfItsKind::Falls => format!("Its kind: {} falls to the same, {}", reference(examined), examined.kind),
    }
}

/// `lost-update, while it takes the lock`.
fn symptom(symptom: &Symptom) -> String {
    match symptom.when {
        Some(when) => format!("{}, struck {when}", symptom.anomaly),
        None => symptom.anomaly.to_string(),
    }
}

/// `SET lock:k0 … NX PX 1000`, with what its script calls.
fn command(sent: &Sent) -> String {
    match sent.calls.is_empty() {
        true => sent.example.clone(),
        false => format!("{} (calls {})", sent.example, sent.calls.join(", ")),
    }
}

/// `2 of 2 runs`.
fn broken(tried: &Tried) -> String {
    let (broken, of) = tried.broken();
    format!("{broken} of {}", plural(of as u64, "run"))
}

/// What it was made from.
fn facts(examined: &Examined) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("kind", examined.kind.to_string()),
        ("compared with", reference(examined)),
        ("TTL", examined.ttls.join(", ")),
        ("tried", format!("{} in {}", plural(examined.runs() as u64, "run"), length(examined.took.as_nanos() as u64))),
    ];
    for (ttl, why) in &examined.refused {
        facts.push(("TTL refused", format!("{ttl}: {why}")));
    }
    if examined.not_made > 0 {
        facts.push(("not tried", format!("{}, for want of time", plural(examined.not_made as u64, "run"))));
    }
    let versions =
        examined.versions.iter().map(|(what, version)| match version.starts_with(|c: char| c.is_ascii_digit()) {
            true => format!("{what} {version}"),
            false => version.clone(),
        });
    facts.push(("ran on", versions.collect::<Vec<_>>().join(", ")));
    facts
}
