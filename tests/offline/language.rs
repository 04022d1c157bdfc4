//! Texts for people are plain English. They have no forbidden words, no sentence that begins with a clause as its subject, and no
//! sentence of more than 25 words.
//!
//! The rules apply to README.md, docs/, the texts of workloads, nemeses, suites and issues, help, and to string literals and doc
//! comments of the program. `language.csv` says how often each file still breaks a rule. These numbers only go down:
//! `UPDATE_DOCS=1 cargo test --test offline language` lowers them, and never raises one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A longer sentence must be read twice.
const LONGEST: usize = 25;

/// Forbidden words and phrases, each with a plainer one.
const WORDS: &[(&str, &str)] = &[
    ("whoever", "name the actor"),
    ("somebody", "name the actor"),
    ("nobody", "name the actor"),
    ("anybody", "name the actor"),
    ("is told", "the actor reports it"),
    ("are told", "the actor reports it"),
    ("was told", "the actor reports it"),
    ("were told", "the actor reports it"),
    ("as ever", "as usual"),
    ("is no", "is not a"),
    ("are no", "are not"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("mended", "fixed"),
    ("surprise", "unexpected"),
    ("surprises", "unexpected"),
    ("onlooker", "observer"),
    ("give back", "release"),
    ("gives back", "releases"),
    ("gave back", "released"),
    ("given back", "released"),
    ("giving back", "releasing"),
    ("gives it back", "releases it"),
    ("gave it back", "released it"),
    ("be had", "be acquired"),
    ("is had", "is held"),
    ("are had", "are held"),
    ("one's own", "your own"),
    ("fate", "limitation"),
    ("withstand", "pass"),
    ("withstands", "passes"),
    ("falls to", "fails"),
    ("fall to", "fail"),
    ("is played", "is run"),
    ("are played", "are run"),
    ("be played", "be run"),
    ("was played", "was run"),
    ("were played", "were run"),
    ("made again", "rerun"),
    ("night", "suite run"),
    ("nights", "suite runs"),
    ("is to", "must"),
    ("are to", "must"),
    ("runs out", "expires"),
    ("ran out", "expired"),
    ("run out", "expired"),
    ("get the lock", "acquire the lock"),
    ("gets the lock", "acquires the lock"),
    ("got the lock", "acquired the lock"),
    ("getting the lock", "acquiring the lock"),
    ("take the lock", "acquire the lock"),
    ("takes the lock", "acquires the lock"),
    ("took the lock", "acquired the lock"),
    ("taking the lock", "acquiring the lock"),
    ("of ours", "of redjepsen"),
];

/// Phrases that are plain although they contain a forbidden word.
const PLAIN: &[&str] = &[
    "is no longer",
    "are no longer",
    "there is no",
    "there are no",
    "here is no",
    "memory ran out",
    "memory runs out",
];

/// A sentence with such a beginning has a clause as its subject, or no subject.
const BEGINNINGS: &[&str] =
    &["what", "whether", "whoever", "who", "one that", "one who", "those that", "those who", "that it", "that of"];

/// The rules, in the order of the columns of `language.csv`, first for texts, then for doc comments.
const RULES: [&str; 3] = ["words", "forms", "long"];

/// How often a file breaks each rule: in its texts, then in its comments.
type Counts = [usize; 6];

/// The index of a broken rule, and the sentence.
type Fault = (usize, String);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The sentences of a text. A word in backticks counts as one word, which is never forbidden.
fn sentences(text: &str) -> Vec<Vec<String>> {
    let mut plain = String::new();
    for (number, part) in text.split('`').enumerate() {
        plain.push_str(if number % 2 == 0 { part } else { "CODE" });
    }
    let mut all = vec![Vec::new()];
    for word in plain.split_whitespace() {
        let ends = word.trim_end_matches(['"', ')', '*', '_']).ends_with(['.', '!', '?']);
        if word.chars().any(char::is_alphanumeric) {
            all.last_mut().unwrap().push(word.to_string());
        }
        if ends && !matches!(word, "etc." | "vs." | "St.") {
            all.push(Vec::new());
        }
    }
    all.retain(|words| !words.is_empty());
    all
}

/// The broken rules in a text.
fn faults(text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for sentence in sentences(text) {
        let bare = |word: &String| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '\'').to_lowercase();
        let said = format!(" {} ", sentence.iter().map(bare).collect::<Vec<_>>().join(" "));
        let whole = sentence.join(" ");
        for (word, plainer) in WORDS {
            let all = said.matches(&format!(" {word} ")).count();
            let plain = PLAIN.iter().filter(|plain| plain.contains(word));
            let plain: usize = plain.map(|plain| said.matches(&format!(" {plain} ")).count()).sum();
            let broken = all.saturating_sub(plain);
            faults.extend((0..broken).map(|_| (0, format!("`{word}` ({plainer}): {whole}"))));
        }
        let begins = |start: &&&str| said.starts_with(&format!(" {start} "));
        if let Some(start) = BEGINNINGS.iter().find(begins).filter(|_| sentence.len() > 3 && !whole.ends_with('?')) {
            faults.push((1, format!("begins with `{start}`: {whole}")));
        }
        if sentence.len() > LONGEST {
            faults.push((2, format!("{} words: {whole}", sentence.len())));
        }
    }
    faults
}

