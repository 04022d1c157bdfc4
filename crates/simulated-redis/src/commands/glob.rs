//! Patterns of names. Only `*` is supported.

pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|taken| matches(rest, &text[taken..])),
        [first, rest @ ..] => text.first() == Some(first) && matches(rest, &text[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_or_do_not() {
        let fits = |pattern: &str, text: &str| matches(pattern.as_bytes(), text.as_bytes());
        for (pattern, text) in [("*", ""), ("*lock:k*", "my:lock:k1"), ("*a*b", "xaabab"), ("maxmemory", "maxmemory")] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a", ""), ("*a*b", "ba"), ("*a", "ab"), ("maxmemory", "maxmemory-policy")] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }
}
