//! Decides if a page or drawing in a store contains only redjepsen's elements and scripts. Any program may have put the file
//! there.
//!
//! No policy keeps other pages off the network. A browser connects for `<link rel=preconnect>`, follows a refresh, and lets a
//! running script use WebRTC. So this module accepts only the strict form in which redjepsen writes pages. An accepted page
//! cannot name another place, and runs only redjepsen's scripts.

use super::html::Script;
use super::{matrix, timeline};

/// The scripts of pages in a store.
const SCRIPTS: [Script; 2] = [Script::new(timeline::SCRIPT), matrix::SCRIPT];

const ELEMENTS: &str = "\
    a article b body br button canvas code dd details div dl dt figcaption figure h1 h2 h3 h4 head \
    header html i img input label li main meta nav noscript option p pre progress script section select small \
    span strong style summary table tbody td th thead title tr u ul svg g rect line circle path polygon";
/// The elements of redjepsen's drawings.
const DRAWN: &str = "svg g title style rect line circle path polygon polyline text tspan";

/// Attributes whose value may be any text.
const TEXTS: &str = "alt aria-label data-name for id name placeholder title value";
/// Attributes whose value must be a known word, a number, or a colour.
const WORDS: &str = "\
    aria-describedby aria-hidden aria-live autocomplete class colspan cx cy d data-changed data-do data-going data-look \
    data-shown dy fill font-family font-size font-style font-weight height hidden lang max opacity open points r role rx scope \
    stroke stroke-width style tabindex text-anchor transform type viewBox width x x1 x2 y y1 y2";
const SVG: &str = "http://www.w3.org/2000/svg";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLook {
    /// It has only redjepsen's elements and scripts.
    Ours,
    /// It also has another script, such as that of another version. It is harmless if the script does not run.
    Scripted,
    /// It has other elements.
    Strange,
}

pub fn page(text: &str) -> FileLook {
    let tags = text.strip_prefix("<!DOCTYPE html>").and_then(tags).filter(|tags| tags.iter().all(Tag::is_of_a_page));
    let Some(tags) = tags else { return FileLook::Strange };
    if tags.iter().all(|tag| tag.name != "script" || tag.is_data() || tag.is_our_script()) {
        FileLook::Ours
    } else {
        FileLook::Scripted
    }
}

/// True if a standalone drawing has only redjepsen's elements.
pub fn is_our_drawing(text: &str) -> bool {
    text.starts_with("<svg ") && tags(text).is_some_and(|tags| tags.iter().all(Tag::is_of_a_drawing))
}

/// The policy of such pages: run redjepsen's scripts, and fetch nothing.
pub fn policy() -> String {
    let hashes: Vec<String> = SCRIPTS.iter().map(|script| script.hash()).collect();
    let run = hashes.join(" ");
    format!(
        "default-src 'none'; script-src {run}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
}

/// The page with that policy as its first element, for use where no server sends the policy.
pub fn with_policy(page: &str) -> String {
    let policy = format!("<!DOCTYPE html><meta http-equiv=\"Content-Security-Policy\" content=\"{}\">", policy());
    page.replacen("<!DOCTYPE html>", &policy, 1)
}

struct Tag<'a> {
    name: &'a str,
    attributes: Vec<(&'a str, &'a str)>,
    /// The content of a script or style.
    inside: &'a str,
}

impl Tag<'_> {
    fn is_data(&self) -> bool {
        self.attributes.first() == Some(&("type", "application/json"))
    }

    fn is_our_script(&self) -> bool {
        self.attributes.is_empty() && SCRIPTS.iter().any(|script| script.is(self.inside))
    }

    fn is_of_a_page(&self) -> bool {
        let known = is_in(ELEMENTS, self.name) || is_in(DRAWN, self.name);
        known
            && match self.name {
                "meta" => self.is_our_meta(),
                "script" => self.attributes.iter().all(|(name, _)| ["type", "id"].contains(name)),
                _ => self.attributes.iter().all(is_harmless),
            }
    }

    fn is_our_meta(&self) -> bool {
        match self.attributes[..] {
            [("charset", "utf-8")] => true,
            // Such a policy can only forbid more.
            [("http-equiv", "Content-Security-Policy"), ("content", _)] => true,
            [("name", name), ("content", _)] => ["viewport", "color-scheme"].contains(&name),
            _ => false,
        }
    }

    fn is_of_a_drawing(&self) -> bool {
        // No server sends a policy with a drawing's file, so its style may not name another place either.
        is_in(DRAWN, self.name) && names_nothing(self.inside) && self.attributes.iter().all(is_harmless)
    }
}

