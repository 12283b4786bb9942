//! SESSION: a transaction follows those before it in its session that count.

use crate::{Mode, Rule, Stamped};

/// Which transaction before it in its session one fails to follow: `last` is the last before it that counts,
/// `writer` the last of those that writes. A set can only be expected to contain writers, since a
/// transaction that wrote nothing may have no id.
pub fn unfollowed<T, O>(rule: Rule, txn: &T, last: Option<O>, writer: Option<O>) -> Option<O>
where
    T: Stamped,
    O: Stamped<Session = T::Session>,
{
    match (rule.mode, txn.set()) {
        (Mode::Ser, _) => last.filter(|last| txn.commit() < last.commit()),
        (Mode::Si, None) => last.filter(|last| txn.start() < last.commit()),
        (Mode::Si, Some(_)) => writer.filter(|writer| !rule.sees(txn, writer)),
    }
}

/// Whether a transaction's number in its session is not the one after that of the last transaction before it
/// that counts. `before` is `None` if there is no such transaction. What has no number breaks nothing.
pub fn breaks_numbers(before: Option<Option<u64>>, number: Option<u64>) -> bool {
    number.is_some_and(|number| match before {
        None => number > 1,
        Some(before) => before.is_some_and(|before| before.checked_add(1) != Some(number)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tie;
    use crate::visible::tests::{At, at};
    use anomalist_history::Snapshot;

    #[test]
    fn snapshots_begin_and_points_lie_after_the_last_commit() {
        let fails = |mode, txn: At, last: At, writer: At| {
            let rule = Rule { mode, tie: Tie::Inclusive };
            unfollowed(rule, &txn, Some(last), Some(writer)).map(|other| other.position)
        };
        let (writer, last) = (At { id: Some(7), ..at('a', 0, 1, 10) }, at('a', 1, 11, 20));
        assert_eq!(fails(Mode::Si, at('a', 2, 20, 30), last, writer), None);
        assert_eq!(fails(Mode::Si, at('a', 2, 19, 30), last, writer), Some(1));
        assert_eq!(fails(Mode::Ser, at('a', 2, 19, 30), last, writer), None);
        assert_eq!(fails(Mode::Ser, at('a', 2, 19, 19), last, writer), Some(1));
        let by_set = |xmax| At { set: Some(Snapshot { xmin: 0, xmax, running: &[] }), ..at('a', 2, 0, 30) };
        assert_eq!(fails(Mode::Si, by_set(8), last, writer), None);
        assert_eq!(fails(Mode::Si, by_set(7), last, writer), Some(0));
    }
}
