//! `redjepsen clean`: removes what dead runs left.

use super::{Exit, Failure};
use crate::cluster::{CleanOptions, Cleaned, Docker};

pub async fn clean(all: bool, images: bool) -> Result<Exit, Failure> {
    let docker = Docker::connect().await.map_err(Failure::could_not_run)?;
    let cleaned = docker.clean(&CleanOptions { all, images }).await.map_err(Failure::could_not_run)?;
    for run in &cleaned.removed {
        println!("removed run {}: {}", run.run_id, run.names.join(", "));
    }
    for run in &cleaned.kept {
        println!("kept run {}: {}", run.run_id, run.reason);
    }
    for image in &cleaned.images {
        println!("removed image {image}");
    }
    if cleaned == Cleaned::default() {
        println!("nothing to clean");
    }
    Ok(Exit::Valid)
}
