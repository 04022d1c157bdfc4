//! The same cells on several servers, side by side. Cells with a difference come first.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{CellAccount, Shown, distinct};
use base::words::{self, plural};
use model::topology::NamedServer;
use suite::matrix::{BETWEEN_VERSIONS, Matrix};

/// At most this many characters of a reason are shown.
const MOST_OF_A_REASON: usize = 300;

/// A column for each server, and a row for each cell that was planned on several servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServersAccount {
    /// In the order of the suite.
    pub servers: Vec<ServerSeen>,
    /// Rows with a difference come first.
    pub rows: Vec<ServerRow>,
    /// A line for each difference, and the number of rows without one.
    pub lines: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerSeen {
    /// The name in the suite: `valkey:9.1`.
    pub name: String,
    /// The name that it reported: `valkey 9.1.2`. None if it did not run.
    pub version: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerRow {
    /// `redlock under pause`, and the other common options of its cells.
    pub title: String,
    /// True if its cells have different results.
    pub differs: bool,
    /// The cell on each server, as an index in the suite's cells.
    pub cells: Vec<Option<usize>>,
}

impl ServersAccount {
    pub const TITLE: &'static str = "Servers side by side";

    /// None if no cells differ only in their server.
    pub(super) fn of(matrix: &Matrix, cells: &[CellAccount]) -> Option<ServersAccount> {
        let placed: Vec<(usize, String, &str)> = (cells.iter().enumerate())
            .filter_map(|(place, cell)| {
                let (server, rest) = server_of(&cell.with)?;
                let rest = if rest.is_empty() { String::new() } else { format!(" with {rest}") };
                Some((place, format!("{} under {}{rest}", cell.workload, cell.nemesis), server))
            })
            .collect();
        let servers = distinct(placed.iter().map(|(_, _, server)| *server));
        let places: BTreeMap<(&str, &str), usize> =
            placed.iter().map(|(place, title, server)| ((title.as_str(), *server), *place)).collect();
        let mut rows = Vec::new();
        for title in distinct(placed.iter().map(|(_, title, _)| title.as_str())) {
            let on = |server: &String| places.get(&(title.as_str(), server.as_str())).copied();
            let row: Vec<Option<usize>> = servers.iter().map(on).collect();
            let mut shown =
                row.iter().flatten().map(|place| cells[*place].shown).filter(|shown| *shown != Shown::NotRun);
            let first = shown.next();
            rows.push(ServerRow { title, differs: shown.any(|shown| Some(shown) != first), cells: row });
        }
        rows.retain(|row| row.cells.iter().flatten().count() > 1);
        rows.sort_by_key(|row| !row.differs);
        let lines = lines(&servers, &rows, cells);
        let servers = servers.into_iter().map(|name| ServerSeen { version: version(matrix, &name), name }).collect();
        (!rows.is_empty()).then_some(ServersAccount { servers, rows, lines })
    }
}

/// True if any cells differ in their server.
pub(super) fn are_compared(matrix: &Matrix) -> bool {
    distinct(matrix.cells.iter().filter_map(|cell| server_of(&cell.with)).map(|(server, _)| server)).len() > 1
}

/// The server in the options of a cell, and the other options.
fn server_of(with: &str) -> Option<(&str, String)> {
    let (servers, others): (Vec<&str>, Vec<&str>) = with.split(", ").partition(|option| option.starts_with("server "));
    match servers[..] {
        [server] => Some((server.trim_start_matches("server "), others.join(", "))),
        _ => None,
    }
}

/// The name and version that the server of this name reported.
fn version(matrix: &Matrix, name: &str) -> Option<String> {
    let named: NamedServer = name.parse().ok()?;
    let is_it = |said: &&str| said.split_once(' ').is_some_and(|(name, version)| named.means(name, version));
    matrix.versions.get("server")?.split(BETWEEN_VERSIONS).find(is_it).map(str::to_string)
}

fn lines(servers: &[String], rows: &[ServerRow], cells: &[CellAccount]) -> Vec<String> {
    let line = |row: &ServerRow| {
        let on: Vec<(&str, &CellAccount)> = (servers.iter().zip(&row.cells))
            .filter_map(|(server, place)| Some((server.as_str(), &cells[(*place)?])))
            .collect();
        let kinds = [Shown::Broken, Shown::Held, Shown::Unknown, Shown::NotRun].into_iter().filter_map(|kind| {
            let names: Vec<&str> =
                on.iter().filter(|(_, cell)| cell.shown == kind).map(|(server, _)| *server).collect();
            let why = why(kind, on.iter().filter(|(_, cell)| cell.shown == kind).map(|(_, cell)| *cell));
            (!names.is_empty()).then(|| format!("{} on {}{why}", kind.word(), names.join(", ")))
        });
        format!("{}: {}", row.title, kinds.collect::<Vec<_>>().join("; "))
    };
    let is_proven =
        |place: &Option<usize>| place.is_some_and(|place| matches!(cells[place].shown, Shown::Broken | Shown::Held));
    let same = rows.iter().filter(|row| !row.differs && row.cells.iter().all(is_proven)).count();
    let all = format!("{} had the same result on each of {}", plural(same as u64, "cell"), servers.join(", "));
    rows.iter().filter(|row| row.differs).map(line).chain((same > 0).then_some(all)).collect()
}

/// The reason for an unknown result, such as a fault that does not reach the server, from the first such run.
fn why<'c>(shown: Shown, mut cells: impl Iterator<Item = &'c CellAccount>) -> String {
    let run = cells.find_map(|cell| cell.alarming_runs().chain(&cell.runs).next());
    run.filter(|_| shown == Shown::Unknown)
        .map_or(String::new(), |run| format!(" ({})", words::line(&run.summary, MOST_OF_A_REASON)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_one_server_or_none() {
        assert_eq!(server_of("server valkey:9.1"), Some(("valkey:9.1", String::new())));
        assert_eq!(server_of("ttl 1s, server redis:7.0, keys 2"), Some(("redis:7.0", "ttl 1s, keys 2".to_string())));
        for without in ["", "ttl 1s", "redis-server /x", "server redis://a, server redis://b"] {
            assert_eq!(server_of(without), None, "{without}");
        }
    }
}