/// The texts of a page, without code and without the tables that tests make.
fn of_page(page: &str) -> Vec<String> {
    let (mut texts, mut fenced, mut made) = (vec![String::new()], false, false);
    for line in page.lines() {
        let trimmed = line.trim_start();
        let is_fence = trimmed.starts_with("```");
        fenced ^= is_fence;
        made = trimmed.starts_with("<!-- made by") || made && !trimmed.starts_with("<!-- end");
        if fenced || is_fence || made || trimmed.starts_with(['#', '<', '!']) || trimmed.is_empty() {
            texts.push(String::new());
            continue;
        }
        if trimmed.starts_with('|') {
            texts.extend(trimmed.split('|').map(linked));
            texts.push(String::new());
            continue;
        }
        let numbered = trimmed.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if numbered || trimmed.starts_with("- ") || trimmed.starts_with("* ") {
            texts.push(String::new());
        }
        let text = texts.last_mut().unwrap();
        *text += " ";
        *text += trimmed;
    }
    texts.iter().map(|text| linked(text)).filter(|text| !text.trim().is_empty()).collect()
}

/// A text with each link replaced by its words.
fn linked(text: &str) -> String {
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        plain += part.split_once(')').map_or(part, |(_, rest)| rest);
    }
    plain.replace(['[', '*'], "")
}

/// The texts of a file of the catalogue.
fn of_catalogue(file: &str) -> Vec<String> {
    fn collect(value: &toml::Value, texts: &mut Vec<String>) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    match value.as_str() {
                        Some(text) if ["description", "story", "source", "what", "says"].contains(&key.as_str()) => {
                            texts.push(text.to_string());
                        }
                        _ => collect(value, texts),
                    }
                }
            }
            toml::Value::Array(values) => values.iter().for_each(|value| collect(value, texts)),
            _ => {}
        }
    }
    let mut texts = Vec::new();
    collect(&toml::from_str(file).unwrap(), &mut texts);
    texts
}

/// The string literals and the doc comments of a program's text, without its tests.
fn of_program(source: &str) -> (Vec<String>, Vec<String>) {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let (mut literals, mut comments) = (Vec::new(), vec![String::new()]);
    let mut rest = source;
    let mut was_comment = false;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            let line = rest.split('\n').next().unwrap_or_default();
            match line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) {
                Some(text) if !text.starts_with('/') => {
                    let text = text.trim();
                    if !was_comment || text.is_empty() || text.starts_with("- ") {
                        comments.push(String::new());
                    }
                    let comment = comments.last_mut().unwrap();
                    *comment += " ";
                    *comment += text;
                    was_comment = true;
                }
                _ => was_comment = false,
            }
            rest = &rest[line.len()..];
        } else if let Some(raw) = rest.strip_prefix("r#\"") {
            let end = raw.find("\"#").unwrap_or(raw.len());
            rest = raw.get(end + 2..).unwrap_or_default();
            was_comment = false;
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
            rest = &rest[3..];
        } else if let Some(inside) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = inside.find(|c: char| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let end = end.unwrap_or(inside.len());
            literals.push(literal(&inside[..end]));
            rest = inside.get(end + 1..).unwrap_or_default();
            was_comment = false;
        } else {
            was_comment &= c.is_whitespace();
            rest = &rest[c.len_utf8()..];
        }
    }
    let is_prose = |text: &String| {
        let code = ["<", "=>", "function", "px", "::", "&&", "\t"];
        text.split_whitespace().count() > 3 && !code.iter().any(|sign| text.contains(sign))
    };
    literals.retain(is_prose);
    (literals, comments.into_iter().map(|text| linked(&text)).collect())
}

