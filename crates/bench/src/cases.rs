//! Which histories are measured.
//!
//! Plume's Figures 8 and 9 vary one parameter at a time around 25 sessions × 200 transactions × 20
//! operations, half of them reads, on 10,000 keys used alike; the groups named after a parameter do the
//! same, over a range that contains the paper's. `lists` is its Figure 10, `elle` Elle's Figure 4, `large`
//! its Figure 13, `timestamps` Figures 4 to 10 of Chronos and AION, `peers` the shapes on which other tools
//! are measured, `adversarial` what could break the promise that time per operation stays about the same,
//! and `strong` what serializability and snapshot isolation are decided on.

use crate::question::Question;
use anomalist_workload::{Distribution, Injection, Kind, SimLevel, Spec};

/// The groups, in the order in which they run.
pub const GROUPS: [&str; 13] = [
    "peers",
    "sessions",
    "transactions",
    "operations",
    "reads",
    "keys",
    "skew",
    "lists",
    "elle",
    "timestamps",
    "adversarial",
    "strong",
    "large",
];

const ZIPF: Distribution = Distribution::Zipf { theta: 0.99 };

/// When a case is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Always: together these take less than two minutes.
    Quick,
    /// When its group is named.
    Usual,
    /// With `--full`.
    Huge,
}

/// Where a history comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// A simulated database.
    Simulated(Box<Spec>),
    /// One transaction writes every key, and everybody reads just that.
    OneWriter {
        /// Number of sessions that read.
        sessions: u32,
        /// Transactions of each.
        txns_per_session: u32,
        /// Reads of each transaction.
        ops_per_txn: u32,
        /// Number of keys.
        keys: u32,
    },
}

/// A history to measure.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// Its group.
    pub group: &'static str,
    /// Its name within the group.
    pub name: String,
    /// What it is, for people.
    pub about: &'static str,
    /// Where it comes from.
    pub source: Source,
    /// The file is sorted by session, so its order says nothing about the order of commits.
    pub by_session: bool,
    /// When it is measured.
    pub size: Size,
}

impl Case {
    fn new(group: &'static str, name: impl ToString, about: &'static str, spec: Spec) -> Case {
        let source = Source::Simulated(Box::new(spec));
        Case { group, name: name.to_string(), about, source, by_session: false, size: Size::Usual }
    }

    fn quick(self, quick: bool) -> Case {
        Case { size: if quick { Size::Quick } else { Size::Usual }, ..self }
    }

    fn huge(self) -> Case {
        Case { size: Size::Huge, ..self }
    }

    fn sorted(&self) -> Case {
        Case { name: format!("{}-by-session", self.name), by_session: true, ..self.clone() }
    }

    /// What is asked about it.
    pub fn questions(&self) -> &'static [Question] {
        match self.group {
            "strong" => &Question::STRONG,
            "elle" => &Question::ELLE,
            "timestamps" => &Question::STAMPS,
            "peers" if self.name.starts_with("W5") => &Question::STRONG,
            "peers" if self.name == "W4" => &Question::ELLE,
            "peers" if self.name.ends_with("-timestamps") => &Question::STAMPS,
            _ => &Question::ALL,
        }
    }

    /// Group and name.
    pub fn id(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }

    /// True if the user means it (too) by `name`: its group, or its id.
    pub fn is_named(&self, name: &str) -> bool {
        name == self.group || name == self.id()
    }
}

/// All cases.
pub fn all() -> Vec<Case> {
    let mut cases = peers();
    cases.extend(parameters());
    cases.extend(lists());
    cases.extend(elle());
    cases.extend(timestamps());
    cases.extend(adversarial());
    cases.extend(strong());
    cases.extend(large());
    cases
}

fn peers() -> Vec<Case> {
    let mut cases = Vec::new();
    // The names are those of `Spec::SHAPES`.
    let shape = |name: &str| Spec::shape(name).unwrap_or_default();
    let case = |name: &str, spec| Case::new("peers", name, "shape of docs/benchmarks.md", spec);
    let sized = |case: Case| if case.name.starts_with("W3") { case.huge() } else { case.quick(true) };
    for name in ["W1", "W2", "W3"] {
        // Plume text has no timestamps, so none are made.
        let case = sized(case(name, Spec { kind: Kind::Register, ..shape(name) }));
        cases.extend([case.clone(), case.sorted()]);
    }
    for name in ["W2", "W3"] {
        let spec = Spec { kind: Kind::Timestamped, ..shape(name) };
        cases.push(sized(case(&format!("{name}-timestamps"), spec)));
    }
    cases.extend(["W4", "W5a", "W5b", "W5c"].map(|name| sized(case(name, shape(name)))));
    cases
}

