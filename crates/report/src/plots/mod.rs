//! The four plots, in Jepsen's style: 900 x 400, latency on a logarithmic axis, and one colour per outcome. Fault windows are
//! shaded in lanes from the top. `locks` is redjepsen's own: the clients that believed that they held the lock, over time.

mod frame;
mod latency;
mod locks;
mod picture;
mod quantiles;
mod rate;
mod sweep;

pub use frame::Frame;
pub use picture::{BAD, BAR, HEIGHT, MUTED, Picture, TEXT, WIDTH, fine_png, png, svg};
pub use sweep::sweep;

use model::history::{Function, Outcome};
use picture::Ink;
use summary::Story;

pub struct Plot {
    pub name: &'static str,
    pub caption: &'static str,
    pub picture: Picture,
}

/// All plots, the most informative first. The plot of locks is included only if a client asked for a lock or no client wrote.
pub fn all(story: &Story) -> Vec<Plot> {
    let locks = (!story.is_unlocked()).then(|| Plot {
        name: "locks",
        caption: "Who believed they held the lock, over time. A bar runs from an acquisition to the beginning of the release. \
            Red: two clients held the lock of one key at once.",
        picture: locks::locks(story),
    });
    let others = [
        Plot {
            name: "latency-raw",
            caption: "Every operation by its start time, its duration and its outcome.",
            picture: latency::latency(story),
        },
        Plot {
            name: "latency-quantiles",
            caption: "Durations of acknowledged operations: the median, and the values that 5%, 1% and no operation exceeded.",
            picture: quantiles::quantiles(story),
        },
        Plot { name: "rate", caption: "Answers per second, by outcome.", picture: rate::rate(story) },
    ];
    locks.into_iter().chain(others).collect()
}

/// Jepsen's colours.
const OUTCOMES: [(Outcome, &str, Ink); 3] = [
    (Outcome::Ok, "ok", Ink(0x81, 0xbf, 0xfc, 1.0)),
    (Outcome::Info, "info", Ink(0xff, 0xa4, 0x00, 1.0)),
    (Outcome::Fail, "fail", Ink(0xff, 0x1e, 0x90, 1.0)),
];
const FUNCTIONS: [(Function, &str); 6] = [
    (Function::Rmw, "rmw"),
    (Function::Hold, "hold"),
    (Function::Shared, "shared"),
    (Function::Read, "read"),
    (Function::Write, "write"),
    (Function::Cas, "cas"),
];
