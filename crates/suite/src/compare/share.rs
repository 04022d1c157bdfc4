//! The share of lost updates, with an interval that is based on runs. Updates of one run depend on each other, so five runs are
//! five observations, however many updates they have.
//!
//! The estimate is that of clusters, lost divided by acknowledged (Cochran, 1977, "Sampling Techniques", section 6). Its
//! interval is Student's on the scale of log-odds, which keeps it within 0 and 1. Losses are skewed: most runs lose little, a
//! few lose much. A sample without the costly runs looks more certain than it is, so the upper end is wider than the lower one.
//! A test below measures how often such intervals contain the true share, for losses of many shapes.

/// With fewer lossy runs there is no interval: both the frequency and the size of losses are too uncertain.
const LEAST_LOSSY: usize = 3;

pub const NO_INTERVAL: &str = "no interval: this needs 3 runs with a loss, and their losses must differ";

/// The 97.5% and the 99% point of the normal distribution, for the lower and the upper end.
const OUT: (f64, f64) = (1.959_964, 2.326_348);

/// The 95% interval of the share of lost updates. Each run is given as (lost, all). None if fewer than three runs have a loss,
/// if all updates are lost, or if the runs do not vary.
pub fn share_95(runs: &[(u64, u64)]) -> Option<(f64, f64)> {
    let runs: Vec<(f64, f64)> = (runs.iter().filter(|(_, all)| *all > 0))
        // More lost than acknowledged updates occur only in a file that was changed by hand.
        .map(|(lost, all)| ((*lost.min(all)) as f64, *all as f64))
        .collect();
    let (lost, all) = runs.iter().fold((0.0, 0.0), |(lost, all), run| (lost + run.0, all + run.1));
    if runs.iter().filter(|(lost, _)| *lost > 0.0).count() < LEAST_LOSSY || lost >= all {
        return None;
    }
    let (share, count) = (lost / all, runs.len() as f64);
    let squares: f64 = runs.iter().map(|(lost, all)| (lost - share * all).powi(2)).sum();
    // Use the derivative of the log-odds.
    let error = (count / (count - 1.0) * squares).sqrt() / all / (share * (1.0 - share));
    if error < 1e-9 {
        return None;
    }
    let odds = (share / (1.0 - share)).ln();
    let at = |odds: f64| 1.0 / (1.0 + (-odds).exp());
    let df = count - 1.0;
    Some((at(odds - student(OUT.0, df) * error), at(odds + student(OUT.1, df) * error)))
}

