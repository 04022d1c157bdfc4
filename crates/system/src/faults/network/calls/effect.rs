//! The effect of a command, judged by its name, keys and answer.
//!
//! A script's answer means whatever its author chose: 1 or nil is a success in one library and a refusal in another. So only an
//! error shows that a script did nothing; its answer is still reported.

use super::super::resp::RespValue;
use base::redis_commands::{does_nothing_at_nil, does_nothing_at_zero, runs_a_script};
use model::history::Command;

/// At most this many characters of an answer are shown.
const SHOWN: usize = 40;

/// The keys of a command, whose name is in capitals. Of most commands, only the first key matters.
pub(super) fn keys_of(command: &str, words: &[Vec<u8>]) -> Vec<String> {
    let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
    if matches!(command, "WAIT" | "WAITAOF") {
        return Vec::new();
    }
    if !runs_a_script(command) {
        return words.get(1).map(text).into_iter().collect();
    }
    let number = words.get(2).and_then(|number| text(number).parse::<usize>().ok()).unwrap_or(0);
    words.iter().skip(3).take(number).map(text).collect()
}

/// True if an answer says that a command, in capitals, was not carried out, or had nothing to do.
pub(super) fn did_nothing(meant: &Command, command: &str, answer: &RespValue) -> bool {
    if *meant == Command::Any {
        return false;
    }
    match (answer.kind, answer.head.as_slice()) {
        (b'-' | b'!', _) => true,
        // A transaction was not carried out, because a watched key had changed.
        (b'*', b"*-1") => true,
        (b'$', b"$-1") | (b'_', _) => does_nothing_at_nil(command),
        (b':', b":0") => does_nothing_at_zero(command),
        _ => false,
    }
}

/// An answer in a few words, for messages.
pub(super) fn shown(answer: &RespValue) -> String {
    let text = |bytes: &[u8]| -> String { String::from_utf8_lossy(bytes).chars().take(SHOWN).collect() };
    match (answer.kind, answer.head.as_slice()) {
        (_, b"$-1" | b"*-1") | (b'_', _) => "nothing".to_string(),
        (b'*' | b'~' | b'%', _) => "a list".to_string(),
        (b'!', _) => format!("the error {}", answer.words.first().map_or(String::new(), |word| text(word))),
        (b'$' | b'=', _) => format!("\"{}\"", answer.words.first().map_or(String::new(), |word| text(word))),
        (b'-', head) => format!("the error {}", text(head.get(1..).unwrap_or_default())),
        (_, head) => text(head.get(1..).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::resp::Scanner;
    use super::*;
    use model::fault_kinds::names_a_key_of_the_run;

    fn answer(reply: &str) -> RespValue {
        Scanner::default().read(reply.as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn a_refusal_is_told_from_what_was_done() {
        let nothing = |command: &str, reply: &str| did_nothing(&Command::Write, command, &answer(reply));
        for (command, reply) in [
            ("SET", "$-1\r\n"),
            ("SET", "_\r\n"),
            ("SETNX", ":0\r\n"),
            ("DEL", ":0\r\n"),
            ("PEXPIRE", ":0\r\n"),
            ("EVALSHA", "-NOSCRIPT No matching script.\r\n"),
            ("EVAL", "!5\r\nERR x\r\n"),
        ] {
            assert!(nothing(command, reply), "{command} {reply}");
        }
        for (command, reply) in [
            ("SET", "+OK\r\n"),
            ("SET", "$3\r\nold\r\n"),
            ("SETNX", ":1\r\n"),
            ("INCRBY", ":0\r\n"),
            ("HSET", ":0\r\n"),
            ("EVAL", ":0\r\n"),
            ("EVAL", "$-1\r\n"),
        ] {
            assert!(!nothing(command, reply), "{command} {reply}");
        }
        assert!(!did_nothing(&Command::Any, "SET", &answer("-ERR no\r\n")), "any command, whatever becomes of it");
    }

    #[test]
    fn keys_of_operations_are_told_from_a_librarys_others() {
        let keys = |words: &str| {
            let words: Vec<Vec<u8>> = words.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            keys_of(&String::from_utf8_lossy(&words[0]), &words)
        };
        assert_eq!(keys("SET lock:k0 token NX"), ["lock:k0"]);
        assert_eq!(keys("EVALSHA abc 2 queue lock:k0 token"), ["queue", "lock:k0"]);
        assert_eq!(keys("EVAL abc 0 lock:k0"), [""; 0], "an argument");
        assert_eq!(keys("PUBLISH"), [""; 0]);
        assert_eq!(keys("WAIT 1 1000"), [""; 0], "a number of replicas");
        for key in ["k0", "lock:k12", "redisson_lock__channel:{lock:k0}", "rq:lock:k0"] {
            assert!(names_a_key_of_the_run(key), "{key}");
        }
        for key in ["", "heartbeat", "lock", "symfony_check_support_time", "tok0", "k"] {
            assert!(!names_a_key_of_the_run(key), "{key}");
        }
    }

    #[test]
    fn answers_are_told_in_a_few_words() {
        for (reply, words) in [
            ("+OK\r\n", "OK"),
            (":1\r\n", "1"),
            ("$-1\r\n", "nothing"),
            ("$3\r\nabc\r\n", "\"abc\""),
            ("*1\r\n:1\r\n", "a list"),
            ("-NOSCRIPT No matching script.\r\n", "the error NOSCRIPT No matching script."),
        ] {
            assert_eq!(shown(&answer(reply)), words, "{reply}");
        }
    }
}
