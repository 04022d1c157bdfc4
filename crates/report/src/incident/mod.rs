//! The drawing of one incident, in the style of Kleppmann's diagrams. It has a lane per client and the resource below. Time
//! runs to the right, and a line marks the moment at which the lock expired.

mod draw;
mod painted;
pub mod scene;

pub use draw::{draw, paint};
pub use scene::Scene;
