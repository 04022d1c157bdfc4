//! The scoreboard of a suite of published libraries: what each of them stood, what broke it and why, and who could do
//! better.

use maud::{Markup, html};

use super::markdown::escaped;
use super::{html as page, phrases};
use crate::scenario::{Cause, Finding, Library};
use crate::suite::matrix::{Cell, Matrix, TestedLibrary};
use crate::suite::outcome::CellStatus;
use crate::words::{line, plural, tame};

/// One library's results.
struct Score<'m> {
    tested: &'m TestedLibrary,
    /// Cells without a violation in any run, with how many runs those are.
    held: Vec<&'m Cell>,
    broken: Vec<&'m Cell>,
    /// Too little was shown, or nothing was run.
    open: Vec<&'m Cell>,
}

fn scores(matrix: &Matrix) -> Vec<Score<'_>> {
    let score = |tested| {
        let mut score = Score { tested, held: Vec::new(), broken: Vec::new(), open: Vec::new() };
        for cell in matrix.cells.iter().filter(|cell| cell.workload == score.tested.workload) {
            match phrases::shown(cell).0 {
                "broken" => score.broken.push(cell),
                "held" => score.held.push(cell),
                _ => score.open.push(cell),
            }
        }
        score
    };
    matrix.libraries.iter().map(score).collect()
}

impl<'m> Score<'m> {
    fn library(&self) -> &'m Library {
        &self.tested.library
    }

    fn finding(&self, cell: &Cell) -> Option<&'m Finding> {
        self.library().findings.iter().find(|finding| finding.nemesis.contains(&cell.nemesis))
    }

    /// How many broken cells others of its kind would have stood.
    fn defects(&self) -> usize {
        let own = |cell: &&&Cell| self.finding(cell).is_none_or(|finding| finding.cause == Cause::Library);
        self.broken.iter().filter(own).count()
    }

    /// The result in a few words.
    fn summary(&self) -> String {
        let all = self.held.len() + self.broken.len() + self.open.len();
        let mut text = format!("held in {} of {}", self.held.len(), plural(all as u64, "scenario"));
        match self.defects() {
            0 => {}
            some => text.push_str(&format!(", {} of its own", plural(some as u64, "defect"))),
        }
        if !self.open.is_empty() {
            text.push_str(&format!(", {} not shown", self.open.len()));
        }
        text
    }
}

/// How many use it, as its workload's file says.
fn users(library: &Library) -> &str {
    library.users.as_deref().unwrap_or("downloads and stars not known")
}

fn whose(finding: Option<&Finding>) -> &'static str {
    match finding.map(|finding| finding.cause) {
        Some(Cause::Library) => "the library's own defect",
        Some(Cause::Kind) => "the fate of every lock of this kind",
        None => "not explained yet",
    }
}

/// The command that shows a cell again.
fn command(cell: &Cell) -> String {
    let shown = cell.runs.iter().find(|run| run.valid == Some(crate::checker::Validity::Invalid));
    match shown.filter(|run| !run.repeat.is_empty()) {
        Some(run) => run.repeat.clone(),
        None => format!("redjepsen run --workload {} --nemesis {}", cell.workload, cell.nemesis),
    }
}

fn runs(cells: &[&Cell]) -> String {
    let each = cells.iter().map(|cell| format!("{} ({})", cell.nemesis, plural(u64::from(cell.tally.done()), "run")));
    each.collect::<Vec<_>>().join(", ")
}

/// Why cells are neither held nor broken, one line for each reason.
fn why_open(matrix: &Matrix, score: &Score) -> Vec<String> {
    match matrix.not_here.get(&score.tested.workload) {
        Some(reason) => vec![format!("not run here: {}", line(reason, 300))],
        None => score.open.iter().map(|cell| why(cell)).collect(),
    }
}

fn why(cell: &Cell) -> String {
    match cell.runs.iter().find(|run| run.valid.is_none()) {
        _ if cell.standing == CellStatus::NotRun && cell.runs.is_empty() => format!("{}: not run", cell.nemesis),
        Some(run) => format!("{}: could not run: {}", cell.nemesis, line(&run.summary, 200)),
        None => format!("{}: proves too little", cell.nemesis),
    }
}