/// One parameter at a time.
fn parameters() -> Vec<Case> {
    let mut cases = Vec::new();
    for sessions in [5, 10, 25, 50, 100, 200] {
        let spec = Spec { sessions, ..Spec::default() };
        let quick = [5, 100].contains(&sessions);
        cases.push(Case::new("sessions", sessions, "number of sessions", spec).quick(quick));
    }
    for txns_per_session in [50, 100, 200, 400, 800, 1_600, 3_200] {
        let spec = Spec { txns_per_session, ..Spec::default() };
        let quick = [50, 800].contains(&txns_per_session);
        cases
            .push(Case::new("transactions", txns_per_session, "transactions per session", spec).quick(quick));
    }
    for ops_per_txn in [5, 10, 20, 50, 100] {
        let spec = Spec { ops_per_txn, ..Spec::default() };
        let quick = [5, 50].contains(&ops_per_txn);
        cases.push(Case::new("operations", ops_per_txn, "operations per transaction", spec).quick(quick));
    }
    for percent in [10, 30, 50, 70, 90, 95] {
        let spec = Spec { read_ratio: f64::from(percent) / 100.0, ..Spec::default() };
        let quick = [10, 90].contains(&percent);
        cases.push(Case::new("reads", percent, "percent of reads", spec).quick(quick));
    }
    for keys in [100, 1_000, 2_000, 5_000, 10_000, 100_000] {
        let spec = Spec { keys, ..Spec::default() };
        let quick = [1_000, 100_000].contains(&keys);
        cases.push(Case::new("keys", keys, "number of keys", spec).quick(quick));
    }
    for distribution in [Distribution::Uniform, ZIPF, Distribution::Hotspot] {
        let spec = Spec { distribution, ..Spec::default() };
        cases.push(Case::new("skew", distribution.name(), "which keys are used", spec).quick(true));
    }
    cases
}

/// 50 operations per transaction, half of them reads, as in Plume's Figure 10. A key retires after 100
/// appends: lists that grow for ever would measure nothing but the size of the file.
fn lists() -> Vec<Case> {
    let list = |sessions, txns_per_session| Spec {
        kind: Kind::ListAppend,
        sessions,
        txns_per_session,
        ops_per_txn: 50,
        keys: 1_000,
        writes_per_key: Some(100),
        ..Spec::default()
    };
    let mut cases = Vec::new();
    for sessions in [5, 10, 25, 50] {
        let case =
            Case::new("lists", format!("sessions-{sessions}"), "list-append, sessions", list(sessions, 40));
        cases.push(case.quick(sessions == 25));
    }
    for txns in [100, 200, 400] {
        let about = "list-append, transactions per session";
        cases.push(Case::new("lists", format!("transactions-{txns}"), about, list(25, txns)));
    }
    let shape = Spec::shape("W4").unwrap_or_default();
    cases.push(Case::new("lists", "W4", "list-append, shape of docs/benchmarks.md", shape));
    cases
}

/// Elle's Figure 4: list-append on a serializable database with real time, transactions of one to five
/// operations on 100 keys at a time, 100 appends per key. Time against concurrency, at one length; against
/// length, with 20 clients; and up to millions of transactions.
fn elle() -> Vec<Case> {
    let spec = |sessions: u32, txns: u32| Spec {
        kind: Kind::ListAppend,
        level: SimLevel::Serializable,
        sessions,
        txns_per_session: txns / sessions,
        min_ops_per_txn: Some(1),
        ops_per_txn: 5,
        keys: 100,
        writes_per_key: Some(100),
        real_time: true,
        ..Spec::default()
    };
    let mut cases = Vec::new();
    for clients in [1, 5, 10, 20, 40, 100, 200] {
        let about = "list-append with real time, 100,000 transactions, number of clients";
        let case = Case::new("elle", format!("clients-{clients}"), about, spec(clients, 100_000));
        cases.push(case.quick([5, 100].contains(&clients)));
    }
    for txns in [25_000, 50_000, 200_000, 400_000] {
        let about = "list-append with real time, 20 clients, number of transactions";
        cases.push(Case::new("elle", format!("transactions-{txns}"), about, spec(20, txns)));
    }
    for txns in [1_000_000, 5_000_000] {
        let about = "list-append with real time, 20 clients, number of transactions";
        cases.push(Case::new("elle", format!("transactions-{txns}"), about, spec(20, txns)).huge());
    }
    cases
}

