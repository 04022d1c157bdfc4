//! The general search against a check that tries all orders, on random small histories of every model.

use crate::support::generate::{Case, SPECS, Shape, case, shaped};
use linearizability::history::{Content, NEVER, Op, OpFunction, Outcome, Table, Value};
use linearizability::search::{Finding, Limits, Strategy, examine};
use linearizability::{
    Answer, How, Model, ModelSpec, Options, Transition, WithModel, check, examine_object, with_model,
};

fn find(case: &Case, strategy: Strategy) -> Finding {
    let options = Options { initial: case.initial, failed_cas: case.failed_cas, ..Options::default() };
    examine_object(case.spec, &case.operations, &case.values, &options, strategy)
}

fn agree(seeds: std::ops::Range<u64>, most: usize) -> [u64; 2] {
    let mut verdicts = [0, 0];
    for seed in seeds {
        let spec = SPECS[seed as usize % SPECS.len()];
        let case = case(seed, spec, most);
        let naive = case.naive();
        let expected = naive.is_linearizable(&case.operations);
        verdicts[usize::from(expected)] += 1;
        for strategy in [Strategy::Depth, Strategy::Breadth, Strategy::Race] {
            let told =
                |what: &str| format!("case {seed} ({most}): {what} by {strategy:?}, in truth {expected}\n{case}");
            match find(&case, strategy) {
                Finding::Legal { order } => {
                    assert!(expected, "{}", told("legal"));
                    assert!(
                        strategy == Strategy::Breadth || naive.is_legal_order(&case.operations, &order),
                        "{}",
                        told(&format!("a wrong order, {order:?}"))
                    );
                }
                Finding::Illegal { event, .. } => {
                    assert!(!expected, "{}", told("illegal"));
                    if strategy == Strategy::Race {
                        assert!(!naive.is_linearizable(&case.until(event, true)), "{}", told("a wrong end"));
                        assert!(naive.is_linearizable(&case.until(event, false)), "{}", told("an early end"));
                    }
                }
                unknown => panic!("{}", told(&format!("{unknown:?}"))),
            }
        }
    }
    verdicts
}

#[test]
fn small_histories_get_the_answer_of_all_orders() {
    let count = crate::cases(24_000);
    let half = count / 2;
    let [illegal, legal] = std::thread::scope(|scope| {
        let other = scope.spawn(|| agree(half..count, 7));
        let mine = agree(0..half, 7);
        let other = other.join().unwrap();
        [mine[0] + other[0], mine[1] + other[1]]
    });
    println!("{illegal} illegal, {legal} legal");
    assert!(illegal > count / 8 && legal > count / 8, "{illegal} illegal, {legal} legal");
}

/// Hides everything about a model except its steps.
struct Bare<'a, M>(&'a M);

impl<M: Model> Model for Bare<'_, M> {
    type State = M::State;

    fn initial(&self) -> M::State {
        self.0.initial()
    }

    fn step(&self, state: &M::State, operation: &Op) -> Transition<M::State> {
        self.0.step(state, operation)
    }
}

struct ExamineBare<'a>(&'a [Op], Strategy);

impl WithModel for ExamineBare<'_> {
    type Output = Finding;

    fn with<M: Model>(self, model: &M) -> Finding {
        examine(&Bare(model), self.0, &Limits::default(), self.1)
    }
}

#[test]
fn a_model_without_hints_gets_the_same_answers() {
    for seed in 0..crate::cases(4_000) {
        let case = case(seed ^ 1 << 50, SPECS[seed as usize % SPECS.len()], 6);
        let expected = case.naive().is_linearizable(&case.operations);
        let options = Options { initial: case.initial, failed_cas: case.failed_cas, ..Options::default() };
        for strategy in [Strategy::Depth, Strategy::Breadth] {
            let what = ExamineBare(&case.operations, strategy);
            let found = with_model(case.spec, &case.operations, &case.values, &options, what);
            assert_eq!(matches!(found, Finding::Legal { .. }), expected, "case {seed}: {found:?}\n{case}");
        }
    }
}

#[test]
fn many_clients_at_once_are_no_violation() {
    for (seed, clients) in [(1, 63), (2, 64), (3, 65), (4, 128), (5, 129), (6, 200)] {
        for spec in SPECS {
            // If all operations are concurrent and nothing restricts them, there are too many orders for any search.
            if matches!(spec, ModelSpec::Counter | ModelSpec::Set | ModelSpec::ListAppend | ModelSpec::TextAppend) {
                continue;
            }
            let indeterminate = if seed % 2 == 0 { 5 } else { 0 };
            let case =
                shaped(seed, spec, Shape { clients, count: clients * 2, indeterminate, spoiled: 0, unique: false });
            let found = find(&case, Strategy::Depth);
            let Finding::Legal { order } = found else { panic!("{clients} clients: {found:?}\n{case}") };
            assert!(case.naive().is_legal_order(&case.operations, &order), "{clients} clients: {order:?}\n{case}");
        }
    }
}

fn op(process: u32, f: OpFunction, a: u32, b: u32, invoked: u32, completed: u32) -> Op {
    let outcome = if completed == NEVER { Outcome::Info } else { Outcome::Ok };
    Op { key: 0, process, f, outcome, a: Value(a), b: Value(b), invoked, completed, line: invoked + 1 }
}

