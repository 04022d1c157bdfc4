//! How a diagnosis explains an incident.

use serde::{Deserialize, Serialize};

use super::explain::Step;
use base::words::moment;
use checker::Sentence;
use diagnosis::{Diagnosis, Finding, KeyEvent, Lives};

/// The diagnosis of an incident.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    pub code: String,
    pub name: String,
    /// The event in this incident.
    pub sentence: String,
    /// The command that ended the lock or left it behind, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<KeyEvent>,
    /// The fault that caused it, by its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<u32>,
    /// The operations concerned.
    #[serde(skip)]
    operations: Vec<u64>,
}

impl Told {
    pub(super) fn new(lives: &Lives, diagnosis: &Diagnosis, finding: &Finding) -> Told {
        let (code, name) = (diagnosis.code.clone(), diagnosis.name.clone());
        let (sentence, operations) = (finding.sentence.clone(), finding.operations.clone());
        Told { code, name, sentence, step: lives.step(finding), fault: finding.fault, operations }
    }

    /// The effect of the command on the lock, as a sentence of a story.
    pub(super) fn as_step(&self) -> Option<Step> {
        let KeyEvent { time, text, .. } = self.step.as_ref()?;
        let sentence = Sentence::new(format!("At {} {text}.", moment(*time)), self.operations.iter().copied())?;
        Some(Step { time: *time, sentence })
    }
}