/// A literal as its reader sees it: its lines joined, each value one word.
fn literal(text: &str) -> String {
    let mut joined = String::new();
    for (number, line) in text.split("\\\n").enumerate() {
        joined += if number == 0 { line } else { line.trim_start() };
    }
    let mut plain = String::new();
    let mut depth = 0;
    for c in joined.replace("\\n", ". ").replace("\\\"", "'").replace("{{", "").replace("}}", "").chars() {
        match c {
            '{' => {
                depth += 1;
                plain.push('x');
            }
            '}' => depth -= 1,
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain
}

fn files(folder: &Path, end: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !["tests", "target", "clients", "benches"].contains(&name.as_str()) {
            files(&path, end, found);
        } else if name.ends_with(end) && name != "SUMMARY.md" {
            found.push(path);
        }
    }
}

/// All files with texts for people, each with its broken rules.
fn all() -> BTreeMap<String, Vec<Fault>> {
    let mut found = vec![root().join("README.md")];
    files(&root().join("docs"), ".md", &mut found);
    ["workloads", "nemeses", "suites", "issues"].iter().for_each(|of| files(&root().join(of), ".toml", &mut found));
    ["src", "crates"].iter().for_each(|of| files(&root().join(of), ".rs", &mut found));
    let of_file = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        // Doc comments of the command line are its help.
        let is_help = name.starts_with("src/cli/") || name.ends_with("model/src/scenario/options.rs");
        let (texts, comments) = match path.extension().and_then(|end| end.to_str()) {
            Some("md") => (of_page(&text), Vec::new()),
            Some("toml") => (of_catalogue(&text), Vec::new()),
            _ => of_program(&text),
        };
        let of_comments = |rule: usize| if is_help { rule } else { rule + RULES.len() };
        let mut broken: Vec<Fault> = texts.iter().flat_map(|text| faults(text)).collect();
        broken.extend(comments.iter().flat_map(|text| faults(text)).map(|(rule, text)| (of_comments(rule), text)));
        (name, broken)
    };
    found.into_iter().map(of_file).collect()
}

fn counts(faults: &[Fault]) -> Counts {
    let mut counts = Counts::default();
    faults.iter().for_each(|(rule, _)| counts[*rule] += 1);
    counts
}

const HEAD: &str = "file,words,forms,long,comment words,comment forms,comment long";

fn read(csv: &str) -> BTreeMap<String, Counts> {
    let row = |line: &str| {
        let (file, numbers) = line.split_once(',').unwrap();
        let mut counts = Counts::default();
        numbers.split(',').zip(&mut counts).for_each(|(number, count)| *count = number.parse().unwrap());
        (file.to_string(), counts)
    };
    csv.lines().skip(1).map(row).collect()
}

fn written(all: &BTreeMap<String, Counts>) -> String {
    let rows = all.iter().filter(|(_, counts)| counts.iter().any(|count| *count > 0));
    let row =
        |(file, counts): (&String, &Counts)| format!("{file},{}\n", counts.map(|count| count.to_string()).join(","));
    format!("{HEAD}\n{}", rows.map(row).collect::<String>())
}

