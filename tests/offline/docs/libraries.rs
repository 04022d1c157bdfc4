//! docs/libraries has a page for each published library. The part between the marks is generated from the catalogue; handwritten
//! notes follow it.

use std::collections::{BTreeMap, BTreeSet};

use model::history::Claim;
use model::locks::LockSpec;
use model::nemesis::Expectation;
use model::scenario::{self, Cause, Library, Workload, WorkloadClient, catalogue};
use model::topology::{Program, Topology};

use super::{code, expectations, issue, row, table};
use crate::citations::Citations;

/// The folder of the pages, below docs/; also the first part of their tables' names.
pub const FOLDER: &str = "libraries/";

/// A published library, with its workloads by name.
struct Published {
    /// The name of its page: the name of its shortest workload.
    name: String,
    workloads: BTreeMap<String, Workload>,
}

/// A defect or a limitation, with the workloads that show it.
#[derive(Default)]
struct Shown {
    what: String,
    sources: BTreeSet<String>,
    issues: BTreeSet<String>,
    codes: BTreeSet<String>,
    workloads: BTreeSet<String>,
    scenarios: BTreeSet<String>,
    /// A workload and a scenario that show it.
    by: (String, String),
}

/// The published libraries, in the order of their pages. Workloads with the same home belong to one library; without a home,
/// workloads with the same name.
fn published() -> Vec<Published> {
    let mut by_home: BTreeMap<String, BTreeMap<String, Workload>> = BTreeMap::new();
    for (name, _) in catalogue::WORKLOADS {
        let workload = catalogue::workload(name).unwrap().1;
        if let Some(library) = &workload.library {
            let home = library.home.clone().unwrap_or_else(|| library.name.clone());
            by_home.entry(home).or_default().insert(name.to_string(), workload);
        }
    }
    let mut published: Vec<Published> = by_home
        .into_values()
        .map(|workloads| {
            let shortest = workloads.keys().min_by_key(|name| (name.len(), name.to_string()));
            Published { name: shortest.unwrap().clone(), workloads }
        })
        .collect();
    published.sort_by(|one, other| one.name.cmp(&other.name));
    published
}

/// Distinct texts in the order of their first occurrence.
fn distinct(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    texts.into_iter().filter(|text| seen.insert(text.clone())).collect()
}

impl Published {
    fn libraries(&self) -> impl Iterator<Item = &Library> {
        self.workloads.values().filter_map(|workload| workload.library.as_ref())
    }

    /// The common part of its workloads' names for it, such as `Redisson` of `Redisson RLock`.
    fn title(&self) -> String {
        let names = distinct(self.libraries().map(|library| library.name.clone()));
        let mut common: Vec<&str> = names[0].split(' ').collect();
        for name in &names {
            let same = common.iter().zip(name.split(' ')).take_while(|(one, other)| **one == *other).count();
            common.truncate(same);
        }
        common.join(" ")
    }

