//! closed-predicate: rows read by predicate, as Elle has them; see [`crate::datatypes`] for the operations.
//!
//! Elle's answer (`crate::elle::predicate`) with Elle's types and boundary, about the levels asked for
//! (strict-serializable if none is named), with three differences:
//! - Elle takes the order in the file for the order of versions. Where a key is mutated more than once,
//!   what follows from that order is no proof, and the answer is unknown unless the violation is proven
//!   without it.
//! - What [`crate::datatypes`] proves violated is invalid, whether Elle sees it or not; then the types are
//!   those found.
//! - Elle stops where a value is written twice. Here the answer is what can be proven, else unknown.

use super::{Malformed, ModelResult, Options, Valid};
use crate::Why;
use crate::datatypes::{self, Datatype, LowerError};
use crate::elle::{self, Predicates, Validity};
use anomalist_check::{Budget, Request};
use anomalist_history::{Datum, Events};
use anomalist_level::{Judgement, Level, Verdict};

pub(super) fn check(
    events: &Events,
    options: &Options,
    budget: &Budget<'_>,
) -> Result<ModelResult, Malformed> {
    let too_large = |oversized| Ok(ModelResult::new(Valid::Unknown(Why::TooLarge(oversized)), []));
    let lowered = match datatypes::lower(Datatype::Predicates, events) {
        Ok(lowered) => lowered,
        Err(LowerError::Malformed(malformed)) => return Err(malformed),
        Err(LowerError::TooLarge(oversized)) => return too_large(oversized),
    };
    let strict = [Level::StrictSerializable];
    let asked = if options.levels.is_empty() { &strict[..] } else { &options.levels };
    let elle = match elle::closed_predicate(events, asked, budget)? {
        Ok(elle) => elle,
        Err(large) => return too_large(large.into()),
    };
    let judgement = datatypes::check(&lowered, &Request::default(), budget);
    let violated: Vec<Level> =
        judgement.levels.iter().filter(|l| l.verdict == Verdict::Violated).map(|l| l.level).collect();
    let broken = asked.iter().any(|asked| violated.iter().any(|level| asked.implies(*level)));
    let valid = verdict(&elle, broken, &holds(&judgement, asked));
    let by_elle =
        elle.answer.validity == Validity::Invalid && valid == Valid::False && elle.stopped.is_none();
    let details = if by_elle || valid != Valid::False {
        told_by_elle(&elle, events, valid == Valid::True)
    } else {
        told_by_levels(&judgement, asked, &violated)
    };
    Ok(ModelResult::new(valid, details))
}

/// The levels asked for that are proven to hold.
fn holds(judgement: &Judgement, asked: &[Level]) -> Vec<bool> {
    let holds = |level: &Level| judgement.verdict(*level) == Some(&Verdict::Holds);
    asked.iter().map(holds).collect()
}

fn verdict(elle: &Predicates, broken: bool, holds: &[bool]) -> Valid {
    if broken {
        return Valid::False;
    }
    if !holds.is_empty() && holds.iter().all(|held| *held) {
        return Valid::True;
    }
    if let Some((key, value)) = &elle.stopped {
        return Valid::Unknown(Why::RepeatedVersion { key: key.clone(), value: value.clone() });
    }
    match (elle.answer.validity, &elle.mutated_twice) {
        (Validity::Valid, _) => Valid::True,
        (Validity::Invalid, None) => Valid::False,
        (Validity::Invalid, Some(key)) => Valid::Unknown(Why::OrderInFile { key: key.clone() }),
        (Validity::Unknown, _) => Valid::Unknown(Why::NoDependency),
    }
}

fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> Datum {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    Datum::List(names.into_iter().map(Datum::keyword).collect())
}

fn told_by_elle(elle: &Predicates, events: &Events, valid: bool) -> Vec<(&'static str, Datum)> {
    let answer = &elle.answer;
    if valid || answer.reported.is_empty() {
        return Vec::new();
    }
    vec![
        ("anomaly-types", names(answer.reported.iter().map(|(kind, _)| kind.code()))),
        ("anomalies", elle.anomalies(events)),
        ("not", names(answer.not.iter().map(|m| m.printed))),
        ("also-not", names(answer.also_not.iter().map(|m| m.printed))),
    ]
}