fn is_in(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

fn is_harmless((name, value): &(&str, &str)) -> bool {
    match *name {
        "href" => value.starts_with('#') || is_below(value),
        "src" => value.starts_with("data:image/png;base64,"),
        "xmlns" => *value == SVG,
        name if is_in(TEXTS, name) => true,
        name if is_in(WORDS, name) => names_nothing(value),
        _ => false,
    }
}

/// True if an address leads to a place below the page, however a browser reads it.
fn is_below(address: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./%".contains(&byte);
    !address.starts_with('/') && address.bytes().all(plain)
}

/// True if a style or its value names no other place, neither plainly nor with escapes.
fn names_nothing(style: &str) -> bool {
    let style = style.replace("&quot;", "").to_ascii_lowercase();
    !style.contains(['\\', '@', '&']) && !style.contains("url")
}

/// The tags of a text in redjepsen's form. None if anything else begins like a tag.
fn tags(mut rest: &str) -> Option<Vec<Tag<'_>>> {
    let mut tags = Vec::new();
    while let Some(place) = rest.find('<') {
        rest = &rest[place + 1..];
        if let Some(closing) = rest.strip_prefix('/') {
            rest = word(closing)?.1.strip_prefix('>')?;
            continue;
        }
        let (name, mut after) = word(rest)?;
        let mut attributes = Vec::new();
        while let Some(next) = after.strip_prefix(' ') {
            let (attribute, next) = word(next)?;
            let (value, next) = match next.strip_prefix("=\"") {
                Some(value) => value.split_once('"')?,
                None => ("", next),
            };
            if value.contains('<') {
                return None;
            }
            attributes.push((attribute, value));
            after = next;
        }
        let has_text = ["script", "style"].contains(&name);
        rest = after.strip_prefix('>').or_else(|| after.strip_prefix("/>").filter(|_| !has_text))?;
        let mut inside = "";
        if has_text {
            (inside, rest) = rest.split_at(rest.find("</")?);
            // Within a drawing, a browser reads the text as markup. So it must not contain any.
            let begins_a_tag = |next: &str| next.starts_with(|c: char| c.is_ascii_alphabetic() || "!?".contains(c));
            let is_closed = rest[2..].strip_prefix(name).is_some_and(|rest| rest.starts_with('>'));
            if !is_closed || inside.split('<').skip(1).any(begins_a_tag) || (name == "style" && inside.contains('<')) {
                return None;
            }
        }
        tags.push(Tag { name, attributes, inside });
    }
    Some(tags)
}

