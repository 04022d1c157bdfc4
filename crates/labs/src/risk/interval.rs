//! The 95% intervals of the estimates.
//!
//! Two things are uncertain. By chance, more or fewer of the simulated faults cost an update. And by chance, the file has more
//! or fewer long lengths than another measurement would have.
//!
//! Both are resampled many times. Every run, every measured length and every run without faults gets a random weight. The
//! weight of an estimate is the product of those that it depends on. This is the Bayesian bootstrap (Rubin, 1981, Annals of
//! Statistics 9, 130-134) for crossed sources of chance. Its variance is at least the true one (Owen and Eckles, 2012, Annals
//! of Applied Statistics 6, 895-927). The weights of measured lengths are not normalized, so the number of lengths is uncertain
//! too, like a Poisson count.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::exposure::Exposure;
use super::strikes::Strike;
use checker::wilson_95;

const DRAWS: usize = 2000;

/// An estimate with its 95% interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// The same in another unit.
    pub fn times(self, factor: f64) -> Interval {
        Interval { mean: self.mean * factor, low: self.low * factor, high: self.high * factor }
    }

    /// The interval of resampled values around an estimate.
    pub fn of(mean: f64, mut drawn: Vec<f64>) -> Interval {
        drawn.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (share * drawn.len().saturating_sub(1) as f64).round() as usize;
            drawn.get(place).copied().unwrap_or(mean)
        };
        Interval { mean, low: at(0.025).min(mean), high: at(0.975).max(mean) }
    }
}

/// An estimate and its resampled values, all per second.
#[derive(Clone, Debug)]
pub struct Drawn {
    pub mean: f64,
    pub again: Vec<f64>,
    /// The possible rate beyond all of these values, from lengths for which no run cost an update.
    pub beyond: f64,
}

impl Drawn {
    pub fn nothing() -> Drawn {
        Drawn { mean: 0.0, again: vec![0.0; DRAWS], beyond: 0.0 }
    }

    /// The sum of both.
    pub fn and(self, other: &Drawn) -> Drawn {
        Drawn {
            mean: self.mean + other.mean,
            again: self.again.iter().zip(&other.again).map(|(one, another)| one + another).collect(),
            beyond: self.beyond + other.beyond,
        }
    }

    pub fn interval(self) -> Interval {
        let Interval { mean, low, high } = Interval::of(self.mean, self.again);
        Interval { mean, low, high: high + self.beyond }
    }
}

/// The updates that the faults of one kind cost per second. `cost` returns the cost of a run. `times` has how often each length
/// happened to one member in `over_s` seconds.
pub fn drawn(
    exposure: &Exposure,
    strikes: &[Strike],
    times: &[f64],
    (over_s, is_measured, seed): (f64, bool, u64),
    cost: impl Fn(&Strike) -> f64,
) -> Drawn {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let of = |exposed: f64, by_length: &[f64]| {
        exposed / over_s * times.iter().zip(by_length).map(|(times, mean)| times * mean).sum::<f64>()
    };
    let mut runs_of = vec![0.0; times.len()];
    strikes.iter().for_each(|strike| runs_of[strike.length] += 1.0);
    let by_length = |weights: &[f64]| {
        // The weights of all runs add up to their number. If each length were normalized by itself, a length with a single run
        // would seem certain.
        let scale = strikes.len() as f64 / weights.iter().sum::<f64>();
        let mut means = vec![0.0; times.len()];
        for (strike, weight) in strikes.iter().zip(weights) {
            means[strike.length] += scale * weight * strike.weight * cost(strike) / runs_of[strike.length];
        }
        means
    };
    let mean = of(exposure.mean(), &by_length(&vec![1.0; strikes.len()]));
    let again = (0..DRAWS).map(|_| {
        let runs: Vec<f64> = exposure.exposed.iter().map(|_| exponential(&mut rng)).collect();
        let exposed = exposure.exposed.iter().zip(&runs).map(|(exposed, weight)| exposed * weight).sum::<f64>();
        let exposed = exposed / runs.iter().sum::<f64>();
        let weights: Vec<f64> = strikes.iter().map(|_| exponential(&mut rng)).collect();
        let mut means = by_length(&weights);
        if is_measured {
            means.iter_mut().for_each(|mean| *mean *= exponential(&mut rng));
        }
        of(exposed, &means)
    });
    let again = again.collect();
    // If no run with a length cost an update, there is nothing to resample. The lengths are sorted, and a longer fault costs no
    // less. So all lengths before the first costly one share the bound of all their runs together.
    let first = strikes.iter().filter(|strike| cost(strike) > 0.0).map(|strike| strike.length).min();
    let in_vain: Vec<&Strike> =
        strikes.iter().filter(|strike| first.is_none_or(|first| strike.length < first)).collect();
    let count = times.iter().take(first.unwrap_or(times.len())).sum::<f64>();
    let count = if is_measured && count > 0.0 { at_most(count) } else { count };
    let heaviest = in_vain.iter().map(|strike| strike.weight).fold(0.0, f64::max);
    let share = wilson_95(0, in_vain.len() as u64).map_or(0.0, |(_, high)| high);
    let beyond = exposure.mean() * heaviest * count / over_s * share;
    Drawn { mean, again, beyond }
}

