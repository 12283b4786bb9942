//! What Anomalist's own engines say about the same question.

use crate::cli::Global;
use crate::exit::Failure;
use crate::{interrupt, load};
use anomalist::Basis;
use anomalist_check::Inference;
use anomalist_history::{History, TxnId, Value, View};
use anomalist_jepsen::elle::{Answer, Options, Validity};
use anomalist_level::elle as lattice;
use anomalist_level::{Judgement, Level, Verdict};
use anomalist_report::{explain, reason};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long to look for more if that is asked for, and if it is only to be mentioned.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
pub(super) const GLANCE: Duration = Duration::from_secs(2);

/// Anomalist's findings.
pub(super) struct Beyond {
    judgement: Judgement,
    /// The levels that count: those with the names of the models asked about.
    asked: Vec<Level>,
    /// The anomalies that Elle's answer does not name: type, count, explanation.
    more: Vec<(&'static str, u64, String)>,
}

impl Beyond {
    /// Checks the models asked about, or everything if none was.
    pub fn find(
        history: &anomalist::History,
        options: &Options,
        answer: &Answer,
        patience: Duration,
        global: &Global,
    ) -> Result<Beyond, Failure> {
        let transactions = history.transactions();
        let inference = Inference {
            writes_follow_reads: options.wfr_keys,
            sequential_keys: options.sequential_keys,
            linearizable_keys: options.linearizable_keys,
            transaction_order: ranks(transactions, options),
            ..Inference::default()
        };
        let asked: Vec<Level> =
            options.models.iter().map(|&model| namesake(model).unwrap_or(model)).collect();
        let mut levels: Vec<Level> = options.models.iter().chain(&asked).copied().collect();
        if !levels.is_empty() {
            // What is only a name holds if this does.
            levels.push(Level::StrictSerializable);
        }
        let question = anomalist::check(history)
            .by(Basis::Values)
            .assume(inference)
            .threads(load::threads(global))
            .timeout(patience)
            .stop_when(&interrupt::is_requested);
        let question = levels.into_iter().fold(question, |question, level| question.decide(level));
        let judgement = question.run()?.into_found().judgement;
        let named = |code: &str| answer.reported.iter().any(|(kind, _)| kind.code() == code);
        let more = judgement.anomalies.iter().filter(|a| !named(a.kind.code()));
        let more = more.map(|a| (a.kind.code(), a.count, explain(transactions, a))).collect();
        let asked = if asked.is_empty() { judgement.levels.iter().map(|l| l.level).collect() } else { asked };
        Ok(Beyond { judgement, asked, more })
    }

    /// The levels that are violated, whatever Elle says.
    pub fn violated(&self) -> Vec<&'static str> {
        self.broken().map(Level::name).collect()
    }

    fn broken(&self) -> impl Iterator<Item = Level> {
        let violated = |level: &Level| self.judgement.verdict(*level) == Some(&Verdict::Violated);
        self.asked.iter().copied().filter(violated)
    }

    /// Lets these findings count: the verdict and the boundary become at least as bad. What is valid for
    /// Elle and not proven is unknown.
    pub fn merge_into(&self, answer: &mut Answer) {
        let undecided = self.asked.iter().find_map(|&level| match self.judgement.verdict(level) {
            Some(Verdict::Unknown(why)) => Some(format!("{} is not decided: {}", level.name(), reason(why))),
            _ => None,
        });
        if answer.validity == Validity::Valid
            && let Some(undecided) = undecided
        {
            answer.validity = Validity::Unknown;
            answer.objection.get_or_insert(undecided);
        }
        let mut broken: Vec<Level> = self.broken().collect();
        if broken.is_empty() {
            return;
        }
        answer.validity = Validity::Invalid;
        let forbidden = |level: Level| self.judgement.anomalies.iter().any(|a| level.forbids(a.kind));
        broken.extend(lattice::models().iter().map(|m| m.level).filter(|&level| forbidden(level)));
        broken.extend(answer.not.iter().chain(&answer.also_not).map(|m| m.level));
        let impossible = lattice::all_implying(&broken);
        let weakest = Level::weakest(&impossible);
        (answer.not, answer.also_not) = lattice::models()
            .iter()
            .filter(|m| impossible.contains(&m.level))
            .partition(|m| weakest.contains(&m.level));
    }

    /// What Elle does not name, by type.
    pub fn anomalies(&self) -> impl Iterator<Item = (&'static str, Json)> {
        self.more.iter().map(|(code, count, text)| (*code, json!({"count": count, "explanation": text})))
    }

    /// The value of the key `anomalist`.
    pub fn document(&self) -> Json {
        let levels = &self.judgement.levels;
        let levels: serde_json::Map<String, Json> =
            levels.iter().map(|l| (l.level.name().to_owned(), l.verdict.name().into())).collect();
        let more: serde_json::Map<String, Json> =
            self.anomalies().map(|(code, case)| (code.to_owned(), case)).collect();
        json!({"levels": levels, "anomalies": more})
    }
}

/// The level that has the name of one of Elle's models and asks for more than Elle looks for.
fn namesake(model: Level) -> Option<Level> {
    model.name().strip_prefix("elle:")?.parse().ok()
}

/// The places of transactions in the order given.
fn ranks(history: &History, options: &Options) -> BTreeMap<TxnId, i64> {
    let Some(order) = &options.transaction_order else { return BTreeMap::new() };
    let number = |t: TxnId| match history.txn_label(t).map(Value::view) {
        Some(View::Int(index)) => order.get(&index).copied(),
        _ => order.get(&i64::from(history.position(t))).copied(),
    };
    let mut numbered: Vec<(TxnId, f64)> = history.txns().filter_map(|t| Some((t, number(t)?))).collect();
    numbered.sort_by(|a, b| a.1.total_cmp(&b.1));
    // Equal numbers say nothing about the order, so they get equal ranks.
    let mut ranks = BTreeMap::new();
    let mut rank = 0;
    for (i, &(t, at)) in numbered.iter().enumerate() {
        rank += i64::from(i > 0 && numbered[i - 1].1 < at);
        ranks.insert(t, rank);
    }
    ranks
}
