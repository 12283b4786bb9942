//! cas-register and mutex: linearizability, decided by [`crate::linear`].
//!
//! A register has `read` → v, `write` v and `cas` [old new], all from nil on; a mutex `acquire` and
//! `release`, from free on. `fail` never took effect, `info` may have at any time since. Values may be
//! `[key value]`, as Jepsen writes them when it runs several registers at once: then each key is a register
//! of its own, and linearizability is local.
//!
//! In Knossos, which elle-cli asks, an ok read of nil says nothing. `valid?` follows it. Where there are
//! such reads and the verdict depends on it, `anomalist` gives the verdict with nil as the initial value
//! (`nil-is-initial`).
//!
//! Details as Knossos names them: `op`, the operation that could not be linearised; `previous-ok`, the last
//! one that could; `configs`, ways in which all before it can be, each with the `model`'s state, the
//! `pending` operations and `last-op`. `anomalist` has the length of the linearised prefix and its end.

use super::{Malformed, ModelResult, Valid};
use crate::Why;
use crate::linear::{Action, Call, Linearity, Refutation, Value, linearizable};
use anomalist_check::Budget;
use anomalist_history::{Datum, Events, Operation};
use std::collections::{BTreeMap, HashMap};

/// How much of a linearised prefix is shown.
const PREFIX_END: usize = 10;

/// One register: its calls, and the operation each is.
#[derive(Default)]
struct Register {
    calls: Vec<Call>,
    ops: Vec<usize>,
    /// Reads of nil, left out of `calls` at first.
    nil_reads: Vec<(Call, usize)>,
}

/// Values by number; 0 is nil, or a mutex that is free.
struct Values<'e> {
    numbers: HashMap<&'e Datum, Value>,
    values: Vec<&'e Datum>,
}

impl<'e> Values<'e> {
    fn new() -> Values<'e> {
        Values { numbers: HashMap::from([(&Datum::Nil, 0)]), values: vec![&Datum::Nil] }
    }

    fn number(&mut self, value: &'e Datum) -> Value {
        *self.numbers.entry(value).or_insert_with(|| {
            self.values.push(value);
            (self.values.len() - 1) as Value
        })
    }

    fn show(&self, value: Value) -> Datum {
        self.values.get(value as usize).map_or(Datum::Nil, |d| (*d).clone())
    }
}

pub(super) fn check_cas(events: &Events, budget: &Budget<'_>) -> Result<ModelResult, Malformed> {
    let ops = events.operations();
    let keyed = is_keyed(events, &ops);
    let (mut values, mut registers): (_, BTreeMap<&Datum, Register>) = (Values::new(), BTreeMap::new());
    for (i, op) in ops.iter().enumerate().filter(|(_, op)| !op.failed()) {
        let f = events.f(op);
        // A write is what it was asked to be; a read is what it returned.
        let position = if f == "read" { op.shown() } else { op.invocation.unwrap_or(op.shown()) };
        let event = events.get(position);
        let (key, value) = match event.value.as_pair() {
            Some(pair) if keyed => pair,
            _ => (&Datum::Nil, &event.value),
        };
        let action = match f {
            "read" if op.is_ok() => Action::Read(values.number(value)),
            "read" => continue,
            "write" => Action::Write(values.number(value)),
            "cas" => {
                let (old, new) =
                    value.as_pair().ok_or_else(|| Malformed::new(event, "the old and the new value"))?;
                Action::Cas(values.number(old), values.number(new))
            }
            _ => return Err(Malformed::new(event, "a read, write or cas")),
        };
        let call = Call { action, began: op.began, ended: op.ended() };
        let register = registers.entry(key).or_default();
        if action == Action::Read(0) {
            register.nil_reads.push((call, i));
        } else {
            register.calls.push(call);
            register.ops.push(i);
        }
    }
    if ops.is_empty() {
        return Ok(ModelResult::new(Valid::Unknown(Why::NoRegister), []));
    }
    let answers = decide(&registers, budget);
    let mut result = report(events, &ops, keyed, &registers, &answers, |v| values.show(v));
    let nil_reads: usize = registers.values().map(|r| r.nil_reads.len()).sum();
    if result.valid == Valid::True && nil_reads > 0 {
        for register in registers.values_mut() {
            for (call, op) in std::mem::take(&mut register.nil_reads) {
                register.calls.push(call);
                register.ops.push(op);
            }
        }
        let strict = report(events, &ops, keyed, &registers, &decide(&registers, budget), |v| values.show(v));
        if strict.valid != Valid::True
            && let Datum::Map(entries) = &mut result.details
        {
            let extra =
                Datum::map([("nil-reads", Datum::count(nil_reads)), ("nil-is-initial", strict.details)]);
            entries.push((Datum::keyword("anomalist"), extra));
        }
    }
    Ok(result)
}

