//! Chooses the model that fits the operations of a history.

use linearizability::history::{Content, Op, OpFunction, Table, Value};
use model::history::Outcome;

/// The model that fits the operations, or why no model can be chosen.
pub fn model(table: &Table) -> Result<&'static str, String> {
    use OpFunction::*;
    let mut functions = Vec::new();
    for op in &table.operations {
        if !functions.contains(&op.f) {
            functions.push(op.f);
        }
    }
    let has = |f: OpFunction| functions.contains(&f);
    let only = |known: &[OpFunction]| functions.iter().all(|f| known.contains(f));
    Ok(if only(&[Read, Write]) {
        "register"
    } else if only(&[Read, Write, Cas]) {
        "cas-register"
    } else if has(Rmw) && only(&[Read, Write, Cas, Rmw]) {
        "rmw"
    } else if has(Append) && only(&[Read, Write, Append]) {
        if read_some(table, |content| matches!(content, Content::Text(_))) { "text-append" } else { "list-append" }
    } else if only(&[Read, Add]) {
        let numbers = added(table).all(|value| table.values.int(value).is_some());
        let lists = read_some(table, |content| matches!(content, Content::List(_)));
        if numbers && !lists { "counter" } else { "set" }
    } else if only(&[Acquire, Release]) {
        let acquired = || acknowledged(table).filter(|op| op.f == Acquire);
        let fenced = acquired().next().is_some() && acquired().all(|op| table.values.int(op.a).is_some());
        if fenced { "fenced-mutex" } else { "owner-mutex" }
    } else {
        let words: Vec<&str> = functions.iter().map(|f| linearizability::formats::word(*f)).collect();
        return Err(format!("no model has all of the operations {}", words.join(", ")));
    })
}

fn acknowledged(table: &Table) -> impl Iterator<Item = &Op> {
    table.operations.iter().filter(|op| op.outcome == Outcome::Ok)
}

fn read_some(table: &Table, is: fn(&Content) -> bool) -> bool {
    acknowledged(table).any(|op| op.f == OpFunction::Read && table.values.content(op.a).is_some_and(is))
}

fn added(table: &Table) -> impl Iterator<Item = Value> {
    table.operations.iter().filter(|op| op.f == OpFunction::Add).map(|op| op.a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linearizability::formats::{FormatOptions, read};

    #[test]
    fn a_history_is_taken_for_what_its_operations_are() {
        for (operations, name) in [
            ("", "register"),
            ("read nil 1, write 1 1", "register"),
            ("cas [1,2] [1,2], read nil 1", "cas-register"),
            ("rmw [nil,1] [nil,1], read nil 1", "rmw"),
            ("add 1 1, read nil 1", "counter"),
            ("add 1 1, read nil [1]", "set"),
            ("add \"a\" \"a\"", "set"),
            ("append 1 1, read nil [1]", "list-append"),
            ("append \"a\" \"a\", read nil \"a\", put \"b\" \"b\"", "text-append"),
            ("acquire nil nil, release nil nil", "owner-mutex"),
            ("acquire nil 3, release nil nil", "fenced-mutex"),
            ("acquire nil 3, acquire nil nil", "owner-mutex"),
            // If the completion repeats the argument of an acquire, the argument is not a token.
            ("acquire 3 3", "owner-mutex"),
            ("acquire nil nil, read nil nil", "no model has all of the operations acquire, read"),
        ] {
            let mut edn = "[".to_string();
            for operation in operations.split(", ").filter(|operation| !operation.is_empty()) {
                let words: Vec<&str> = operation.split(' ').collect();
                for (kind, value) in [("invoke", words[1]), ("ok", words[2])] {
                    edn += &format!("{{:process 0, :type :{kind}, :f :{}, :value {value}}}", words[0]);
                }
            }
            edn.push(']');
            let table = read(edn.as_bytes(), "test", &FormatOptions::default()).unwrap().table;
            assert_eq!(model(&table).unwrap_or_else(|reason| reason.leak()), name, "{operations}");
        }
    }
}
