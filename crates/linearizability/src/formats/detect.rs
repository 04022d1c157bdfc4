//! Detects the notation of a history from its beginning.

use super::{Format, json};

/// The format of data that begins with `window`. None if the window is too short to decide; an error if no format fits. `whole`
/// means that no data follow the window.
pub(super) fn detect(window: &[u8], whole: bool) -> Option<Result<Format, String>> {
    let mut bytes = window.iter().copied().filter(|byte| !byte.is_ascii_whitespace());
    let Some(first) = bytes.next() else {
        return whole.then(|| {
            Err(if window.is_empty() {
                "the file is empty; expected a history with one operation per line"
            } else {
                "the file is blank"
            }
            .into())
        });
    };
    let then = [bytes.next(), bytes.next()];
    if then.contains(&None) && !whole {
        return None;
    }
    Some(match (first, then) {
        (b'{', [Some(b'"' | b'}'), _]) => return first_line(window, whole),
        (b'[', [Some(b'{'), Some(b'"')]) => {
            Err("a JSON array; expected one object per line (to convert, use jq -c '.[]')".into())
        }
        (b'{' | b'#' | b';' | b'(', _) | (b'[', [Some(b'{' | b'#' | b';' | b']' | b'('), _]) => Ok(Format::Edn),
        _ => Ok(Format::Log),
    })
}

/// JSON; a redjepsen run if it begins with a run's header.
fn first_line(window: &[u8], whole: bool) -> Option<Result<Format, String>> {
    let start = window.trim_ascii_start();
    let line = match memchr::memchr(b'\n', start) {
        Some(length) => &start[..length],
        None if whole => start,
        None => return None,
    };
    let tree = str::from_utf8(line).ok().and_then(|text| json::parse(text).ok());
    let ours = tree.is_some_and(|tree| json::type_of(&tree) == Some("run"));
    Some(Ok(if ours { Format::Run } else { Format::Json }))
}
