//! Numbers, times and values as text, the same in every message, page and file.

/// A time of the run: `7.213 s`.
pub fn moment(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

/// A length of time with few digits: `0.4 ms`, `14 ms`, `2.6 s`, `3 min 20 s`, `24 h`.
pub fn length(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    if ms < 9.95 {
        format!("{} ms", trimmed(ms, if ms < 0.1 { 3 } else { 1 }))
    } else if ms < 999.5 {
        format!("{ms:.0} ms")
    } else if ms < 119_950.0 {
        format!("{} s", trimmed(ms / 1e3, if ms < 9_995.0 { 2 } else { 1 }))
    } else if ms < 7_199_500.0 {
        in_two((ms / 1e3).round() as u64, 60, ["min", "s"])
    } else {
        in_two((ms / 60e3).round() as u64, 60, ["h", "min"])
    }
}

/// A number of the smaller unit, in both units, without a zero part: `3 min 20 s`, `24 h`.
fn in_two(number: u64, size: u64, [large, small]: [&str; 2]) -> String {
    match number % size {
        0 => format!("{} {large}", number / size),
        rest => format!("{} {large} {rest} {small}", number / size),
    }
}

/// A number without trailing zeros.
fn trimmed(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// A fraction as a percentage: `2.2%`. `0%` only for a fraction of 0.
pub fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if !percent.is_finite() || percent <= 0.0 {
        "0%".to_string()
    } else if percent < 0.1 {
        "< 0.1%".to_string()
    } else if percent > 99.9 && percent < 100.0 {
        "> 99.9%".to_string()
    } else {
        format!("{}%", trimmed(percent, if percent < 10.0 { 1 } else { 0 }))
    }
}

/// A count with thousands separators: `12,345`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 update`, `7 updates`, `3 addresses`.
pub fn plural(number: u64, noun: &str) -> String {
    let ending = match number {
        1 => "",
        _ if noun.ends_with("ss") => "es",
        _ => "s",
    };
    format!("{} {noun}{ending}", count(number))
}

/// Calls `say` unless the number is 0. Then the text is empty.
pub fn unless_none(number: u64, say: impl FnOnce(u64) -> String) -> String {
    if number == 0 { String::new() } else { say(number) }
}

/// For serde: zero counts are not written.
pub fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Makes a text from outside safe for one line and for use between backticks, see [`line()`].
pub fn sanitize(text: &str, longest: usize) -> String {
    line(text, longest).replace('`', "'")
}

/// Makes a text from outside safe for one line. It has at most `longest` characters, and none that moves the cursor, changes
/// the writing direction, or is forbidden in XML.
pub fn line(text: &str, longest: usize) -> String {
    let visible = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        c if c.is_control() => '\u{fffd}',
        '\u{61c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}'
        | '\u{fffe}'
        | '\u{ffff}' => '\u{fffd}',
        c => c,
    };
    let longest = longest.max(3);
    // To know whether to cut, look one character past the limit; the text may have megabytes.
    if text.chars().nth(longest).is_none() {
        return text.chars().map(visible).collect();
    }
    let tail = (longest - 1) / 3;
    let head: String = text.chars().take(longest - 1 - tail).map(visible).collect();
    let mut end: Vec<char> = text.chars().rev().take(tail).map(visible).collect();
    end.reverse();
    format!("{head}…{}", end.into_iter().collect::<String>())
}

/// Makes each line of a message safe, like [`line()`].
pub fn lines(text: &str) -> String {
    text.lines().map(|text| line(text, LONGEST_LINE)).collect::<Vec<String>>().join("\n")
}

/// The words of a text in lines of at most this many characters. A longer word has a line of its own.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    wrap_by(text, |line| line.chars().count() <= width)
}

/// The words of a text in lines that fit. A word that does not fit has a line of its own.
pub fn wrap_by(text: &str, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}")).filter(|longer| fits(longer));
        match (longer, lines.last_mut()) {
            (Some(longer), Some(line)) => *line = longer,
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

/// The text with a capital first letter.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// `a` or `an`, before this word.
pub fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// The text with a small first letter.
pub fn small(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

/// At most this many characters of a line of a message are shown. Only texts from outside are longer.
const LONGEST_LINE: usize = 4000;

/// A value in a sentence, between backticks.
pub fn quoted(text: &str) -> String {
    format!("`{}`", sanitize(text, 40))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_the_digits_that_matter() {
        for (ns, text) in [
            (0, "0 ms"),
            (4_000, "0.004 ms"),
            (420_000, "0.4 ms"),
            (14_200_000, "14 ms"),
            (999_900_000, "1 s"),
            (1_000_000_000, "1 s"),
            (2_604_000_000, "2.6 s"),
            (20_040_000_000, "20 s"),
            (200_000_000_000, "3 min 20 s"),
            (180_000_000_000, "3 min"),
            (7_199_400_000_000, "119 min 59 s"),
            (7_199_600_000_000, "2 h"),
            (86_400_000_000_000, "24 h"),
            (90_061_000_000_000, "25 h 1 min"),
        ] {
            assert_eq!(length(ns), text);
        }
    }

    #[test]
    fn a_share_that_is_not_nothing_is_never_zero() {
        for (fraction, text) in
            [(0.0, "0%"), (0.00001, "< 0.1%"), (0.022, "2.2%"), (0.5, "50%"), (0.9999, "> 99.9%"), (1.0, "100%")]
        {
            assert_eq!(percent(fraction), text);
        }
        assert_eq!(percent(f64::NAN), "0%");
    }

    #[test]
    fn counts_and_lists_read_well() {
        assert_eq!([count(7), count(1234), count(1_234_567)], ["7", "1,234", "1,234,567"]);
        assert_eq!([plural(1, "update"), plural(0, "update")], ["1 update", "0 updates"]);
        assert_eq!([plural(1, "address"), plural(3, "address")], ["1 address", "3 addresses"]);
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }

    #[test]
    fn values_of_strangers_are_tamed() {
        assert_eq!(sanitize("c3:17", 40), "c3:17");
        assert_eq!(sanitize("a`b\nc\u{202e}d\u{1b}[31m", 40), "a'b c\u{fffd}d\u{fffd}[31m");
        assert_eq!(lines("a\u{9b}1m\r\nb\u{7f}\n\u{2028}c"), "a\u{fffd}1m\nb\u{fffd}\n\u{fffd}c");
        let long = sanitize(&"0123456789".repeat(1000), 12);
        assert_eq!(long, "01234567…789");
        assert_eq!(long.chars().count(), 12);
    }
}