/// A section for the suite's page; empty where no library is under test.
pub(super) fn html(matrix: &Matrix) -> Markup {
    let scores = scores(matrix);
    html! {
        @if !scores.is_empty() {
            section id="libraries" {
                h2 { "The libraries" }
                @for score in &scores {
                    div class="library" {
                        h3 { (tame(&score.library().name, 60)) " " (tame(&score.library().version, 40)) ": " (score.summary()) }
                        p class="fine" {
                            code { (tame(&score.tested.workload, 60)) }
                            @if let Some(home) = &score.library().home { " · " (tame(home, 200)) }
                            " · " (tame(users(score.library()), 100))
                        }
                        @if !score.broken.is_empty() {
                            ul class="reasons" {
                                @for cell in &score.broken { (broken(score, cell)) }
                            }
                        }
                        @if !score.held.is_empty() { p { b class="held" { "held" } " " (tame(&runs(&score.held), 2000)) } }
                        @if !score.open.is_empty() {
                            p { b class="unproven" { "not shown" } " "
                                (tame(&why_open(matrix, score).join("; "), 2000)) }
                        }
                    }
                }
            }
        }
    }
}

fn broken(score: &Score, cell: &Cell) -> Markup {
    let finding = score.finding(cell);
    html! {
        li {
            b class="broken" { (tame(&cell.nemesis, 60)) }
            " " (cell.tally.invalid) " of " (plural(u64::from(cell.tally.done()), "run")) ", " (whose(finding)) ". "
            @if let Some(finding) = finding {
                (tame(&finding.what, 600)) " "
                @if let Some(source) = &finding.source { code { (tame(source, 200)) } " " }
                @if let Some(issue) = &finding.issue { (tame(issue, 200)) }
            }
            " Report " (page::runs(cell, page::FEW_LINKS))
            br; code { (tame(&command(cell), 400)) }
        }
    }
}

/// The same as Markdown.
pub(super) fn markdown(matrix: &Matrix) -> Vec<String> {
    let of = |score: &Score| {
        let library = score.library();
        let mut text =
            format!("### {} {}\n\n{}", escaped(&library.name), escaped(&library.version), escaped(&score.summary()));
        for more in library.home.as_deref().into_iter().chain([users(library)]) {
            text.push_str(&format!(" · {}", escaped(more)));
        }
        text.push_str("\n\n");
        for cell in &score.broken {
            let finding = score.finding(cell);
            let what = finding.map_or_else(String::new, |finding| {
                let more = finding.source.iter().chain(&finding.issue).map(|text| format!(" ({})", escaped(text)));
                format!(" {}{}", escaped(&finding.what), more.collect::<String>())
            });
            text.push_str(&format!(
                "- ❌ **{}** {}/{}, {}.{what}\n  `{}`\n",
                escaped(&cell.nemesis),
                cell.tally.invalid,
                cell.tally.done(),
                whose(finding),
                line(&command(cell), 400).replace('`', "'")
            ));
        }
        if !score.held.is_empty() {
            text.push_str(&format!("- ✅ {}\n", escaped(&runs(&score.held))));
        }
        for why in why_open(matrix, score) {
            text.push_str(&format!("- ❔ {}\n", escaped(&why)));
        }
        text + "\n"
    };
    scores(matrix).iter().map(of).collect()
}

/// A badge for each library: the name of its file, and the picture.
pub(super) fn badges(matrix: &Matrix) -> Vec<(String, String)> {
    scores(matrix).iter().map(|score| (format!("{}.svg", score.tested.workload), badge(score))).collect()
}

fn badge(score: &Score) -> String {
    let left = format!("{} {}", score.library().name, score.library().version);
    let colour = match (score.defects(), score.held.is_empty()) {
        (0, false) => "#2e7d32",
        (0, true) => "#757575",
        _ => "#b3261e",
    };
    // Verdana at 11 px takes about 6.7 px a letter.
    let width = |text: &str| 12 + text.chars().count() * 67 / 10;
    let right = score.summary();
    let (a, b) = (width(&left), width(&right));
    html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(a + b) height="20" role="img" aria-label={ (left) ": " (right) } {
            rect width=(a) height="20" fill="#37474f" {}
            rect x=(a) width=(b) height="20" fill=(colour) {}
            g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" {
                text x=(a / 2) y="14" { (tame(&left, 80)) }
                text x=(a + b / 2) y="14" { (tame(&right, 120)) }
            }
        }
    }
    .into_string()
}
