//! Counterexamples compared with the check that tries all orders: deletions are sound, the rest is illegal and cannot be reduced,
//! and the sentences are true.

use crate::support::generate::{Case, SPECS, case};
use linearizability::explain::{Because, Explanation, Link, explain_object};
use linearizability::history::{Content, NEVER, Op, OpFunction, Outcome, Table, Value, Values};
use linearizability::words::{Words, numbered};
use linearizability::{
    Answer, Conflict, FailedCas, Model, ModelSpec, Options, WithModel, check, search_object, with_model,
};

fn options(case: &Case) -> Options<'static> {
    Options { initial: case.initial, failed_cas: case.failed_cas, ..Options::default() }
}

fn words(values: &Values) -> Words<'_> {
    Words { values, process: &numbered }
}

/// Every history after one deletion that the model calls sound; on request with the operations that stand for others that may
/// have happened.
struct Fewer<'a>(&'a [Op], bool);

impl WithModel for Fewer<'_> {
    type Output = Vec<Vec<Op>>;

    fn with<M: Model>(self, model: &M) -> Vec<Vec<Op>> {
        let besides = if self.1 { model.bystanders(self.0) } else { Vec::new() };
        let all = [&besides[..], self.0].concat();
        let without = |set: Vec<u32>| {
            let stay = (0..).zip(&all).filter(|(place, _)| !set.contains(place));
            stay.map(|(_, op)| *op).collect()
        };
        let of_these = |set: &Vec<u32>| set.iter().all(|place| *place as usize >= besides.len());
        let sets = model.omissible(&all).into_iter().filter(of_these);
        let mut fewer: Vec<Vec<Op>> = sets.map(without).collect();
        for (at, op) in all.iter().enumerate().skip(besides.len()) {
            if let Some(weaker) = model.weaken(op) {
                let mut others = all.clone();
                others[at] = weaker;
                fewer.push(others);
            }
        }
        fewer
    }
}

fn fewer(case: &Case, operations: &[Op], besides: bool) -> Vec<Vec<Op>> {
    with_model(case.spec, &case.operations, &case.values, &options(case), Fewer(operations, besides))
}

/// The operations, plus those that stand for others that may have happened.
struct Besides<'a>(&'a [Op]);

impl WithModel for Besides<'_> {
    type Output = Vec<Op>;

    fn with<M: Model>(self, model: &M) -> Vec<Op> {
        [&model.bystanders(self.0)[..], self.0].concat()
    }
}

struct Weaken(Op);

impl WithModel for Weaken {
    type Output = Option<Op>;

    fn with<M: Model>(self, model: &M) -> Option<Op> {
        model.weaken(&self.0)
    }
}

/// The operations of an explanation, with the weakened ones in their weakened form.
fn kept(case: &Case, explanation: &Explanation) -> Vec<Op> {
    let weaken =
        |op: Op| with_model(case.spec, &case.operations, &case.values, &options(case), Weaken(op)).unwrap_or(op);
    let op = |place: &u32| case.operations[*place as usize];
    let places = explanation.operations.iter();
    places.map(|place| if explanation.weakened.contains(place) { weaken(op(place)) } else { op(place) }).collect()
}

/// The same operations with the step reversed, and with only the order in time that the step depends on. None if no intervals are
/// ordered this way.
fn otherwise(told: &Explanation, kept: &[Op], step: Link) -> Option<Vec<Op>> {
    let chain = match told.basis.as_slice() {
        [] => vec![step.after, step.before],
        [basis] if basis.after == step.after => vec![basis.before, step.after, step.before],
        [basis] if basis.before == step.before => vec![step.after, step.before, basis.after],
        _ => return None,
    };
    let place = |at: usize| chain.iter().position(|place| *place == told.operations[at]);
    let op = |(at, op): (usize, &Op)| {
        let (invoked, completed) = place(at).map_or((0, 100), |at| (10 * at as u32 + 10, 10 * at as u32 + 11));
        Op { invoked, completed: if op.completed == NEVER { NEVER } else { completed }, ..*op }
    };
    let mut ops: Vec<Op> = kept.iter().enumerate().map(op).collect();
    ops.sort_by_key(|op| op.invoked);
    Some(ops)
}