/// The point of Student's distribution that corresponds to this point of the normal distribution. Expanded by 1/df (Abramowitz
/// and Stegun, 26.7.5), for at least two degrees of freedom.
fn student(x: f64, df: f64) -> f64 {
    let terms = [
        (x.powi(3) + x) / 4.0,
        (5.0 * x.powi(5) + 16.0 * x.powi(3) + 3.0 * x) / 96.0,
        (3.0 * x.powi(7) + 19.0 * x.powi(5) + 17.0 * x.powi(3) - 15.0 * x) / 384.0,
        (79.0 * x.powi(9) + 776.0 * x.powi(7) + 1482.0 * x.powi(5) - 1920.0 * x.powi(3) - 945.0 * x) / 92_160.0,
    ];
    x + (1..).zip(terms).map(|(power, term)| term / df.powi(power)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random numbers from a seed: SplitMix64.
    struct Chance(u64);

    impl Chance {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn exponential(&mut self, mean: f64) -> f64 {
            -mean * (1.0 - self.unit()).ln()
        }

        fn normal(&mut self) -> f64 {
            (2.0 * self.exponential(1.0)).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
        }

        /// A random count of independent events with this mean.
        fn poisson(&mut self, mean: f64) -> u64 {
            let mut time = self.exponential(1.0);
            let mut count = 0;
            while time < mean {
                count += 1;
                time += self.exponential(1.0);
            }
            count
        }

        /// The random cost of this many incidents, at least one update each.
        fn cost(&mut self, incidents: u64, mean: f64) -> u64 {
            (0..incidents).map(|_| 1 + self.exponential(mean - 1.0) as u64).sum()
        }
    }

    /// Returns a random run: the lost updates and all updates.
    type Losses = fn(&mut Chance) -> (u64, u64);

    /// Losses of many shapes. For the rare ones, most series of five runs have too few losses for an interval.
    const SHAPES: [(&str, Losses); 11] = [
        ("common and small", |c| (c.poisson(3.0), 100)),
        ("common and smaller", |c| (c.poisson(1.0), 100)),
        ("common and large", |c| (20 + (20.0 * c.unit()) as u64, 100)),
        ("some runs worse", |c| (poisson_of(c, 4.0, 0.5), 100)),
        ("some runs far worse", |c| (poisson_of(c, 4.0, 1.0), 100)),
        ("a few incidents", |c| (incidents(c, 1.0), 100)),
        ("many incidents", |c| (incidents(c, 3.0), 100)),
        ("slower runs lose more", |c| {
            let lost = incidents(c, 1.0);
            (lost, (150.0 - 100.0 * c.unit()) as u64 - 3 * lost.min(10))
        }),
        ("half of them, and much", |c| (if c.unit() < 0.5 { 1 + c.exponential(20.0) as u64 } else { 0 }, 100)),
        ("a third, and much", |c| (if c.unit() < 0.3 { 1 + c.exponential(20.0) as u64 } else { 0 }, 100)),
        ("rare and large", |c| (if c.unit() < 0.2 { 10 + (40.0 * c.unit()) as u64 } else { 0 }, 100)),
    ];

    fn poisson_of(c: &mut Chance, mean: f64, spread: f64) -> u64 {
        let mean = mean * (spread * c.normal()).exp();
        c.poisson(mean).min(100)
    }

    fn incidents(c: &mut Chance, mean: f64) -> u64 {
        let number = c.poisson(mean);
        c.cost(number, 3.0).min(100)
    }

    /// The share of series with an interval, and the share of these intervals that lack the true value.
    fn measured(losses: Losses, runs: usize, series: usize) -> (f64, f64) {
        let mut chance = Chance(7);
        let (lost, all) =
            (0..200_000).map(|_| losses(&mut chance)).fold((0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
        let truth = lost as f64 / all as f64;
        let (mut given, mut missed) = (0, 0);
        for _ in 0..series {
            let runs: Vec<(u64, u64)> = (0..runs).map(|_| losses(&mut chance)).collect();
            if let Some((low, high)) = share_95(&runs) {
                given += 1;
                missed += usize::from(truth < low || high < truth);
            }
        }
        (given as f64 / series as f64, missed as f64 / series as f64)
    }

    #[test]
    fn intervals_have_the_true_share_as_often_as_they_say() {
        for (name, losses) in SHAPES {
            for runs in [5, 10, 20] {
                let (given, missed) = measured(losses, runs, 2000);
                let covered = 1.0 - missed / given;
                println!("{name}, {runs} runs: an interval in {given:.3}, which has the share in {covered:.3}");
                // An interval that is reported is seldom wrong.
                assert!(missed <= 0.07, "{name}, {runs} runs: {missed} lack the share");
                // If an interval exists mostly when a rare loss came often by chance, no method could contain the true share as
                // often.
                assert!(given < 0.35 || (0.93..=0.99).contains(&covered), "{name}, {runs} runs: {covered}");
            }
        }
    }

    #[test]
    fn from_too_little_there_is_no_interval() {
        assert_eq!(share_95(&[]), None);
        assert_eq!(share_95(&[(7, 100)]), None, "a single run does not vary");
        assert_eq!(share_95(&[(0, 100); 20]), None);
        assert_eq!(share_95(&[(0, 100), (0, 100), (9, 100), (9, 90)]), None, "two runs with a loss");
        assert_eq!(share_95(&[(1, 14); 5]), None, "they do not vary");
        assert_eq!(share_95(&[(9, 9); 5]), None);
        assert_eq!(share_95(&[(200, 100), (1, 100), (2, 100)]), share_95(&[(100, 100), (1, 100), (2, 100)]));
        let (low, high) = share_95(&[(0, 100), (20, 100), (1, 100), (3, 100), (0, 0)]).unwrap();
        assert!(0.0 < low && low < 0.06 && 0.06 < high && high < 1.0, "{low} to {high}");
        // From tables of Student's distribution.
        for (x, df, point) in [(OUT.0, 4.0, 2.776), (OUT.0, 19.0, 2.093), (OUT.1, 4.0, 3.747), (OUT.1, 9.0, 2.821)] {
            assert!((student(x, df) - point).abs() < 0.005, "{x} {df}: {}", student(x, df));
        }
    }
}
