//! Figures of other tools on the same shapes.
//!
//! Measured once on a quiet machine with 2 cores and 24 GiB, end to end (start, load, check), best of 2 or,
//! for W3, of 1. Another machine than this one: a ratio says what order of magnitude to expect, no more.

use crate::question::Question;
use serde_json::{Value, json};

/// What a tool took for a shape and a level.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Peer {
    /// Its name and version.
    pub tool: &'static str,
    shape: &'static str,
    question: Question,
    /// Wall-clock time.
    pub seconds: f64,
    /// Peak of memory.
    pub memory_mb: f64,
}

const AWDIT: &str = "AWDIT 0.2.1";
const PLUME: &str = "Plume 1.0";
const CHRONOS: &str = "Chronos";
/// It did not finish W5c within 400 s.
const VERISTRONG: &str = "VeriStrong";
use Question::{Causal, ReadAtomic, ReadCommitted, SerStamps, Serializable, SiStamps, SnapshotIsolation};

const FIGURES: [Peer; 19] = [
    peer(CHRONOS, "W2", SiStamps, 3.1, 950.0),
    peer(CHRONOS, "W2", SerStamps, 3.3, 1_000.0),
    peer(CHRONOS, "W3", SiStamps, 65.0, 12_500.0),
    peer(AWDIT, "W1", ReadCommitted, 0.08, 16.0),
    peer(AWDIT, "W1", ReadAtomic, 0.09, 18.0),
    peer(AWDIT, "W1", Causal, 0.11, 31.0),
    peer(AWDIT, "W2", ReadCommitted, 1.16, 120.0),
    peer(AWDIT, "W2", ReadAtomic, 1.61, 252.0),
    peer(AWDIT, "W2", Causal, 9.81, 2_800.0),
    peer(AWDIT, "W3", ReadCommitted, 19.3, 1_800.0),
    peer(AWDIT, "W3", ReadAtomic, 27.0, 2_900.0),
    peer(AWDIT, "W3", Causal, 204.0, 24_400.0),
    peer(PLUME, "W1", ReadCommitted, 1.62, 180.0),
    peer(PLUME, "W1", ReadAtomic, 1.78, 180.0),
    peer(PLUME, "W1", Causal, 1.57, 180.0),
    peer(VERISTRONG, "W5a", Serializable, 1.9, 163.0),
    peer(VERISTRONG, "W5a", SnapshotIsolation, 4.4, 252.0),
    peer(VERISTRONG, "W5b", Serializable, 7.0, 695.0),
    peer(VERISTRONG, "W5b", SnapshotIsolation, 10.9, 701.0),
];

const fn peer(tool: &'static str, shape: &'static str, question: Question, seconds: f64, mb: f64) -> Peer {
    Peer { tool, shape, question, seconds, memory_mb: mb }
}

/// Figures of other tools for a case, in whatever order its file is.
pub fn figures(case: &str, question: Question) -> Vec<Peer> {
    let shape = case.strip_suffix("-by-session").unwrap_or(case);
    FIGURES.into_iter().filter(|p| p.shape == shape && p.question == question).collect()
}

impl Peer {
    /// How many times as long it took there as Anomalist took here.
    pub fn ratio(&self, wall_ms: f64) -> f64 {
        self.seconds * 1e3 / wall_ms.max(1e-3)
    }

    /// As data.
    pub fn json(&self, wall_ms: f64) -> Value {
        json!({
            "tool": self.tool,
            "seconds": self.seconds,
            "memory_mb": self.memory_mb,
            "ratio": self.ratio(wall_ms),
            "machine": "another: see docs/benchmarks.md",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sorted_file_is_compared_with_the_same_figures() {
        assert_eq!(figures("W2", Causal), figures("W2-by-session", Causal));
        assert_eq!(figures("W1", Causal).iter().map(|p| p.tool).collect::<Vec<_>>(), [AWDIT, PLUME]);
        assert!(figures("W1", Question::AllWeak).is_empty());
        assert_eq!(figures("W2", Causal)[0].ratio(981.0), 10.0);
    }
}
