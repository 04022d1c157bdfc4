//! The page of a library names each defect once, by its diagnosis, however many scenarios show it.

use checker::Validity;
use labs::library::examined::TriedRun;
use labs::library::kind::Baseline;
use labs::library::page::{html, terminal};
use report::Look;
use summary::DiagnosisAccount;

use super::{examined, run, tried};

/// A run that shows this diagnosis.
fn shows(code: &str, harm: &str, sentence: &str) -> TriedRun {
    let kind = diagnosis::find(code).unwrap();
    let harm = if harm.is_empty() { serde_json::json!("none") } else { serde_json::json!({ "ended": 7 }) };
    let account = serde_json::json!({
        "code": kind.code, "name": kind.name, "title": kind.title, "rule": kind.rule, "source": "", "fix": kind.fix,
        "inherent": kind.inherent,
        "findings": [{
            "time": 1, "key": "k0", "sentence": sentence, "operations": [7], "commands": [1], "harm": harm,
        }],
    });
    let account: DiagnosisAccount = serde_json::from_value(account).unwrap();
    TriedRun { diagnoses: vec![account], ..run(Validity::Invalid, None, "lost-update") }
}

#[test]
fn a_defect_is_told_once_with_the_scenarios_that_show_it() {
    let all = examined(vec![
        tried("none", Baseline::Unknown, vec![shows("RJ002", "", "It could have.")]),
        tried("late-release", Baseline::Holds, vec![shows("RJ002", "harm", "c0's DEL removed c1's key.")]),
        tried("pause", Baseline::Falls, vec![shows("RJ022", "harm", "c0's key ran out.")]),
    ]);
    let text = terminal(&all, Look::PLAIN);
    let first = "mine 1.0 has 1 defect that the commands reveal (RJ002). ";
    assert!(text.starts_with(first), "{text}");
    assert_eq!(text.matches("RJ002 compare-then-delete:").count(), 1, "{text}");
    assert!(text.contains("c0's DEL removed c1's key.") && !text.contains("It could have."), "{text}");
    assert!(text.contains("Harmful in 1 of 3 scenarios: late-release."), "{text}");
    let own = text.find("Defects").unwrap();
    let inherent = text.find("Limitations of every lock with a TTL").unwrap();
    assert!(own < inherent && text[inherent..].contains("RJ022"), "{text}");
    let page = html(&all);
    assert!(page.contains("id=\"wrong\"") && page.contains("id=\"inherent\""));
}

#[test]
fn what_is_inherent_is_no_defect_of_a_library() {
    let all = examined(vec![tried("pause", Baseline::Falls, vec![shows("RJ022", "harm", "c0's key ran out.")])]);
    let text = terminal(&all, Look::PLAIN);
    assert!(!text.contains("defect that the commands reveal") && !text.contains("Defects"), "{text}");
}
