//! closed-predicate: rows read by predicate, as Elle has them; see [`crate::datatypes`] for the operations and the rule.
//!
//! Invalid if one of the levels asked about (strict-serializable if none is named) is violated; unknown otherwise,
//! because reads by predicate do not show all that a proof would need. `anomaly-types` are the anomalies that violate
//! these levels, `not` the weakest levels of all that are violated. Elle itself takes the order in the file for the order
//! of versions; nothing here does.

use super::{Malformed, ModelResult, Options, Valid};
use crate::datatypes::{self, Datatype, LowerError};
use crate::{Budget, Request};
use anomalist_history::{Datum, Events};
use anomalist_level::{Level, Verdict};

pub(super) fn check(
    events: &Events,
    options: &Options,
    budget: &Budget<'_>,
) -> Result<ModelResult, Malformed> {
    let lowered = match datatypes::lower(Datatype::Predicates, events) {
        Ok(lowered) => lowered,
        Err(LowerError::Malformed(malformed)) => return Err(malformed),
        Err(LowerError::TooLarge(reason)) => return Ok(ModelResult::new(Valid::Unknown(reason), [])),
    };
    let judgement = datatypes::check(&lowered, &Request::default(), budget);
    let strict = [Level::StrictSerializable];
    let asked = if options.levels.is_empty() { &strict[..] } else { &options.levels };
    let violated: Vec<Level> =
        judgement.levels.iter().filter(|l| l.verdict == Verdict::Violated).map(|l| l.level).collect();
    let broken = |asked: &Level| violated.iter().any(|level| asked.implies(*level));
    let weakest = violated.iter().filter(|a| !violated.iter().any(|b| b != *a && a.implies(*b)));
    let kinds = judgement.anomalies.iter().map(|a| a.kind);
    let types = kinds.filter(|&kind| asked.iter().any(|level| level.forbids(kind)));
    let valid = match asked.iter().any(broken) {
        true => Valid::False,
        false => {
            Valid::Unknown("no violation was found; that is no proof where reads are by predicate".into())
        }
    };
    let texts = |names: Vec<&str>| Datum::List(names.into_iter().map(Datum::keyword).collect());
    let details = [
        ("anomaly-types", texts(types.map(|kind| kind.code()).collect())),
        ("not", texts(weakest.map(|level| level.name()).collect())),
    ];
    Ok(ModelResult::new(valid, details))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{expect, judge};
    use super::super::{Model, Valid};

    #[test]
    fn phantoms() {
        let text = "0 ok txn [[:rp true {}] [:insert 1 5]]; 1 ok txn [[:rp true {}] [:insert 2 6]]";
        let details = expect(Model::ClosedPredicate, text, false);
        assert_eq!(details.get("anomaly-types").unwrap().to_string(), "[:G2 :G-update]");
        assert_eq!(details.get("not").unwrap().to_string(), "[:update-serializable]");
        let fine = "0 ok init {1 5}; 0 ok txn [[:rp [:= 5] {1 5}] [:delete 1]]; 1 ok txn [[:rp true {}]]";
        assert!(matches!(judge(Model::ClosedPredicate, fine).valid, Valid::Unknown(_)));
    }
}
