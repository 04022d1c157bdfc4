//! Connections to servers that already run.
//!
//! - [`Address`]: where a server is; a password in it is rejected
//! - [`Access`]: who speaks to it: user, password, certificates
//! - [`connect`]: a connection, with or without TLS; [`open`] authenticates it too; [`ask`] asks on it
//! - [`Resp`]: what servers answer

mod access;
mod address;
mod dial;
mod resp;
mod tls;

pub use access::{Access, LONGEST_PASSWORD, PASSWORD, Secret};
pub use address::{Address, HOW_TO_GIVE_A_PASSWORD, RequestError};
pub use dial::{CLOSED_TLS, Stream, ask, connect, open, packed};
pub use resp::{NoResp, Resp};
pub use tls::Tls;
