//! Checks who sent a request, and what it asks for.
//!
//! Every program of this machine can reach the port, and so can every page in its browsers. Two checks keep other sites' pages
//! out. First, a request must name this machine by an address or as `localhost`, because a foreign name may point here (DNS
//! rebinding). Second, requests that a page of another origin sends by itself are rejected. Users may follow a link from
//! anywhere.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{Method, Request, StatusCode};
use percent_encoding::percent_decode_str;

use base::files::is_plain;

/// The server's names, besides any address and `localhost`.
#[derive(Clone, Debug, Default)]
pub struct Names(pub Vec<String>);

#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    pub status: StatusCode,
    pub why: &'static str,
}

fn refused<T>(status: StatusCode, why: &'static str) -> Result<T, Refused> {
    Err(Refused { status, why })
}

/// The requested path without its first slash. It cannot lead out of a folder. Empty for the first page.
pub fn check<B>(request: &Request<B>, names: &Names) -> Result<String, Refused> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD: nothing here can be changed");
    }
    let (uri, headers) = (request.uri(), request.headers());
    if uri.authority().is_some() {
        return refused(StatusCode::BAD_REQUEST, "this server is not a proxy");
    }
    let host = one(headers, HOST)?.filter(|host| is_ours(host, names));
    let Some(host) = host else {
        return refused(
            StatusCode::MISDIRECTED_REQUEST,
            "use an address or `localhost` as the host, or start with --name",
        );
    };
    if one(headers, ORIGIN)?.is_some_and(|origin| origin != format!("http://{host}")) {
        return refused(StatusCode::FORBIDDEN, "refused: the request comes from a page of another origin");
    }
    let fetched = |name: &'static str| one(headers, HeaderName::from_static(name));
    let from_elsewhere = fetched("sec-fetch-site")?.is_some_and(|site| !["same-origin", "none"].contains(&site));
    let is_followed = fetched("sec-fetch-mode")? == Some("navigate") && fetched("sec-fetch-dest")? == Some("document");
    if from_elsewhere && !is_followed {
        return refused(StatusCode::FORBIDDEN, "refused: the request comes from a page of another origin");
    }
    let Ok(path) = percent_decode_str(uri.path()).decode_utf8() else {
        return refused(StatusCode::BAD_REQUEST, "the path is not UTF-8");
    };
    match path.strip_prefix('/') {
        Some("") => Ok(String::new()),
        Some(path) if is_plain(path) => Ok(path.to_string()),
        _ => refused(StatusCode::NOT_FOUND, "this page does not exist"),
    }
}

/// The value of a header. None if it is absent; an error if it is there twice.
fn one(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Refused> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(_), Some(_)) => refused(StatusCode::BAD_REQUEST, "a header occurs twice"),
        (Some(value), None) => match value.to_str() {
            Ok(value) => Ok(Some(value)),
            Err(_) => refused(StatusCode::BAD_REQUEST, "a header is not text"),
        },
        (None, _) => Ok(None),
    }
}

/// True if a host, with or without its port, is an address, `localhost`, or one of the names.
fn is_ours(host: &str, names: &Names) -> bool {
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let inner = without_port.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let is_address = match inner {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => without_port.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4()),
    };
    is_address
        || without_port.eq_ignore_ascii_case("localhost")
        || names.0.iter().any(|name| without_port.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_localhost_are_ours_and_names_of_others_are_not() {
        let names = Names(vec!["ci.example.org".into()]);
        for host in [
            "127.0.0.1:7007",
            "127.0.0.1",
            "localhost:1",
            "LOCALHOST",
            "[::1]:7007",
            "10.0.0.7:80",
            "ci.example.org:7007",
        ] {
            assert!(is_ours(host, &names), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:7007",
            "evil.example:7007",
            "localhost:evil",
            "::1",
            "[::1",
            "[evil]",
            "127.0.0.1:80:80",
            "xlocalhost",
            "0x7f.1",
            "ci.example.org.evil",
        ] {
            assert!(!is_ours(host, &names), "{host}");
        }
    }
}