/// The files that break more rules than the list allows, or fewer than it says.
fn differences(found: &BTreeMap<String, Vec<Fault>>, listed: &BTreeMap<String, Counts>) -> Vec<String> {
    let names = found.keys().chain(listed.keys().filter(|name| !found.contains_key(*name)));
    let of_file = |name: &String| {
        let faults = found.get(name).map_or(&[][..], Vec::as_slice);
        let (now, listed) = (counts(faults), listed.get(name).copied().unwrap_or_default());
        let mut told = Vec::new();
        for rule in 0..now.len() {
            let what =
                format!("{name}: {}{}", if rule < RULES.len() { "" } else { "comment " }, RULES[rule % RULES.len()]);
            if now[rule] > listed[rule] {
                let here = faults.iter().filter(|(of, _)| *of == rule).map(|(_, text)| format!("\n    {text}"));
                told.push(format!(
                    "{what}: {} where {} are listed:{}",
                    now[rule],
                    listed[rule],
                    here.collect::<String>()
                ));
            } else if now[rule] < listed[rule] {
                told.push(format!(
                    "{what}: {} are left of {}; lower the number with UPDATE_DOCS=1",
                    now[rule], listed[rule]
                ));
            }
        }
        told
    };
    names.flat_map(of_file).collect()
}

#[test]
fn texts_are_plain_english() {
    let list = root().join("tests/offline/language.csv");
    let found = all();
    let now: BTreeMap<String, Counts> = found.iter().map(|(name, faults)| (name.clone(), counts(faults))).collect();
    let listed = fs::read_to_string(&list).map_or_else(|_| now.clone(), |text| read(&text));
    let updates = std::env::var_os("UPDATE_DOCS").is_some();
    if updates {
        let lower = |(name, now): (&String, &Counts)| {
            let listed = listed.get(name).copied().unwrap_or_default();
            (name.clone(), std::array::from_fn(|rule| now[rule].min(listed[rule])))
        };
        fs::write(&list, written(&now.iter().map(lower).collect())).unwrap();
    }
    let listed = read(&fs::read_to_string(&list).expect("UPDATE_DOCS=1 makes a list where there is none"));
    let told = differences(&found, &listed);
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn each_rule_is_found_and_plain_sentences_are_not() {
    let rules = |text: &str| faults(text).into_iter().map(|(rule, _)| rule).collect::<Vec<_>>();
    for (text, broken) in [
        ("Anyone who can reach the port can read the store.", &[][..]),
        ("Whoever reaches the port reads the store.", &[0, 1]),
        ("X is no version. There is no version. It is no longer here.", &[0]),
        ("What unpacks to more than 1 GiB is refused.", &[1]),
        ("What now?", &[]),
        ("Use `whoever is told`.", &[]),
    ] {
        assert_eq!(rules(text), broken, "{text}");
    }
    assert_eq!(rules(&format!("{}.", ["word"; 26].join(" "))), [2]);
    assert_eq!(rules(&format!("{}. {}.", ["word"; 25].join(" "), ["word"; 25].join(" "))), [0; 0]);
}

#[test]
fn texts_are_found_where_they_are() {
    let page = "# Title\n\nA [link](x.md) and\nmore.\n\n```\ncode code\n```\n| a | b |\n<!-- made by x -->\nmade\n<!-- end -->\n- item\n";
    let texts: Vec<String> = of_page(page).iter().map(|text| text.trim().to_string()).collect();
    assert_eq!(texts, ["A link and more.", "a", "b", "- item"]);
    let program =
        "/// Says it.\n/// Twice.\nfn f() { g(\"one {x} two \\\n    three four\"); } // no\n#[cfg(test)]\n/// No.\n";
    let (literals, comments) = of_program(program);
    assert_eq!(literals, ["one x two three four"]);
    assert_eq!(comments.iter().map(|text| text.trim()).collect::<Vec<_>>(), ["", "Says it. Twice."]);
}

#[test]
fn the_list_only_shrinks() {
    let found = BTreeMap::from([("a".to_string(), faults("Nobody knows."))]);
    let listed = |count| BTreeMap::from([("a".to_string(), [count, 0, 0, 0, 0, 0])]);
    assert!(differences(&found, &listed(1)).is_empty());
    assert!(differences(&found, &listed(0))[0].contains("1 where 0 are listed"));
    assert!(differences(&found, &listed(2))[0].contains("lower the number"));
    assert_eq!(read(&written(&listed(3))), listed(3));
}
