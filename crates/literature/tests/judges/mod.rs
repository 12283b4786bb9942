//! What the engines, the verifier and the old oracle say of a history, and where the literature says
//! otherwise.

use anomalist_check::{Budget, Request, check};
use anomalist_history::{History as Real, Indexed};
use anomalist_jepsen::linear::{Action, Call, Linearity, linearizable};
use anomalist_level::{By, Certificate, Judgement, Level, Verdict};
use anomalist_literature::model::{Atom, Op, Outcome, Seen, Txn};
use anomalist_literature::{Answer, History, Sessions, answer, into};
use anomalist_testkit::oracle::{self, StampRule};
use anomalist_timestamp::Tie;
use anomalist_timestamp::offline::{self, ByStamps};
use anomalist_verify::Verifier;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A disagreement. Two are of one class if they are equal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Complaint {
    /// Who disagrees.
    pub who: &'static str,
    /// The level.
    pub level: Level,
    /// What the verdict rests on.
    pub by: By,
    /// What the one says.
    pub said: Said,
    /// What the literature says.
    pub expected: Answer,
}

/// What an engine, the verifier or the old oracle says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    /// The level holds.
    Holds,
    /// It is violated.
    Violated,
    /// The verifier accepts a proof of what is not so.
    Accepts,
    /// The verifier refuses the proofs of what is so.
    Refuses,
    /// It panicked.
    Panics,
}

/// The levels compared, by what they rest on.
pub fn levels(by: By) -> &'static [Level] {
    const STAMPED: [Level; 4] = [
        Level::SnapshotIsolation,
        Level::StrongSessionSnapshotIsolation,
        Level::Serializable,
        Level::StrongSessionSerializable,
    ];
    if by == By::Values { Level::CANONICAL } else { &STAMPED }
}

/// The verdicts on one history.
pub struct Verdicts {
    /// What the literature says of each level.
    pub expected: Vec<Answer>,
    /// The levels that an engine does not decide although the literature does.
    pub unknown: Vec<Level>,
    /// The disagreements.
    pub complaints: Vec<Complaint>,
}

struct Case<'h> {
    by: By,
    expected: Vec<Answer>,
    real: &'h Real,
    complaints: Vec<Complaint>,
}

/// Asks all of them; `way` chooses among the ways in which the engine can decide.
pub fn ask(history: &History, way: u64) -> Verdicts {
    let by = if history.has_stamps { By::Timestamps } else { By::Values };
    let expected: Vec<Answer> =
        levels(by).iter().map(|&level| answer(history, level, by, Sessions::Issued)).collect();
    let real = into::history(history);
    let mut case = Case { by, expected, real: &real, complaints: Vec::new() };
    let mut unknown = Vec::new();
    match by {
        By::Values => {
            let request = Request { certificates: true, ..Request::default() };
            case.engine("engine", &request, &mut unknown);
            match way % 3 {
                0 => case.engine(
                    "engine by search",
                    &Request { search_only: true, ..request },
                    &mut Vec::new(),
                ),
                1 => {
                    let request = Request { no_guess: true, no_saturation: true, ..request };
                    case.engine("engine without shortcuts", &request, &mut Vec::new());
                }
                _ => case.one_by_one(),
            }
            case.old_oracle();
            case.exhaustive_verifier();
            case.complaints.extend(linear(history));
        }
        By::Timestamps => {
            case.by_stamps(&mut unknown);
            case.old_oracle_of_stamps();
            // Verdicts by values do not depend on timestamps that are there as well.
            let by = By::Values;
            let expected = levels(by).iter().map(|&level| answer(history, level, by, Sessions::Issued));
            let expected = expected.collect();
            let mut values = Case { by, expected, real: &real, complaints: Vec::new() };
            let request = Request { certificates: true, ..Request::default() };
            values.engine("engine, timestamps beside", &request, &mut Vec::new());
            case.complaints.extend(values.complaints);
        }
    }
    let Case { expected, complaints, .. } = case;
    Verdicts { expected, unknown, complaints }
}

