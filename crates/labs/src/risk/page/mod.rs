//! The lost updates of a lock: for the terminal, as a page and as a plot.

mod plot;

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use maud::{PreEscaped, html};

use crate::risk::distribution::Source;
use crate::risk::{Distribution, FaultCause, Interval, Question, Risk, Row, YEAR};
use base::files::{self, Unwritten};
use base::units::nanos;
use base::words::{capital, count, length, list, plural};
use report::html::{facts_section, header, stacked, whole_page};
use report::{Look, plots};

#[derive(Debug)]
pub struct RiskReport<'a> {
    pub question: &'a Question,
    pub risk: &'a Risk,
    /// The command that repeats the estimate, without `--out`.
    pub command: String,
}

impl RiskReport<'_> {
    /// Writes the page and the plot. Each file is written completely or not at all.
    pub fn write(&self, folder: &Path) -> Result<(), Unwritten> {
        let mut unwritten = Unwritten::default();
        unwritten.note(files::write(&folder.join("risk.html"), self.html()));
        let picture = plot::risk(&self.risk.rows, self.question.asked, &self.title());
        if let Ok(svg) = plots::svg(&picture) {
            unwritten.note(files::write(&folder.join("risk.svg"), svg));
        }
        if let Ok(png) = plots::png(&picture) {
            unwritten.note(files::write(&folder.join("risk.png"), png));
        }
        unwritten.conclude()
    }

    /// The report as text. `folder` is the folder of its files; None if they were not written.
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

    fn html(&self) -> String {
        let headline = html! { (capital(&self.headline())) "." };
        let guard = html! { @if let Some(guard) = self.with_guard() { p { (guard) } } };
        let picture = plot::risk(&self.risk.rows, self.question.asked, &self.title());
        let (heads, rows) = self.table();
        let profiles = html! {
            @for (_, distribution) in &self.question.faults {
                @if let Source::Profile { from, .. } = &distribution.source {
                    p class="fine" { "Profile " (distribution.name) ": " (from) }
                }
            }
        };
        let body = html! {
            main {
                (header("unknown", &["how often a lock loses updates"], "SIMULATED", &headline, &guard))
                section id="ttl" {
                    h2 { "By TTL" }
                    @if let Ok(svg) = plots::svg(&picture) { (report::html::plot(&PreEscaped(svg), &html! {})) }
                    (stacked(&heads, &rows))
                    p class="fine" {
                        "In brackets: 95% intervals. An incident is a fault that costs at least one update. The last two columns "
                        "are the price of a long TTL: no client can acquire the lock of a dead holder before it expires."
                    }
                }
                (facts_section("rests", "Basis of this estimate", &self.facts(), &self.command, &profiles))
            }
        };
        whole_page(&["SIMULATED", &self.title()], "", &body)
    }

    fn title(&self) -> String {
        format!("Losses of {} by TTL, and the cost of a longer TTL", self.workload())
    }

    fn workload(&self) -> &str {
        self.question.scenarios.first().map_or("the lock", |scenario| &scenario.workload_name)
    }

    /// The row that the answer is about.
    fn asked(&self) -> Option<&Row> {
        self.risk.rows.get(self.question.asked)
    }

    /// The answer as a sentence without a full stop.
    fn headline(&self) -> String {
        let Some(row) = self.asked() else { return "no TTL was given".to_string() };
        let (ttl, workload) = (duration(row.ttl), self.workload());
        if row.lost_without_faults {
            return format!(
                "with a TTL of {ttl}, {workload} loses updates without any fault: holders work longer than their TTL; raise \
                 --ttl or lower --hold"
            );
        }
        let (year, incidents) = (row.lost.times(YEAR), row.incidents.times(YEAR));
        let runs: u64 = row.parts.iter().map(|part| part.runs).sum();
        if runs == 0 {
            let longest = self.question.faults.iter().map(|(_, distribution)| distribution.longest()).max();
            let longer = match most_incidents(row) {
                most if most > 0.0 => format!(
                    "; longer faults, too rare to be measured, may cause up to {} incidents per year (95%)",
                    number(most)
                ),
                _ => String::new(),
            };
            return format!(
                "with a TTL of {ttl}, none of the given faults can cost {workload} an update: the longest lasts {}, and a loss \
                 takes {}{longer}",
                duration(longest.unwrap_or_default()),
                duration(row.shortest)
            );
        }
        if row.lost.mean <= 0.0 {
            return format!(
                "with a TTL of {ttl}, {workload} lost no update in {} with a fault; at most {} per year cost an update (95%)",
                plural(runs, "run"),
                number(most_incidents(row))
            );
        }
        format!(
            "with a TTL of {ttl}, {workload} loses {} per year (95%: {} to {}), {} per million, in {} per year",
            updates(year.mean),
            number(year.low),
            number(year.high),
            number(per_million(row).mean),
            match number(incidents.mean).as_str() {
                "1" => "1 incident".to_string(),
                several => format!("{several} incidents"),
            }
        )
    }

    /// The effect of the same faults if the resource uses compare-and-set. None if this was not simulated.
    fn with_guard(&self) -> Option<String> {
        let guarded = self.risk.guarded?;
        if guarded.runs == 0 {
            return None;
        }
        let runs = format!("{} with a fault at the same TTL", plural(guarded.runs, "run"));
        Some(match guarded.lost {
            0 => format!(
                "With fencing, a resource refuses a write unless it replaces the value that its writer read. Then no update can \
                 be lost; none was lost in {runs}."
            ),
            lost => {
                format!(
                    "A resource with compare-and-set lost {} in {runs}: this is a bug of redjepsen.",
                    updates(lost as f64)
                )
            }
        })
    }

    fn table(&self) -> ([&'static str; 7], Vec<[String; 7]>) {
        let heads = [
            "TTL",
            "lost per million",
            "lost per year",
            "incidents per year",
            "runs with a loss",
            "wait after a crash",
            "waiting per year",
        ];
        let rows = self.risk.rows.iter().map(|row| {
            let runs: u64 = row.parts.iter().map(|part| part.runs).sum();
            let hits: u64 = row.parts.iter().map(|part| part.hits).sum();
            let of = |interval: Interval| match row.lost_without_faults {
                true => "without any fault".to_string(),
                false if interval.mean <= 0.0 => "none seen".to_string(),
                false => with_interval(interval),
            };
            let incidents = match of(row.incidents.times(YEAR)) {
                none if row.incidents.mean <= 0.0 && most_incidents(row) > 0.0 => {
                    format!("{none}, up to {}", number(most_incidents(row)))
                }
                some => some,
            };
            [
                duration(row.ttl),
                of(per_million(row)),
                of(row.lost.times(YEAR)),
                incidents,
                if runs == 0 { "–".to_string() } else { format!("{} of {}", count(hits), count(runs)) },
                format!("up to {}", duration(row.ttl)),
                format!("{} s", number(row.unavailable_s)),
            ]
        });
        (heads, rows.collect())
    }

    /// The facts as names and texts: the question, the basis of the answer, and its limits.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if let Some(scenario) = self.question.scenarios.get(self.question.asked) {
            let service = format!(
                "{}, {}, each hold lasts {}, target {} updates per second",
                plural(u64::from(scenario.clients), "client"),
                plural(u64::from(scenario.keys), "lock"),
                scenario.hold,
                scenario.rate
            );
            facts.push(("service", service));
        }
        for (kind, distribution) in &self.question.faults {
            facts.push((kind.plural(), self.source(*kind, distribution)));
        }
        if let Some(row) = self.asked() {
            facts.push(("updates", format!("{} acknowledged per second without faults", number(row.updates_per_s))));
            facts.push((
                "exposed",
                format!(
                    "at any moment, {} clients on average hold the lock before their write; a fault shorter than {} loses nothing",
                    number(row.exposed),
                    duration(row.shortest)
                ),
            ));
        }
        let crashes = number(self.question.crashes_per_day);
        facts.push((
            "crashes",
            format!("{crashes} per client and day; after each crash, other clients wait for the TTL"),
        ));
        facts.push(("runs", format!("{}, seed {}", plural(self.risk.runs, "simulated run"), self.seed())));
        let mut limits =
            vec!["simulated: locks and clients are the real code; servers, network and faults are a model".to_string()];
        limits.extend(self.beyond());
        facts.extend(["limits", "", "", ""].into_iter().zip(limits));
        facts
    }

    fn seed(&self) -> u64 {
        self.question.scenarios.first().map(|scenario| scenario.seed).unwrap_or_default()
    }

    fn source(&self, kind: FaultCause, distribution: &Distribution) -> String {
        let member = if kind == FaultCause::ClockStep { "node" } else { "client" };
        let Distribution { name, over, .. } = distribution;
        let many = format!("{} {}", number(distribution.count()), kind.plural());
        let longest = duration(distribution.longest());
        let over = duration(*over);
        match &distribution.source {
            Source::Measured => format!("{name}: {many} while watching one {member} for {over}, the longest {longest}"),
            Source::Profile { description, .. } => format!(
                "profile {name}, an example and not a measurement: {many} while watching one {member} for {over}, the longest {longest} \
                 ({description})"
            ),
        }
    }

    fn beyond(&self) -> Vec<String> {
        let measured = self.question.faults.iter().filter(|(_, distribution)| distribution.is_measured());
        let mut limits: Vec<String> = Vec::new();
        let longest: Vec<String> = measured
            .map(|(kind, distribution)| {
                format!("none of the {} is longer than {}", kind.plural(), duration(distribution.longest()))
            })
            .collect();
        if !longest.is_empty() {
            limits.push(format!("{}, so this estimate says nothing about longer faults", list(&longest)));
        }
        let unseen = self.risk.rows.iter().filter_map(|row| {
            let unseen = unseen(row);
            (unseen > 0.0).then_some((row.ttl, unseen))
        });
        if let Some((ttl, unseen)) = unseen.min_by_key(|(ttl, _)| *ttl) {
            limits.push(format!(
                "with a TTL of {} or more, no measured length is long enough to cause a loss; longer faults, too rare to be measured, \
                 may cause up to {} incidents per year (95%); measure for longer to find out",
                duration(ttl),
                number(unseen)
            ));
        }
        limits
    }
}