#[test]
fn counterexamples_are_illegal_and_minimal_and_deletions_sound() {
    let count = crate::cases(10_000);
    let (mut explained, mut cycles, mut weakened, mut by_value) = (0, 0, 0, 0);
    for seed in 0..count {
        let spec = SPECS[seed as usize % SPECS.len()];
        let case = case(seed ^ 1 << 40, spec, 7);
        let naive = case.naive();
        if naive.is_linearizable(&case.operations) {
            for besides in [false, true] {
                for fewer in fewer(&case, &case.operations, besides) {
                    assert!(naive.is_linearizable(&fewer), "case {seed}: not sound: {fewer:#?}\n{case}");
                }
            }
            continue;
        }
        let Answer::NotLinearizable(conflict) = search_object(spec, &case.operations, &case.values, &options(&case))
        else {
            continue;
        };
        // Any hint will do.
        let hint = match seed % 3 {
            0 => conflict,
            1 => Conflict { operations: Vec::new(), reason: String::new() },
            _ => Conflict { operations: vec![seed as u32 % case.operations.len() as u32], reason: String::new() },
        };
        let told = explain_object(spec, &case.operations, &words(&case.values), &hint, &options(&case));
        let kept = kept(&case, &told);
        assert!(!naive.is_linearizable(&kept), "case {seed}: legal: {told:#?}\n{case}");
        assert!(told.minimal && !told.sentences.is_empty(), "case {seed}: {told:#?}\n{case}");
        // Illegal whatever else happened, unless it matters that no other operation did.
        let besides = with_model(spec, &case.operations, &case.values, &options(&case), Besides(&kept));
        for fewer in fewer(&case, &kept, !naive.is_linearizable(&besides)) {
            assert!(naive.is_linearizable(&fewer), "case {seed}: not minimal: {told:#?}\n{case}");
        }
        assert!(naive.is_linearizable(&case.until(told.legal_before, false)), "case {seed}: {told:#?}\n{case}");
        assert!(!naive.is_linearizable(&case.until(told.legal_before, true)), "case {seed}: {told:#?}\n{case}");
        if told.order_omitted == 0 {
            let prefix = case.until(told.legal_before, false);
            assert!(naive.is_legal_order(&prefix, &told.order), "case {seed}: a wrong order: {told:#?}\n{case}");
        }
        for (at, link) in told.cycle.iter().enumerate() {
            let (before, after) = (case.operations[link.before as usize], case.operations[link.after as usize]);
            assert!(
                link.because == Because::Value || before.completed < after.invoked,
                "case {seed}: {told:#?}\n{case}"
            );
            assert_eq!(link.after, told.cycle[(at + 1) % told.cycle.len()].before, "case {seed}: {told:#?}\n{case}");
        }
        for link in &told.basis {
            let (before, after) = (case.operations[link.before as usize], case.operations[link.after as usize]);
            assert!(link.because == Because::RealTime && before.completed < after.invoked, "case {seed}: {told:#?}");
        }
        for link in told.cycle.iter().filter(|link| link.because == Because::Value) {
            if let Some(otherwise) = otherwise(&told, &kept, *link) {
                assert!(!naive.is_linearizable(&otherwise), "case {seed}: not so by value: {told:#?}\n{case}");
                by_value += 1;
            }
        }
        explained += 1;
        cycles += usize::from(!told.cycle.is_empty());
        weakened += usize::from(!told.weakened.is_empty());
    }
    println!("{explained} explained, {cycles} by a cycle, {weakened} with less said");
    assert!(explained > 0 && cycles > 0 && weakened > 0 && by_value > 0);
}

