//! Patterns of names: `*`, `?`, `[a-c]`, `[^a]` and `\`.
//!
//! Source: the documentation of KEYS.

/// Whether the whole text fits the pattern.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // After the last star that was met: the pattern behind it, and the text that it has not taken yet.
    let mut star: Option<(&[u8], &[u8])> = None;
    let (mut pattern, mut text) = (pattern, text);
    loop {
        if let [b'*', rest @ ..] = pattern {
            star = Some((rest, text));
            pattern = rest;
            continue;
        }
        let step = match (pattern.is_empty(), text.split_first()) {
            (true, None) => return true,
            (false, Some((byte, rest))) => one(pattern, *byte).map(|pattern| (pattern, rest)),
            _ => None,
        };
        match (step, star) {
            (Some(step), _) => (pattern, text) = step,
            // The star takes one byte more.
            (None, Some((behind, [_, rest @ ..]))) => {
                star = Some((behind, rest));
                (pattern, text) = (behind, rest);
            }
            (None, _) => return false,
        }
    }
}

/// The pattern behind its first element, if that fits the byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => class(rest, byte),
        [b'\\', escaped, rest @ ..] => (*escaped == byte).then_some(rest),
        [first, rest @ ..] => (*first == byte).then_some(rest),
        [] => None,
    }
}

fn class(rest: &[u8], byte: u8) -> Option<&[u8]> {
    let (negated, mut rest) = match rest {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut fits = false;
    loop {
        match rest {
            // One without an end goes to the end.
            [] => break,
            [b']', behind @ ..] => {
                rest = behind;
                break;
            }
            [b'\\', escaped, behind @ ..] => {
                fits |= *escaped == byte;
                rest = behind;
            }
            [first, b'-', last, behind @ ..] => {
                fits |= (*first.min(last)..=*first.max(last)).contains(&byte);
                rest = behind;
            }
            [first, behind @ ..] => {
                fits |= *first == byte;
                rest = behind;
            }
        }
    }
    (fits != negated).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_or_do_not() {
        let fits = |pattern: &str, text: &str| matches(pattern.as_bytes(), text.as_bytes());
        for (pattern, text) in [
            ("*", ""),
            ("*lock:k*", "my:lock:k1"),
            ("h?llo", "hello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[b-a]llo", "hallo"),
            ("a\\*b", "a*b"),
            ("*a*b", "xaabab"),
            ("[a", "a"),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", ""),
            ("h?llo", "hllo"),
            ("h[^e]llo", "hello"),
            ("a\\*b", "axb"),
            ("*a*b", "ba"),
            ("*a", "ab"),
        ] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }
}
