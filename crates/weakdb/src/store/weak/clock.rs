//! Clocks: by lane (see [`Graph`](super::graph::Graph)), a number of its writers: its first ones.
//!
//! Clients of a server come and go, and each may have written once. Most writers know of few others, so
//! beyond the first lanes, which are all that most programs have, a clock lists only those it knows of.

/// So many lanes are an array.
const NEAR: usize = 32;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    near: Vec<u32>,
    /// Ascending, without zeros.
    far: Vec<(u32, u32)>,
}

impl Clock {
    #[inline]
    pub fn get(&self, lane: usize) -> u32 {
        if lane < NEAR {
            return self.near.get(lane).copied().unwrap_or(0);
        }
        self.find(lane).map_or(0, |at| self.far[at].1)
    }

    fn find(&self, lane: usize) -> Result<usize, usize> {
        self.far.binary_search_by_key(&(lane as u32), |entry| entry.0)
    }

    /// The lanes of which it knows a writer, ascending, and how many writers of each.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let near = self.near.iter().copied().enumerate().filter(|entry| entry.1 > 0);
        near.chain(self.far.iter().map(|&(lane, number)| (lane as usize, number)))
    }

    /// True if it grew.
    pub fn raise(&mut self, lane: usize, to: u32) -> bool {
        if self.get(lane) >= to {
            return false;
        }
        if lane < NEAR {
            if self.near.len() <= lane {
                self.near.resize(lane + 1, 0);
            }
            self.near[lane] = to;
        } else {
            match self.find(lane) {
                Ok(at) => self.far[at].1 = to,
                Err(at) => self.far.insert(at, (lane as u32, to)),
            }
        }
        true
    }

    /// True if it grew.
    pub fn join(&mut self, other: &Clock) -> bool {
        if self.near.len() < other.near.len() {
            self.near.resize(other.near.len(), 0);
        }
        let mut grows = false;
        for (mine, &theirs) in self.near.iter_mut().zip(&other.near) {
            grows |= *mine < theirs;
            *mine = (*mine).max(theirs);
        }
        let news = other.far.iter().any(|&(lane, number)| self.get(lane as usize) < number);
        if news {
            self.far = merged(&self.far, &other.far);
        }
        grows | news
    }
}

fn merged(mut a: &[(u32, u32)], mut b: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut all = Vec::with_capacity(a.len() + b.len());
    while let (Some((&x, more_a)), Some((&y, more_b))) = (a.split_first(), b.split_first()) {
        all.push(match x.0.cmp(&y.0) {
            std::cmp::Ordering::Less => x,
            std::cmp::Ordering::Greater => y,
            std::cmp::Ordering::Equal => (x.0, x.1.max(y.1)),
        });
        (a, b) = (if x.0 <= y.0 { more_a } else { a }, if y.0 <= x.0 { more_b } else { b });
    }
    all.extend(a.iter().chain(b));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_numbers_by_lane() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2_000 {
            let lanes = random.usize(1..3 * NEAR);
            let mut plain = [vec![0; lanes], vec![0; lanes]];
            let mut clocks = [Clock::default(), Clock::default()];
            for _ in 0..random.usize(..60) {
                let (which, lane, to) = (random.usize(..2), random.usize(..lanes), random.u32(1..9));
                assert_eq!(clocks[which].raise(lane, to), plain[which][lane] < to);
                plain[which][lane] = plain[which][lane].max(to);
            }
            let [mut a, b] = clocks;
            let joined: Vec<u32> = plain[0].iter().zip(&plain[1]).map(|(x, y)| *x.max(y)).collect();
            assert_eq!(a.join(&b), joined != plain[0]);
            assert!((0..lanes).all(|lane| a.get(lane) == joined[lane]));
            let known = joined.iter().copied().enumerate().filter(|entry| entry.1 > 0);
            assert_eq!(a.iter().collect::<Vec<_>>(), known.collect::<Vec<_>>());
        }
    }
}
