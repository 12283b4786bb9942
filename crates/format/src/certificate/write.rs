//! Writes certificates.

use super::{Fingerprint, Names, SCHEMA};
use anomalist_history::{History, OpId, TxnId};
use anomalist_level::{
    By, Certificate, Choice, Edge, Evidence, Execution, Judgement, Level, Literal, Mixed, Node, Order, Point,
    Reason, Step, Verdict, VersionReason,
};
use serde_json::{Map, Value, json};

/// The certificate of a judgement: every verdict by values that was decided, with its proofs, and what
/// holds by timestamps. `path` and `format` are for people.
pub fn write(history: &History, path: &str, format: &str, judgement: &Judgement) -> Value {
    let writer = Writer { history, names: Names::new(history) };
    // What holds by timestamps holds by values, if there is a proof: an execution.
    let by_values = |level: Level| judgement.levels.iter().any(|l| l.level == level && l.by == By::Values);
    let proven = |level: Level| judgement.certificates.iter().any(|(by, _)| *by == level);
    let verdicts: Vec<Value> = judgement
        .levels
        .iter()
        .filter(|l| match (l.by, &l.verdict) {
            (_, Verdict::Unknown(_)) => false,
            (By::Values, _) => true,
            (_, Verdict::Holds) => proven(l.level) && !by_values(l.level),
            _ => false,
        })
        .map(|l| match l.verdict {
            Verdict::Violated => {
                let kinds: Vec<&str> = l.anomalies.iter().map(|k| k.name()).collect();
                json!({"level": l.level.name(), "verdict": "violated", "anomalies": kinds})
            }
            _ => json!({"level": l.level.name(), "verdict": l.verdict.name()}),
        })
        .collect();
    let anomalies: Vec<Value> = judgement
        .anomalies
        .iter()
        .filter(|a| !a.kind.is_stamp())
        .map(|a| {
            json!({
                "kind": a.kind.name(),
                "transactions": writer.txns(&a.witness.transactions),
                "operations": writer.ops(&a.witness.operations),
                "edges": writer.edges(&a.witness.edges),
            })
        })
        .collect();
    json!({
        "anomalist": env!("CARGO_PKG_VERSION"),
        "schema": SCHEMA,
        "definitions": judgement.definitions.name(),
        "history": {"path": path, "format": format, "fingerprint": Fingerprint::of(history).to_string()},
        "verdicts": verdicts,
        "anomalies": anomalies,
        "proofs": writer.proofs(&judgement.certificates),
        "mixed": judgement.mixed.as_ref().and_then(|mixed| writer.mixed(mixed)),
    })
}

struct Writer<'a> {
    history: &'a History,
    names: Names,
}

