//! The remedies of an incident.

use maud::{Markup, html};

use super::{command, prose};
use summary::IncidentAccount;

/// The remedies, each with a command that shows its effect.
pub fn remedies(account: &IncidentAccount) -> Markup {
    html! {
        @if !account.remedies.is_empty() {
            @if account.diagnosis.is_none() { h4 { "What would have prevented it" } }
            ul class="remedies" {
                @for remedy in &account.remedies {
                    li {
                        (prose(&remedy.text))
                        @if !remedy.command.is_empty() { (command(&remedy.command)) }
                        p class="fine" { (remedy.status()) }
                    }
                }
            }
        }
        @if !account.no_remedies.is_empty() {
            h4 { "What would not be enough" }
            ul class="remedies" { @for text in &account.no_remedies { li { (prose(text)) } } }
        }
    }
}
