//! `redjepsen clean`: removes what dead runs left.

use super::{Exit, Failure};
use crate::cluster::{self, CleanOptions, Cleaned};

pub async fn clean(all: bool, images: bool) -> Result<Exit, Failure> {
    let (cleaned, unreachable) = cluster::clean(&CleanOptions { all, images }).await.map_err(Failure::could_not_run)?;
    for run in &cleaned.removed {
        println!("removed run {}: {}", run.run_id, run.names.join(", "));
    }
    for run in &cleaned.kept {
        println!("kept run {}: {}", run.run_id, run.reason);
    }
    for image in &cleaned.images {
        println!("removed image {image}");
    }
    if let Some(error) = unreachable {
        println!("only local runs were looked at: {error}");
    } else if cleaned == Cleaned::default() {
        println!("nothing to clean");
    }
    Ok(Exit::Valid)
}