impl Writer<'_> {
    fn txn(&self, t: TxnId) -> Value {
        let name = self.history.raw_name(t);
        match self.names.by_name.get(&name) {
            Some(Some(_)) => name.into(),
            _ => (self.history.position(t) + 1).into(),
        }
    }

    fn txns(&self, txns: &[TxnId]) -> Value {
        txns.iter().map(|&t| self.txn(t)).collect()
    }

    fn op(&self, op: OpId) -> Value {
        let t = self.history.txn_of(op);
        json!([self.txn(t), op.index() - self.history.op_range(t).start])
    }

    fn ops(&self, ops: &[OpId]) -> Value {
        ops.iter().map(|&op| self.op(op)).collect()
    }

    fn maybe(&self, op: Option<OpId>) -> Value {
        op.map_or(Value::Null, |op| self.op(op))
    }

    fn node(&self, node: Node) -> Value {
        match node {
            Node::Initial => Value::Null,
            Node::Txn(t) => self.txn(t),
        }
    }

    fn point(&self, point: Point) -> Value {
        match point {
            Point::Begin(t) => json!(["begin", self.txn(t)]),
            Point::Commit(t) => json!(["commit", self.txn(t)]),
        }
    }

    fn points(&self, points: &[Point]) -> Value {
        points.iter().map(|&p| self.point(p)).collect()
    }

    fn choice(&self, choice: Choice) -> Value {
        let write = choice.write.map(|write| self.op(write));
        let mut choice_made = json!({"read": self.op(choice.read), "write": write});
        if choice.element > 0 {
            choice_made["element"] = choice.element.into();
        }
        choice_made
    }

    /// Levels that the same execution proves share it.
    fn proofs(&self, certificates: &[(Level, Certificate)]) -> Value {
        let mut shared: Vec<(Vec<&str>, &Certificate)> = Vec::new();
        for (level, certificate) in certificates {
            match shared.iter_mut().find(|(_, other)| *other == certificate) {
                Some((levels, _)) => levels.push(level.name()),
                None => shared.push((vec![level.name()], certificate)),
            }
        }
        let proof = |(levels, certificate): &(Vec<&str>, &Certificate)| {
            let mut proof = self.proof(certificate);
            proof.insert("levels".into(), json!(levels));
            Value::from(proof)
        };
        shared.iter().map(proof).collect()
    }

    /// The verdict on the levels that transactions declare, with its proof.
    fn mixed(&self, mixed: &Mixed) -> Option<Value> {
        Some(self.proof(mixed.proof.as_ref()?).into())
    }

    fn proof(&self, certificate: &Certificate) -> Map<String, Value> {
        let mut proof = Map::new();
        match certificate {
            Certificate::Holds(execution) => {
                proof.insert("verdict".into(), "holds".into());
                self.execution(execution, &mut proof);
            }
            Certificate::Violated(refutation) => {
                proof.insert("verdict".into(), "violated".into());
                let steps: Vec<Value> = refutation.steps.iter().map(|s| self.step(s)).collect();
                proof.insert("steps".into(), steps.into());
            }
        }
        proof
    }

    fn execution(&self, execution: &Execution, proof: &mut Map<String, Value>) {
        match &execution.order {
            Order::Any => {}
            Order::Commits(order) => drop(proof.insert("commits".into(), self.txns(order))),
            Order::Events(events) => drop(proof.insert("events".into(), self.points(events))),
        }
        if !execution.choices.is_empty() {
            let choices: Vec<Value> = execution.choices.iter().map(|&c| self.choice(c)).collect();
            proof.insert("choices".into(), choices.into());
        }
    }

    fn edges(&self, edges: &[Edge]) -> Value {
        edges.iter().map(|e| self.edge(e)).collect()
    }

    fn edge(&self, edge: &Edge) -> Value {
        let evidence = match &edge.evidence {
            Evidence::Session | Evidence::RealTime => json!({}),
            Evidence::Read { write, read } => json!({"write": self.maybe(*write), "read": self.op(*read)}),
            // A path is made of plain edges: one level deep.
            Evidence::Forced { read, overwritten, visible_write, path } => json!({
                "read": self.op(*read),
                "overwritten": self.maybe(*overwritten),
                "visible_write": self.op(*visible_write),
                "path": self.edges(path),
            }),
            Evidence::Version { first, second, read } => {
                json!({"first": self.op(*first), "second": self.op(*second), "read": self.op(*read)})
            }
            Evidence::Overwritten { read, seen, write, reason } => json!({
                "read": self.op(*read),
                "seen": self.maybe(*seen),
                "write": self.op(*write),
                "reason": self.version_reason(*reason),
            }),
            Evidence::Ordered { first, second, reason } => json!({
                "first": self.op(*first),
                "second": self.op(*second),
                "reason": self.version_reason(*reason),
            }),
            Evidence::Given { reason, operations } => json!({
                "given": reason,
                "operations": operations.iter().map(|&op| self.op(op)).collect::<Vec<_>>(),
            }),
        };
        let mut fields = Map::new();
        fields.insert("from".into(), self.node(edge.from));
        fields.insert("to".into(), self.node(edge.to));
        fields.insert("type".into(), edge.relation.name().into());
        if let Value::Object(more) = evidence {
            fields.extend(more);
        }
        fields.into()
    }

    fn version_reason(&self, reason: VersionReason) -> Value {
        match reason {
            VersionReason::Initial => json!("initial"),
            VersionReason::Given => json!("given"),
            VersionReason::Stamps => json!("stamps"),
            VersionReason::Numbered => json!("numbered"),
            VersionReason::Shown { read } => json!({"shown": self.op(read)}),
            VersionReason::Missing { read } => json!({"missing": self.maybe(read)}),
            VersionReason::ReadThenWritten { read } => json!({"read_then_written": self.op(read)}),
            VersionReason::Session { before, after } => {
                json!({"session": [self.op(before), self.op(after)]})
            }
            VersionReason::RealTime { before, after } => {
                json!({"real_time": [self.op(before), self.op(after)]})
            }
        }
    }

    fn literal(&self, literal: Literal) -> Value {
        match literal {
            Literal::Before(a, b) => json!({"before": [self.point(a), self.point(b)]}),
            Literal::ReadsFrom(c) => json!({"reads": self.choice(c)}),
            Literal::NotReadsFrom(c) => json!({"not_reads": self.choice(c)}),
            Literal::Committed(t) => json!({"committed": self.txn(t)}),
            Literal::NotCommitted(t) => json!({"not_committed": self.txn(t)}),
        }
    }

    fn step(&self, step: &Step) -> Value {
        let clause: Vec<Value> = step.clause.iter().map(|&l| self.literal(l)).collect();
        let (name, reason) = match &step.reason {
            Reason::Cycle(points) => ("cycle", self.points(points)),
            Reason::Axiom { read, write, other, path } => {
                let mut axiom = Map::new();
                axiom.insert("read".into(), self.op(*read));
                axiom.insert("write".into(), self.maybe(*write));
                axiom.insert("other".into(), self.op(*other));
                if !path.is_empty() {
                    axiom.insert("path".into(), self.txns(path));
                }
                ("axiom", axiom.into())
            }
            Reason::Conflict { first, second } => ("conflict", self.ops(&[*first, *second])),
            Reason::Repeated { first, second } => ("repeated", self.ops(&[*first, *second])),
            Reason::Version { read, first, second } => (
                "version",
                json!({"read": self.op(*read), "first": self.op(*first), "second": self.op(*second)}),
            ),
            Reason::Assumed { first, second, reason } => (
                "assumed",
                json!({"first": self.op(*first), "second": self.op(*second), "reason": self.version_reason(*reason)}),
            ),
            Reason::Source { read, element } => {
                ("source", json!({"read": self.op(*read), "element": element}))
            }
            Reason::Observed(choice) => ("observed", self.choice(*choice)),
            Reason::Intermediate(choice) => ("intermediate", self.choice(*choice)),
            Reason::Impossible { read } => ("impossible", self.op(*read)),
            Reason::Implied(hints) => ("implied", json!(hints)),
        };
        json!({"clause": clause, name: reason})
    }
}
