//! Refused files, with the line and the message.

use super::{gzip, load, zstd};

/// Expects the bytes to be refused at this line for this reason, both plain and compressed.
fn refused(bytes: impl AsRef<[u8]>, line: u64, reason: &str) {
    let bytes = bytes.as_ref();
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]);
    for packed in [bytes.to_vec(), gzip(bytes), zstd(bytes)] {
        let error = load(&packed).err().unwrap_or_else(|| panic!("accepted: {shown}"));
        let place = if line == 0 { "file: ".to_string() } else { format!("file, line {line}: ") };
        assert!(error.starts_with(&place), "{error}\n{shown}");
        assert!(error.contains(reason), "{error}\n{shown}");
        assert!(error.len() < 500, "{error}");
    }
}

const KEYED: &str = "a key with its value, as jepsen.independent writes them; to read such values, use --independent";

#[test]
fn events_that_make_no_history_are_refused_in_every_notation() {
    // Each case is lines of `process type f value` in EDN; the last line is the wrong one.
    for (lines, reason) in [
        (
            &["0 invoke read nil", "0 invoke read nil"][..],
            "starts an operation before its operation of line 1 has completed",
        ),
        (&["0 invoke read nil", "1 ok read 1"], "process 1 completes an operation that it did not invoke"),
        (&["0 invoke read nil", "0 ok read 1", "0 ok read 1"], "completes an operation that it did not invoke"),
        (
            &["0 invoke read nil", "0 ok write 1"],
            "the operation invoked at line 1 is `read`, but its completion says `write`",
        ),
        (
            &["0 invoke write 1", "0 info write 1", "0 invoke read nil"],
            "starts an operation after its operation of line 1 ended",
        ),
        (
            &["0 invoke write 1", "0 info write 1", "0 ok write 1"],
            "starts an operation after its operation of line 1 ended",
        ),
        (&["0 invoke write 1", "0 ok write 2"], "the completion and its invocation have different values"),
        (&["0 invoke cas [1 2]", "0 ok cas [1 3]"], "the completion and its invocation have different values"),
        (&["0 invoke cas [1 2]", "0 fail cas [2 2]"], "the completion and its invocation have different values"),
        (&["0 invoke cas [1 2]", "0 ok cas 1"], "the completion and its invocation have different values"),
        (&["0 invoke cas [1 2 3]"], "the value of a cas must be [from, to]"),
        (&["0 invoke cas 1"], "the value of a cas must be [from, to]"),
        (&["0 invoke cas nil"], "the value of a cas must be [from, to]"),
        (&["0 invoke rmw 1"], "the value of an rmw must be [old, new]"),
        (&["0 invoke rmw [nil 1]", "0 ok rmw [nil 2]"], "wrote a value that differs from its invocation"),
        (&["0 invoke rmw [nil 1]", "0 ok rmw nil"], "the value of an ok rmw must be [old, new]"),
        (&["0 invoke add nil"], "an add must say what it adds"),
        (&["0 invoke append true"], "an append must say what it adds"),
        (&["0 invoke write true"], "a write must say what it writes"),
        (&["0 invoke read nil", "0 ok read true"], "a boolean or a keyword is not a value"),
        (&["0 invoke read nil", "0 ok read [true]"], "is not a value"),
        (&["0 invoke write 1.5"], "1.5 is not a value"),
        (&["0 invoke write 92233720368547758080"], "is not a value; expected text, a whole number of 64 bits"),
        (&["0 invoke read nil", "0 ok read [[1.5]]"], "1.5 is not a value"),
        (&["0 invok read nil"], "unknown type `invok`; expected invoke, ok, fail or info"),
        (&["0 invoke txn nil"], "unknown function `txn`; expected read, write, cas, rmw"),
        (&["4294967296 invoke read nil"], "process 4294967296 is out of range"),
        (&["0 invoke read nil", "0 phase read nil"], "unknown type `phase`; expected invoke, ok, fail or info"),
        (&["0 invoke acquire nil", "0 ok acquire 5.0"], "5.0 is not a token; expected a whole number of 64 bits"),
        (&["0 invoke acquire nil", "0 ok acquire 9223372036854775808"], "is not a token"),
        (&["0 invoke acquire nil", "0 ok acquire \"5\""], "\"5\" is not a token"),
        (&["0 invoke read [7 nil]", "0 ok read [7 5]"], KEYED),
        (&["0 invoke read [\"k\" nil]", "0 ok read [\"k\" [1 2]]"], KEYED),
        (&["0 invoke read [\"k\" nil]", "0 ok read [\"k\" nil]"], KEYED),
        (&["0 invoke acquire [7 nil]", "0 ok acquire [7 33]"], KEYED),
        (&["0 invoke release [7 nil]", "0 ok release [7 nil]"], KEYED),
        (&["0 invoke rmw [7 nil]", "0 ok rmw [7 [nil 2]]"], KEYED),
        (&["0 invoke write [7 1]", "1 invoke cas [7 [1 2]]"], KEYED),
        (&["0 invoke rmw [7 [nil 2]]"], KEYED),
    ] {
        let (mut json, mut edn, mut log) = (String::new(), String::new(), String::new());
        for line in lines {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            let [process, kind, f, value] = words[..] else { panic!("{line}") };
            let in_json = value.replace("nil", "null").replace(' ', ",");
            json += &format!("{{\"process\":{process},\"type\":\"{kind}\",\"f\":\"{f}\",\"value\":{in_json}}}\n");
            edn += &format!("{{:process {process}, :type :{kind}, :f :{f}, :value {value}}}\n");
            log += &format!("INFO  jepsen.util - {process}\t:{kind}\t:{f}\t{value}\n");
        }
        let line = lines.len() as u64;
        refused(&json, line, reason);
        refused(&edn, line, reason);
        refused(format!("[{edn}]"), line, reason);
        refused(&log, line, reason);
    }
}

