//! The result of an exhaustive search of the model: for the terminal, as a page and as a drawing.

mod picture;

use std::fmt::Write;
use std::path::Path;

use maud::{Markup, html};
use redlock_model::search::GaveUp;
use redlock_model::{
    Claim, Clocks, Counterexample, Crash, Fencing, Holding, Memory, Outcome, Restart, Settings, Verdict,
};

use crate::explore::{NoScript, Script};
use base::files::{self, Unwritten};
use base::words::{capital, count, length, plural};
use report::html::{facts_section, figure, header, table, whole_page};
use report::{Look, drawing, incident};

#[derive(Debug)]
pub struct Exploration<'a> {
    pub settings: &'a Settings,
    pub outcome: &'a Outcome,
    /// The duration of the search, in nanoseconds.
    pub took_ns: u64,
    /// The script that causes the violation on real Redis, or why there is none. None without a violation.
    pub script: Option<Result<Script, NoScript>>,
    /// The command that repeats the search, without `--out`.
    pub command: String,
}

/// The script's file in the folder of a report.
pub const SCRIPT: &str = "scenario.toml";
/// The folder in commands for which the user has not chosen one yet.
const FOLDER: &str = "explored";

impl Exploration<'_> {
    /// Writes the page and, for a violation, its drawing and script. Each file is written completely or not at all.
    pub fn write(&self, folder: &Path) -> Result<(), Unwritten> {
        let mut unwritten = Unwritten::default();
        let mut put = |name: &str, text: &str| unwritten.note(files::write(&folder.join(name), text));
        put("explore.html", &self.html(folder));
        if let Some(counterexample) = self.counterexample() {
            let scene = picture::scene(self.settings, counterexample);
            put("counterexample.svg", &incident::draw(&scene, &self.headline(), true).into_string());
        }
        if let Some(Ok(script)) = &self.script {
            put(SCRIPT, &script.file);
        }
        unwritten.conclude()
    }

    /// The report as text. `folder` is the folder of its files; None if they were not written.
    pub fn text(&self, folder: Option<&Path>, look: Look) -> String {
        let (word, class) = self.verdict();
        let word = look.verdict(word, class);
        let mut text = format!("{word}  {}\n\n", self.headline());
        if let Some(counterexample) = self.counterexample() {
            let mut last = None;
            for made in &counterexample.moves {
                let tick = if last.replace(made.time) == Some(made.time) {
                    String::new()
                } else {
                    format!("tick {}", made.time)
                };
                let _ = writeln!(text, "  {tick:8}{}", made.step);
            }
            text.push('\n');
        }
        for (name, fact) in self.facts() {
            let _ = writeln!(text, "  {name:12}{fact}");
        }
        if let Some(folder) = folder {
            let _ = writeln!(text, "  {:12}{}", "page", folder.join("explore.html").display());
        }
        match &self.script {
            None => {}
            Some(Err(reason)) => {
                let _ = write!(text, "\n  No script can do this to real Redis: {reason}.\n");
            }
            Some(Ok(script)) => {
                let _ = write!(text, "\n  The same on real Redis:\n");
                if folder.is_none() {
                    let _ = writeln!(text, "    {} --out {FOLDER}", self.command);
                }
                let command = Self::run_command(script, folder.unwrap_or(Path::new(FOLDER)));
                let _ = writeln!(text, "    {command}");
            }
        }
        text
    }

    /// The page, for a folder that also has the script.
    fn html(&self, folder: &Path) -> String {
        let (word, class) = self.verdict();
        let headline = self.headline();
        let body = html! {
            main {
                (header(class, &["a model of Redlock, searched exhaustively"], word, &html! { (capital(&headline)) "." }, &html! {}))
                @if let Some(counterexample) = self.counterexample() { (self.case(counterexample, &headline)) }
                @if let Some(script) = &self.script {
                    section id="script" {
                        h2 { "On real Redis" }
                        @match script {
                            Ok(script) => {
                                p { "This command runs the steps. A tick is a fraction of the lock's TTL." }
                                pre { (Self::run_command(script, folder)) }
                                details { summary { (SCRIPT) } pre { (script.file) } }
                            }
                            Err(reason) => p { "No script can do this to real Redis: " (reason) "." },
                        }
                    }
                }
                (facts_section("searched", "What was searched", &self.facts(), &self.command, &html! {}))
            }
        };
        whole_page(&[word, "a model of Redlock"], drawing::STYLE, &body)
    }

    fn case(&self, counterexample: &Counterexample, headline: &str) -> Markup {
        let scene = picture::scene(self.settings, counterexample);
        let moves = counterexample.moves.iter().zip(1..).map(|(made, number)| {
            html! { td class="n" { (number) } td class="n" { (made.time) } td { (made.step) } }
        });
        html! {
            section id="steps" {
                h2 { "How" }
                article class="case" {
                    (figure(&incident::draw(&scene, headline, false)))
                    (table(&["step", "tick", "what happens"], moves))
                }
            }
        }
    }

    fn run_command(script: &Script, folder: &Path) -> String {
        let file = folder.join(SCRIPT).display().to_string();
        let file = shlex::try_quote(&file).map(|quoted| quoted.to_string()).unwrap_or(file.clone());
        let Script { workload, nodes, .. } = script;
        format!("redjepsen run --cluster local --workload {workload} --nodes {nodes} --nemesis {file}")
    }

    fn counterexample(&self) -> Option<&Counterexample> {
        match &self.outcome.verdict {
            Verdict::Violated(counterexample) => Some(counterexample),
            _ => None,
        }
    }

    fn verdict(&self) -> (&'static str, &'static str) {
        match self.outcome.verdict {
            Verdict::Holds => ("VALID", "valid"),
            Verdict::Violated(_) => ("INVALID", "invalid"),
            Verdict::Undecided(_) => ("UNKNOWN", "unknown"),
        }
    }

    /// The result as a sentence without a full stop.
    fn headline(&self) -> String {
        let broken = match self.settings.claim {
            Claim::MutualExclusion => "two clients hold the lock at once",
            Claim::Updates(_) => "an update is lost",
        };
        match &self.outcome.verdict {
            Verdict::Violated(way) => {
                let (steps, states) = (way.moves.len() as u64, way.moves.len() as u64 + 1);
                let way = format!("{} ({})", plural(steps, "step"), plural(states, "state"));
                format!("{broken} after {way}; no shorter sequence of steps exists")
            }
            Verdict::Holds => {
                let never = match self.settings.claim {
                    Claim::MutualExclusion => "no two clients hold the lock at once",
                    Claim::Updates(_) => "no update is lost",
                };
                format!("{never} in any of the {} states within these bounds", count(self.outcome.states))
            }
            Verdict::Undecided(limit) => {
                let (what, remedy) = match limit {
                    GaveUp::Time => ("time", "--timeout 10m"),
                    GaveUp::Memory => ("memory", "--memory 16GiB"),
                    GaveUp::NoMoreMemory => ("the memory of this machine", ""),
                };
                let depth = plural(u64::from(self.outcome.depth), "step");
                let more = if remedy.is_empty() { String::new() } else { format!(" or `{remedy}`") };
                format!("{what} ran out after {depth} without a violation: use smaller bounds{more}")
            }
        }
    }

    /// The facts of the search as names and texts: what was checked, how far, and what the result means.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let Outcome { verdict, states, steps, depth } = self.outcome;
        let within = plural(u64::from(*depth), "step");
        let reach = match verdict {
            Verdict::Holds => format!("at most {within} deep"),
            _ => format!("within {within}"),
        };
        let searched = format!(
            "all {} {reach} ({}) in {}",
            plural(*states, "state"),
            plural(*steps, "transition"),
            length(self.took_ns),
        );
        let says = match verdict {
            Verdict::Violated(_) => "the algorithm allows this violation; the steps above prove it",
            Verdict::Holds => {
                "the search was exhaustive, but only for these bounds and this model: it covers no further nodes, clients or time"
            }
            Verdict::Undecided(_) => "longer sequences of steps were not searched",
        };
        let mut facts = vec![("property", self.property().to_string()), ("bounds", self.bounds())];
        facts.extend(["rules", "", "", ""].into_iter().zip(self.rules()));
        facts.extend([("searched", searched), ("conclusion", says.to_string())]);
        facts
    }

    fn property(&self) -> &'static str {
        match self.settings.claim {
            Claim::MutualExclusion => "mutual exclusion: no two clients hold the lock at once",
            Claim::Updates(_) => "updates: each write replaces the value that its writer read, so none is lost",
        }
    }

    fn bounds(&self) -> String {
        let bounds = self.settings.bounds;
        let counted = |number: u32, noun: &str| plural(number.into(), noun);
        format!(
            "{}, {}, a TTL of {}, time from 0 to {}",
            counted(bounds.nodes, "node"),
            counted(bounds.clients, "client"),
            counted(bounds.ttl, "tick"),
            counted(bounds.time, "tick"),
        )
    }

    fn rules(&self) -> Vec<String> {
        let mut rules = vec![
            match self.settings.clocks {
                Clocks::Lagging => "clients' clocks may lag behind",
                Clocks::Perfect => "clients' clocks show the true time",
            }
            .to_string(),
            match self.settings.holding {
                Holding::UntilRelease => "a client acts as the holder until it releases",
                Holding::WhileValid => "a client acts as the holder only while its clock says that the lock is valid",
            }
            .to_string(),
        ];
        rules.push(match self.settings.crash {
            None => "no node crashes".to_string(),
            Some(Crash { memory, restart, times }) => {
                let keeps = if memory == Memory::Lost { "loses its keys" } else { "keeps its keys" };
                let back = if restart == Restart::AtOnce {
                    "may be back immediately"
                } else {
                    "stays down for at least one TTL"
                };
                let often = if times == 1 { "once".to_string() } else { format!("{times} times") };
                format!("a node that crashes {keeps} and {back}; nodes crash {often} at most")
            }
        });
        match self.settings.claim {
            Claim::MutualExclusion => {}
            Claim::Updates(Fencing::None) => rules.push("the resource accepts every write".to_string()),
            Claim::Updates(Fencing::Token) => rules.push("the resource refuses a write with an old token".to_string()),
            Claim::Updates(Fencing::TokenReads) => {
                rules.push("the resource refuses a read or write with an old token".to_string());
            }
            Claim::Updates(Fencing::CompareAndSet) => {
                rules.push("the resource refuses a write unless it replaces what the writer read".to_string());
            }
        }
        rules
    }
}
