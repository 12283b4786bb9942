//! Tests of the builder.

use super::*;
use crate::{TxnId, View};

fn ints(b: &mut Builder, s: i64, ops: &[(OpKind, i64, i64)]) -> Draft {
    let s = b.int(s);
    let s = b.session(s);
    let t = b.transaction(s);
    for &(kind, k, v) in ops {
        let (k, v) = (b.int(k), b.int(v));
        let k = b.key(k);
        b.op(t, kind, k, v);
    }
    t
}

#[test]
fn interleaved_input_becomes_session_major() {
    let mut b = Builder::new();
    let t0 = ints(&mut b, 7, &[(OpKind::Write, 1, 1)]);
    let t1 = ints(&mut b, 5, &[(OpKind::Write, 1, 2)]);
    ints(&mut b, 7, &[(OpKind::Read, 1, 3)]);
    let (k, v) = (b.int(9), b.int(4));
    let k = b.key(k);
    b.op(t0, OpKind::Write, k, v);
    b.set_label(t1, v);
    let h = b.finish().unwrap();
    let values: Vec<View> = h.values().iter().map(|v| v.view()).collect();
    assert_eq!(values, [1, 4, 3, 2].map(View::Int));
    assert_eq!(h.txns().map(|t| h.position(t)).collect::<Vec<_>>(), [0, 2, 1]);
    assert_eq!(h.txns().map(|t| h.txn_name(t)).collect::<Vec<_>>(), ["7:1", "7:2", "4"]);
    assert_eq!(h.txn_of(crate::OpId(2)), TxnId(1));
}

#[test]
fn discarded_transactions_and_their_sessions_disappear() {
    let mut b = Builder::new();
    let init = ints(&mut b, 0, &[(OpKind::Write, 1, 0), (OpKind::Write, 2, 0)]);
    ints(&mut b, 1, &[(OpKind::Read, 1, 0)]);
    b.discard(init);
    let h = b.finish().unwrap();
    assert_eq!((h.session_count(), h.txn_count(), h.op_count()), (1, 1, 1));
    assert_eq!(h.txn_name(TxnId(0)), "1:1");
}

#[test]
fn stamps_are_all_or_nothing() {
    let stamp = |n| Stamps {
        start: crate::Timestamp { physical: n, logical: 0 },
        commit: crate::Timestamp { physical: n + 1, logical: 0 },
    };
    let mut b = Builder::new();
    let a = ints(&mut b, 0, &[]);
    b.set_stamps(a, stamp(3));
    let c = ints(&mut b, 0, &[]);
    assert_eq!(
        {
            b.set_stamps(c, stamp(1));
            b.finish().unwrap().stamps().unwrap()[1]
        },
        stamp(1)
    );
    let mut b = Builder::new();
    let a = ints(&mut b, 0, &[]);
    ints(&mut b, 0, &[]);
    b.set_stamps(a, stamp(3));
    assert_eq!(b.finish().unwrap().stamps(), None);
}