/// Possible incidents per year from faults that are longer than any measured one.
fn unseen(row: &Row) -> f64 {
    row.parts.iter().filter_map(|part| part.unseen).sum::<f64>() * YEAR
}

/// The upper bound of incidents per year, including faults that were never measured.
fn most_incidents(row: &Row) -> f64 {
    row.incidents.times(YEAR).high + unseen(row)
}

fn per_million(row: &Row) -> Interval {
    row.lost.times(1e6 / row.updates_per_s.max(f64::MIN_POSITIVE))
}

fn updates(many: f64) -> String {
    match number(many).as_str() {
        "1" => "1 update".to_string(),
        many => format!("{many} updates"),
    }
}

fn duration(duration: Duration) -> String {
    let days = duration.as_secs_f64() / (24.0 * 3600.0);
    if days >= 2.0 {
        return format!("{} days", number(days));
    }
    length(nanos(duration))
}

fn with_interval(interval: Interval) -> String {
    format!("{} ({} to {})", number(interval.mean), number(interval.low), number(interval.high))
}

/// A number with two significant digits.
fn number(number: f64) -> String {
    if !number.is_finite() {
        return "?".to_string();
    }
    if number <= 0.0 {
        return "0".to_string();
    }
    let power = number.log10().floor() as i32;
    if power < -4 {
        return format!("{number:.1e}");
    }
    let unit = 10f64.powi(power - 1);
    let rounded = (number / unit).round() * unit;
    if rounded >= 10.0 {
        return count(rounded.round() as u64);
    }
    let text = format!("{rounded:.digits$}", digits = usize::try_from(1 - power).unwrap_or_default());
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_two_digits_that_mean_something() {
        for (value, text) in [
            (0.0, "0"),
            (1234.0, "1,200"),
            (99.9, "100"),
            (12.4, "12"),
            (9.96, "10"),
            (1.0, "1"),
            (1.26, "1.3"),
            (0.0567, "0.057"),
            (0.000_001_23, "1.2e-6"),
            (f64::INFINITY, "?"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
    }
}