pub(super) fn check_mutex(events: &Events, budget: &Budget<'_>) -> Result<ModelResult, Malformed> {
    const FREE: Value = 0;
    const HELD: Value = 1;
    let ops = events.operations();
    let mut registers: BTreeMap<&Datum, Register> = BTreeMap::new();
    let keyed = is_keyed(events, &ops);
    for (i, op) in ops.iter().enumerate().filter(|(_, op)| !op.failed()) {
        let event = events.get(op.shown());
        let action = match events.f(op) {
            "acquire" => Action::Cas(FREE, HELD),
            "release" => Action::Cas(HELD, FREE),
            _ => return Err(Malformed::new(event, "an acquire or release")),
        };
        let key = match events.argument(op).as_pair() {
            Some((key, _)) if keyed => key,
            _ => &Datum::Nil,
        };
        let register = registers.entry(key).or_default();
        register.calls.push(Call { action, began: op.began, ended: op.ended() });
        register.ops.push(i);
    }
    if ops.is_empty() {
        return Ok(ModelResult::new(Valid::Unknown(Why::NoMutex), []));
    }
    let shown = |v| Datum::keyword(if v == FREE { "free" } else { "held" });
    Ok(report(events, &ops, keyed, &registers, &decide(&registers, budget), shown))
}

/// True if every value is a key with a value of its own: `[k v]`, and for cas `[k [old new]]`.
fn is_keyed(events: &Events, ops: &[Operation]) -> bool {
    let mut any = false;
    ops.iter().all(|op| {
        let value = events.argument(op);
        match value.as_pair() {
            Some((_, inner)) => {
                any = true;
                events.f(op) != "cas" || inner.as_pair().is_some()
            }
            None => false,
        }
    }) && any
}

fn decide<'k>(registers: &BTreeMap<&'k Datum, Register>, budget: &Budget<'_>) -> Vec<(&'k Datum, Linearity)> {
    registers.iter().map(|(key, register)| (*key, linearizable(&register.calls, 0, budget))).collect()
}

fn report(
    events: &Events,
    ops: &[Operation],
    keyed: bool,
    registers: &BTreeMap<&Datum, Register>,
    answers: &[(&Datum, Linearity)],
    show: impl Fn(Value) -> Datum,
) -> ModelResult {
    let mut failures = Vec::new();
    let mut unknown = None;
    for (key, answer) in answers {
        match answer {
            Linearity::Yes(_) => {}
            Linearity::No(refutation) => failures.push((*key, refutation)),
            Linearity::Unknown(reason) => drop(unknown.get_or_insert_with(|| reason.clone())),
        }
    }
    // The failure that shows first in the file.
    let first = failures.iter().min_by_key(|(key, r)| ops[registers[key].ops[r.call]].shown());
    let mut details: Vec<(&str, Datum)> = Vec::new();
    if keyed {
        details.push(("failures", Datum::List(failures.iter().map(|(key, _)| (*key).clone()).collect())));
    }
    if let Some((key, refutation)) = first {
        details.extend(explain(events, ops, &registers[key], refutation, show));
        if keyed {
            details.insert(1, ("key", (*key).clone()));
        }
    }
    let valid = match (first, unknown) {
        (Some(_), _) => Valid::False,
        (None, Some(reason)) => Valid::Unknown(reason),
        (None, None) => Valid::True,
    };
    ModelResult::new(valid, details)
}

