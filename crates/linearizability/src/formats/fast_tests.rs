//! The fast path against the fallback: if the fast path parses a line, the result must be the same.

use proptest::prelude::*;

use super::*;
use crate::formats::json::parse;
use crate::formats::{FormatOptions, tree};

/// The meaning of one line: everything but the value, then the value, its token and its key.
type Meaning = Option<(String, Result<(Datum, Vec<Value>), ()>, Token, String)>;

fn meaning<V: Written>(event: &FileEvent<V>, values: &mut Values) -> Meaning {
    let FileEvent { process, kind, f, key, time, index, error, .. } = event;
    let mut items = Vec::new();
    let datum = event.value.read(values, &mut items).map_err(drop);
    let rest = format!("{process:?} {kind:?} {f:?} {key:?} {time:?} {index:?} {error:?}");
    Some((rest, datum.map(|datum| (datum, items)), event.value.token(), format!("{:?}", event.value.keyed())))
}

/// The fast path's reading of the first line of `text`, if it has one.
fn fast(text: &str, shape: &mut LineShape, values: &mut Values) -> Option<Result<Meaning, String>> {
    scan(text.as_bytes(), shape).map(|(fast, length)| {
        assert_eq!(length, text.find('\n').map_or(text.len(), |newline| newline + 1));
        match fast {
            Fast::Event(event) => Ok(meaning(&event, values)),
            Fast::Nemesis => Ok(None),
        }
    })
}

fn slow(line: &str, values: &mut Values) -> Result<Meaning, String> {
    let tree = parse(line)?;
    Ok(tree::event(&tree, &FormatOptions::default())?.and_then(|event| meaning(&event, values)))
}

/// Compares the two. Returns true if the fast path parsed the line.
fn agree(line: &str, shape: &mut LineShape) -> bool {
    let mut values = Values::default();
    let mut understood = false;
    // Text after the line must not matter.
    for behind in ["", "\n", "\n{\"index\":0,\"time\":77,\"type\":\"ok\"}\n", "\n\"]}\n", "\n0123456789 0123456789"] {
        if let Some(found) = fast(&format!("{line}{behind}"), shape, &mut values) {
            assert_eq!(slow(line, &mut values), found, "{line}");
            understood = true;
        }
    }
    understood
}

const USUAL: [&str; 13] = [
    r#"{"index":8,"time":2000000,"type":"invoke","process":0,"f":"rmw","key":"k0","value":[null,"c0:1"]}"#,
    r#"{"index":14,"time":70000000,"type":"ok","process":0,"f":"rmw","key":"k0","value":[null,"c0:1"]}"#,
    r#"{"process": 3, "type": "ok", "f": "read", "value": -5, "time": 123456789012345678}"#,
    r#"{"process":3,"type":"invoke","f":"read","value":null}"#,
    r#"{"process":3,"type":"ok","f":"read","value":[1,2,3,"abc",null]}"#,
    r#"{"process":3,"type":"ok","f":"read","value":[]}"#,
    r#"{"process":3,"type":"fail","f":"cas","value":[1,2],"error":"key-not-found"}"#,
    r#"{"process":3,"type":"ok","f":"acquire","value":17,"node":"n1","ok":true}"#,
    r#"{"process":"nemesis","type":"info","f":"start","value":"cut off n1"}"#,
    r#"{ "type" : "ok" , "process" : 1 , "f" : "write" , "value" : [ 1 , 2 ] , "time" : null }"#,
    r#"{"type":"invoke","f":"append","process":12345678,"key":12,"value":12345678}"#,
    r#"{":process":3,":type":"ok",":f":"read",":key":"a",":value":1,":index":4}"#,
    r#"{"process":3,"type":"ok","f":"acquire","value":"17","::key":4}"#,
];

#[test]
fn usual_lines_are_understood_on_the_fast_path() {
    let mut shape = LineShape::default();
    for _ in 0..2 {
        for line in USUAL {
            assert!(agree(line, &mut shape), "{line}");
            assert!(agree(line, &mut LineShape::default()), "{line}");
        }
    }
}

