//! The defects of a library, each once, from the diagnoses of all its runs.

use crate::library::examined::{Examined, Tried, TriedRun};
use summary::Diagnosis;

/// A diagnosis with the scenarios whose runs show it.
pub struct Defect<'a> {
    pub diagnosis: &'a Diagnosis,
    /// The run that shows the defect with the shortest command. If the defect did harm in any run, one of those.
    pub run: &'a TriedRun,
    /// The scenarios in which the defect did harm, and those that only showed it.
    pub harmed: Vec<&'a Tried>,
    pub showed: Vec<&'a Tried>,
}

/// All defects. The library's own come first, and among those the harmful ones. Defects of every lock of the kind come last.
pub fn defects(examined: &Examined) -> Vec<Defect<'_>> {
    let mut found: Vec<Defect> = Vec::new();
    for tried in &examined.tried {
        for run in &tried.runs {
            for diagnosis in run.diagnoses.iter().map(|account| &account.diagnosis) {
                let place = found.iter().position(|defect| defect.diagnosis.code == diagnosis.code);
                let place = place.unwrap_or_else(|| {
                    found.push(Defect { diagnosis, run, harmed: Vec::new(), showed: Vec::new() });
                    found.len() - 1
                });
                let defect = &mut found[place];
                let is_new = |all: &[&Tried]| !all.iter().any(|other| other.scenario == tried.scenario);
                if diagnosis.is_harmful() {
                    if defect.harmed.is_empty() || run.repeat.len() < defect.run.repeat.len() {
                        (defect.diagnosis, defect.run) = (diagnosis, run);
                    }
                    defect.showed.retain(|other| other.scenario != tried.scenario);
                    defect.harmed.extend(is_new(&defect.harmed).then_some(tried));
                } else if is_new(&defect.harmed) && is_new(&defect.showed) {
                    defect.showed.push(tried);
                }
            }
        }
    }
    found.sort_by(|one, other| {
        let key = |defect: &Defect| (defect.diagnosis.inherent, defect.harmed.is_empty());
        key(one).cmp(&key(other)).then(one.diagnosis.code.cmp(&other.diagnosis.code))
    });
    found
}

impl Defect<'_> {
    /// A text such as `in 3 of 40 scenarios: pause, late-release and double-pause`.
    pub fn shown_by(&self, examined: &Examined) -> String {
        let all = examined.tried.len();
        let names = |tried: &[&Tried]| {
            let names: Vec<String> = tried.iter().take(MOST_NAMED).map(|tried| tried.scenario.clone()).collect();
            let more = tried.len().saturating_sub(MOST_NAMED);
            base::words::list(&names) + &if more > 0 { format!(" and {more} more") } else { String::new() }
        };
        match (self.harmed.len(), self.showed.len()) {
            (0, shown) => format!("No harm yet; seen in {shown} of {all} scenarios: {}", names(&self.showed)),
            (harmed, _) => format!("Harmful in {harmed} of {all} scenarios: {}", names(&self.harmed)),
        }
    }
}

const MOST_NAMED: usize = 6;

/// `naivelock has 2 defects that its commands show (RJ002 and RJ010)`. None if the library has no defects of its own.
pub fn named(examined: &Examined, all: &[Defect]) -> Option<String> {
    let own: Vec<&Defect> = all.iter().filter(|defect| !defect.diagnosis.inherent).collect();
    let names: Vec<String> = own.iter().map(|defect| defect.diagnosis.code.clone()).collect();
    let many = base::words::plural(own.len() as u64, "defect");
    (!own.is_empty())
        .then(|| format!("{} has {many} that the commands reveal ({})", examined.name, base::words::list(&names)))
}
