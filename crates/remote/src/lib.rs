//! Connections to servers that already run.
//!
//! - [`Address`]: the address of a server; a password in it is rejected
//! - [`Access`]: the user, the password and the certificates
//! - [`connect`]: connects, with or without TLS; [`open`] also authenticates; [`ask`] sends a command
//! - [`Resp`]: the replies of servers

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
