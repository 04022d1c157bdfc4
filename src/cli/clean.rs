//! `redjepsen clean`: removes what dead runs left behind.

use super::{Exit, Failure, print};
use crate::cluster::{self, CleanOptions, Cleaned};
use crate::words::line;

/// A line names every container of a run.
const LONGEST: usize = 20_000;

pub async fn clean(all: bool, images: bool) -> Result<Exit, Failure> {
    let (cleaned, unreachable) = cluster::clean(&CleanOptions { all, images, of: None }).await;
    let mut lines = Vec::new();
    lines.extend(cleaned.removed.iter().map(|run| format!("removed run {}: {}", run.run_id, run.names.join(", "))));
    lines.extend(cleaned.kept.iter().map(|run| format!("kept run {}: {}", run.run_id, run.reason)));
    lines.extend(cleaned.images.iter().map(|image| format!("removed image {image}")));
    if let Some(error) = unreachable {
        lines.push(format!("only local runs were looked at: {error}"));
    } else if cleaned == Cleaned::default() {
        lines.push("nothing to clean".to_string());
    }
    print(lines.iter().map(|text| line(text, LONGEST) + "\n").collect::<String>())?;
    if cleaned.failed.is_empty() {
        return Ok(Exit::Valid);
    }
    Err(Failure::could_not_run(format!("not everything could be removed\n{}", cleaned.failed.join("\n"))))
}
