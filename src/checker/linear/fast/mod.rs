//! Checks that need no search, because the object's values say in which order its operations took effect.

mod elements;
mod holds;
mod levels;

mod counter;
pub use counter::counter;
mod fenced_mutex;
pub use fenced_mutex::fenced_mutex;
mod list;
pub use list::list_append;
mod owner_mutex;
pub use owner_mutex::owner_mutex;
mod set;
pub use set::set;
