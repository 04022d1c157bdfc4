//! `redjepsen image`: builds an image for engines that run a suite in shards without a registry, such as Docker Swarm.

use super::console::{Exit, Failure, print};
use system::cluster::Docker;

/// Builds the image unless one with these files exists. Prints only its name, for `$(redjepsen image)`.
pub async fn image() -> Result<Exit, Failure> {
    let docker = Docker::connect().await.map_err(Failure::could_not_run)?;
    let image = docker.machine_image().await.map_err(Failure::could_not_run)?;
    print(format!("{}\n", image.name))?;
    Ok(Exit::Valid)
}
