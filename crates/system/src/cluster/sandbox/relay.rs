//! The process of a node or Sentinel that stands for an existing server: `redjepsen relay`, which the sandbox starts.
//!
//! It accepts connections at the node's address and hands each to the controller, which has access to the network.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context;

use super::channel_on_stdin;

/// Pause after an error from too many open connections.
const REST: Duration = Duration::from_millis(10);

/// Accepts connections at this port until the controller is gone.
pub fn run(port: u16) -> anyhow::Result<()> {
    let channel =
        channel_on_stdin().context("stdin is not a channel; `redjepsen run --cluster existing` starts the relay")?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    loop {
        match listener.accept() {
            Ok((connection, from)) => channel.send(&from, &[connection.as_fd()])?,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                eprintln!("no connection was accepted: {error}");
                sleep(REST);
            }
        }
    }
}
