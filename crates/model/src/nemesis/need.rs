//! Properties that a lock needs for a scenario, as phrases: `3 nodes`, `1 holder`, `renewal`.

use std::fmt;
use std::str::FromStr;

use super::phrase::{PhraseError, serde_as_phrase};

/// A property that a nemesis needs the lock to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// At least this many independent nodes.
    Nodes(u32),
    /// Exactly this many clients may hold the lock at once.
    Holders(u32),
    /// One client can acquire it while the script's first client holds it: if there are several permits, other clients hold all
    /// but one.
    FreePermit,
    /// Other clients acquire the lock from a holder that hangs.
    Takeover,
    Expiry,
    /// The library renews it in the background while it is held.
    Renewal,
    /// Nothing renews it in the background.
    NoRenewal,
}

/// The phrases without a number.
const WORDS: [(&str, Need); 5] = [
    ("1 free permit", Need::FreePermit),
    ("takeover", Need::Takeover),
    ("expiry", Need::Expiry),
    ("renewal", Need::Renewal),
    ("no renewal", Need::NoRenewal),
];

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: u32| if n == 1 { "" } else { "s" };
        match self {
            Need::Nodes(n) => write!(f, "{n} node{}", plural(*n)),
            Need::Holders(n) => write!(f, "{n} holder{}", plural(*n)),
            other => f.write_str(WORDS.iter().find(|(_, need)| need == other).map_or("", |(word, _)| word)),
        }
    }
}

impl FromStr for Need {
    type Err = PhraseError;

    fn from_str(phrase: &str) -> Result<Need, PhraseError> {
        let words: Vec<&str> = phrase.split_whitespace().collect();
        let of_number = match words[..] {
            [n, "node" | "nodes"] => n.parse().ok().filter(|n| *n > 0).map(Need::Nodes),
            [n, "holder" | "holders"] => n.parse().ok().filter(|n| *n > 0).map(Need::Holders),
            _ => None,
        };
        let of_words = || WORDS.iter().find(|(word, _)| *word == words.join(" ")).map(|(_, need)| *need);
        of_number.or_else(of_words).ok_or_else(|| {
            let known: Vec<String> = WORDS.iter().map(|(word, _)| format!("`{word}`")).collect();
            PhraseError::expected(phrase, &format!("`3 nodes`, `1 holder`, {}", known.join(", ")))
        })
    }
}

serde_as_phrase!(Need);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_need_is_a_phrase_and_nothing_else_is() {
        let all = [Need::Nodes(5), Need::Nodes(1), Need::Holders(1), Need::Holders(2)];
        for need in all.into_iter().chain(WORDS.map(|(_, need)| need)) {
            assert_eq!(need.to_string().parse::<Need>(), Ok(need));
        }
        for phrase in ["", "nodes", "0 nodes", "-1 holders", "3 knots", "renewals", "2 free permits"] {
            let error = phrase.parse::<Need>().unwrap_err().to_string();
            assert!(error.contains("expected `3 nodes`"), "{error}");
        }
    }
}