impl Case<'_> {
    fn expected(&self, level: Level) -> Answer {
        let place = levels(self.by).iter().position(|&l| l == level);
        place.map_or(Answer::Undefined, |i| self.expected[i])
    }

    fn complain(&mut self, who: &'static str, level: Level, said: Said) {
        let (by, expected) = (self.by, self.expected(level));
        self.complaints.push(Complaint { who, level, by, said, expected });
    }

    /// Compares an opinion with the literature; `true` if they contradict each other.
    fn compare(&mut self, who: &'static str, level: Level, holds: bool) -> bool {
        let wrong = match self.expected(level) {
            Answer::Holds => !holds,
            Answer::Violated => holds,
            Answer::Undefined => false,
        };
        if wrong {
            self.complain(who, level, if holds { Said::Holds } else { Said::Violated });
        }
        wrong
    }

    fn engine(&mut self, who: &'static str, request: &Request, unknown: &mut Vec<Level>) {
        let decide = || {
            let indexed = Indexed::new(self.real, std::num::NonZeroUsize::MIN);
            check(&indexed, request, &Budget::unlimited())
        };
        let Ok(judgement) = catch_unwind(AssertUnwindSafe(decide)) else {
            self.complain(who, Level::ReadUncommitted, Said::Panics);
            return;
        };
        let wrong = self.verdicts(who, &judgement, unknown);
        self.proofs(&judgement, wrong);
    }

    /// Each level asked for alone, without proofs.
    fn one_by_one(&mut self) {
        let indexed = Indexed::new(self.real, std::num::NonZeroUsize::MIN);
        for &level in Level::CANONICAL {
            let request = Request { levels: vec![level], ..Request::default() };
            let judgement = check(&indexed, &request, &Budget::unlimited());
            self.verdicts("engine, asked for one level", &judgement, &mut Vec::new());
        }
    }

    fn verdicts(&mut self, who: &'static str, judgement: &Judgement, unknown: &mut Vec<Level>) -> bool {
        let (by, mut wrong) = (self.by, false);
        for judged in judgement.levels.iter().filter(|l| l.by == by && l.level.is_canonical()) {
            match judged.verdict {
                Verdict::Holds => wrong |= self.compare(who, judged.level, true),
                Verdict::Violated => wrong |= self.compare(who, judged.level, false),
                Verdict::Unknown(_) if self.expected(judged.level) == Answer::Undefined => {}
                Verdict::Unknown(_) => unknown.push(judged.level),
            }
        }
        wrong
    }

    /// The verifier accepts the proofs of right verdicts and none of wrong ones.
    fn proofs(&mut self, judgement: &Judgement, wrong: bool) {
        let real = self.real;
        let verifier = Verifier::new(real);
        if !wrong && verifier.judgement(judgement).is_err() {
            let refused = judgement.certificates.iter().find(|(l, c)| verifier.certificate(*l, c).is_err());
            self.complain("verify", refused.map_or(Level::ReadUncommitted, |r| r.0), Said::Refuses);
        }
        for (level, certificate) in &judgement.certificates {
            let contradicted = match certificate {
                Certificate::Holds(_) => self.expected(*level) == Answer::Violated,
                Certificate::Violated(_) => self.expected(*level) == Answer::Holds,
            };
            if contradicted && verifier.certificate(*level, certificate).is_ok() {
                self.complain("verify", *level, Said::Accepts);
            }
        }
        for anomaly in judgement.anomalies.iter().filter(|a| !a.kind.is_no_order()) {
            // It may rest on an indeterminate transaction that committed because it was read. Where aborted
            // ones may be read (PL-1), the engine does not conclude that: it leaves the level open.
            let open = |l: Level| matches!(judgement.verdict(l), Some(Verdict::Unknown(_)));
            let forbidding =
                |l: &&Level| l.forbids(anomaly.kind) && self.expected(**l) == Answer::Holds && !open(**l);
            if let Some(&level) = Level::CANONICAL.iter().find(forbidding)
                && verifier.anomaly(anomaly).is_ok()
            {
                self.complain("verify", level, Said::Accepts);
            }
        }
    }

    /// The verifier's own search.
    fn exhaustive_verifier(&mut self) {
        let real = self.real;
        let verifier = Verifier::new(real);
        for &level in Level::CANONICAL {
            let decided = catch_unwind(AssertUnwindSafe(|| verifier.try_everything(level)));
            match decided {
                Ok(Some(holds)) => drop(self.compare("verify, every execution", level, holds)),
                Ok(None) => {}
                Err(_) => self.complain("verify, every execution", level, Said::Panics),
            }
        }
    }

    fn by_stamps(&mut self, unknown: &mut Vec<Level>) {
        let request = ByStamps {
            levels: levels(By::Timestamps).to_vec(),
            anomalies: None,
            tie: Tie::Inclusive,
            threads: std::num::NonZeroUsize::MIN,
        };
        let Some((judgement, _)) = offline::judge(self.real, &request, &Budget::unlimited()) else { return };
        let wrong = self.verdicts("engine", &judgement, unknown);
        let real = self.real;
        let verifier = Verifier::new(real);
        if !wrong && verifier.stamps(&judgement, false).is_err() {
            self.complain("verify", Level::SnapshotIsolation, Said::Refuses);
        }
        for anomaly in &judgement.anomalies {
            // An axiom has one name under both modes, so the anomaly may be of the mode that is violated.
            let mut forbidding = levels(By::Timestamps).iter().filter(|l| l.forbids(anomaly.kind));
            let holds = |l: &&Level| self.expected(**l) == Answer::Holds;
            if forbidding.clone().all(|l| holds(&l))
                && let Some(&level) = forbidding.next()
                && verifier.stamps_anomaly(anomaly, false).is_ok()
            {
                self.complain("verify", level, Said::Accepts);
            }
        }
        for &level in levels(By::Timestamps) {
            if let Some(proof) = offline::certificate(real, level, Tie::Inclusive) {
                // It is by values; whatever holds by timestamps holds by values.
                if self.expected(level) == Answer::Holds && verifier.certificate(level, &proof).is_err() {
                    self.complain("verify, of a proof by timestamps", level, Said::Refuses);
                }
            }
        }
    }

    fn old_oracle(&mut self) {
        const WHO: &str = "old oracle";
        if oracle::explanations(self.real) > 1000 {
            return;
        }
        for &level in Level::CANONICAL {
            if let Some(holds) = oracle::decide(self.real, level) {
                self.compare(WHO, level, holds);
            }
        }
    }

    fn old_oracle_of_stamps(&mut self) {
        for serial in [false, true] {
            // One entry per choice of outcomes: the level holds if one of them breaks nothing.
            let choices = oracle::stamp_faults(self.real, StampRule { serial, exclusive: false });
            if choices.iter().any(|(_, unjudged)| *unjudged > 0) {
                continue;
            }
            let broken = |sessions: bool| {
                let fault = |code: &str| code != "TIE" && (sessions || code != "SESSION");
                choices.iter().all(|(faults, _)| faults.iter().any(|f| fault(f.code)))
            };
            let (free, session) = match serial {
                true => (Level::Serializable, Level::StrongSessionSerializable),
                false => (Level::SnapshotIsolation, Level::StrongSessionSnapshotIsolation),
            };
            self.compare("old oracle", free, !broken(false));
            self.compare("old oracle", session, !broken(true));
        }
    }
}

