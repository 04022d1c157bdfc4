//! Runs scenarios of the catalogue that need one free permit on locks with several permits. Other clients hold all permits but
//! one.

use super::commands::RenewalMode;
use super::steps::{Steps, others};
use super::strikes::{Scripted, Setting};
use model::nemesis::{Need, Step};
use model::scenario::catalogue;

/// These scenarios with the other clients added. Empty for a lock with one permit, which runs the catalogue's scenarios
/// unchanged.
pub fn scenarios(setting: &Setting) -> Vec<Scripted> {
    let Some(others) = others(setting.permits).filter(|others| *others > 0) else { return Vec::new() };
    let of = |(name, _): &(&str, _)| {
        let (name, nemesis) = catalogue::nemesis(name).ok()?;
        let cancels = nemesis.script.iter().any(|step| matches!(step, Step::Cancel { .. }));
        if !nemesis.needs().contains(&Need::FreePermit) || cancels && !setting.cancels {
            return None;
        }
        let mut steps = Steps::new(RenewalMode::None);
        steps.steps.extend(nemesis.script.iter().map(ToString::to_string));
        steps.beside(others);
        Some(Scripted::of(name, &nemesis.description, &nemesis.story, None, others, &steps.steps))
    };
    catalogue::NEMESES.iter().filter_map(of).collect()
}
