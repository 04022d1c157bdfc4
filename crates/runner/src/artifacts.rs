//! Files in a run's folder besides its history: the keys of the nodes, and the logs of members. They are only shown, so missing
//! or invalid ones are left out.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base::files;
use base::members::node_name;
use base::words;
use model::history::{History, NodeChange, RecordedCommand, Sighting};
use model::topology::Program;
use report::{LogLine, RunArtifacts};

const MOST_BYTES: u64 = 64 << 20;
const MOST_LINES: usize = 3000;
/// At most this many characters of a line are shown.
const LONGEST: usize = 240;
/// Time zones differ by multiples of this, in nanoseconds.
const QUARTER: i128 = 900 * 1_000_000_000;

pub(super) fn of(folder: &Path, history: &History) -> RunArtifacts {
    let commands = files::read_inside(&folder.join(RecordedCommand::FILE), MOST_BYTES).unwrap_or_default();
    let commands = RecordedCommand::read(&commands).unwrap_or_default();
    let mut artifacts = RunArtifacts { commands, ..RunArtifacts::default() };
    let path = folder.join(Sighting::FILE);
    if path.symlink_metadata().is_ok() {
        let read = files::read_inside(&path, MOST_BYTES).map_err(|error| error.to_string());
        match read.and_then(|text| Sighting::read(&text).map_err(|error| format!("{}, {error}", Sighting::FILE))) {
            Ok(servers) => artifacts.servers = servers,
            Err(why) => artifacts.unread = Some(words::line(&why, LONGEST)),
        }
    }
    let wall = artifacts.servers.iter().find_map(|sighting| match sighting.saw {
        NodeChange::Watched { wall_us, .. } => Some(i128::from(wall_us?) * 1000 - i128::from(sighting.time)),
        _ => None,
    });
    if let Some(start) = wall {
        artifacts.logs = logs(folder, history, start);
    }
    artifacts
}

/// The log lines of Redis servers during the run. `start` is the beginning of the run in nanoseconds since 1970.
fn logs(folder: &Path, history: &History, start: i128) -> Vec<LogLine> {
    let nodes = history.run.as_ref().map_or(0, |run| run.nodes);
    let mut all = Vec::new();
    for member in (0..nodes).map(node_name) {
        let path = folder.join(&member).join(Program::Redis.log_name());
        let Ok(text) = files::read_inside(&path, MOST_BYTES) else { continue };
        let lines = text.lines().filter_map(read);
        let mut zone = None;
        for (time, said) in lines {
            // The server logs in its time zone, and its first line is from shortly before the run.
            let zone = *zone.get_or_insert((time - start + QUARTER / 2).div_euclid(QUARTER) * QUARTER);
            let Ok(time) = u64::try_from(time - zone - start) else { continue };
            if time <= history.last_time {
                all.push(LogLine { time, member: member.clone(), text: words::line(said, LONGEST) });
            }
        }
    }
    all.sort_by_key(|line| line.time);
    all.truncate(MOST_LINES);
    all
}

/// Parses `12:M 24 Nov 2026 13:12:45.123 * Ready`: the time in nanoseconds since 1970, read as UTC, and the text.
fn read(line: &str) -> Option<(i128, &str)> {
    let (_, rest) = line.split_once(' ')?;
    let mut parts = rest.splitn(5, ' ');
    let (day, month, year, time) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let written = format!("{year}-{month:02}-{day}T{time}Z");
    let at: SystemTime = humantime::parse_rfc3339(&written).ok()?;
    let since = at.duration_since(UNIX_EPOCH).ok()?;
    Some((i128::try_from(since.as_nanos()).ok()?, parts.next()?.trim_start_matches(['*', '#', '-', '.', ' '])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_redis_is_read_and_others_are_left_out() {
        let (time, said) = read("12:M 01 Jan 1970 00:00:01.250 * Ready to accept connections").unwrap();
        assert_eq!((time, said), (1_250_000_000, "Ready to accept connections"));
        for line in
            ["", "a log of something else", "12:M 41 Jan 1970 00:00:01.250 * x", "12:M 01 Xyz 1970 00:00:01 * x"]
        {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
