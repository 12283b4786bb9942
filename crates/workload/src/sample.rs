//! Which key an operation touches: samplers in constant time and memory.

use crate::spec::Distribution;

/// Draws numbers below `n`; 0 is the most popular where there is one.
pub(crate) enum Sampler {
    Uniform { n: u64 },
    Zipf(Zipf),
    Hotspot { n: u64, hot: u64 },
    Exponential { n: u64, mean: f64 },
}

impl Sampler {
    pub fn new(distribution: Distribution, n: u64) -> Sampler {
        match distribution {
            Distribution::Uniform => Sampler::Uniform { n },
            Distribution::Zipf { theta } => Sampler::Zipf(Zipf::new(n, theta)),
            Distribution::Hotspot => Sampler::Hotspot { n, hot: n.div_ceil(5) },
            // As YCSB: 95 % of the operations on the first 6/7 of the keys.
            Distribution::Exponential => {
                Sampler::Exponential { n, mean: n as f64 * (6.0 / 7.0) / -(0.05f64).ln() }
            }
        }
    }

    #[inline]
    pub fn sample(&self, rng: &mut fastrand::Rng) -> u64 {
        match self {
            Sampler::Uniform { n } => rng.u64(0..*n),
            Sampler::Zipf(zipf) => zipf.sample(rng),
            Sampler::Hotspot { n, hot } if hot == n || rng.u32(0..100) < 80 => rng.u64(0..*hot),
            Sampler::Hotspot { n, hot } => rng.u64(*hot..*n),
            Sampler::Exponential { n, mean } => loop {
                let drawn = -(1.0 - rng.f64()).ln() * mean;
                if drawn < *n as f64 {
                    break drawn as u64;
                }
            },
        }
    }
}

/// Zipf's law, `P(k) ∝ (k+1)^-theta`, by rejection-inversion (Hörmann & Derflinger 1996): no tables, and
/// about one trial per number, for any `theta > 0`.
pub(crate) struct Zipf {
    n: f64,
    theta: f64,
    /// The area under the hat function up to the first, and up to the last number.
    area_first: f64,
    area_last: f64,
    /// Below this distance to its right neighbour a candidate needs no test.
    safe: f64,
}

impl Zipf {
    pub fn new(n: u64, theta: f64) -> Zipf {
        let mut zipf = Zipf { n: n as f64, theta, area_first: 0.0, area_last: 0.0, safe: 0.0 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(zipf.n + 0.5);
        zipf.safe = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.density(2.0));
        zipf
    }

    /// `x^-theta`.
    fn density(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// An integral of the density: `(x^(1-theta) - 1) / (1-theta)`, and `ln x` for `theta = 1`, without
    /// cancellation near it.
    fn area(&self, x: f64) -> f64 {
        let (log, exponent) = (x.ln(), 1.0 - self.theta);
        let t = exponent * log;
        if t.abs() > 1e-8 { t.exp_m1() / exponent } else { log * (1.0 + t / 2.0) }
    }

    fn area_inverse(&self, area: f64) -> f64 {
        let exponent = 1.0 - self.theta;
        let t = (area * exponent).max(-1.0);
        let log = if t.abs() > 1e-8 { t.ln_1p() / exponent } else { area * (1.0 - t / 2.0) };
        log.exp()
    }

    pub fn sample(&self, rng: &mut fastrand::Rng) -> u64 {
        loop {
            let area = self.area_last + rng.f64() * (self.area_first - self.area_last);
            let x = self.area_inverse(area);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.safe || area >= self.area(k + 0.5) - self.density(k) {
                return k as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    fn shares(distribution: Distribution, n: u64) -> Vec<f64> {
        let sampler = Sampler::new(distribution, n);
        let mut rng = fastrand::Rng::with_seed(7);
        let mut share = vec![0.0; n as usize];
        for _ in 0..DRAWS {
            share[sampler.sample(&mut rng) as usize] += 1.0 / DRAWS as f64;
        }
        share
    }

    #[test]
    fn zipf_follows_its_law() {
        for theta in [0.5, 0.99, 1.0, 1.5, 3.0] {
            let n = 100;
            let total: f64 = (1..=n).map(|k| (k as f64).powf(-theta)).sum();
            for (k, share) in shares(Distribution::Zipf { theta }, n).into_iter().enumerate() {
                let expected = ((k + 1) as f64).powf(-theta) / total;
                let tolerance = 5.0 * (expected / DRAWS as f64).sqrt() + 1e-5;
                assert!((share - expected).abs() < tolerance, "theta {theta}, {k}: {share}, not {expected}");
            }
        }
    }

    #[test]
    fn hotspot_puts_four_fifths_on_one_fifth() {
        let share = shares(Distribution::Hotspot, 1000);
        let hot: f64 = share[..200].iter().sum();
        assert!((hot - 0.8).abs() < 0.01, "{hot}");
    }

    #[test]
    fn uniform_and_exponential_have_their_shape() {
        let share = shares(Distribution::Uniform, 10);
        assert!(share.iter().all(|s| (s - 0.1).abs() < 0.01), "{share:?}");
        let share = shares(Distribution::Exponential, 700);
        let head: f64 = share[..600].iter().sum();
        assert!((head - 0.95 / 0.97).abs() < 0.01, "{head}");
        assert!(share[..100].iter().sum::<f64>() > 2.0 * share[300..400].iter().sum::<f64>());
    }

    #[test]
    fn one_key_is_enough_for_any_distribution() {
        for d in [
            Distribution::Uniform,
            Distribution::Zipf { theta: 0.99 },
            Distribution::Hotspot,
            Distribution::Exponential,
        ] {
            assert_eq!(shares(d, 1)[0].round(), 1.0, "{d:?}");
        }
    }
}