#[test]
fn a_violation_among_200_clients_is_found() {
    // All writes are open at once; the reads see them one by one.
    for clients in [63, 64, 65, 128, 200] {
        let writes = (1..=clients).map(|n| op(n, OpFunction::Write, n, 0, n, 2_000 + n));
        let reads = (1..=clients).map(|n| op(clients + 1, OpFunction::Read, n, 0, 500 + n * 2, 501 + n * 2));
        let mut operations: Vec<Op> = writes.chain(reads).collect();
        let find = |operations: &[Op], strategy| {
            examine_object(ModelSpec::Register, operations, &Default::default(), &Options::default(), strategy)
        };
        // Then a read returns an earlier value again.
        let again = op(clients + 1, OpFunction::Read, clients / 2, 0, 1_500, 1_501);
        for strategy in [Strategy::Depth, Strategy::Breadth, Strategy::Race] {
            assert!(matches!(find(&operations, strategy), Finding::Legal { .. }), "{clients} clients");
            operations.push(again);
            let place = operations.len() as u32 - 1;
            assert_eq!(find(&operations, strategy), Finding::Illegal { place, event: 1_501 }, "{clients} clients");
            operations.pop();
        }
        // A chain of concurrent compare-and-sets whose end is seen; then the same without one link.
        let links = (0..clients).map(|n| op(n, OpFunction::Cas, n, n + 1, n, 2_000 + n));
        let mut chain: Vec<Op> = links.collect();
        chain.push(op(clients, OpFunction::Read, clients, 0, 1_000, 1_001));
        let find = |operations: &[Op]| {
            examine_object(ModelSpec::CasRegister, operations, &Default::default(), &Options::default(), Strategy::Race)
        };
        assert!(matches!(find(&chain), Finding::Legal { .. }), "{clients} clients");
        chain.remove(clients as usize / 2);
        assert!(matches!(find(&chain), Finding::Illegal { event: 1_001, .. }), "{clients} clients");
    }
}

#[test]
fn a_limit_leaves_the_answer_open_and_tells_what_was_legal() {
    // Additions in any order, and a sum that none of them gives: the search tries every subset.
    let mut table = Table { keys: vec![String::new()], ..Table::default() };
    let early = table.values.intern(Content::Int(1));
    table.operations.push(op(0, OpFunction::Add, early.0, 0, 0, 1));
    for n in 0..40 {
        let number = table.values.intern(Content::Int((1 << n) * 10));
        table.operations.push(op(n, OpFunction::Add, number.0, 0, n + 2, 1_000 + n));
    }
    let sum = table.values.intern(Content::Int((1 << 43) + 2));
    table.operations.push(op(50, OpFunction::Read, sum.0, 0, 100, 101));
    let check = |limits| check(&table, ModelSpec::Counter, &Options { limits, ..Options::default() }).remove(0);

    let asked = std::sync::atomic::AtomicUsize::new(0);
    let give_up = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 50;
    let object = check(Limits { give_up: &give_up, ..Limits::default() });
    let Answer::Undecided(reason) = &object.answer else { panic!("{:?}", object.answer) };
    assert!(reason.contains("time") && reason.contains("before 101 are linearizable"), "{reason}");
    assert_eq!(object.how, How::Search);

    let object = check(Limits { memory_bytes: 1 << 20, ..Limits::default() });
    let Answer::Undecided(reason) = &object.answer else { panic!("{:?}", object.answer) };
    assert!(reason.contains("memory") && reason.contains("before 101 are linearizable"), "{reason}");
}

#[test]
fn keys_are_objects_of_their_own() {
    let mut table = Table::default();
    for key in 0..3 {
        table.keys.push(format!("k{key}"));
        let (write, read) = (op(0, OpFunction::Write, 1, 0, key * 10, key * 10 + 1), if key == 1 { 2 } else { 1 });
        table.operations.push(Op { key, ..write });
        table.operations.push(Op { key, ..op(0, OpFunction::Read, read, 0, key * 10 + 2, key * 10 + 3) });
    }
    let objects = check(&table, ModelSpec::Register, &Options::default());
    let legal: Vec<bool> = objects.iter().map(|object| object.answer == Answer::Linearizable).collect();
    assert_eq!(legal, [true, false, true]);
    assert_eq!((objects[1].key, objects[1].operations.as_slice()), (1, &[2, 3][..]));
    // An operation that the model does not support is not a violation.
    let answer = check(&table, ModelSpec::Mutex, &Options::default()).remove(0).answer;
    assert_eq!(answer, Answer::Undecided("line 1: the model mutex has no such operation".into()));
    table.operations[0].f = OpFunction::Add;
    table.operations[0].a = table.values.intern(Content::Text("x".into()));
    let answer = check(&table, ModelSpec::Counter, &Options::default()).remove(0).answer;
    assert_eq!(answer, Answer::Undecided("line 1: \"x\" is not a value of the model counter".into()));
    table.operations[0].a = Value::NIL;
    let answer = check(&table, ModelSpec::Counter, &Options::default()).remove(0).answer;
    assert_eq!(answer, Answer::Undecided("line 1: nil is not a value of the model counter".into()));
}

/// One kind with another size and seed, for long searches by hand.
#[test]
#[ignore = "takes as long as it is asked to"]
fn more_small_histories_get_the_answer_of_all_orders() {
    let most = std::env::var("REDJEPSEN_MOST").ok().and_then(|most| most.parse().ok()).unwrap_or(8);
    let from = std::env::var("REDJEPSEN_FROM").ok().and_then(|from| from.parse().ok()).unwrap_or(1 << 30);
    println!("{:?}", agree(from..from + crate::cases(1_000_000), most));
}