fn told_by_levels(judgement: &Judgement, asked: &[Level], violated: &[Level]) -> Vec<(&'static str, Datum)> {
    let kinds = judgement.anomalies.iter().map(|a| a.kind);
    let types = kinds.filter(|&kind| asked.iter().any(|level| level.forbids(kind)));
    vec![
        ("anomaly-types", names(types.map(|kind| kind.code()))),
        ("not", names(Level::weakest(violated).iter().map(|level| level.name()))),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{expect, judge};
    use super::super::{Model, Valid};

    fn types(text: &str) -> (String, String) {
        let details = expect(Model::ClosedPredicate, text, false);
        let shown = |name| details.get(name).map(ToString::to_string).unwrap_or_default();
        (shown("anomaly-types"), shown("not"))
    }

    /// Elle's answers to its own small recordings: each row read, skipped or missed in one way.
    #[test]
    fn answers_are_those_of_elle() {
        let pair = |init: &str, first: &str, second: &str| {
            let init = match init {
                "" => String::new(),
                init => format!("0 invoke init {init}; 0 ok init {init}; "),
            };
            types(&format!("{init}0 invoke txn nil; 0 ok txn {first}; 1 invoke txn nil; 1 ok txn {second}"))
        };
        let expected = |types: &str, not: &str| (format!("[{types}]"), format!("[{not}]"));
        let g1c = expected(":G1c", ":read-committed");
        assert_eq!(pair("", "[[:w :x 1] [:rp :true {:y 2}]]", "[[:w :y 2] [:rp :true {:x 1}]]"), g1c);
        let skew = pair("", "[[:w :x 1] [:rp :true {}]]", "[[:w :y 2] [:rp :true {}]]");
        assert_eq!(skew.0, "[:G2 :strong-snapshot-isolation-cycle-exists]");
        assert_eq!(
            pair("{:x 0 :y 0}", "[[:delete :x] [:rp :true {}]]", "[[:delete :y] [:rp :true {}]]"),
            g1c
        );
        let each = pair("{:x 0 :y 0}", "[[:rp [:= 0] {:x 0}] [:w :x 1]]", "[[:rp [:= 0] {:y 0}] [:w :y 1]]");
        assert_eq!(each, g1c);
        let none = pair("{:x 0 :y 0}", "[[:rp [:= 1] {}] [:w :x 1]]", "[[:rp [:= 1] {}] [:w :y 1]]");
        assert_eq!(none.0, "[:G2 :strong-snapshot-isolation-cycle-exists]");
        let single = expected(":G-single-item", ":consistent-view :repeatable-read");
        assert_eq!(pair("{:x 0 :z 0}", "[[:delete :x] [:insert :y 1]]", "[[:r :y 1] [:r :z nil]]"), single);
        let miss = "0 invoke init {5 3}; 0 ok init {5 3}; 1 invoke txn nil; 1 ok txn [[:rp [:mod 2 1] {}]]";
        assert_eq!(types(miss), expected(":predicate-read-miss", ":serializable"));
        let before = "4 invoke init {7 1}; 4 ok init {7 1}; 7 invoke txn nil; \
                      7 ok txn [[:rp [:mod 2 0] {}] [:r 7 nil]]";
        assert_eq!(types(before), single);
        let deleted = "2 invoke init {26 0 38 0}; 2 ok init {26 0 38 0}; 2 invoke txn nil; \
                       2 ok txn [[:delete 38] [:w 31 8] [:delete 26]]; 3 invoke txn nil; \
                       3 ok txn [[:rp :true {38 0}]]";
        assert_eq!(types(deleted), expected(":G-single", ":consistent-view"));
    }

    #[test]
    fn a_row_that_was_always_there_cannot_be_nil() {
        let text = "0 invoke init {:x 0}; 0 ok init {:x 0}; 1 invoke txn nil; 1 ok txn [[:r :x nil]]";
        expect(Model::ClosedPredicate, text, false);
    }

    #[test]
    fn valid_where_nothing_is_wrong() {
        let fine = "0 invoke init {1 5}; 0 ok init {1 5}; 0 invoke txn nil; \
                    0 ok txn [[:rp [:= 5] {1 5}] [:delete 1]]; 1 invoke txn nil; 1 ok txn [[:rp true {}]]";
        assert_eq!(judge(Model::ClosedPredicate, fine).valid, Valid::True);
    }

    #[test]
    fn the_order_in_the_file_proves_nothing_of_keys_that_are_mutated_twice() {
        // The second write took effect first; both overlap, and so do the reads.
        let text = "0 invoke init {:x 0}; 0 ok init {:x 0}; 0 invoke txn nil; 1 invoke txn nil; \
                    2 invoke txn nil; 0 ok txn [[:w :x 1]]; 1 ok txn [[:w :x 2] [:r :y 7]]; \
                    2 ok txn [[:insert :y 7] [:rp [:= 0] {:x 0}]]; 3 invoke txn nil; 3 ok txn [[:r :x 1]]";
        assert!(!matches!(judge(Model::ClosedPredicate, text).valid, Valid::False));
    }
}
