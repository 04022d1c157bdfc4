//! Each diagnosis on a run that shows it, and on the nearest one that does not.

mod pairs;
mod scene;
mod states;
mod untrue;
