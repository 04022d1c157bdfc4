//! Measures for how long this machine keeps a process waiting: it sleeps a millisecond at a time, and writes down when it woke
//! up too late. `cargo run --release --example scheduling_pauses -- SECONDS > pauses.csv`, then `redjepsen risk --pauses
//! ./pauses.csv`.

use std::time::{Duration, Instant};

const SLEEP: Duration = Duration::from_millis(1);
/// Shorter ones are noise, and cost no lock anything.
const SHORTEST: Duration = Duration::from_millis(5);

fn main() {
    let Some(seconds) = std::env::args().nth(1).and_then(|text| text.parse().ok()) else {
        eprintln!("how many seconds? for example: scheduling_pauses 60");
        std::process::exit(254);
    };
    println!("# measured over {seconds}s");
    println!("at,duration");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) {
        let slept = Instant::now();
        std::thread::sleep(SLEEP);
        let late = slept.elapsed().saturating_sub(SLEEP);
        if late >= SHORTEST {
            println!("{:.3},{:.1}ms", (slept - began).as_secs_f64(), late.as_secs_f64() * 1e3);
        }
    }
}