#[test]
fn fields_that_make_no_event_are_refused() {
    let json = |fields: &str| format!("{{\"type\":\"invoke\",\"f\":\"read\",\"process\":0{fields}}}\n");
    let ok = |fields: &str| json("") + &json(fields).replace("invoke", "ok");
    refused(ok(""), 2, "an ok read must say what it read");
    refused(ok(",\"value\":{}"), 2, "a map is not a value");
    refused(ok(",\"value\":-0"), 2, "0 is not a value");
    refused(ok(",\"value\":1,\"key\":1"), 2, "the completion and its invocation have different keys");
    refused(json(",\"process\":1"), 1, "field `process` twice");
    refused(json(",\"time\":1.5"), 1, "field `time` must be a whole number");
    refused(json(",\"time\":\"1\""), 1, "field `time` must be a whole number");
    refused(json(",\"key\":[]"), 1, "field `key` must be a name");
    refused(json(",\"value\":NaN"), 1, "column 49: ");
    refused(json(",\"value\":\"\u{0}\""), 1, "control character");
    refused("{\"type\":\"invoke\",\"f\":\"read\"}\n", 1, "missing field `process`");
    refused("{\"type\":\"invoke\",\"process\":0}\n", 1, "missing field `f`");
    refused("{\"process\":0,\"f\":\"read\"}\n", 1, "missing field `type`");
    refused("{\"process\":-1,\"f\":\"read\",\"type\":\"ok\"}\n", 1, "process -1 is out of range");
    refused("{\"process\":[],\"f\":\"read\",\"type\":\"ok\"}\n", 1, "field `process` must be a number or a name");
    refused("{\"process\":1,\"f\":1,\"type\":\"ok\"}\n", 1, "field `f` must be a word");
    refused("{}\n", 1, "missing field `type`");
    refused("{\"type\":\"clock\",\"process\":0}\n", 1, "unknown type `clock`; expected invoke, ok, fail or info");
    for token in ["5.0", "9223372036854775808", "1e30", "\"5\"", "\"-5.0\"", "{\"fence\":5.5}", "{\"token\":\"5\"}"] {
        let acquire = json("").replace("read", "acquire");
        let acquired = json(&format!(",\"value\":{token}")).replace("read", "acquire").replace("invoke", "ok");
        refused(acquire + &acquired, 2, "is not a token; expected a whole number of 64 bits; it was invoked at line 1");
    }
    let timed = |times: &[i64]| -> String {
        let line = |(process, time)| {
            format!(
                "{{\"process\":{process},\"type\":\"invoke\",\"f\":\"read\",\"time\":{time},\"index\":{process}}}\n"
            )
        };
        times.iter().enumerate().map(line).collect()
    };
    // Clocks of several machines may differ, so this is only noted.
    let loaded = load(timed(&[5, 5, 4, -6]).as_bytes()).unwrap();
    let note = "time runs backwards 2 times, first at line 3, by 0.00001 ms at most; the order of lines is what counts";
    assert_eq!(loaded.notes, [note]);
    let twice = timed(&[1, 2]).replace("\"index\":1", "\"index\":0");
    refused(twice, 2, "index 0 after index 0; lines are out of order or duplicated");
}

