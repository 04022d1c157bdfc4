//! Helpers for tests of doctor.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use doctor::{Diagnosis, Finding, PREFIX, Request, diagnose, observe};
use remote::{Access, Address, Secret};

pub fn request(urls: &[String]) -> Request {
    Request {
        addresses: urls.iter().map(|url| Address::parse(url, false).unwrap()).collect(),
        sentinel: None,
        access: Access::default(),
        prefix: PREFIX.to_string(),
        limit: Duration::from_secs(2),
    }
}

pub fn with_password(request: Request, user: Option<&str>, password: &str) -> Request {
    let password = Some(Secret::new(password.to_string()));
    Request { access: Access { user: user.map(str::to_string), password, ..request.access }, ..request }
}

/// The diagnosis for a lock with a TTL of this many seconds.
pub async fn asked(request: &Request, ttl: Option<u64>) -> Diagnosis {
    let began = Instant::now();
    let seen = observe(request).await.unwrap();
    let took = began.elapsed();
    assert!(took < Duration::from_millis(2300), "{took:?}");
    let diagnosis = diagnose(seen, ttl.map(Duration::from_secs));
    eprintln!("{}\n{}", diagnosis.headline, doctor::text(&diagnosis, 110));
    diagnosis
}

pub fn finding<'d>(diagnosis: &'d Diagnosis, id: &str) -> Option<&'d Finding> {
    diagnosis.findings.iter().find(|finding| finding.check == id)
}

/// Asserts that nothing printed or written contains the secret.
pub fn assert_silent(diagnosis: &Diagnosis, secret: &str) {
    let json = serde_json::to_string(diagnosis).unwrap();
    let text = doctor::text(diagnosis, 100);
    for shown in [&json, &text, &diagnosis.headline, &format!("{diagnosis:?}")] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// A server that answers each command with the result of a function.
pub fn fake(answer: fn(&str) -> String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut bytes = [0; 65536];
                while let Ok(read @ 1..) = stream.read(&mut bytes) {
                    let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
                    // One reply for each command of a batch.
                    for command in text.split("\r\n*").map(|part| part.trim_start_matches('*')) {
                        let words: Vec<&str> = command.split("\r\n").skip(2).step_by(2).collect();
                        let reply = answer(&words.join(" "));
                        if reply.is_empty() || stream.write_all(reply.as_bytes()).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    format!("redis://{address}")
}
