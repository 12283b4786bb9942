//! When transactions reach a checker that watches a database.
//!
//! As in AION's experiments (section VI): a collector gathers what commits and sends it in batches; each
//! transaction of a batch is then delayed by a random time. A session's transactions stay in order, since
//! one connection carries them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::str::FromStr;

/// How transactions arrive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arrival {
    /// Mean of the delay, in milliseconds.
    pub mean_ms: f64,
    /// Standard deviation of the delay, in milliseconds.
    pub deviation_ms: f64,
    /// Transactions that commit in a second.
    pub rate: f64,
    /// Transactions that are sent together.
    pub batch: usize,
}

impl Default for Arrival {
    /// The paper's: N(100 ms, 10 ms), batches of 500, more than 25,000 transactions a second.
    fn default() -> Arrival {
        Arrival { mean_ms: 100.0, deviation_ms: 10.0, rate: 25_000.0, batch: 500 }
    }
}

/// The delay alone, as people write it: `normal(100ms,10ms)`, or `none`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Delay {
    /// In milliseconds.
    pub mean_ms: f64,
    /// In milliseconds.
    pub deviation_ms: f64,
}

/// Not a delay.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected normal(MEAN,DEVIATION), such as normal(100ms,10ms), or none")]
pub struct NotADelay;

impl FromStr for Delay {
    type Err = NotADelay;

    fn from_str(text: &str) -> Result<Delay, NotADelay> {
        let text = text.trim().to_ascii_lowercase();
        if text == "none" {
            return Ok(Delay { mean_ms: 0.0, deviation_ms: 0.0 });
        }
        let inside = text.strip_prefix("normal(").and_then(|rest| rest.strip_suffix(')')).ok_or(NotADelay)?;
        let (mean, deviation) = inside.split_once(',').ok_or(NotADelay)?;
        let milliseconds = |text: &str| {
            let text = text.trim();
            let (number, factor) = match text.strip_suffix("ms") {
                Some(number) => (number, 1.0),
                None => (text.strip_suffix('s').ok_or(NotADelay)?, 1000.0),
            };
            let number: f64 = number.trim().parse().map_err(|_| NotADelay)?;
            if number.is_finite() && number >= 0.0 { Ok(number * factor) } else { Err(NotADelay) }
        };
        Ok(Delay { mean_ms: milliseconds(mean)?, deviation_ms: milliseconds(deviation)? })
    }
}

/// Puts things that commit one after another into the order in which they arrive.
///
/// ```
/// use anomalist_workload::{Arrival, Arrivals};
/// let mut arrivals = Arrivals::new(Arrival { batch: 10, ..Arrival::default() }, 7);
/// let mut order = Vec::new();
/// for n in 0..100_u64 {
///     arrivals.commit((n % 4) as usize, n);
///     while let Some((_, n)) = arrivals.next_before_the_next_batch() {
///         order.push(n);
///     }
/// }
/// order.extend(arrivals.rest().map(|(_, n)| n));
/// assert_eq!(order.len(), 100);
/// assert!(!order.is_sorted());
/// ```
pub struct Arrivals<T> {
    model: Arrival,
    rng: fastrand::Rng,
    committed: u64,
    batch: Vec<(usize, T)>,
    /// By time of arrival in microseconds, then rank.
    under_way: BinaryHeap<Reverse<(u64, u64, Entry<T>)>>,
    /// When the last of each session arrives.
    last: Vec<u64>,
}

/// Not compared: ranks are unique.
struct Entry<T>(T);

impl<T> PartialEq for Entry<T> {
    fn eq(&self, _: &Entry<T>) -> bool {
        true
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Entry<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, _: &Entry<T>) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl<T> Arrivals<T> {
    /// Same seed, same delays.
    pub fn new(model: Arrival, seed: u64) -> Arrivals<T> {
        let rng = fastrand::Rng::with_seed(seed);
        Arrivals {
            model,
            rng,
            committed: 0,
            batch: Vec::new(),
            under_way: BinaryHeap::new(),
            last: Vec::new(),
        }
    }

    /// The next transaction commits, in this session.
    pub fn commit(&mut self, session: usize, what: T) {
        self.batch.push((session, what));
        self.committed += 1;
        if self.batch.len() >= self.model.batch.max(1) {
            self.send();
        }
    }

    /// When the last transaction committed, in microseconds.
    fn now(&self) -> u64 {
        (self.committed as f64 * 1e6 / self.model.rate.max(1e-6)) as u64
    }

    fn send(&mut self) {
        let now = self.now();
        let first = self.committed - self.batch.len() as u64;
        for (rank, (session, what)) in (first..).zip(std::mem::take(&mut self.batch)) {
            let delay = (self.model.mean_ms + self.model.deviation_ms * self.normal()).max(0.0);
            if self.last.len() <= session {
                self.last.resize(session + 1, 0);
            }
            let arrives = (now + (delay * 1000.0) as u64).max(self.last[session]);
            self.last[session] = arrives;
            self.under_way.push(Reverse((arrives, rank, Entry(what))));
        }
    }

    /// A number with the standard normal distribution, by Box and Muller's method.
    fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.rng.f64(), self.rng.f64());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// The next to arrive, with the time in microseconds, if nothing that is yet to be sent can come before
    /// it.
    pub fn next_before_the_next_batch(&mut self) -> Option<(u64, T)> {
        let Reverse((arrives, ..)) = self.under_way.peek()?;
        if *arrives > self.now() {
            return None;
        }
        self.under_way.pop().map(|Reverse((arrives, _, Entry(what)))| (arrives, what))
    }

    /// All that is left: nothing more commits.
    pub fn rest(mut self) -> impl Iterator<Item = (u64, T)> {
        self.send();
        std::iter::from_fn(move || {
            self.under_way.pop().map(|Reverse((arrives, _, Entry(what)))| (arrives, what))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_stay_in_order_and_time_does_not_go_back() {
        let mut arrivals = Arrivals::new(Arrival { rate: 1000.0, batch: 7, ..Arrival::default() }, 3);
        let mut order = Vec::new();
        for n in 0..5000_u64 {
            arrivals.commit((n % 5) as usize, n);
            order.extend(std::iter::from_fn(|| arrivals.next_before_the_next_batch()));
        }
        order.extend(arrivals.rest());
        assert!(order.is_sorted_by_key(|(at, _)| *at));
        let mut last = [None; 5];
        for &(_, n) in &order {
            let before = last[(n % 5) as usize].replace(n);
            assert!(before < Some(n));
        }
        let mean = order.iter().map(|&(at, n)| at as f64 / 1000.0 - n as f64).sum::<f64>() / 5000.0;
        assert!((95.0..125.0).contains(&mean), "{mean}");
    }

    #[test]
    fn delays_are_written_as_in_the_paper() {
        assert_eq!("normal(100ms, 10ms)".parse(), Ok(Delay { mean_ms: 100.0, deviation_ms: 10.0 }));
        assert_eq!("Normal(1.5s,0ms)".parse(), Ok(Delay { mean_ms: 1500.0, deviation_ms: 0.0 }));
        assert_eq!("none".parse(), Ok(Delay { mean_ms: 0.0, deviation_ms: 0.0 }));
        for wrong in ["normal(1,2)", "uniform(1ms,2ms)", "normal(-1ms,2ms)", ""] {
            assert_eq!(wrong.parse::<Delay>(), Err(NotADelay), "{wrong}");
        }
    }
}
