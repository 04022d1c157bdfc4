//! Serves the pages over a store to a browser on this machine, and writes them as files.
//!
//! - `site`: finds a page, or a file of the store, by its address
//! - `guard`: checks who sent a request, and what it asks for; other pages in the browser and foreign names are rejected
//! - `patience`: limits how long a client may take to read an answer
//! - `export`: writes the same pages as files
//!
//! The server changes nothing in the store, starts nothing, and asks for no password. Anyone who can reach the port can read
//! the store.

mod export;
mod guard;
mod patience;
mod site;

use std::convert::Infallible;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

pub use export::{Exported, export};
pub use guard::Names;
use patience::Patience;
use site::{Opened, Site, SiteAnswer};

use crate::foreign::{self, FileLook};

/// A browser opens six connections. More than this many at once do not come from a browser.
const CONNECTIONS: usize = 64;
const HEAD_LIMIT: Duration = Duration::from_secs(10);
const HEAD_BYTES: usize = 16 << 10;
const HEADERS: usize = 64;
/// A file is sent in parts of this many bytes.
const PART: usize = 64 << 10;

type Body = UnsyncBoxBody<Bytes, io::Error>;

pub struct BoundServer {
    listener: TcpListener,
    site: Arc<Site>,
    names: Arc<Names>,
}

impl BoundServer {
    pub async fn bind(address: SocketAddr, store: &Path, names: Names) -> io::Result<BoundServer> {
        let listener = TcpListener::bind(address).await?;
        Ok(BoundServer { listener, site: Arc::new(Site::new(store, true)), names: Arc::new(names) })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until it is dropped.
    pub async fn run(self) -> Infallible {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        // The store is read once before the first request, which would otherwise wait for it.
        let site = self.site.clone();
        drop(spawn_blocking(move || site.warm()));
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else { continue };
            let Ok((stream, _)) = self.listener.accept().await else {
                // For example, no file descriptors are left. That may pass soon.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (site, names) = (self.site.clone(), self.names.clone());
            tokio::spawn(async move {
                let service = service_fn(move |request| answer(site.clone(), names.clone(), request));
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new())
                    .header_read_timeout(HEAD_LIMIT)
                    .max_buf_size(HEAD_BYTES)
                    .max_headers(HEADERS);
                // A client that leaves during an answer is not an error.
                let _ = http.serve_connection(TokioIo::new(Patience::with(stream)), service).await;
                drop(permit);
            });
        }
    }
}

async fn answer(site: Arc<Site>, names: Arc<Names>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = match guard::check(&request, &names) {
        Ok(path) => path,
        Err(refused) => return Ok(plain(refused.status, refused.why)),
    };
    // Reading a store may take long, and must not block other requests.
    let found = spawn_blocking(move || match site.answer(&path) {
        SiteAnswer::Page(text) => Some(Ok(text)),
        // An unreadable file counts as missing.
        SiteAnswer::File(file) => file_of(file).ok().map(Err),
        SiteAnswer::Nothing => None,
    });
    Ok(match found.await {
        Ok(Some(Ok(text))) => {
            let policy = format!("{}; frame-ancestors 'none'", crate::store::policy());
            with(
                StatusCode::OK,
                "text/html; charset=utf-8",
                &policy,
                Full::new(Bytes::from(text)).map_err(never).boxed_unsync(),
            )
        }
        Ok(Some(Err(file))) => file,
        Ok(None) => plain(StatusCode::NOT_FOUND, "this page does not exist, or no longer exists"),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be created; this is a bug of redjepsen"),
    })
}

fn never(never: Infallible) -> io::Error {
    match never {}
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let body = Full::new(Bytes::from(format!("{text}\n"))).map_err(never).boxed_unsync();
    let mut response = with(status, "text/plain; charset=utf-8", "default-src 'none'", body);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
    }
    response
}

/// redjepsen's pages and drawings are shorter than this. A file is checked as a whole before it is served.
const LONGEST_PAGE: u64 = 16 << 20;

/// The response for a run's file, which any program may have written. Pages and drawings are shown only if they contain only
/// redjepsen's elements. They run redjepsen's scripts and have no network access, not even to the pages here. Other pages are
/// shown as text.
fn file_of(Opened { mut file, bytes, name }: Opened) -> io::Result<Response<Body>> {
    const STILL: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
                         form-action 'none'; frame-ancestors 'none'";
    const TEXT: &str = "text/plain; charset=utf-8";
    let ending = name.rsplit('.').next().unwrap_or_default();
    if let "html" | "svg" = ending
        && bytes <= LONGEST_PAGE
    {
        let mut content = Vec::new();
        (&mut file).take(bytes).read_to_end(&mut content)?;
        let text = std::str::from_utf8(&content).unwrap_or_default();
        let (kind, policy) = match (ending, foreign::page(text)) {
            ("html", FileLook::Ours) => {
                let policy = foreign::policy();
                let alone = format!("sandbox allow-scripts allow-downloads; {policy}; frame-ancestors 'none'");
                ("text/html; charset=utf-8", alone)
            }
            ("html", FileLook::Scripted) => ("text/html; charset=utf-8", STILL.to_string()),
            ("svg", _) if foreign::is_our_drawing(text) => ("image/svg+xml", STILL.to_string()),
            _ => (TEXT, STILL.to_string()),
        };
        return Ok(with(StatusCode::OK, kind, &policy, Full::new(Bytes::from(content)).map_err(never).boxed_unsync()));
    }
    let kind = match ending {
        "png" => "image/png",
        "json" => "application/json",
        "html" | "svg" | "jsonl" | "log" | "toml" | "md" | "txt" | "xml" | "csv" | "edn" | "conf" => TEXT,
        _ => "application/octet-stream",
    };
    let body = if bytes == 0 { Empty::new().map_err(never).boxed_unsync() } else { in_parts(file, bytes) };
    let mut response = with(StatusCode::OK, kind, STILL, body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, bytes.into());
    if kind == "application/octet-stream" {
        headers.insert(CONTENT_DISPOSITION, hyper::header::HeaderValue::from_static("attachment"));
    }
    Ok(response)
}

/// Sends a file with its current length. Data that is appended meanwhile is left out.
fn in_parts(file: std::fs::File, bytes: u64) -> Body {
    let parts = stream::try_unfold((file, bytes), |(mut file, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let read = spawn_blocking(move || {
            let mut part = vec![0; PART.min(usize::try_from(left).unwrap_or(PART))];
            let read = file.read(&mut part)?;
            part.truncate(read);
            io::Result::Ok((file, part))
        });
        let (file, part) = read.await.map_err(io::Error::other)??;
        if part.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let left = left - part.len() as u64;
        Ok(Some((Frame::data(Bytes::from(part)), (file, left))))
    });
    BodyExt::boxed_unsync(StreamBody::new(parts))
}

fn with(status: StatusCode, kind: &'static str, policy: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let fixed = [
        (CACHE_CONTROL, "no-store"),
        (CONTENT_TYPE, kind),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        // No policy forbids DNS prefetching: browsers resolve the host of each link.
        (HeaderName::from_static("x-dns-prefetch-control"), "off"),
    ];
    for (name, value) in fixed {
        headers.insert(name, hyper::header::HeaderValue::from_static(value));
    }
    if let Ok(policy) = policy.parse() {
        headers.insert(HeaderName::from_static("content-security-policy"), policy);
    }
    response
}