/// The search for linearizations, key by key.
fn linear(history: &History) -> Option<Complaint> {
    let expected = answer(history, Level::Linearizable, By::Values, Sessions::Issued);
    if expected == Answer::Undefined {
        return None;
    }
    let holds = (0..history.kinds.len()).all(|key| {
        let of_key = history.txns.iter().filter(|t| t.outcome != Outcome::Aborted && t.ops[0].key() == key);
        let calls = calls(&of_key.collect::<Vec<_>>());
        matches!(linearizable(&calls, number(history.initial), &Budget::unlimited()), Linearity::Yes(_))
    });
    let said = if holds { Said::Holds } else { Said::Violated };
    let wrong = holds != (expected == Answer::Holds);
    wrong.then_some(Complaint {
        who: "search for linearizations",
        level: Level::Linearizable,
        by: By::Values,
        said,
        expected,
    })
}

/// Transactions of one operation as calls. Events are numbered; at one time, everything begins before
/// anything ends.
fn calls(txns: &[&Txn]) -> Vec<Call> {
    let begins = txns.iter().enumerate().map(|(t, txn)| (txn.interval.0, false, t));
    let ends = txns.iter().enumerate().filter_map(|(t, txn)| Some((txn.interval.1?, true, t)));
    let mut events: Vec<(u64, bool, usize)> = begins.chain(ends).collect();
    events.sort_unstable();
    let place = |end: bool, t: usize| events.iter().position(|e| (e.1, e.2) == (end, t));
    let call = |(t, txn): (usize, &&Txn)| {
        let action = match &txn.ops[0] {
            Op::Read(_, Seen::Atom(value)) => Action::Read(number(*value)),
            Op::Write(_, value) => Action::Write(number(*value)),
            other => panic!("{other} is no operation of a register"),
        };
        Call { action, began: place(false, t).unwrap(), ended: place(true, t) }
    };
    txns.iter().enumerate().map(call).collect()
}

fn number(atom: Atom) -> u32 {
    atom.map_or(u32::MAX, |value| value as u32)
}
