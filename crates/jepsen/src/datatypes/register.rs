//! Registers with compare-and-set: `read` → v, `write` v, `cas` [old new], all from nil on.
//!
//! Each operation is a transaction: a read, a write, or, for a compare-and-set, a read of the old value and
//! a write of the new one. One that failed did not take effect; one of unknown outcome, if it did, read the
//! old value. Nothing is lost, and proofs stand: with one operation per transaction strict serializability
//! is linearizability. O(n).

use super::recorder::Recorder;
use super::{Datatype, LowerError, Lowered, Malformed};
use anomalist_history::{Events, OpKind, Value};

pub(super) fn lower(events: &Events) -> Result<Lowered, LowerError> {
    let ops = events.operations();
    let mut recorder = Recorder::new(events, &ops);
    recorder.builder.set_initial_default(Some(Value::NIL));
    let key = recorder.key("register");
    for op in &ops {
        let event = events.get(op.invocation.unwrap_or(op.shown()));
        let draft = recorder.transaction(op);
        match events.f(op) {
            "read" if op.is_ok() => {
                let value = recorder.value(events.result(op));
                recorder.op(draft, OpKind::Read, key, value);
            }
            "read" => {}
            "write" => {
                let value = recorder.value(&event.value);
                recorder.op(draft, OpKind::Write, key, value);
            }
            "cas" => {
                let pair = event.value.as_pair();
                let (old, new) = pair.ok_or_else(|| Malformed::new(event, "the old and the new value"))?;
                let (old, new) = (recorder.value(old), recorder.value(new));
                recorder.op(draft, OpKind::Read, key, old);
                recorder.op(draft, OpKind::Write, key, new);
            }
            _ => return Err(Malformed::new(event, "a read, write or cas").into()),
        }
    }
    recorder.finish(Datatype::Register, None)
}
