//! Sequential: one client writes the keys of a chain one after another, others read them in the reverse
//! order.
//!
//! A `read` returns `[k [vₙ … v₁]]`: the chain, and what it found of its keys, the last written first. Once
//! a key was found, all written before it must be found too, because they were there when the read got to
//! them. A nil after something else is therefore invalid: the writes of one process became visible out of
//! their order.
//!
//! Counts as in Jepsen: reads that found nothing (`none`), everything (`all`), some of it (`some`), and
//! `bad` ones. Jepsen's intention; elle-cli names the model but cannot run it. The chain's name may be
//! missing. O(n).

use super::{Malformed, ModelResult, Valid};
use crate::Why;
use anomalist_history::{Datum, Event, Events};

pub(super) fn check(events: &Events) -> Result<ModelResult, Malformed> {
    let ops = events.operations();
    let mut reads: Vec<usize> =
        ops.iter().filter(|op| op.is_ok() && events.f(op) == "read").map(|op| op.shown()).collect();
    reads.sort_unstable();
    let (mut all, mut some, mut none, mut bad) = (0, 0, 0, Vec::new());
    for &position in &reads {
        let found = chain(events.get(position))?;
        let nils = found.iter().filter(|value| value.is_nil()).count();
        match nils {
            0 => all += 1,
            n if n == found.len() => none += 1,
            _ => some += 1,
        }
        // What is found ends the nils.
        let first = found.iter().position(|value| !value.is_nil()).unwrap_or(found.len());
        if found[first..].iter().any(Datum::is_nil) {
            bad.push(events.datum(position));
        }
    }
    let valid = if reads.is_empty() { Valid::Unknown(Why::NoRead) } else { bad.is_empty().into() };
    let details = [
        ("all-count", Datum::Int(all)),
        ("some-count", Datum::Int(some)),
        ("none-count", Datum::Int(none)),
        ("bad-count", Datum::count(bad.len())),
        ("bad", Datum::List(bad)),
    ];
    Ok(ModelResult::new(valid, details))
}

/// What a read found, the last written first.
fn chain(event: &Event) -> Result<&[Datum], Malformed> {
    if let Some((_, Datum::List(found))) = event.value.as_pair() {
        return Ok(found);
    }
    event.value.as_list().ok_or_else(|| Malformed::new(event, "a chain such as [3 [nil \"3_1\" \"3_0\"]]"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{expect, judge};
    use super::super::{Model, Valid};

    #[test]
    fn nothing_is_missing_behind_what_was_found() {
        let details = expect(
            Model::Sequential,
            "0 ok read [7 [nil b a]]; 0 ok read [7 [c b a]]; 0 ok read [7 [nil nil nil]]; 1 info read [7 [c nil a]]",
            true,
        );
        let get = |key| details.get(key).unwrap().as_int().unwrap();
        assert_eq!([get("all-count"), get("some-count"), get("none-count"), get("bad-count")], [1, 1, 1, 0]);
        expect(Model::Sequential, "0 ok read [7 [c nil a]]", false);
        expect(Model::Sequential, "0 ok read [7 [nil b nil]]", false);
        expect(Model::Sequential, "0 ok read [nil b nil]", false);
        assert!(matches!(judge(Model::Sequential, "0 invoke read 7").valid, Valid::Unknown(_)));
    }
}
