//! What a monitoring system wants to know, in Prometheus' text format.

use super::report::Lines;
use anomalist_online::Stats;
use anomalist_timestamp::Axiom;
use serde_json::{Value, json};
use std::fmt::Write;

/// What is known at one moment.
#[derive(Clone, Copy, Default)]
pub struct Snapshot {
    /// The checker's counts.
    pub stats: Stats,
    /// Lines that were not used.
    pub lines: Lines,
    /// Verdicts that are not settled and would be reported.
    pub provisional: usize,
    /// Memory in use, as the checker counts.
    pub memory: usize,
    /// Transactions in memory.
    pub live: usize,
    /// Milliseconds since the oldest unsettled transaction arrived.
    pub lag_ms: u64,
}

/// The metrics as text.
pub fn text(now: &Snapshot) -> String {
    let mut out = String::new();
    let mut one = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        _ = writeln!(out, "# HELP anomalist_{name} {help}\n# TYPE anomalist_{name} {kind}");
        for (labels, value) in values {
            _ = writeln!(out, "anomalist_{name}{labels} {value}");
        }
    };
    let plain = |value: f64| vec![(String::new(), value)];
    let stats = &now.stats;
    let by_axiom = |count: &dyn Fn(Axiom) -> u64| -> Vec<(String, f64)> {
        Axiom::ALL.iter().map(|&a| (format!("{{code=\"{}\"}}", a.code()), count(a) as f64)).collect()
    };
    one("transactions_total", "counter", "Transactions that arrived.", &plain(stats.arrived as f64));
    one(
        "transactions_checked_total",
        "counter",
        "Transactions that were checked.",
        &plain(stats.checked as f64),
    );
    one(
        "operations_total",
        "counter",
        "Operations of checked transactions.",
        &plain(stats.operations as f64),
    );
    let reported = by_axiom(&|a| stats.violations[a as usize]);
    one("violations_total", "counter", "Settled violations by axiom; TIE is a warning.", &reported);
    let retracted = by_axiom(&|a| stats.retracted[a as usize]);
    one("retractions_total", "counter", "Violations that a late transaction overturned.", &retracted);
    let standing = by_axiom(&|a| stats.standing(a));
    one("violations_standing", "gauge", "Violations not retracted.", &standing);
    let errors = [
        ("malformed", now.lines.malformed),
        ("untimed", now.lines.untimed),
        ("repeated", stats.repeated),
        ("session-order", stats.session_order),
        ("future", stats.future),
        ("header", stats.headers),
    ];
    let errors: Vec<_> = errors.iter().map(|(k, n)| (format!("{{kind=\"{k}\"}}"), *n as f64)).collect();
    one("stream_errors_total", "counter", "Faults of the stream by kind.", &errors);
    one("provisional", "gauge", "Violations that have not settled.", &plain(now.provisional as f64));
    one(
        "watermark_lag_seconds",
        "gauge",
        "How long ago the oldest transaction arrived whose verdict has not settled.",
        &plain(now.lag_ms as f64 / 1000.0),
    );
    let flips = stats.flip_flops.iter().sum::<u64>() as f64;
    one("flip_flops_total", "counter", "Reads whose verdict changed before it settled.", &plain(flips));
    one("memory_bytes", "gauge", "Memory in use by the checker.", &plain(now.memory as f64));
    one("transactions_in_memory", "gauge", "Transactions in memory.", &plain(now.live as f64));
    one("spilled_bytes_total", "counter", "Bytes written to disk.", &plain(stats.spilled_bytes as f64));
    one("reloaded_chunks_total", "counter", "Chunks read back.", &plain(stats.reloaded_chunks as f64));
    one("collections_total", "counter", "Collections of garbage.", &plain(stats.collections as f64));
    out
}

/// The same for a supervisor, with the transactions per second since the last time.
pub fn sample(now: &Snapshot, rate: f64) -> Value {
    let Snapshot { stats, lines, provisional, memory, live, lag_ms } = now;
    let standing: serde_json::Map<String, Value> =
        Axiom::ALL.iter().map(|&a| (a.code().to_owned(), stats.standing(a).into())).collect();
    let errors = stats.repeated + stats.session_order + stats.future + stats.headers;
    json!({
        "transactions": stats.arrived, "checked": stats.checked, "rate": rate, "lag_ms": lag_ms,
        "memory": memory, "in_memory": live, "disk": stats.spilled_bytes, "unsettled": provisional,
        "flip_flops": stats.flip_flops.iter().sum::<u64>(), "standing": standing,
        "retracted": stats.retracted.iter().sum::<u64>(),
        "errors": errors + lines.malformed + lines.untimed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_comment_or_a_sample() {
        let text = text(&Snapshot::default());
        assert!(text.contains("anomalist_violations_total{code=\"EXT\"} 0\n"));
        for line in text.lines() {
            let sample = line.rsplit_once(' ').is_some_and(|(_, value)| value.parse::<f64>().is_ok());
            assert!(line.starts_with("# ") || sample && line.starts_with("anomalist_"), "{line}");
        }
    }
}
