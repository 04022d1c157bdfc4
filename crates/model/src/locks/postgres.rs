//! `SELECT … FOR UPDATE` of the row that is the resource. The client locks and writes in one transaction, so there is no separate
//! acquisition: see `client`.

use super::About;
use crate::topology::Program;

pub(super) const ABOUT: About = About {
    name: "postgres",
    called: "The row lock in PostgreSQL",
    program: Program::Postgres,
    expires: false,
    ..About::OF_ITS_OWN
};
