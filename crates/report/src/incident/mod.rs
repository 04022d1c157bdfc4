//! The drawing of one incident, in the style of Kleppmann's diagrams: a lane per client, the resource below, time
//! running to the right, and the moment when the lock expired.

mod draw;
mod painted;
pub mod scene;

pub use draw::{draw, paint};
pub use scene::Scene;