/// What Chronos was measured on: one parameter at a time around 50 sessions, 100,000 transactions of 15
/// operations, half of them reads, on 1,000 keys by zipf (Table I); lists; and the shapes of
/// `docs/benchmarks.md`.
fn timestamps() -> Vec<Case> {
    let base = Spec {
        kind: Kind::Timestamped,
        level: SimLevel::SnapshotIsolation,
        sessions: 50,
        txns_per_session: 2_000,
        ops_per_txn: 15,
        keys: 1_000,
        distribution: ZIPF,
        // What TimeKiller's files begin with.
        nil_initial: true,
        ..Spec::default()
    };
    let mut cases = Vec::new();
    let mut vary = |name: String, about: &'static str, spec: Spec| {
        cases.push(Case::new("timestamps", name, about, spec));
    };
    for txns in [5_000, 100_000, 200_000, 500_000] {
        let spec = Spec { txns_per_session: txns / 50, ..base.clone() };
        vary(format!("transactions-{txns}"), "number of transactions", spec);
    }
    for ops_per_txn in [5, 30, 50, 100] {
        vary(
            format!("operations-{ops_per_txn}"),
            "operations per transaction",
            Spec { ops_per_txn, ..base.clone() },
        );
    }
    for sessions in [10, 200] {
        let spec = Spec { sessions, txns_per_session: 100_000 / sessions, ..base.clone() };
        vary(format!("sessions-{sessions}"), "number of sessions", spec);
    }
    for percent in [10, 90] {
        let spec = Spec { read_ratio: f64::from(percent) / 100.0, ..base.clone() };
        vary(format!("reads-{percent}"), "percent of reads", spec);
    }
    for keys in [200, 5_000] {
        vary(format!("keys-{keys}"), "number of keys", Spec { keys, ..base.clone() });
    }
    for distribution in [Distribution::Uniform, Distribution::Hotspot] {
        vary(distribution.name().to_owned(), "which keys are used", Spec { distribution, ..base.clone() });
    }
    for txns in [5_000, 10_000] {
        let kind = Kind::TimestampedList;
        let spec = Spec { kind, txns_per_session: txns / 50, writes_per_key: Some(100), ..base.clone() };
        vary(format!("lists-{txns}"), "lists, number of transactions", spec);
    }
    let broken = Spec { sessions: 24, txns_per_session: 20_833, ops_per_txn: 8, ..base.clone() };
    vary("broken".to_owned(), "500,000 transactions of snapshot isolation, judged as serializable", broken);
    for case in &mut cases {
        if ["transactions-100000", "lists-5000"].contains(&case.name.as_str()) {
            case.size = Size::Quick;
        }
    }
    let million = Spec { txns_per_session: 20_000, ..base };
    cases.push(Case::new("timestamps", "transactions-1000000", "number of transactions", million).huge());
    for name in ["W2", "W3"] {
        let shape = Spec { nil_initial: true, ..Spec::shape(name).unwrap_or_default() };
        let case = Case::new("timestamps", name, "shape of docs/benchmarks.md", shape);
        cases.push(if name == "W3" { case.huge() } else { case.quick(true) });
    }
    cases
}

/// About 400,000 operations each, so that time per operation can be compared.
fn adversarial() -> Vec<Case> {
    let base = Spec { txns_per_session: 800, ..Spec::default() };
    let case = |name: &'static str, about, spec| Case::new("adversarial", name, about, spec);
    let mut cases = vec![
        case("uniform", "what the others are compared with", base.clone()).quick(true),
        case("hot-key", "one key", Spec { keys: 1, ..base.clone() }).quick(true),
        case("hot-key-causal", "one key, causal replicas", {
            Spec { keys: 1, level: SimLevel::Causal, ..base.clone() }
        }),
        case("zipf", "zipf 0.99 on 1,000 keys", Spec { keys: 1_000, distribution: ZIPF, ..base.clone() })
            .quick(true),
        case("zipf-causal", "zipf 0.99 on 1,000 keys, causal replicas", {
            Spec { keys: 1_000, distribution: ZIPF, level: SimLevel::Causal, ..base.clone() }
        })
        .quick(true),
        case("operations-400", "transactions of 400 operations", {
            Spec { txns_per_session: 40, ops_per_txn: 400, ..base.clone() }
        })
        .quick(true),
        case("sessions-1000", "1,000 sessions", {
            Spec { sessions: 1_000, txns_per_session: 20, ..base.clone() }
        })
        .quick(true),
        case("sessions-2000", "2,000 sessions", {
            Spec { sessions: 2_000, txns_per_session: 10, ..base.clone() }
        }),
        case("sessions-20000", "one transaction per session", {
            Spec { sessions: 20_000, txns_per_session: 1, ..base.clone() }
        }),
    ];
    cases.extend([0, 4, 6].map(|i: usize| cases[i].sorted().quick(false)));
    cases.push(Case {
        source: Source::OneWriter { sessions: 25, txns_per_session: 800, ops_per_txn: 20, keys: 10_000 },
        ..case("one-writer", "every read is from one transaction", base.clone()).quick(true)
    });
    let every_tap = ('a'..='n').map(Injection::Tap).collect();
    cases.extend([
        case("every-anomaly", "each of TAP-a to TAP-n once", Spec { inject: every_tap, ..base.clone() })
            .quick(true),
        case("read-atomic", "from a read-atomic database, 1,000 keys", {
            Spec { keys: 1_000, level: SimLevel::ReadAtomic, ..base.clone() }
        }),
        case("read-committed", "from a read-committed database, 1,000 keys", {
            Spec { keys: 1_000, level: SimLevel::ReadCommitted, ..base.clone() }
        })
        .quick(true),
        case("read-uncommitted", "from a read-uncommitted database, 1,000 keys", {
            Spec { keys: 1_000, level: SimLevel::ReadUncommitted, ..base.clone() }
        })
        .quick(true),
        case("read-uncommitted-zipf", "from a read-uncommitted database, zipf 0.99 on 100 keys", {
            Spec { keys: 100, distribution: ZIPF, level: SimLevel::ReadUncommitted, ..base }
        }),
    ]);
    cases
}