/// Splits off a name at the start of the text. None if the text does not begin with a letter.
fn word(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(text.len());
    text.starts_with(|c: char| c.is_ascii_alphabetic()).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::Page;

    fn ours(body: &str, script: Script) -> String {
        let body = maud::PreEscaped(body.to_string());
        Page { title: &["x", "</title><link>"], style: "p{color:red}", script, body: &body }.text()
    }

    #[test]
    fn our_pages_pass_with_our_scripts_alone() {
        let body = "<main><p class=\"fine\" title=\"\\ &amp; url(x)\">1 &lt; 2<br><a href=\"../a%20b/report.html\">x</a></p><svg \
                    xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1 1\"><g fill=\"var(--paper)\"><title>t</title></g></svg><img \
                    src=\"data:image/png;base64,AAAA\" alt=\"\"></main>";
        for script in SCRIPTS.into_iter().chain([Script::NONE]) {
            assert_eq!(page(&ours(body, script)), FileLook::Ours);
        }
        assert_eq!(page(&ours(body, Script::new("let other = 1 < 2;"))), FileLook::Scripted);
        assert_eq!(page("<!DOCTYPE html><p>a report"), FileLook::Ours);
        let drawing = "<svg class=\"drawing\" xmlns=\"http://www.w3.org/2000/svg\" style=\"--least:700px\"><style>.a{fill:red}</style></svg>";
        assert!(is_our_drawing(drawing));
        let held = with_policy(&ours(body, SCRIPTS[0]));
        assert!(
            held.starts_with(
                "<!DOCTYPE html><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
            )
        );
        assert_eq!(page(&held), FileLook::Ours);
    }

    #[test]
    fn whatever_could_reach_another_place_is_strange() {
        for body in [
            "<link rel=\"preconnect\" href=\"http://127.0.0.1:1/\">",
            "<LINK rel=\"preconnect\" href=\"x\">",
            "<meta http-equiv=\"refresh\" content=\"0;url=http://127.0.0.1:1/\">",
            "<meta content=\"0;url=x\" http-equiv=\"refresh\">",
            "<base href=\"http://127.0.0.1:1/\">",
            "<iframe src=\"x\"></iframe>",
            "<iframe srcdoc=\"x\"></iframe>",
            "<object data=\"x\"></object>",
            "<embed src=\"x\">",
            "<video poster=\"x\"></video>",
            "<form action=\"x\"><input name=\"y\"></form>",
            "<button formaction=\"x\">y</button>",
            "<img src=\"http://127.0.0.1:1/\" alt=\"\">",
            "<img src=\"x\" alt=\"\" onerror=\"x()\">",
            "<input type=\"image\" src=\"x\">",
            "<a href=\"http://127.0.0.1:1/\">x</a>",
            "<a href=\"//127.0.0.1:1/\">x</a>",
            "<a href=\"/\\127.0.0.1:1/\">x</a>",
            "<a href=\"&#x2f;/127.0.0.1:1/\">x</a>",
            "<a href=\"javascript:x()\">x</a>",
            "<a href=\" javascript:x()\">x</a>",
            "<a href=\"x\" ping=\"y\">x</a>",
            "<a href=\"x\" attributionsrc=\"y\">x</a>",
            "<p onclick=\"x()\">x</p>",
            "<p style=\"background:url(x)\">x</p>",
            "<p style=\"background:u\\72l(x)\">x</p>",
            "<p style=\"background:u&#114;l(x)\">x</p>",
            "<script src=\"x\"></script>",
            "<script type=\"speculationrules\">{}</script><link>",
            "<svg><script><p><link rel=\"preconnect\" href=\"x\"></script></svg>",
            "<svg><style><p><link rel=\"preconnect\" href=\"x\"></style></svg>",
            "<svg><use href=\"http://127.0.0.1:1/x#y\"></use></svg>",
            "<svg><image href=\"x\"></image></svg>",
            "<svg><foreignObject></foreignObject></svg>",
            "<svg><animate attributeName=\"href\" to=\"x\"></animate></svg>",
            "<math><mtext></mtext></math>",
            "<!-- a comment --><p>x</p>",
            "<p title=\"<link>\">x</p>",
            "<p title='x'>x</p>",
            "<p title=x>x</p>",
            "<p/title=\"x\">x</p>",
            "<p\ntitle=\"x\">x</p>",
            "<template><link></template>",
            "<textarea></textarea>",
            "<? x ?>",
            "<p",
            "<style>a",
        ] {
            assert_eq!(page(&ours(body, Script::NONE)), FileLook::Strange, "{body}");
        }
        for text in ["", "x", "<html>", "\u{feff}<!DOCTYPE html><p>x", "<!doctype html><p>x"] {
            assert_eq!(page(text), FileLook::Strange, "{text}");
        }
        for drawing in [
            "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>x()</script></svg>",
            "<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"x()\"></svg>",
            "<svg xmlns=\"http://www.w3.org/2000/svg\"><a href=\"x\"></a></svg>",
            "<svg xmlns=\"http://www.w3.org/2000/svg\"><style>@import 'x';</style></svg>",
            "<svg xmlns=\"http://www.w3.org/2000/svg\"><style>a{fill:URL(x)}</style></svg>",
            "<svg xmlns=\"http://www.w3.org/2000/svg\"><rect fill=\"url(http://127.0.0.1:1/#x)\"></rect></svg>",
            "<svg xmlns=\"http://www.w3.org/1999/xhtml\"></svg>",
            "<svg xmlns:h=\"http://www.w3.org/1999/xhtml\"><h:link></h:link></svg>",
            "<?xml-stylesheet href=\"x\"?><svg ></svg>",
            "<html></html>",
        ] {
            assert!(!is_our_drawing(drawing), "{drawing}");
        }
    }
}
