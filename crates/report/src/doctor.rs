//! The page of `redjepsen doctor`.

use maud::{Markup, html};

use super::html::{header, prose, whole_page};
use doctor::{Diagnosis, Item, Label, Section, Verdict, sections};

const STYLE: &str =
    ".answers td:first-child{width:30%}.remedy{margin-left:22px;color:var(--muted)}main section{margin-top:26px}";

pub fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::NothingFound => "valid",
        Verdict::LosesLocks => "invalid",
        Verdict::CouldNotTell | Verdict::NotReached => "unknown",
    }
}

/// The page: one file without scripts and without network access.
pub fn page(diagnosis: &Diagnosis) -> String {
    let word = diagnosis.verdict.word();
    let body = html! {
        main {
            (header(class(diagnosis.verdict), &["doctor"], word, &prose(&diagnosis.headline), &html! {}))
            @for part in sections(diagnosis) { (section(&part)) }
        }
    };
    whole_page(&[word, "doctor"], STYLE, &body)
}

fn section(section: &Section) -> Markup {
    html! {
        section {
            @if !section.title.is_empty() { h2 { (section.title) } }
            @if section.items.iter().any(|item| matches!(item.label, Label::Name(_))) {
                table class="answers" { tbody { @for item in &section.items { (row(item)) } } }
            } @else {
                @for item in &section.items { (paragraph(item)) }
            }
        }
    }
}

fn row(item: &Item) -> Markup {
    let name = if let Label::Name(name) = &item.label { name } else { "" };
    html! { tr { td { code { (name) } } td { (prose(&item.text)) } } }
}

fn paragraph(item: &Item) -> Markup {
    match item.label {
        Label::Bullet => html! { ul { li { (prose(&item.text)) } } },
        Label::Remedy => html! { p class="remedy" { "→ " (prose(&item.text)) } },
        Label::None | Label::Name(_) => html! { p { (prose(&item.text)) } },
    }
}
