//! The general search against a check that tries all orders, on random small histories of every model.

mod linear_search_support;

use linear_search_support::generate::{Case, SPECS, case};
use redjepsen::checker::linear::search::{Finding, Strategy};
use redjepsen::checker::linear::{Options, examine_object};

/// How many histories of each kind: `REDJEPSEN_CASES` asks for more.
fn cases(usual: u64) -> u64 {
    std::env::var("REDJEPSEN_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

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
    let count = cases(30_000);
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