    fn language(&self) -> &'static str {
        let of_command = |sources: &[std::path::PathBuf]| {
            let folder = sources.first().and_then(|path| path.strip_prefix("clients").ok()?.iter().next()?.to_str());
            match folder {
                Some("go") => "Go",
                Some("java") => "Java",
                Some("node") => "Node.js",
                Some("php") => "PHP",
                Some("rust") => "Rust",
                other => panic!("no language is known by {other:?}"),
            }
        };
        match self.workloads.values().next().and_then(|workload| workload.client.as_ref()) {
            Some(WorkloadClient::Command(client)) => of_command(&client.sources),
            _ => "Python",
        }
    }

    fn versions(&self) -> String {
        distinct(self.libraries().map(|library| library.version.clone())).join(", ")
    }

    /// The kinds of its locks, with their servers.
    fn kinds(&self) -> String {
        let place = |workload: &Workload| match (&workload.lock, &workload.topology) {
            (LockSpec::Library(_), _) if workload.lock.program() == Program::Zookeeper => "ZooKeeper".to_string(),
            (_, Topology::Sentinel(_)) => "Sentinel group".to_string(),
            (_, Topology::Cluster(_)) => "Redis Cluster".to_string(),
            _ if workload.nodes > 1 => format!("Redlock on {} nodes", workload.nodes),
            _ => "one node".to_string(),
        };
        let mut kinds = distinct(self.workloads.values().map(place));
        if self.workloads.values().any(Workload::has_readers) {
            kinds.push("read-write lock".to_string());
        }
        if self.workloads.values().any(|workload| workload.permits > 1) {
            kinds.push("semaphore".to_string());
        }
        kinds.join("; ")
    }

    /// Its findings with this cause, each once.
    fn shown(&self, cause: Cause) -> Vec<Shown> {
        let mut all: Vec<Shown> = Vec::new();
        for (name, workload) in &self.workloads {
            let findings = workload.library.iter().flat_map(|library| &library.findings);
            for finding in findings.filter(|finding| finding.cause == cause) {
                if !all.iter().any(|shown| shown.what == finding.what) {
                    let by = (name.clone(), finding.nemesis[0].clone());
                    all.push(Shown { what: finding.what.clone(), by, ..Shown::default() });
                }
                let shown = all.iter_mut().find(|shown| shown.what == finding.what).unwrap();
                shown.sources.extend(finding.source.clone());
                shown.issues.extend(finding.issue.clone());
                shown.codes.extend(finding.code.clone());
                shown.workloads.insert(name.clone());
                shown.scenarios.extend(finding.nemesis.iter().cloned());
            }
        }
        all
    }

    /// A defect with its source lines, its issue, and the command that shows it.
    fn defect(&self, shown: &Shown, citations: &Citations) -> String {
        let linked = |source: &String| match source.split_once(", by ") {
            Some((root, via)) => format!("{}, called from {}", citations.linked(root), citations.linked(via)),
            None => citations.linked(source),
        };
        let listed = |title: &str, texts: Vec<String>| match texts.is_empty() {
            true => String::new(),
            false => format!("  {title}: {}.\n", texts.join("; ")),
        };
        let workloads = if self.workloads.len() == 1 { Vec::new() } else { vec![code(&shown.workloads)] };
        let (workload, nemesis) = &shown.by;
        [
            format!("- **{}**\n", shown.what),
            listed("Source", shown.sources.iter().map(linked).collect()),
            listed("Issue", shown.issues.iter().map(|text| issue(text)).collect()),
            listed("Diagnosis", shown.codes.iter().map(|code| format!("[{code}](../diagnoses.md)")).collect()),
            listed("Workloads", workloads),
            format!("  Reproduce: `redjepsen run --workload {workload} --nemesis {nemesis}`\n"),
        ]
        .concat()
    }

    /// Its upstream issues that have a file in issues/.
    fn issues(&self) -> Vec<String> {
        let told = |(file, _): &catalogue::EmbeddedFile| {
            let (name, issue) = scenario::known_issue(file).unwrap();
            self.workloads.contains_key(&issue.workload).then(|| {
                let side = |side: &scenario::Side| {
                    let workload = side.workload.as_ref().map(|workload| format!("`{workload}`"));
                    let more: Vec<String> = workload.into_iter().chain(side.note.clone()).collect();
                    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
                    format!("{}{more}", side.version)
                };
                let passes = issue
                    .holds
                    .as_ref()
                    .map_or_else(|| "No release passes.".to_string(), |holds| format!("Version {} passes.", side(holds)));
                format!(
                    "- [{name}]({}): {} Version {} violates the claim `{}`. {passes}\n  Reproduce: `redjepsen run --issue {name}`\n",
                    issue.url,
                    issue.says,
                    side(&issue.falls),
                    issue.breaks.name(),
                )
            })
        };
        catalogue::ISSUES.iter().filter_map(told).collect()
    }

    /// The claims that all its workloads have.
    fn claims(&self) -> Vec<Claim> {
        let common = |claim: &&Claim| self.workloads.values().all(|workload| workload.claims.contains(claim));
        Claim::ALL.iter().filter(common).copied().collect()
    }

    /// Its workloads, each with its claims beyond the common ones, and the number of scenarios that it passes.
    fn workloads(&self, expected: &BTreeMap<(String, String), Expectation>) -> String {
        let common = self.claims();
        let rows = self.workloads.iter().map(|(name, workload)| {
            let link = format!("[`{name}`](../../workloads/{name}.toml)");
            let more = workload.claims.iter().filter(|claim| !common.contains(claim)).map(|claim| claim.name());
            let more = more.collect::<Vec<_>>().join(", ");
            let with = |wanted: Option<Expectation>| {
                let of_it = expected.iter().filter(|((workload, _), _)| workload == name);
                of_it.filter(|(_, what)| wanted.is_none_or(|wanted| **what == wanted)).count()
            };
            let passed = format!("{} of {}", with(Some(Expectation::Valid)), with(None));
            row(&[&link, &workload.description, &more, &passed])
        });
        table(&["workload", "lock", "further claims", "scenarios passed"], rows.collect())
    }

    /// The part between the marks of its page.
    fn page(&self, expected: &BTreeMap<(String, String), Expectation>, citations: &Citations) -> String {
        let title = format!("# {} ({})\n", self.title(), self.language());
        let home = self.libraries().find_map(|library| library.home.clone());
        let name = home.map_or_else(|| self.title(), |home| format!("[{}]({home})", self.title()));
        let versions = if self.versions().contains(", ") { "versions" } else { "version" };
        let about = format!("{name}, {versions} {}. Locks: {}.\n", self.versions(), self.kinds());
        let defects: Vec<String> =
            self.shown(Cause::Library).iter().map(|shown| self.defect(shown, citations)).collect();
        let defects = match defects.is_empty() {
            true => "redjepsen found no defect of the library itself.\n".to_string(),
            false => defects.concat(),
        };
        let limitation = |shown: &Shown| format!("- {} Fails {}.\n", shown.what, code(&shown.scenarios));
        let section = |title: &str, items: Vec<String>| match items.is_empty() {
            true => String::new(),
            false => format!("\n## {title}\n\n{}", items.concat()),
        };
        let claims = self.claims().iter().map(|claim| claim.name()).collect::<Vec<_>>().join(", ");
        [
            format!("{title}\n{about}\n## Findings\n\n{defects}"),
            section("Known issues", self.issues()),
            format!("\n## Claims and workloads\n\nClaims: {claims}.\n\n{}", self.workloads(expected)),
            section("Known limitations", self.shown(Cause::Kind).iter().map(limitation).collect()),
        ]
        .concat()
    }

    /// Its line in the overview.
    fn line(&self) -> String {
        let link = format!("[{}]({FOLDER}{}.md)", self.title(), self.name);
        let findings = self.shown(Cause::Library).len().to_string();
        row(&[&link, self.language(), &self.versions(), &self.kinds(), &findings])
    }
}

/// The overview, and the part between the marks of each page, by the page's name.
pub fn tables() -> BTreeMap<String, String> {
    let (published, expected, citations) = (published(), expectations(), Citations::read());
    let overview = table(
        &["library", "language", "version", "locks", "findings"],
        published.iter().map(Published::line).collect(),
    );
    let pages = published.iter().map(|one| (format!("{FOLDER}{}", one.name), one.page(&expected, &citations)));
    pages.chain([("libraries".to_string(), overview)]).collect()
}
