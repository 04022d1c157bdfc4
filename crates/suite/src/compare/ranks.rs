//! Tests if the runs of one side rank above those of the other by more than chance. This is the rank-sum test of Wilcoxon
//! (1945, "Individual comparisons by ranking methods", Biometrics Bulletin 1, 80-83) and of Mann and Whitney (1947, Annals of
//! Mathematical Statistics 18, 50-60). It uses the exact distribution of the ranks, ties included. If the scores have only two
//! values, it is Fisher's exact test (1935, JRSS 98, 39-82).
//!
//! Several cells are tested together as strata: runs may change sides only within their cell, and the rank sums add up (as in
//! van Elteren, 1960, Bulletin of the International Statistical Institute 37, 351-361, with equal weights).

/// The runs of one cell on both sides.
#[derive(Clone, Debug)]
pub struct Stratum {
    /// Twice the rank of each run, so that the mean of two neighbouring ranks is a whole number.
    ranks: Vec<u64>,
    /// The number of runs of side B.
    of_b: usize,
    /// The sum of the ranks of side B.
    sum: u64,
}

/// If the exact test needs more steps, the normal distribution is used. It is a good approximation for many ranks.
const MOST_STEPS: u64 = 20_000_000;

impl Stratum {
    /// Ranks the runs. A higher score is worse.
    pub fn new(a: &[f64], b: &[f64]) -> Stratum {
        let scores: Vec<f64> = a.iter().chain(b).copied().collect();
        let below = |score: f64| scores.iter().filter(|other| other.total_cmp(&score).is_lt()).count() as u64;
        let same = |score: f64| scores.iter().filter(|other| other.total_cmp(&score).is_eq()).count() as u64;
        let ranks: Vec<u64> = scores.iter().map(|score| 2 * below(*score) + same(*score) + 1).collect();
        let sum = ranks[a.len()..].iter().sum();
        Stratum { ranks, of_b: b.len(), sum }
    }

    /// The same runs in reverse order: the best one counts as the worst.
    fn turned(&self) -> Stratum {
        let top = 2 * (self.ranks.len() as u64 + 1);
        let sum = top * self.of_b as u64 - self.sum;
        Stratum { ranks: self.ranks.iter().map(|rank| top - rank).collect(), of_b: self.of_b, sum }
    }

    /// True if chance could have led to another sum.
    fn varies(&self) -> bool {
        (1..self.ranks.len()).contains(&self.of_b) && self.ranks.iter().any(|rank| *rank != self.ranks[0])
    }

    fn steps(&self) -> u64 {
        let runs = self.ranks.len() as u64;
        runs * runs * runs * runs
    }

    /// The probability of each rank sum of B by chance, from 0 on.
    fn sums(&self) -> Vec<f64> {
        let all: u64 = self.ranks.iter().sum();
        // `ways[n][s]` is the probability of `n` runs of B with the rank sum `s`. Counts would overflow, because they are
        // factorials.
        let mut ways = vec![vec![0.0; all as usize + 1]; self.of_b + 1];
        ways[0][0] = 1.0;
        for (place, rank) in self.ranks.iter().enumerate() {
            let left = (self.ranks.len() - place) as f64;
            for taken in (0..=self.of_b.min(place)).rev() {
                // The probability that this run is of side B, if `taken` of the runs before it are.
                let chance = ((self.of_b - taken) as f64 / left).clamp(0.0, 1.0);
                for sum in (0..=all as usize).rev() {
                    let here = ways[taken][sum];
                    if here == 0.0 {
                        continue;
                    }
                    if taken < self.of_b {
                        ways[taken + 1][sum + *rank as usize] += here * chance;
                    }
                    ways[taken][sum] = here * (1.0 - chance);
                }
            }
        }
        ways.swap_remove(self.of_b)
    }

    /// The mean and the variance of B's rank sum by chance.
    fn moments(&self) -> (f64, f64) {
        let (runs, of_b) = (self.ranks.len() as f64, self.of_b as f64);
        let mean = self.ranks.iter().sum::<u64>() as f64 / runs;
        let squares: f64 = self.ranks.iter().map(|rank| (*rank as f64 - mean).powi(2)).sum();
        (of_b * mean, of_b * (runs - of_b) / (runs * (runs - 1.0)) * squares)
    }
}

/// The probability that the runs of side B rank as high as they do, or higher, if the sides do not differ.
pub fn worse(strata: &[Stratum]) -> f64 {
    let strata: Vec<&Stratum> = strata.iter().filter(|stratum| stratum.varies()).collect();
    let seen: u64 = strata.iter().map(|stratum| stratum.sum).sum();
    if strata.is_empty() {
        return 1.0;
    }
    let all: u64 = strata.iter().flat_map(|stratum| &stratum.ranks).sum();
    let longest: u64 = strata.iter().map(|stratum| stratum.ranks.iter().sum()).max().unwrap_or_default();
    let steps = strata.iter().map(|stratum| stratum.steps()).fold(0, u64::saturating_add);
    let steps = steps.saturating_add(all.saturating_mul(longest).saturating_mul(strata.len() as u64));
    if steps > MOST_STEPS {
        let moments: Vec<(f64, f64)> = strata.iter().map(|stratum| stratum.moments()).collect();
        let (mean, variance) = moments.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        // Minus one: half the distance between two sums, which are doubled whole numbers.
        return above((seen as f64 - 1.0 - mean) / variance.sqrt());
    }
    let mut together = vec![1.0];
    for stratum in strata {
        let sums = stratum.sums();
        let mut next = vec![0.0; together.len() + sums.len() - 1];
        for (sum, chance) in together.iter().enumerate().filter(|(_, chance)| **chance > 0.0) {
            for (more, other) in sums.iter().enumerate().filter(|(_, other)| **other > 0.0) {
                next[sum + more] += chance * other;
            }
        }
        together = next;
    }
    together.iter().skip(seen as usize).sum::<f64>().min(1.0)
}