#[test]
fn unusual_lines_are_left_to_the_fallback() {
    for line in [
        "",
        "{}",
        "{",
        r#"{"process":3,"type":"ok","f":"read","value":1.5}"#,
        r#"{"process":3,"type":"ok","f":"read","value":01}"#,
        r#"{"process":3,"type":"ok","f":"read","value":-0}"#,
        r#"{"process":3,"type":"ok","f":"read","value":1e3}"#,
        r#"{"process":3,"type":"ok","f":"read","value":1234567890123456789}"#,
        r#"{"process":3,"type":"ok","f":"read","value":12345678901234567890123456}"#,
        r#"{"process":3,"type":"ok","f":"read","value":"a\u0062"}"#,
        r#"{"process":3,"type":"ok","f":"read","value":"é"}"#,
        r#"{"process":3,"type":"ok","f":"read","value":[[1]]}"#,
        r#"{"process":3,"type":"ok","f":"read","value":[1,]}"#,
        r#"{"process":3,"type":"ok","f":"read","value":[1,"#,
        r#"{"process":3,"type":"ok","f":"read","value":{}}"#,
        r#"{"process":3,"type":"ok","f":"read","value":1,"value":2}"#,
        r#"{"process":3,"type":"ok","f":"read","value":1,":value":2}"#,
        r#"{"process":3,"type":"ok","f":"read","value":1,"\u003akey":2}"#,
        r#"{"process":":c3","type":"ok","f":"read","value":1}"#,
        r#"{"process":3,"type":"ok","f":"read","value":1}}"#,
        r#"{"process":3,"type":"ok","f":"read","value":1} x"#,
        r#"{"process":3,"type":"ok","f":"read","value":1"#,
        r#"{"process":3,"type":"ok","f":"read","value":1,}"#,
        r#"{"process":3,"type":"ok","f":"reads","value":1}"#,
        r#"{"process":3,"type":":ok","f":":read","value":1}"#,
        r#"{"process":3,"type":"ok","f":"read","value":nul}"#,
        r#"{"process":3,"type":"ok","f":"read","value":nulll}"#,
        r#"{"process":"3,"type":"ok","f":"read","value":1}"#,
        "{\"process\":3,\"type\":\"ok\",\"f\":\"read\",\"value\":\"a\tb\"}",
    ] {
        assert!(!agree(line, &mut LineShape::default()), "{line}");
        let mut shape = LineShape::default();
        agree(USUAL[3], &mut shape);
        agree(USUAL[4], &mut shape);
        assert!(!agree(line, &mut shape), "{line}");
    }
}

fn any_value() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_string()),
        Just("true".to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        "-?[0-9]{1,20}",
        (-20..20_i64).prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        "\"[ -~]{0,20}\"",
        "\"[a-z0-9:é\\\\\"]{0,9}\"",
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap_or_default()),
    ];
    scalar.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            1 => inner.prop_map(|item| format!("{{\"fence\":{item}}}")),
        ]
    })
}

fn any_line() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        any_value().prop_map(|value| format!("\"value\":{value}")),
        any_value().prop_map(|value| format!("\"time\":{value}")),
        any_value().prop_map(|value| format!("\"key\":{value}")),
        any_value().prop_map(|value| format!("\"index\":{value}")),
        any_value().prop_map(|value| format!("\"error\":{value}")),
        any_value().prop_map(|value| format!("\"other\":{value}")),
        any_value().prop_map(|value| format!("\"process\":{value}")),
        "\"[a-z]{1,3}\":[0-9]",
        any_value().prop_map(|value| format!("\":key\":{value}")),
        any_value().prop_map(|value| format!("\":value\":{value}")),
        any_value().prop_map(|value| format!("\":process\":{value}")),
        any_value().prop_map(|value| format!("\"\\u003akey\":{value}")),
    ];
    let word = prop::sample::select(vec!["invoke", "ok", "fail", "info", ":ok", "okay", "phase"]);
    let function = prop::sample::select(vec!["read", ":write", "cas", "acquire", "append", "txn"]);
    let process =
        prop::sample::select(vec!["0", "3", "8", "\"c3\"", "\":c3\"", "\"nemesis\"", "\":nemesis\"", "-1", "true"]);
    let colon = prop::sample::select(vec!["", "", ":"]);
    let usual = (word, function, process, colon).prop_map(|(kind, f, process, colon)| {
        format!("\"{colon}type\":\"{kind}\",\"{colon}f\":\"{f}\",\"{colon}process\":{process}")
    });
    let blank = prop::sample::select(vec!["", "", "", " ", "\t", "\r"]);
    (usual, prop::collection::vec(field, 0..4), any::<bool>(), blank).prop_map(|(usual, mut fields, first, blank)| {
        fields.insert(if first { 0 } else { fields.len() }, usual);
        format!("{blank}{{{blank}{}{blank}}}{blank}", fields.join(&format!(",{blank}")))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn the_fast_path_means_what_the_fallback_means(lines in prop::collection::vec(any_line(), 1..4)) {
        let mut shape = LineShape::default();
        for line in &lines {
            agree(line, &mut shape);
        }
    }

    #[test]
    fn a_changed_line_means_the_same_to_both(
        line in prop::sample::select(USUAL.to_vec()),
        place in any::<prop::sample::Index>(),
        byte in 0x20..0x7f_u8,
        cut in any::<bool>(),
    ) {
        let mut bytes = line.as_bytes().to_vec();
        let place = place.index(bytes.len());
        if cut { bytes.remove(place); } else { bytes[place] = byte; }
        let mut shape = LineShape::default();
        agree(line, &mut shape);
        agree(&String::from_utf8(bytes).unwrap_or_default(), &mut shape);
    }
}
