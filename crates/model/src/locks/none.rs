//! No lock at all: every client always holds it. Runs without a lock show the behaviour of the resource alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{About, LockOptions, LockTable};

pub(super) const ABOUT: About =
    About { name: "none", called: "Running without a lock", on_one_key: true, expires: false, ..About::OF_ITS_OWN };

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoOptions {}

impl LockTable for NoOptions {
    fn resolve(&self, _: Duration) -> Result<LockOptions, String> {
        Ok(LockOptions::default())
    }

    fn describe(&self) -> String {
        String::new()
    }
}