/// The probability of ranks as low, or lower.
pub fn better(strata: &[Stratum]) -> f64 {
    worse(&strata.iter().map(Stratum::turned).collect::<Vec<_>>())
}

/// The least possible value of [`worse`] for these numbers of runs of each side in each cell.
pub fn least(cells: &[(u64, u64)]) -> f64 {
    let ways =
        |(a, b): &(u64, u64)| (1..=*b.min(a)).map(|one| one as f64 / (a + b - b.min(a) + one) as f64).product::<f64>();
    cells.iter().map(ways).product()
}

/// The upper tail of the normal distribution above `z`. Accurate to 1e-7, by formula 7.1.26 of Abramowitz and Stegun (1964,
/// "Handbook of Mathematical Functions").
fn above(z: f64) -> f64 {
    const TERMS: [f64; 5] = [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let tail = TERMS.iter().rev().fold(0.0, |sum, term| (sum + term) * t) * (-x * x).exp() / 2.0;
    if z < 0.0 { 1.0 - tail } else { tail }
}

/// The probabilities after Holm's correction (1979, "A simple sequentially rejective multiple test procedure", Scandinavian
/// Journal of Statistics 6, 65-70). If there is no difference, at most 5% of families have a value below 5%.
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|one, other| chances[*one].total_cmp(&chances[*other]));
    let (mut corrected, mut least) = (vec![1.0; chances.len()], 0.0_f64);
    for (rank, place) in order.into_iter().enumerate() {
        least = least.max(chances[place] * (chances.len() - rank) as f64).min(1.0);
        corrected[place] = least;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-9, "{one} and {other}");
    }

    #[test]
    fn the_chance_is_counted() {
        // All of B above all of A: one of 20 ways.
        close(worse(&[Stratum::new(&[0.0, 0.1, 0.2], &[0.3, 0.4, 0.5])]), 1.0 / 20.0);
        close(better(&[Stratum::new(&[0.0, 0.1, 0.2], &[0.3, 0.4, 0.5])]), 1.0);
        close(better(&[Stratum::new(&[0.3, 0.4, 0.5], &[0.0, 0.1, 0.2])]), 1.0 / 20.0);
        // With ties it is Fisher's test: 2 of 5 failed, both in B of 3. C(3,2)/C(5,2).
        close(worse(&[Stratum::new(&[0.0, 0.0], &[1.0, 1.0, 0.0])]), 3.0 / 10.0);
        // The lady tasting tea: 3 of 4 right. (16 + 1) / 70.
        close(worse(&[Stratum::new(&[1.0, 0.0, 0.0, 0.0], &[1.0, 1.0, 1.0, 0.0])]), 17.0 / 70.0);
        close(worse(&[Stratum::new(&[0.0; 9], &[0.0; 7])]), 1.0);
        close(worse(&[]), 1.0);
        // Two cells at once, each the most extreme of 20.
        let broken = || Stratum::new(&[0.0; 3], &[1.0; 3]);
        close(worse(&[broken(), broken()]), 1.0 / 400.0);
        // A cell that holds on both sides adds nothing.
        close(worse(&[broken(), Stratum::new(&[0.0; 3], &[0.0; 3])]), 1.0 / 20.0);
        // One cell against the other.
        assert!(worse(&[broken(), Stratum::new(&[1.0; 3], &[0.0; 3])]) > 0.5);
    }

    #[test]
    fn many_runs_come_close_to_the_normal_distribution() {
        let scores = |from: u64, by: f64| (0..60).map(|n| ((n * 37 + from) % 101) as f64 + by).collect::<Vec<_>>();
        let strata = |by| vec![Stratum::new(&scores(0, 0.0), &scores(5, by)); 3];
        let (few, many) = (worse(&strata(8.0)[..1]), worse(&strata(8.0)));
        assert!(many < few && few < 0.5, "{few} {many}");
        close(above(0.0), 0.5);
        assert!((above(1.959_964) - 0.025).abs() < 1e-6 && (above(-1.959_964) - 0.975).abs() < 1e-6);
        // The exact test, with as many runs as it is meant for, against the normal one.
        let one = Stratum::new(&scores(0, 0.0)[..25], &scores(5, 12.0)[..25]);
        let (mean, variance) = one.moments();
        assert!(
            (worse(std::slice::from_ref(&one)) - above((one.sum as f64 - 1.0 - mean) / variance.sqrt())).abs() < 0.005
        );
    }

    #[test]
    fn what_could_be_shown_depends_on_the_number_of_runs() {
        close(least(&[(3, 3)]), 1.0 / 20.0);
        close(least(&[(1, 1)]), 1.0 / 2.0);
        close(least(&[(5, 1)]), 1.0 / 6.0);
        close(least(&[(1, 1), (1, 1), (4, 2)]), 1.0 / 60.0);
        close(least(&[(3, 0)]), 1.0);
    }

    #[test]
    fn with_many_cells_each_must_differ_by_more() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.04]), [0.04]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
