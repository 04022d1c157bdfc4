//! Connections to servers that somebody else runs.
//!
//! - [`Address`]: where a server is; a password in it is rejected
//! - [`Access`]: who speaks to it: user, password, certificates
//! - [`connect`]: a connection, with or without TLS; [`open`] authenticates it too

mod access;
mod address;
mod dial;
mod tls;

pub use access::{Access, HOW_TO_GIVE_A_PASSWORD, Secret, Tls};
pub use address::{Address, RequestError};
pub use dial::{Stream, connect, open, packed};
