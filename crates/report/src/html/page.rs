//! A whole page: one file that needs no network and runs only redjepsen's script, whatever texts of users it shows.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::drawing::COLOURS;

const STYLE: &str = include_str!("style.css");

pub struct Page<'a> {
    /// The title consists of these words and `redjepsen`.
    pub title: &'a [&'a str],
    /// Added to the style of all pages.
    pub style: &'a str,
    pub script: Script,
    pub body: &'a Markup,
}

/// The script of a page, and its permissions.
#[derive(Clone, Copy)]
pub struct Script {
    text: &'static str,
    /// True if redjepsen's server serves the page, so that the page may fetch itself again.
    served: bool,
}

impl Script {
    pub const NONE: Script = Script::new("");

    pub const fn new(text: &'static str) -> Script {
        Script { text, served: false }
    }

    pub const fn served(text: &'static str) -> Script {
        Script { text, served: true }
    }

    pub fn hash(self) -> String {
        format!("'sha256-{}'", STANDARD.encode(Sha256::digest(self.text.as_bytes())))
    }

    pub fn is(self, text: &str) -> bool {
        self.text == text
    }

    /// The page's Content-Security-Policy: this script, by its hash, and nothing from elsewhere.
    pub fn policy(self) -> String {
        let run = match self.text {
            "" => String::new(),
            _ => format!("script-src {}; ", self.hash()),
        };
        let from = if self.served { "'self' data:; connect-src 'self'" } else { "data:" };
        format!(
            "default-src 'none'; {run}style-src 'unsafe-inline'; img-src {from}; base-uri 'none'; form-action 'none'"
        )
    }
}

impl Page<'_> {
    pub fn text(&self) -> String {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    // The policy must come before everything that it governs.
                    meta http-equiv="Content-Security-Policy" content=(self.script.policy());
                    // Without an icon, browsers ask for one.
                    @if self.script.served { (PreEscaped("<link rel=\"icon\" href=\"data:,\">")) }
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title.join(" · ")) " · redjepsen" }
                    style { (PreEscaped(COLOURS)) (PreEscaped(STYLE)) (PreEscaped(self.style)) }
                }
                body {
                    (self.body)
                    @if !self.script.text.is_empty() { script { (PreEscaped(self.script.text)) } }
                }
            }
        }
        .into_string()
    }
}

/// A command to be copied. A click selects all of it. On a page with a script it has a button.
pub fn command(text: &str) -> Markup {
    html! {
        div class="command" { pre { (unbroken(text)) } button type="button" class="copy" { "Copy" } }
    }
}

/// Up to this many characters, a flag and its value stay on one line.
const SHORT: usize = 24;

/// A command whose flags are not broken. A browser would break a line after each hyphen.
fn unbroken(text: &str) -> Markup {
    let mut parts: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match parts.last_mut() {
            Some(flag)
                if flag.starts_with('-') && !flag.contains(' ') && !word.starts_with('-') && word.len() <= SHORT =>
            {
                flag.push(' ');
                flag.push_str(word);
            }
            _ => parts.push(word.to_string()),
        }
    }
    html! {
        @for (number, part) in parts.iter().enumerate() {
            @if number > 0 { " " }
            @if part.starts_with('-') { span { (part) } } @else { (part) }
        }
    }
}

/// A plot with its caption, which may be empty. On a narrow screen it is as wide as the screen. The reader can switch to its own
/// width.
pub fn plot(drawn: &Markup, caption: &Markup) -> Markup {
    html! {
        figure class="plot" {
            div class="drawn" tabindex="0" { (drawn) }
            (larger())
            figcaption { (caption) }
        }
    }
}

/// The switch of a drawing to its own width, which a narrow screen scrolls.
fn larger() -> Markup {
    html! { label class="larger" { input type="checkbox"; " Larger, to scroll" } }
}

/// A drawing. On a narrow screen it is as wide as the screen. The reader can switch to the width that its texts need.
pub fn figure(drawing: &Markup) -> Markup {
    html! {
        figure tabindex="0" { (drawing) }
        (larger())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_stays_with_what_it_is_given() {
        let shown = unbroken("redjepsen run --workload mine.toml --open --seed 1 x").into_string();
        assert_eq!(
            shown,
            "redjepsen run <span>--workload mine.toml</span> <span>--open</span> <span>--seed 1</span> x"
        );
        let long = "./a/path/that/is/longer/than/a/line.toml";
        assert_eq!(
            unbroken(&format!("x --workload {long}")).into_string(),
            format!("x <span>--workload</span> {long}")
        );
    }

    #[test]
    fn a_page_runs_its_own_script_and_asks_nobody_but_who_handed_it_out() {
        let page =
            |script| Page { title: &["x"], style: "", script, body: &html! { p { "<script>evil()</script>" } } }.text();
        let still = page(Script::NONE);
        assert!(still.contains("default-src 'none'; style-src") && !still.contains("<script"), "{still}");
        let own = page(Script::new("let a = 1;"));
        assert!(own.contains("script-src 'sha256-") && own.contains("<script>let a = 1;</script>"), "{own}");
        assert!(!own.contains("connect-src") && own.matches("<script").count() == 1, "{own}");
        assert!(page(Script::served("1")).contains("connect-src 'self'"));
        assert_ne!(Script::new("1").policy(), Script::new("2").policy());
    }
}
