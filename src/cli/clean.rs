//! `redjepsen clean`: removes what dead runs left behind.

use super::{Exit, Failure, print};
use crate::cluster::{self, CleanOptions, Cleaned};

pub async fn clean(all: bool, images: bool) -> Result<Exit, Failure> {
    let (cleaned, unreachable) = cluster::clean(&CleanOptions { all, images }).await.map_err(Failure::could_not_run)?;
    let mut lines = Vec::new();
    lines.extend(cleaned.removed.iter().map(|run| format!("removed run {}: {}", run.run_id, run.names.join(", "))));
    lines.extend(cleaned.kept.iter().map(|run| format!("kept run {}: {}", run.run_id, run.reason)));
    lines.extend(cleaned.images.iter().map(|image| format!("removed image {image}")));
    if let Some(error) = unreachable {
        lines.push(format!("only local runs were looked at: {error}"));
    } else if cleaned == Cleaned::default() {
        lines.push("nothing to clean".to_string());
    }
    print(lines.join("\n") + "\n")?;
    Ok(Exit::Valid)
}
