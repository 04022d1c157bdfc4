//! `redjepsen serve`: serves the pages over a store.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::console::{Exit, Failure, print, tell};
use super::flags::from_to;
use super::progress::CONSOLE;
use base::words::{count, line, plural};
use report::serve::{BoundServer, Names, export};
use runner::signals;

const PORT: u16 = 7007;

#[derive(Debug, Args)]
pub struct ServeFlags {
    /// The store to show
    #[arg(default_value = "store")]
    store: PathBuf,
    /// The same, as in other commands
    #[arg(long = "store", id = "store-option", value_name = "STORE", conflicts_with = "store", hide = true)]
    store_option: Option<PathBuf>,
    /// Port to listen on; 0 chooses a free port
    #[arg(long, default_value_t = PORT, value_parser = from_to(0, Some(u16::MAX)))]
    port: u16,
    /// Address to listen on; everyone who can reach it can read the store
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_parser = ip_address)]
    address: IpAddr,
    /// Host name that browsers may use to reach this server, in addition to its IP addresses
    #[arg(long)]
    name: Vec<String>,
    /// Write the same pages as files into this folder, and serve nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["port", "address", "name"])]
    export: Option<PathBuf>,
}

fn ip_address(text: &str) -> Result<IpAddr, String> {
    let with_port = text.parse::<SocketAddr>().is_ok();
    text.parse().map_err(|_| match with_port {
        true => "expected an IP address without a port; give the port with --port".to_string(),
        false => "expected an IP address, such as 127.0.0.1".to_string(),
    })
}

pub async fn serve(mut flags: ServeFlags) -> Result<Exit, Failure> {
    flags.store = flags.store_option.take().unwrap_or(flags.store);
    if !flags.store.is_dir() {
        return Err(Failure::arguments(format!(
            "there is no folder {}. A run creates it; to show another store, use `redjepsen serve FOLDER`",
            flags.store.display()
        )));
    }
    if let Some(into) = &flags.export {
        let (interrupt, _leftovers) = signals::listen(CONSOLE).map_err(Failure::could_not_run)?;
        let done = export(&flags.store, into, &|| interrupt.is_raised()).map_err(Failure::could_not_run)?;
        let (pages, files) = (plural(done.pages, "page"), plural(done.files, "file"));
        if let Some(first) = done.left_out.first() {
            let others = count(done.left_out.len() as u64 - 1);
            let first = line(first, 100);
            tell(&format!(
                "redjepsen: left out, since no file in that folder can have such a name: {first}, and {others} others"
            ));
        }
        let megabytes = count(done.bytes.div_ceil(1_000_000));
        print(format!("{}  {pages} and {files}, {megabytes} MB\n", into.join("index.html").display()))?;
        return Ok(Exit::Valid);
    }
    let address = SocketAddr::new(flags.address, flags.port);
    let server = BoundServer::bind(address, &flags.store, Names(flags.name)).await.map_err(|error| {
        let free = "--port 0 takes a free port";
        Failure::could_not_run(format!("{address}: {error}; {free}"))
    })?;
    let address = server.address().map_err(Failure::could_not_run)?;
    if !address.ip().is_loopback() {
        tell("redjepsen: warning: everyone who can reach this address can read the store; there is no password");
    }
    print(format!("{} at http://{address}/ (press Ctrl-C to stop)\n", flags.store.display()))?;
    tokio::select! {
        never = server.run() => match never {},
        stopped = tokio::signal::ctrl_c() => stopped.map(|()| Exit::Valid).map_err(Failure::could_not_run),
    }
}
