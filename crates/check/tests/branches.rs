//! Sessions that go on after a transaction of unknown outcome: it follows those before it, nothing follows
//! it.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::Indexed;
use anomalist_level::{Judgement, Level, Verdict};
use anomalist_testkit::mini;
use anomalist_verify::Verifier;

fn judge(text: &str) -> Judgement {
    let history = mini::history(text);
    let indexed = Indexed::new(&history, 1.try_into().unwrap());
    let mut judgements = [false, true].into_iter().map(|search_only| {
        let request = Request { certificates: true, search_only, ..Request::default() };
        let judgement = check(&indexed, &request, &Budget::unlimited());
        Verifier::new(&history).judgement(&judgement).unwrap_or_else(|flaw| panic!("{text}: {flaw:?}"));
        judgement
    });
    let (first, second) = (judgements.next().unwrap(), judgements.next().unwrap());
    for level in &first.levels {
        assert_eq!(second.verdict(level.level), Some(&level.verdict), "{text}, {:?}", level.level);
    }
    first
}

#[test]
fn it_follows_those_before_it() {
    // The transaction of unknown outcome was observed, so it took effect, and overlooked its session's
    // write.
    let judgement = judge("w(x,1); r(x,0) w(y,1) !info; w(z,1) || r(y,1)");
    for level in [Level::ReadYourWrites, Level::ReadAtomic, Level::Causal, Level::StrongSessionSerializable] {
        assert_eq!(judgement.verdict(level), Some(&Verdict::Violated), "{level:?}");
    }
    // Not its session's: a level without sessions allows it.
    assert_eq!(judgement.verdict(Level::Serializable), Some(&Verdict::Holds));
    let monotonic = judge("w(x,1) || r(x,1); r(x,0) w(y,1) !info; w(z,1) || r(y,1)");
    assert_eq!(monotonic.verdict(Level::MonotonicReads), Some(&Verdict::Violated));
    assert_eq!(monotonic.verdict(Level::ReadYourWrites), Some(&Verdict::Holds));
    let writes = judge("w(x,1); w(y,1) !info; w(z,1) || r(y,1) r(x,0)");
    assert_eq!(writes.verdict(Level::MonotonicWrites), Some(&Verdict::Violated));
    let follow = judge("w(x,1) || r(x,1); w(y,1) !info; w(z,1) || r(y,1) r(x,0)");
    assert_eq!(follow.verdict(Level::WritesFollowReads), Some(&Verdict::Violated));
}

#[test]
fn nothing_follows_it() {
    // It took effect after its session's next one.
    for text in ["w(x,1) !info; r(x,0) || r(x,1)", "w(y,1); w(x,1) !info; r(x,0); r(x,0) || r(x,1)"] {
        let judgement = judge(text);
        for level in [Level::Causal, Level::StrongSessionSerializable, Level::StrongSessionSnapshotIsolation]
        {
            assert_eq!(judgement.verdict(level), Some(&Verdict::Holds), "{text}, {level:?}");
        }
    }
}
