//! Servers, real and simulated, for both kinds of tests.

// Neither kind uses all of it.
#![allow(dead_code)]

pub mod network;
pub mod real;
pub mod sharded;
pub mod simulated;
pub mod watched;

/// How long the first answer in these bytes is; None if it is not whole.
pub fn reply_length(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let number = || std::str::from_utf8(&bytes[1..end - 2]).unwrap().parse::<i64>().unwrap();
    let length = match bytes[0] {
        b'$' if number() >= 0 => end + number() as usize + 2,
        b'*' => (0..number().max(0)).try_fold(end, |at, _| Some(at + reply_length(&bytes[at..])?))?,
        _ => end,
    };
    (length <= bytes.len()).then_some(length)
}

/// A request as clients send it.
pub fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}