/// VeriStrong's and Cobra's kind of workload, each with a file order that helps and without one.
fn strong() -> Vec<Case> {
    let case = |name: &str, about, spec| Case::new("strong", name, about, spec);
    let shape = |name: &str| Spec::shape(name).unwrap_or_default();
    let base = Spec { sessions: 25, txns_per_session: 400, ops_per_txn: 8, keys: 1_000, ..Spec::default() };
    let large = Spec { sessions: 20, txns_per_session: 5_000, keys: 50_000, ..Spec::default() };
    let snapshot = |spec: &Spec| Spec { level: SimLevel::SnapshotIsolation, ..spec.clone() };
    let cases = [
        case("W5a", "shape of docs/benchmarks.md", shape("W5a")).quick(true),
        case("W5b", "shape of docs/benchmarks.md", shape("W5b")).quick(true),
        case("W5c", "shape of docs/benchmarks.md, 1,000 keys zipf", shape("W5c")).quick(true),
        case("W5c-si", "the same from a snapshot isolation database", snapshot(&shape("W5c"))).quick(true),
        case("write-heavy", "10 % reads", Spec { read_ratio: 0.1, ..base.clone() }),
        case("read-heavy", "90 % reads", Spec { read_ratio: 0.9, ..base.clone() }),
        case("hot-keys", "a few of 100 keys take most operations", {
            Spec { distribution: Distribution::Hotspot, keys: 100, ..base.clone() }
        }),
        case("sessions-100", "100 sessions", Spec { sessions: 100, txns_per_session: 100, ..base }),
        case(
            "100-keys",
            "20,000 transactions, half of the operations blind writes, 100 keys, 100 sessions",
            Spec { sessions: 100, txns_per_session: 200, ops_per_txn: 8, keys: 100, ..Spec::default() },
        ),
        case("large", "100,000 transactions of 20 operations", large.clone()).huge(),
        case("large-si", "the same from a snapshot isolation database", snapshot(&large)).huge(),
    ];
    cases.into_iter().flat_map(|case| [Case { size: case.size, ..case.sorted() }, case]).collect()
}

/// 50 million operations: a million transactions with varying read ratio, then fewer and longer ones.
fn large() -> Vec<Case> {
    let spec = |txns_per_session, ops_per_txn, read_ratio| Spec {
        level: SimLevel::SnapshotIsolation,
        sessions: 50,
        txns_per_session,
        ops_per_txn,
        read_ratio,
        keys: 1_000_000,
        ..Spec::default()
    };
    let mut cases = Vec::new();
    for percent in [10, 50, 90] {
        let about = "1,000,000 transactions of 50 operations, percent of reads";
        let shape = spec(20_000, 50, f64::from(percent) / 100.0);
        cases.push(Case::new("large", format!("reads-{percent}"), about, shape).huge());
    }
    for ops in [100, 200, 400] {
        let about = "50,000,000 operations, operations per transaction";
        let shape = spec(1_000_000 / ops, ops, 0.5);
        cases.push(Case::new("large", format!("operations-{ops}"), about, shape).huge());
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_case_has_a_name_of_its_own_and_a_known_group() {
        let all = all();
        let ids: BTreeSet<String> = all.iter().map(Case::id).collect();
        assert_eq!(ids.len(), all.len());
        let used: BTreeSet<&str> = all.iter().map(|c| c.group).collect();
        assert_eq!(used, BTreeSet::from(GROUPS));
    }

    #[test]
    fn every_specification_can_be_generated() {
        for case in all() {
            if let Source::Simulated(spec) = &case.source {
                let generator = anomalist_workload::Generator::new((**spec).clone());
                assert!(generator.is_ok(), "{}: {:?}", case.id(), generator.err());
            }
        }
    }
}
