//! Each diagnosis on a run that shows it, and on the most similar run that does not.

mod pairs;
mod scene;
mod states;
mod untrue;
