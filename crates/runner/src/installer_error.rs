//! Extracts the error message from a failed installer's output: the lines with the reason, then the last lines. Installers use
//! colours, and many end with advice that would otherwise hide the reason.

use anstream::adapter::strip_str;

use base::words;

const LAST_LINES: usize = 10;
/// At most this many lines are shown from the line with the reason on.
const WHY_LINES: usize = 5;
/// The longest line that is shown: pip lists all existing versions.
const LONGEST_LINE: usize = 500;
/// How pip, npm, Maven, Go, cargo and compilers begin the line with the reason.
const WHY: [&str; 5] = ["ERROR", "Error", "npm error", "error:", "error["];

/// How they report that a registry cannot be reached. pip does so before its last line.
const NETWORK: [&str; 18] = [
    "Connection refused",
    "connection refused",
    "ECONNREFUSED",
    "Connection reset",
    "ECONNRESET",
    "Network is unreachable",
    "network is unreachable",
    "No route to host",
    "no route to host",
    "name resolution",
    "Name or service not known",
    "ENOTFOUND",
    "EAI_AGAIN",
    "no such host",
    "Could not resolve",
    "timed out",
    "ETIMEDOUT",
    "CERTIFICATE_VERIFY_FAILED",
];

/// A message without a remedy, and the remedy.
const REMEDIES: [(&str, &str); 1] = [("No module named pip", "Debian and Ubuntu: apt install python3-pip")];

/// Why an installer failed, in its own words. Escape sequences, control characters and earlier output are removed. A remedy
/// follows if the installer gives none.
pub(super) fn why(said: &[u8]) -> String {
    let why = own_words(said);
    let remedy = REMEDIES.iter().find(|(message, _)| why.contains(message));
    remedy.map_or_else(|| why.clone(), |(_, remedy)| format!("{why}\n{remedy}"))
}

fn own_words(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    // A carriage return restarts a line, as in progress bars.
    let lines: Vec<String> = text.split(['\n', '\r']).map(plain).filter(|line| !line.trim().is_empty()).collect();
    let tail = lines.len().saturating_sub(LAST_LINES);
    let Some(first) = lines.iter().position(|line| WHY.iter().any(|word| line.contains(word))) else {
        return lines[tail..].join("\n");
    };
    let end = (first + WHY_LINES).min(lines.len());
    let rest = tail.max(end);
    let gap = if rest > end { vec!["…".to_string()] } else { Vec::new() };
    let of_network = |line: &&String| NETWORK.iter().any(|word| line.contains(word));
    let network: Vec<String> = lines[..first].iter().rfind(of_network).cloned().into_iter().collect();
    [&network, &lines[first..end], &gap, &lines[rest..]].concat().join("\n")
}

/// A line as a terminal would show it.
fn plain(text: &str) -> String {
    // A single character may replace the two that begin an escape sequence.
    let text = text.replace('\u{9b}', "\u{1b}[");
    words::line(&strip_str(&text).to_string(), LONGEST_LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_without_pip_gets_a_remedy() {
        let said = why(b"/usr/bin/python3.11: No module named pip\n");
        assert_eq!(said, "/usr/bin/python3.11: No module named pip\nDebian and Ubuntu: apt install python3-pip");
        assert_eq!(why(b"No module named requests\n"), "No module named requests");
    }

    #[test]
    fn the_lines_that_say_why_come_first() {
        let advice: String = (1..=20).map(|number| format!("[ERROR] advice {number}\n")).collect();
        let maven = format!("Scanning\n\u{1b}[0m\u{1b}[31m[ERROR] no artifact mylock:1.2\u{1b}[0m\n{advice}");
        let told = why(maven.as_bytes());
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[..2], ["[ERROR] no artifact mylock:1.2", "[ERROR] advice 1"]);
        assert_eq!(lines[WHY_LINES], "…");
        assert_eq!(lines[WHY_LINES + 1..].len(), LAST_LINES);
        assert_eq!(lines.last(), Some(&"[ERROR] advice 20"));

        let npm = "npm warn old\nnpm error code ETARGET\nnpm error notarget no mylock@1.2\n";
        assert_eq!(why(npm.as_bytes()), "npm error code ETARGET\nnpm error notarget no mylock@1.2");
    }

    #[test]
    fn network_refusal_before_the_error_comes_first() {
        let pip = "Looking in indexes: http://127.0.0.1:9\nWARNING: Retrying after connection broken by \
                   'NewConnectionError(Failed to establish a new connection: [Errno 111] Connection refused)': /redis/\n\
                   ERROR: Could not find a version that satisfies the requirement redis==8.1.0 (from versions: none)\n";
        let told = why(pip.as_bytes());
        assert!(told.starts_with("WARNING: Retrying") && told.contains("Connection refused"), "{told}");
        assert!(told.contains("\nERROR: Could not find a version") && !told.contains("Looking in"), "{told}");
        let found = "Looking in indexes: http://127.0.0.1:9\nERROR: No matching distribution found for redis==99\n";
        assert_eq!(why(found.as_bytes()), "ERROR: No matching distribution found for redis==99");
    }

    #[test]
    fn without_such_a_line_it_is_the_last_ones() {
        let said: String = (1..=12).map(|number| format!("line {number}\n\n")).collect();
        let told = why(said.as_bytes());
        assert!(told.starts_with("line 3\n") && told.ends_with("line 12"), "{told}");
        assert_eq!(why(b""), "");
        assert_eq!(why(b"\x1b[0m\n"), "");
    }

    #[test]
    fn nothing_of_it_can_steer_a_terminal() {
        for (said, told) in [
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;a title\u{7}shown", "shown"),
            ("\u{1b}]8;;place\u{1b}\\link", "link"),
            ("\u{9b}2Jshown\u{8}\u{0}", "shown"),
            ("10 %\r100 %", "10 %\n100 %"),
            ("right\u{202e}left", "right\u{fffd}left"),
            ("cut\u{1b}", "cut"),
            ("cut\u{1b}[", "cut"),
        ] {
            assert_eq!(why(said.as_bytes()), told, "{said:?}");
        }
        let long = "x".repeat(3000);
        assert_eq!(why(long.as_bytes()).chars().count(), LONGEST_LINE);
    }
}
