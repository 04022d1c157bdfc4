//! The whole way from a file to an answer, against an oracle written only from `docs/histories.md`.
//!
//! `REDJEPSEN_CASES` is the number of histories per model.

mod generate;
mod objects;
mod render;

use generate::{History, history};
use linearizability::formats::{self, read};
use linearizability::history::{Content, Value};
use linearizability::{Answer, FailedCas, ModelSpec, Options, check};
use objects::{Datum, MODELS, Model, Operation, Truth};
use render::{KEYS, render};

/// How often each answer occurred.
#[derive(Default)]
struct Counts {
    legal: u64,
    illegal: u64,
    bare: u64,
}

fn agrees(name: &str, model: Model, seed: u64, counts: &mut Counts) {
    let history = history(model, seed);
    let file = render(&history, !seed);
    let told = || format!("{name}, seed {seed}: {:?}\n{}{:#?}", history.rules, file.text, history.operations);
    let options = formats::FormatOptions { independent: file.independent, ..formats::FormatOptions::default() };
    let mut loaded = read(file.text.as_bytes(), "file", &options).unwrap_or_else(|error| panic!("{error}\n{}", told()));
    if matches!(model, Model::Register | Model::CasRegister) && !history.rules.nil_reads_are_empty {
        loaded.forget_nil_reads();
    }
    let initial = match &history.rules.initial {
        Datum::Int(number) => loaded.table.values.intern(Content::Int(*number)),
        Datum::Text(text) => loaded.table.values.intern_text(text),
        _ => Value::NIL,
    };
    let failed_cas = if history.rules.failed_cas_counts { FailedCas::Check } else { FailedCas::Drop };
    let spec: ModelSpec = name.parse().unwrap();
    let objects = check(&loaded.table, spec, &Options { initial, failed_cas, ..Options::default() });
    for object in objects {
        let operations = on_key(&history, &loaded.table.keys[object.key as usize]);
        let evidence = history.rules.is_evidence(&operations);
        let truth = history.rules.judge(&operations);
        match (&object.answer, truth) {
            (Answer::Linearizable, Truth::Legal) => {
                assert_eq!(object.evidence, evidence, "{}", told());
                counts.legal += 1;
                counts.bare += u64::from(!evidence);
            }
            (Answer::NotLinearizable(_), Truth::Illegal) => counts.illegal += 1,
            (Answer::Undecided(_), Truth::Open) => {}
            (answer, truth) => panic!("{answer:?}, in truth {truth:?}: {}", told()),
        }
    }
}

fn on_key(history: &History, name: &str) -> Vec<Operation> {
    let key = KEYS.iter().position(|key| *key == name).unwrap_or(0);
    history.operations.iter().filter(|op| op.key == key).cloned().collect()
}

#[test]
fn answers_are_those_of_the_page() {
    let cases = crate::cases(1_000);
    for (name, model) in MODELS {
        let counts = std::thread::scope(|scope| {
            let part = |seeds: std::ops::Range<u64>| {
                let mut counts = Counts::default();
                seeds.for_each(|seed| agrees(name, model, seed, &mut counts));
                counts
            };
            let other = scope.spawn(move || part(cases / 2..cases));
            let mine = part(0..cases / 2);
            let other = other.join().unwrap();
            Counts {
                legal: mine.legal + other.legal,
                illegal: mine.illegal + other.illegal,
                bare: mine.bare + other.bare,
            }
        });
        let Counts { legal, illegal, bare } = counts;
        println!("{name}: {cases} histories, {legal} legal keys, {bare} of them without evidence, {illegal} illegal");
        assert!(illegal > cases / 10 && legal > cases / 4 && bare > cases / 50, "{name} is hardly tested");
    }
}
