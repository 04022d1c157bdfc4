//! Makes up the pauses of a service on a JVM over a month, the file of the worked example in docs/risk.md. None of it is
//! measured: collections come at random (a Poisson process), and their lengths are log-normal.
//! `cargo run --release --example synthetic_gc > docs/risk/gc-pauses.csv` gives the same file every time.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const DAYS: f64 = 30.0;
const DAY: f64 = 24.0 * 3600.0;
/// Shorter ones are left out of the file: at any TTL of seconds they cost nothing.
const SHORTEST_S: f64 = 0.5;

/// Collections of one kind.
struct Collections {
    a_day: f64,
    median_s: f64,
    /// The standard deviation of the logarithm.
    sigma: f64,
}

fn main() {
    let kinds = [
        // Young and mixed collections.
        Collections { a_day: 6000.0, median_s: 0.06, sigma: 0.6 },
        // Full collections, when memory is freed too slowly.
        Collections { a_day: 6.0, median_s: 1.8, sigma: 0.8 },
    ];
    let mut rng = ChaCha8Rng::seed_from_u64(2026);
    let mut pauses = Vec::new();
    for Collections { a_day, median_s, sigma } in kinds {
        let mut at = 0.0;
        loop {
            at -= f64::ln(1.0 - rng.random::<f64>()) * DAY / a_day;
            if at > DAYS * DAY {
                break;
            }
            // A normal number after Box and Muller (1958).
            let (radius, angle) = ((-2.0 * f64::ln(1.0 - rng.random::<f64>())).sqrt(), rng.random::<f64>());
            let normal = radius * (std::f64::consts::TAU * angle).cos();
            let length = median_s * (sigma * normal).exp();
            if length >= SHORTEST_S {
                pauses.push((at, length));
            }
        }
    }
    pauses.sort_by(|one, other| one.0.total_cmp(&other.0));
    println!("# Made up by examples/synthetic_gc.rs, not measured. Pauses of less than {SHORTEST_S} s are left out.");
    println!("# measured over {DAYS}d");
    println!("at,duration");
    for (at, length) in pauses {
        println!("{at:.1},{:.0}ms", length * 1e3);
    }
}