#[test]
fn what_is_no_history_is_refused() {
    refused("", 0, "the file is empty");
    refused(" \n\t\n", 1, "the file is blank");
    refused("hello\n", 1, "neither JSON nor EDN, and no line of the file is an operation of a Jepsen log");
    refused("[{\"process\": 0}]", 1, "a JSON array; expected one object per line (to convert, use jq -c '.[]'");
    refused("{\"process\":0,\n", 1, "column");
    refused("{\"process\":0}{}\n", 1, "trailing");
    refused("\u{0}\n", 1, "NUL");
    refused("0 :invoke :read nil\n\u{0}", 2, "NUL");
    refused(b"\xff\xfe\n", 1, "not UTF-8");
    refused(b"{\"process\":0,\"type\":\"invoke\",\"f\":\"read\"}\n{\"\xff\":0}\n", 2, "not UTF-8");
    refused(b"{:process 0, :type :invoke,\n :f :read, :value \"\xff\"}\n", 2, "not UTF-8");
    refused("{:process 0\n", 2, "column 1: the input ends where a `}` was expected");
    refused("[{:process 0, :type :invoke, :f :read}", 1, "the input ends where a `]` was expected");
    refused("[]\n[]", 2, "something after the end of the history");
    refused("[{:process :nemesis, :type :info}\n1]", 2, "expected an operation as a map");
    refused("{:process 0, :type :invoke, :f :read} )", 1, "column 39: `)` closes nothing");
    refused("{:process}", 1, "a key of a map without a value");
    refused("0 :invoke :write \"a\n", 1, "column 19: a string without an end");
    // The last line of another program's file must be complete, or an operation would get lost.
    refused("{\"process\":0,\"type\":\"invoke\",\"f\":\"read\"}\n{\"process\":1,\"type\":\"inv", 2, "EOF");
}

#[test]
fn huge_and_deep_things_are_refused_in_bounded_memory() {
    let long = "x".repeat(10 << 20);
    let sound = "{\"process\":0,\"type\":\"invoke\",\"f\":\"read\"}\n";
    refused(format!("{sound}{{\"process\":1,\"value\":\"{long}\"}}\n"), 2, "longer than 4 MiB");
    refused(format!("{{\"process\":1,\"value\":\"{long}\"}}\n"), 1, "longer than 4 MiB");
    refused(format!("{{:process 0, :value \"{long}\"}}\n"), 1, "longer than 4 MiB");
    refused(format!("; {long}\n"), 1, "longer than 4 MiB");
    refused(format!("0 :invoke :read {long}\n"), 1, "longer than 4 MiB");
    for open in ["[", "{\"a\":", "[[["] {
        let deep = open.repeat(1 << 19);
        refused(
            format!("{{\"process\":0,\"type\":\"invoke\",\"f\":\"write\",\"value\":{deep}\n"),
            1,
            "recursion limit",
        );
    }
    for open in ["[", "{:a ", "#{", "#a ", "#_", "(("] {
        let deep = open.repeat(1 << 19);
        refused(format!("{{:process 0, :type :invoke, :f :write, :value {deep}\n"), 1, "nested deeper than 100");
        refused(format!("0 :invoke :write {deep}\n"), 1, "nested deeper than 100");
    }
}

#[test]
fn damaged_compression_is_refused_as_such() {
    let text = "{\"process\":0,\"type\":\"invoke\",\"f\":\"read\"}\n".as_bytes();
    for packed in [gzip(text), zstd(text)] {
        for cut in 5..packed.len() {
            let error = load(&packed[..cut]).err().unwrap_or_else(|| panic!("{cut} of {} accepted", packed.len()));
            assert!(error.starts_with("file"), "{error}");
        }
        let mut damaged = packed.clone();
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        assert!(load(&damaged).is_err(), "a wrong checksum was accepted");
    }
    // A small file that unpacks to something huge is refused early.
    let zeros = gzip(&vec![0; 64 << 20]);
    assert!(load(&zeros).unwrap_err().contains("longer than 4 MiB"));
}