fn op(process: u32, f: OpFunction, a: Value, b: Value, invoked: u32, completed: u32) -> Op {
    let outcome = if completed == NEVER { Outcome::Info } else { Outcome::Ok };
    Op { key: 0, process, f, outcome, a, b, invoked, completed, line: invoked + 1 }
}

fn explain(spec: ModelSpec, operations: Vec<Op>, hint: Vec<u32>) -> Explanation {
    let mut values = Values::default();
    for n in 0..1_000 {
        values.intern(Content::Int(n));
    }
    let conflict = Conflict { operations: hint, reason: "a reason".into() };
    // Failures count here, as for users who know their store.
    let options = Options { failed_cas: FailedCas::Check, ..Options::default() };
    explain_object(spec, &operations, &words(&values), &conflict, &options)
}

#[test]
fn a_stale_read_is_two_values_that_must_each_be_first() {
    use OpFunction::{Read, Write};
    let value = |n: u32| Value(n + 1);
    let told = explain(
        ModelSpec::Register,
        vec![
            op(0, Write, value(1), Value::NIL, 0, 1),
            op(1, Read, value(1), Value::NIL, 2, 3),
            op(0, Write, value(2), Value::NIL, 4, 5),
            op(1, Read, value(2), Value::NIL, 6, 7),
            op(2, Read, value(1), Value::NIL, 8, 9),
            op(2, Read, value(2), Value::NIL, 10, 11),
        ],
        Vec::new(),
    );
    assert_eq!((told.operations, told.fails_at, told.legal_before, told.minimal), (vec![0, 2, 4], Some(4), 9, true));
    assert_eq!(told.order, [0, 1, 2, 3]);
    assert_eq!(
        told.sentences,
        [
            "process 0 wrote 1 (line 1) and returned before the next operation was invoked: process 0 wrote 2 (line 5); so 1 came before 2",
            "process 0 wrote 2 (line 5) and returned before the next operation was invoked: process 2 read 1 (line 9); so 2 came before 1",
            "but each of 1 and 2 was written once, and cannot come back",
        ]
    );
    let step = |before, after, because| Link { before, after, because };
    assert_eq!(told.cycle, [step(2, 4, Because::RealTime), step(4, 2, Because::Value)]);
    assert_eq!(told.basis, [step(0, 2, Because::RealTime)]);
}

#[test]
fn a_lost_update_in_a_long_chain_is_three_operations() {
    let mut chain: Vec<Op> =
        (0..500).map(|n| op(n % 5, OpFunction::Rmw, Value(n), Value(n + 1), n * 2, n * 2 + 1)).collect();
    // Replaces 499 again, as the last one did: both found 499.
    chain.push(op(7, OpFunction::Rmw, Value(499), Value(900), 1_000, 1_001));
    for hint in [Vec::new(), vec![499, 500]] {
        let told = explain(ModelSpec::Rmw, chain.clone(), hint);
        assert_eq!((told.operations, told.weakened), (vec![498, 499, 500], vec![498, 499]), "{:?}", told.sentences);
        assert_eq!((told.fails_at, told.order.len(), told.order_omitted), (Some(500), 20, 480));
        assert_eq!(
            told.sentences[1],
            "process 4 wrote 499 (line 999) and returned before the next operation was invoked: process 7 read 498 and wrote \
             899 (line 1001); so 499 came before 498"
        );
    }
}

#[test]
fn a_long_history_is_explained_from_its_conflict() {
    let count = 30_000;
    let mut chain: Vec<Op> =
        (0..count).map(|n| op(n % 5, OpFunction::Rmw, Value(n), Value(n + 1), n * 4, n * 4 + 1)).collect();
    // Two updates are lost; the check finds the later one, or both.
    for (lost, at) in [(20_000, 20_010), (9_000, 9_010)] {
        chain.push(op(7, OpFunction::Rmw, Value(lost), Value(count + lost), at * 4 + 2, at * 4 + 3));
    }
    chain.sort_by_key(|op| op.invoked);
    let values = Values::default();
    let object = check(&table(chain.clone()), ModelSpec::Rmw, &Options::default()).remove(0);
    let Answer::NotLinearizable(conflict) = object.answer else { panic!("{:?}", object.answer) };
    let told = explain_object(ModelSpec::Rmw, &chain, &words(&values), &conflict, &Options::default());
    assert!(told.minimal && told.operations.len() <= 3, "{told:#?}");
    let first = chain.iter().position(|op| op.a == Value(9_000) && op.process == 7).unwrap() as u32;
    assert_eq!((told.fails_at, told.legal_before), (Some(first), chain[first as usize].completed));
    assert_eq!(told.order.len(), 20);
}

