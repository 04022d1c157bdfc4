//! A search as a page: the verdict, the drawing, the steps, and the script for real Redis.

use std::path::Path;

use maud::{Markup, html};
use redlock_model::Counterexample;

use super::{Exploration, SCRIPT, picture};
use base::words::capital;
use report::html::{facts_section, figure, header, table, whole_page};
use report::{drawing, incident};

impl Exploration<'_> {
    /// The page, for a folder that also has the script.
    pub(super) fn html(&self, folder: &Path) -> String {
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
                                p { "This command carries the steps out. A tick is a part of the lock's TTL." }
                                pre { (Self::run_command(script, folder)) }
                                details { summary { (SCRIPT) } pre { (script.file) } }
                            }
                            Err(reason) => p { "There is no script that does this to real Redis: " (reason) "." },
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
}
