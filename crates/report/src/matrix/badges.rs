//! A badge for each library under test, as SVG.

use maud::html;

use base::words::sanitize;
use summary::table::{LibraryAccount, SuiteSummary};

/// The file name of each badge, and the badge as SVG.
pub fn badges(table: &SuiteSummary) -> Vec<(String, String)> {
    table.libraries.iter().map(|library| (format!("{}.svg", library.workload), badge(library))).collect()
}

fn badge(library: &LibraryAccount) -> String {
    let left = format!("{} {}", library.name, library.version);
    let colour = match (library.defects + library.unexplained, library.held.is_empty()) {
        (0, false) => "#2e7d32",
        (0, true) => "#757575",
        _ => "#b3261e",
    };
    // Verdana at 11 px is about 6.7 px wide per letter.
    let width = |text: &str| 12 + text.chars().count() * 67 / 10;
    let right = &library.summary;
    let (a, b) = (width(&left), width(right));
    html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(a + b) height="20" role="img" aria-label={ (left) ": " (right) } {
            rect width=(a) height="20" fill="#37474f" {}
            rect x=(a) width=(b) height="20" fill=(colour) {}
            g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" {
                text x=(a / 2) y="14" { (sanitize(&left, 80)) }
                text x=(a + b / 2) y="14" { (sanitize(right, 120)) }
            }
        }
    }
    .into_string()
}
