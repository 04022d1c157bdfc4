//! `redjepsen image`: an image for engines that run a suite in parts, such as Docker Swarm, where no registry has one.

use super::console::{Exit, Failure, print};
use system::cluster::Docker;

/// Makes the image if there is none of these files, and prints its name alone, for `$(redjepsen image)`.
pub async fn image() -> Result<Exit, Failure> {
    let docker = Docker::connect().await.map_err(Failure::could_not_run)?;
    let image = docker.machine_image().await.map_err(Failure::could_not_run)?;
    print(format!("{}\n", image.name))?;
    Ok(Exit::Valid)
}
