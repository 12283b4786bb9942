//! One exchange between all workers: each produces parcels and consumes those that are meant for it.
//!
//! A stage is a dataflow of timely: an input, an exchange, and an operator that hands over what arrived.
//! Its frontier says when every worker has produced all, so stages are also barriers. What was sent is
//! numbered by epochs; a worker does not go on to the next before those of two epochs ago have arrived
//! everywhere, which bounds what is under way. Parcels are whole batches of records: timely's own cost per
//! message does not matter.
//!
//! A worker that fails tells all others in the stage, and they stop producing. Then all of them say whether
//! they failed, in an exchange of its own, so that either all go on to the next stage or none.

use crate::error::Error;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::operators::{Input, Probe};
use timely::worker::Worker;

/// Bytes on their way to a worker.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    /// The worker.
    pub to: usize,
    /// What they are; the receiver knows.
    pub label: u32,
    pub bytes: Vec<u8>,
}

/// The label of what a worker says that fails.
const FAILED: u32 = u32::MAX;

/// How many epochs may be under way.
const AHEAD: u64 = 2;
/// How long to wait for others at a time.
const PATIENCE: Duration = Duration::from_millis(20);

/// What travels: worker, label, bytes.
#[derive(Clone)]
struct Sent(Parcel);

impl Serialize for Sent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Bytes<'a>(&'a [u8]);
        impl Serialize for Bytes<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_bytes(self.0)
            }
        }
        (self.0.to as u64, self.0.label, Bytes(&self.0.bytes)).serialize(serializer)
    }
}

/// Bytes as one block: byte by byte would cost more than all else.
struct Whole(Vec<u8>);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Whole, D::Error> {
        struct Take;
        impl Visitor<'_> for Take {
            type Value = Whole;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Whole, E> {
                Ok(Whole(bytes.to_vec()))
            }
            fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Whole, E> {
                Ok(Whole(bytes))
            }
        }
        deserializer.deserialize_byte_buf(Take)
    }
}

impl<'de> Deserialize<'de> for Sent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sent, D::Error> {
        let (to, label, Whole(bytes)) = <(u64, u32, Whole)>::deserialize(deserializer)?;
        Ok(Sent(Parcel { to: to as usize, label, bytes }))
    }
}

/// Where a worker puts what it produces.
#[derive(Default)]
pub(crate) struct Outbox {
    parcels: Vec<Parcel>,
    bytes: usize,
    /// Bytes that were produced for other workers, in all.
    pub exchanged: u64,
    own: usize,
}

impl Outbox {
    pub fn put(&mut self, to: usize, label: u32, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        self.exchanged += if to == self.own { 0 } else { bytes.len() as u64 };
        self.parcels.push(Parcel { to, label, bytes });
    }

    /// A value for one worker.
    pub fn tell<T: Serialize>(&mut self, to: usize, label: u32, value: &T) -> Result<(), Error> {
        self.put(to, label, encode(value)?);
        Ok(())
    }
}

/// A value as bytes.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| Error::Scratch(format!("a message cannot be written: {error}")))
}

/// The value that bytes stand for.
pub(crate) fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| Error::Lost(format!("a message makes no sense: {error}")))
}

/// Runs a stage. `produce` puts a few megabytes at a time into the outbox, and returns false once there is
/// no more. `consume` takes what arrives. Returns how many bytes went to other workers.
pub(crate) fn run(
    worker: &mut Worker,
    mut produce: impl FnMut(&mut Outbox) -> Result<bool, Error>,
    mut consume: impl FnMut(Parcel) -> Result<(), Error>,
) -> Result<u64, Error> {
    let mut failed: Option<Error> = None;
    let exchanged = exchange(worker, &mut produce, &mut consume, &mut failed);
    // Whether some worker failed. A failure that came as a parcel is known to all that consumed it, but not
    // one that happened after a worker had produced all.
    let own = encode(&failed)?;
    let (mut sent, peers) = (false, worker.peers());
    let mut first: Option<Error> = failed;
    exchange(
        worker,
        &mut |out: &mut Outbox| {
            if !std::mem::replace(&mut sent, true) {
                (0..peers).for_each(|to| out.put(to, 0, own.clone()));
            }
            Ok(false)
        },
        &mut |parcel: Parcel| {
            if let Some(error) = decode::<Option<Error>>(&parcel.bytes)? {
                first.get_or_insert(error);
            }
            Ok(())
        },
        &mut None,
    );
    first.map_or(Ok(exchanged), Err)
}

/// A panic of one worker would leave the others waiting: it is a failure like others.
fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    result.unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Error::Lost(format!("a worker failed: {message}")))
    })
}

fn exchange(
    worker: &mut Worker,
    produce: &mut impl FnMut(&mut Outbox) -> Result<bool, Error>,
    consume: &mut impl FnMut(Parcel) -> Result<(), Error>,
    failed: &mut Option<Error>,
) -> u64 {
    let arrived: Rc<RefCell<VecDeque<Parcel>>> = Rc::default();
    let inbox = Rc::clone(&arrived);
    let (mut input, probe) = worker.dataflow::<u64, _, _>(|scope| {
        let (input, stream) = scope.new_input::<Vec<Sent>>();
        let received = stream.unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(
            Exchange::new(|sent: &Sent| sent.0.to as u64),
            "parcels",
            move |_, _| {
                move |input, _| {
                    input.for_each_time(|_, batches| {
                        for batch in batches {
                            inbox.borrow_mut().extend(batch.drain(..).map(|Sent(parcel)| parcel));
                        }
                    });
                }
            },
        );
        (input, received.probe().0)
    });
    let mut take = |failed: &mut Option<Error>| {
        loop {
            let next = arrived.borrow_mut().pop_front();
            let Some(parcel) = next else { return };
            let result = match parcel.label {
                FAILED => decode::<Error>(&parcel.bytes).and_then(Err),
                _ if failed.is_some() => Ok(()),
                _ => guarded(|| consume(parcel)),
            };
            if let Err(error) = result {
                failed.get_or_insert(error);
            }
        }
    };
    let peers = worker.peers();
    let mut out = Outbox { own: worker.index(), ..Outbox::default() };
    let mut more = true;
    while more && failed.is_none() {
        match guarded(|| produce(&mut out)) {
            Ok(goes_on) => more = goes_on,
            Err(error) => {
                out.parcels.clear();
                if let Ok(bytes) = encode(&error) {
                    (0..peers).for_each(|to| out.put(to, FAILED, bytes.clone()));
                }
                failed.get_or_insert(error);
            }
        }
        out.parcels.drain(..).for_each(|parcel| input.send(Sent(parcel)));
        let epoch = *input.time() + 1;
        input.advance_to(epoch);
        worker.step();
        take(failed);
        while probe.less_than(&epoch.saturating_sub(AHEAD)) {
            worker.step_or_park(Some(PATIENCE));
            take(failed);
        }
    }
    input.close();
    while !probe.done() {
        worker.step_or_park(Some(PATIENCE));
        take(failed);
    }
    take(failed);
    out.exchanged
}
