//! An answer on the terminal: the sentence, the table, what it rests on.

use std::fmt::Write;
use std::path::Path;

use super::RiskReport;
use report::Look;

impl RiskReport<'_> {
    /// The report as text for people. `folder` is where its files were written, if they were.
    pub fn text(&self, folder: Option<&Path>, look: Look) -> String {
        let word = look.verdict("SIMULATED", "unknown");
        let mut text = format!("{word}  {}\n", self.headline());
        if let Some(guard) = self.with_guard() {
            let _ = writeln!(text, "           {guard}");
        }
        let (heads, rows) = self.table();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([heads[column].len()]).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        let mut line = |cells: Vec<&str>| {
            let cells: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
            let _ = writeln!(text, "  {}", cells.join("  "));
        };
        line(vec![""; heads.len()]);
        line(heads.to_vec());
        for row in &rows {
            line(row.iter().map(String::as_str).collect());
        }
        text.push('\n');
        for (name, fact) in self.facts() {
            let _ = writeln!(text, "  {name:13}{fact}");
        }
        if let Some(folder) = folder {
            let _ = writeln!(text, "  {:13}{}", "page", folder.join("risk.html").display());
        }
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.join("\n") + "\n"
    }
}
