//! From what was found to Elle's `valid?`, `anomaly-types`, `not` and `also-not`.

use super::{Answer, Case, Findings, Validity};
use anomalist_level::AnomalyKind;
use anomalist_level::elle::{self, CYCLE_EXISTS};

/// Elle's answer. What was not asked about is not reported, but it does move the boundary; and if nothing
/// is to be reported there is no boundary either.
pub(crate) fn answer(findings: Findings, prohibited: &[AnomalyKind], objection: Option<String>) -> Answer {
    let mut found: Vec<(AnomalyKind, Vec<Case>)> = Vec::new();
    for (kind, case) in findings {
        match found.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, cases)) => cases.push(case),
            None => found.push((kind, vec![case])),
        }
    }
    found.sort_by_key(|(kind, _)| kind.code());
    let all: Vec<AnomalyKind> = found.iter().map(|&(kind, _)| kind).collect();
    let forbidden = |kind: &AnomalyKind| prohibited.contains(kind);
    let means_unknown = |kind: AnomalyKind| {
        matches!(kind, AnomalyKind::EmptyTransactionGraph | AnomalyKind::CycleSearchTimeout)
    };
    let reportable: Vec<AnomalyKind> =
        all.iter().copied().filter(|kind| forbidden(kind) || means_unknown(*kind)).collect();
    let model_of = |kind| CYCLE_EXISTS.iter().find(|c| c.anomaly == kind).map(|c| c.model);
    let named: Vec<AnomalyKind> =
        reportable.iter().copied().filter(|&kind| model_of(kind).is_none()).collect();
    let broken = elle::impossible(&named);
    // That some cycle exists is worth telling only if no named anomaly says as much.
    let described = |kind| model_of(kind).is_none_or(|model| !broken.contains(&model));
    found.retain(|&(kind, _)| reportable.contains(&kind) && described(kind));
    let validity = if all.iter().any(forbidden) {
        Validity::Invalid
    } else if !found.is_empty() || objection.is_some() {
        Validity::Unknown
    } else {
        Validity::Valid
    };
    let (not, also_not) = if found.is_empty() {
        (Vec::new(), Vec::new())
    } else {
        let boundary = elle::boundary(&all);
        (boundary.not, boundary.also_not)
    };
    Answer { validity, reported: found, not, also_not, objection }
}
