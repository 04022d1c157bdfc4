//! What becomes of a lock library under everything that there is to try: what it sends, which scenarios and which strikes at
//! its own commands break it, and whether they break every lock of its kind.
//!
//! - [`commands`]: the commands of runs without faults, by what their client was doing
//! - [`strikes`]: a scenario for each of these commands and each thing that can go wrong there (`aim`), made of `steps`; [`pairs`]: two of
//!   them together
//! - [`beside`]: scenarios of the catalogue for a lock of which others have all permits but one
//! - [`takeovers`]: scenarios at the commands that only a takeover of a dead holder's lock sends
//! - [`struck`]: what the faults of a run struck, and what that did to the lock
//! - [`releases`]: whether locks can be given back a second time
//! - [`endless`]: keys beside a lock that never expire
//! - [`kind`]: a lock of ours that is of the same kind, to compare with
//! - [`examined`]: what was tried, put together by cause
//! - [`campaign`]: makes the runs; the others are pure
//! - [`page`]: the answer for people

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