/// The upper end of the 95% interval of a Poisson mean, for this count. This is Garwood (1936) by the approximation of Wilson
/// and Hilferty (1931), "The distribution of chi-square".
pub fn at_most(count: f64) -> f64 {
    let n = count + 1.0;
    n * (1.0 - 1.0 / (9.0 * n) + 1.959_964 / (3.0 * n.sqrt())).powi(3)
}

/// A random weight with mean 1.
pub fn exponential(rng: &mut impl Rng) -> f64 {
    -f64::ln(1.0 - rng.random::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exposure() -> Exposure {
        Exposure { seeds: vec![1, 2], times: Vec::new(), exposed: vec![0.5, 0.5], updates_per_s: 1.0, lost_per_s: 0.0 }
    }

    fn strikes(lost: &[u64]) -> Vec<Strike> {
        lost.iter().map(|lost| Strike { run: 0, length: 0, weight: 1.0, lost: *lost }).collect()
    }

    #[test]
    fn counts_have_the_intervals_of_the_tables() {
        // Garwood (1936), as in tables of exact Poisson limits.
        for (count, high) in [(0.0, 3.689), (1.0, 5.572), (5.0, 11.668), (10.0, 18.390), (100.0, 121.627)] {
            assert!((at_most(count) / high - 1.0).abs() < 0.01, "{count}: {}", at_most(count));
        }
    }

    #[test]
    fn the_mean_is_the_product_of_its_factors_and_the_interval_is_around_it() {
        // Exposed half of the time, 10 faults in 100 s, two updates each.
        let lost = |strike: &Strike| strike.lost as f64;
        let drawn = |is_measured, times: f64| {
            drawn(&exposure(), &strikes(&[0, 4, 0, 4]), &[times], (100.0, is_measured, 1), lost).interval()
        };
        let (measured, profile) = (drawn(true, 10.0), drawn(false, 10.0));
        assert!((measured.mean - 0.1).abs() < 1e-12 && measured.mean == profile.mean, "{measured:?}");
        assert!(measured.low < profile.low && profile.high < measured.high, "{measured:?} {profile:?}");
        assert!(profile.low > 0.0 && profile.high < 0.2, "at most four each time: {profile:?}");
        assert!((drawn(false, 20.0).high / profile.high - 2.0).abs() < 1e-9);
    }

    #[test]
    fn more_measured_lengths_and_more_runs_make_the_interval_narrower() {
        let width = |lengths: usize, runs: usize| {
            let strikes: Vec<Strike> = (0..runs)
                .map(|run| Strike { run: 0, length: run % lengths, weight: 1.0, lost: u64::from(run % 2 == 0) })
                .collect();
            let times = vec![30.0 / lengths as f64; lengths];
            let interval = drawn(&exposure(), &strikes, &times, (1.0, true, 7), |strike| strike.lost as f64).interval();
            (interval.high - interval.low) / interval.mean
        };
        assert!(width(31, 310) < width(3, 310) && width(31, 310) < width(31, 31));
        // With many lengths of the same cost, the interval is at least that of their count, 81 to 122.
        let strikes: Vec<Strike> = (0..100).map(|length| Strike { run: 0, length, weight: 1.0, lost: 1 }).collect();
        let all = drawn(&exposure(), &strikes, &[1.0; 100], (0.5, true, 7), |strike| strike.lost as f64).interval();
        assert!((60.0..81.0).contains(&all.low) && (122.0..145.0).contains(&all.high), "{all:?}");
    }

    #[test]
    fn no_loss_in_any_run_is_not_no_risk() {
        let of = |is_measured| {
            let strikes = strikes(&[0; 100]);
            drawn(&exposure(), &strikes, &[10.0], (100.0, is_measured, 1), |strike| strike.lost as f64).interval()
        };
        let (measured, profile) = (of(true), of(false));
        assert_eq!((measured.mean, measured.low), (0.0, 0.0));
        assert!((0.5 * 0.1 * 0.03..0.5 * 0.1 * 0.05).contains(&profile.high), "{profile:?}");
        assert!(measured.high > 1.5 * profile.high);
        // Rare costly lengths do not hide that frequent lengths may be costly too.
        let both = |often: f64| {
            let strikes: Vec<Strike> = (0..100usize)
                .map(|run| Strike { run: 0, length: run % 2, weight: 1.0, lost: run as u64 % 2 })
                .collect();
            drawn(&exposure(), &strikes, &[often, 1.0], (100.0, false, 1), |strike| strike.lost as f64).interval()
        };
        assert_eq!(both(100.0).mean, both(0.0).mean);
        assert!(both(100.0).high > both(0.0).high + 0.5 * 0.05, "up to 7% of 100 in 100 s, half of the time");
        let none = drawn(&exposure(), &[], &[], (100.0, false, 1), |strike| strike.lost as f64).interval();
        assert_eq!(none, Interval::default(), "no length that reaches is none");
    }
}