#[test]
fn a_long_history_of_a_lock_is_explained_too() {
    use OpFunction::{Acquire, Release};
    let lock = |process, f, invoked| op(process, f, Value::NIL, Value::NIL, invoked, invoked + 1);
    let mut holds: Vec<Op> =
        (0..15_000).flat_map(|n| [lock(n % 5, Acquire, n * 10), lock(n % 5, Release, n * 10 + 4)]).collect();
    // Process 9 acquires the lock while another process holds it, and again later. The explanation names the first time.
    holds.extend([lock(9, Acquire, 70_002), lock(9, Release, 70_007)]);
    holds.extend([lock(9, Acquire, 130_002), lock(9, Release, 130_007)]);
    holds.sort_by_key(|op| op.invoked);
    let object = check(&table(holds.clone()), ModelSpec::OwnerMutex, &Options::default()).remove(0);
    let Answer::NotLinearizable(conflict) = object.answer else { panic!("{:?}", object.answer) };
    let told =
        explain_object(ModelSpec::OwnerMutex, &holds, &words(&Values::default()), &conflict, &Options::default());
    assert_eq!((told.operations.clone(), told.minimal), (vec![14_000, 14_001], true), "{told:#?}");
    assert_eq!((told.fails_at, told.legal_before), (Some(14_001), 70_003));
}

fn table(operations: Vec<Op>) -> Table {
    Table { operations, values: Values::default(), keys: vec![String::new()] }
}

#[test]
fn a_compare_and_set_that_failed_for_nothing_is_told_by_what_was_there() {
    use OpFunction::{Cas, Read, Write};
    let value = |n: u32| Value(n + 1);
    let refused = Op { outcome: Outcome::Fail, ..op(2, Cas, value(1), value(9), 7, 8) };
    let told = explain(
        ModelSpec::CasRegister,
        vec![
            op(0, Write, value(5), Value::NIL, 0, 1),
            op(0, Write, value(1), Value::NIL, 2, 3),
            op(3, Write, value(6), Value::NIL, 4, NEVER),
            refused,
            op(1, Read, value(1), Value::NIL, 9, 10),
        ],
        vec![1, 3, 4],
    );
    // Illegal whatever else happened, including the write that was left open.
    assert_eq!((told.operations, told.minimal), (vec![1, 3, 4], true));
    assert_eq!(
        told.sentences,
        [
            "process 0 wrote 1 (line 3), and process 1 read 1 (line 10) after that",
            "1 cannot come back, so it was the value all the time in between, but process 2 found a value other than 1 (line 8)",
        ]
    );
}

#[test]
fn two_holds_at_once_are_told_by_what_does_not_fit() {
    use OpFunction::{Acquire, Release};
    let lock = |process, f, invoked| op(process, f, Value::NIL, Value::NIL, invoked, invoked + 1);
    let told = explain(
        ModelSpec::OwnerMutex,
        vec![
            lock(0, Acquire, 0),
            lock(0, Release, 2),
            lock(0, Acquire, 4),
            lock(1, Acquire, 6),
            lock(1, Release, 8),
            lock(0, Release, 10),
        ],
        Vec::new(),
    );
    assert_eq!(told.operations, [2, 3]);
    assert_eq!(
        told.sentences,
        [
            "these two operations do not fit in any order:",
            "after line 5 the object is held by process 0, and the operation on line 7 cannot come next",
        ]
    );
}
