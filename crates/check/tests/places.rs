//! Anomalies name a transaction of each of their instances, where instances are counted one by one.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::{History, Indexed, TxnId};
use anomalist_level::{Anomaly, AnomalyKind};
use anomalist_testkit::mini;

fn found(history: &History, kind: AnomalyKind) -> Anomaly {
    let indexed = Indexed::new(history, 1.try_into().unwrap());
    let judgement = check(&indexed, &Request::default(), &Budget::unlimited());
    let anomaly = judgement.anomalies.iter().find(|a| a.kind == kind);
    anomaly.unwrap_or_else(|| panic!("{kind}: {:?}", judgement.anomalies)).clone()
}

/// As many transactions as the history has instances, each with one of them.
#[test]
fn every_instance_has_a_place() {
    let cases = [
        ("w(x,1) || r(x,7) || r(y,8) || r(x,1)", AnomalyKind::ThinAirRead, 2),
        ("w(x,1) !abort || r(x,1) || r(x,1)", AnomalyKind::AbortedRead, 2),
        ("w(x,1) || r(x,0) r(x,1) || r(x,0) r(x,1)", AnomalyKind::NonRepeatableRead, 2),
        ("w(x,1) w(y,1) || r(x,1) r(y,0) || r(x,1) r(y,0)", AnomalyKind::NonMonoReadCo, 2),
        ("r(x,0) w(x,1) || r(x,0) w(x,2) || r(y,0) w(y,1) || r(y,0) w(y,2)", AnomalyKind::LostUpdate, 2),
        (
            "r(a,[]) a(b,1) || r(b,[]) a(a,1) || r(c,[]) a(d,1) || r(d,[]) a(c,1) || r(a,[1]) r(b,[1]) r(c,[1]) r(d,[1])",
            AnomalyKind::G2Item,
            2,
        ),
    ];
    for (text, kind, count) in cases {
        let history = mini::history(text);
        let anomaly = found(&history, kind);
        assert_eq!(anomaly.places.len(), count, "{text}: {anomaly:?}");
        assert!(anomaly.places.is_sorted_by(|a, b| a < b), "{text}: {:?}", anomaly.places);
        let shares = |t: &TxnId| anomaly.witness.transactions.contains(t);
        assert!(anomaly.places.iter().any(shares), "{text}: the example is one of the instances");
    }
}
