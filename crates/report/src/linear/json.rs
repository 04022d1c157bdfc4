//! A check against a model, for programs. Fields may be added; existing ones keep their names and meanings.

use serde_json::{Value, json};

use super::{KeyAnswer, LinearReport};
use crate::counterexample::{Counterexample, OperationText, Precedence};
use checker::Validity;
use linearizability::{Answer, FailedCas};

impl LinearReport<'_> {
    pub fn json(&self) -> String {
        let table = &self.loaded.table;
        let [ok, fail, info] = self.outcomes();
        let results: Vec<Value> = self.answers.iter().map(|key| self.result(key)).collect();
        let report = json!({
            "valid": self.valid,
            "summary": self.summary(),
            "model": self.model.to_string(),
            "model_chosen": self.chosen,
            "initial": self.initial,
            "failed_cas": match self.failed_cas { FailedCas::Check => "check", FailedCas::Drop => "drop" },
            "file": self.file,
            "format": self.loaded.format.name(),
            "compression": self.loaded.compression.name(),
            "truncated_at_line": self.loaded.truncated_at_line,
            "simulated": self.loaded.simulated,
            "notes": self.notes(),
            "operations": table.operations.len(),
            "outcomes": { "ok": ok, "fail": fail, "info": info },
            "keys": table.keys.len(),
            "results": results,
            "load_seconds": self.load_seconds,
            "check_seconds": self.check_seconds,
        });
        format!("{report:#}\n")
    }

    fn result(&self, key: &KeyAnswer) -> Value {
        let (valid, reason) = match &key.answer {
            Answer::Linearizable if key.evidence => (Validity::Valid, None),
            Answer::Linearizable => (Validity::Unknown, Some(self.no_evidence())),
            Answer::Undecided(reason) => (Validity::Unknown, Some(reason.clone())),
            Answer::NotLinearizable(conflict) => (Validity::Invalid, Some(conflict.reason.clone())),
        };
        json!({
            "key": self.key(key.key),
            "operations": key.operations,
            "valid": valid,
            "evidence": key.evidence,
            "how": key.how,
            "reason": reason,
            "conflict": key.counterexample.as_ref().map(|example| example.operations.iter().map(brief).collect::<Vec<_>>()),
            "explanation": key.counterexample.as_ref().map(explanation),
        })
    }
}

/// An operation, with the stable fields of `conflict`.
fn brief(op: &OperationText) -> Value {
    json!({ "line": op.line, "process": op.process, "f": op.f, "outcome": op.outcome, "text": op.text })
}

fn explanation(example: &Counterexample) -> Value {
    let line = |place: usize| example.operations.get(place).map(|op| op.line);
    let steps = |steps: &[Precedence]| -> Vec<Value> {
        let step = |step: &Precedence| json!({ "before": line(step.before), "after": line(step.after), "because": step.because });
        steps.iter().map(step).collect()
    };
    let dead_ends: Vec<Value> = (example.dead_ends.iter())
        .map(|end| {
            let order: Vec<_> = end.order.iter().map(|place| line(*place)).collect();
            json!({ "order": order, "state": end.state, "refused": line(end.refused) })
        })
        .collect();
    let legal = &example.legal;
    json!({
        "minimal": example.minimal,
        "operations": example.operations,
        "cycle": steps(&example.cycle),
        "basis": steps(&example.basis),
        "dead_ends": dead_ends,
        "sentences": example.sentences,
        "fails_at": legal.fails_at,
        "legal_prefix": {
            "events": legal.events,
            "operations": legal.order.len() as u64 + u64::from(legal.omitted),
            "order": legal.order,
            "omitted": legal.omitted,
        },
    })
}
