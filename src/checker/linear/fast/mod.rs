//! Checks that need no search, because the object's values say in which order its operations took effect.

mod holds;

mod fenced_mutex;
pub use fenced_mutex::fenced_mutex;
mod owner_mutex;
pub use owner_mutex::owner_mutex;