fn explain(
    events: &Events,
    ops: &[Operation],
    register: &Register,
    refutation: &Refutation,
    show: impl Fn(Value) -> Datum,
) -> Vec<(&'static str, Datum)> {
    let op = |call: usize| events.datum(ops[register.ops[call]].shown());
    let list = |calls: &[usize]| Datum::List(calls.iter().map(|&c| op(c)).collect());
    let configs = refutation.configurations.iter().map(|c| {
        Datum::map([
            ("model", show(c.value)),
            ("last-op", c.order.last().map_or(Datum::Nil, |&call| op(call))),
            ("pending", list(&c.pending)),
        ])
    });
    let longest = refutation.configurations.iter().map(|c| c.order.as_slice()).max_by_key(|o| o.len());
    let longest = longest.unwrap_or_default();
    let end = &longest[longest.len().saturating_sub(PREFIX_END)..];
    vec![
        ("op", op(refutation.call)),
        ("previous-ok", refutation.previous.map_or(Datum::Nil, op)),
        ("configs", Datum::List(configs.collect())),
        (
            "anomalist",
            Datum::map([
                ("linearized-count", Datum::count(longest.len())),
                ("linearized-end", list(end)),
                ("configuration-count", Datum::Int(i64::try_from(refutation.count).unwrap_or(i64::MAX))),
            ]),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{events, expect, judge};
    use super::super::{Malformed, Model, Options, Valid, check};
    use anomalist_check::Budget;
    use anomalist_history::Datum;

    #[test]
    fn registers() {
        let text = "0 invoke write 1; 1 invoke read; 0 ok write 1; 1 ok read 1; 0 invoke cas [1 2]; 0 ok cas [1 2]; \
            2 invoke cas [1 3]; 2 fail cas [1 3]; 1 invoke read; 1 ok read 2";
        expect(Model::CasRegister, text, true);
        let stale =
            "0 invoke write 1; 0 ok write 1; 0 invoke write 2; 0 ok write 2; 1 invoke read; 1 ok read 1";
        let details = expect(Model::CasRegister, stale, false);
        assert_eq!(details.get("op").unwrap().get("value"), Some(&Datum::Int(1)));
        assert_eq!(details.get("previous-ok").unwrap().get("value"), Some(&Datum::Int(2)));
        let config = &details.get("configs").unwrap().as_list().unwrap()[0];
        assert_eq!(config.get("model"), Some(&Datum::Int(2)));
        assert_eq!(details.get("anomalist").unwrap().get("linearized-count"), Some(&Datum::Int(2)));
        // An indeterminate write may take effect late, and more than once it may not.
        let late =
            "0 invoke write 1; 0 info write 1; 1 invoke write 2; 1 ok write 2; 1 invoke read; 1 ok read 1; ";
        expect(Model::CasRegister, late, true);
        let twice = format!("{late} 1 invoke write 3; 1 ok write 3; 1 invoke read; 1 ok read 1");
        expect(Model::CasRegister, &twice, false);
        expect(
            Model::CasRegister,
            "0 invoke cas [nil 1]; 0 ok cas [nil 1]; 1 invoke read; 1 ok read 1",
            true,
        );
    }

    #[test]
    fn reads_of_nil_say_nothing_in_knossos() {
        let text = "0 invoke write 1; 0 ok write 1; 1 invoke read; 1 ok read nil";
        let details = expect(Model::CasRegister, text, true);
        let strict = details.get("anomalist").unwrap().get("nil-is-initial").unwrap();
        assert_eq!(strict.get("valid?"), Some(&Datum::Bool(false)));
        let fine = "1 invoke read; 1 ok read nil; 0 invoke write 1; 0 ok write 1";
        assert_eq!(expect(Model::CasRegister, fine, true).get("anomalist"), None);
    }

    #[test]
    fn keys_are_registers_of_their_own() {
        let text = "0 invoke write [:x 1]; 0 ok write [:x 1]; 1 invoke read [:y nil]; 1 ok read [:y nil]; \
            1 invoke cas [:x [1 2]]; 1 ok cas [:x [1 2]]; 0 invoke read [:x nil]; ";
        expect(Model::CasRegister, &format!("{text} 0 ok read [:x 2]"), true);
        let details = expect(Model::CasRegister, &format!("{text} 0 ok read [:x 1]"), false);
        assert_eq!(details.get("failures").unwrap().to_string(), "[:x]");
        assert_eq!(details.get("key"), Some(&Datum::keyword("x")));
    }

    #[test]
    fn mutexes() {
        let two = "0 invoke acquire; 0 ok acquire; 1 invoke acquire; 1 ok acquire";
        let details = expect(Model::Mutex, two, false);
        assert_eq!(details.get("op").unwrap().get("process"), Some(&Datum::Int(1)));
        assert_eq!(
            details.get("configs").unwrap().as_list().unwrap()[0].get("model"),
            Some(&Datum::keyword("held"))
        );
        expect(
            Model::Mutex,
            "0 invoke acquire; 0 ok acquire; 0 invoke release; 1 invoke acquire; 1 ok acquire; 0 ok release",
            true,
        );
        // Perhaps released.
        expect(
            Model::Mutex,
            "0 invoke acquire; 0 ok acquire; 0 invoke release; 0 info release; 1 invoke acquire; 1 ok acquire",
            true,
        );
        expect(Model::Mutex, "0 invoke release; 0 ok release", false);
    }

    #[test]
    fn what_is_no_register_is_said() {
        let bad = |text| check(Model::CasRegister, &events(text), &Options::default(), &Budget::unlimited());
        let expected =
            Malformed { line: 1, message: "expected a read, write or cas in this ok append, found 3".into() };
        assert_eq!(bad("0 ok append 3"), Err(expected));
        assert!(bad("0 ok cas 3").is_err());
        assert_eq!(judge(Model::CasRegister, "0 fail write 3").valid, Valid::True);
        assert_eq!(judge(Model::CasRegister, "0 invoke read; 1 invoke write 3").valid, Valid::True);
        assert!(matches!(judge(Model::CasRegister, "x info start nil").valid, Valid::Unknown(_)));
        let spent = Budget::new(&|| true);
        let result = check(Model::Mutex, &events("0 ok acquire"), &Options::default(), &spent).unwrap();
        assert!(matches!(result.valid, Valid::Unknown(_)));
    }
}
