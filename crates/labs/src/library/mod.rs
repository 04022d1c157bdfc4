//! Tries everything on a lock library: which commands it sends, and which scenarios and faults at its own commands break it. A
//! reference lock shows which failures every lock of its kind has.
//!
//! - [`commands`]: the commands in runs without faults, by what their client was doing
//! - [`strikes`]: a scenario for each of these commands and each fault there (`aim`), made of `steps`
//! - [`pairs`]: two of these faults together
//! - [`beside`]: scenarios of the catalogue for a lock with several permits, all but one held by other clients
//! - [`takeovers`]: scenarios at the commands that take over a crashed holder's lock
//! - [`struck`]: what the faults of a run hit, and what that did to the lock
//! - [`releases`]: checks if locks can be released a second time
//! - [`endless`]: keys beside a lock that never expire
//! - [`kind`]: the reference lock of the same kind
//! - [`examined`]: all results, grouped by cause
//! - [`campaign`]: makes the runs; the other modules are pure
//! - [`page`]: the report

mod aim;
pub mod beside;
pub mod campaign;
pub mod commands;
pub mod endless;
pub mod examined;
pub mod kind;
pub mod page;
pub mod pairs;
pub mod releases;
mod steps;
pub mod strikes;
pub mod struck;
pub mod takeovers;
