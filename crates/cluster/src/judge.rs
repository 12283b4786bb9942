//! The second stage: each part is judged by the timestamp axioms, and the first worker collects.
//!
//! EXT, NOCONFLICT, INT and TIE speak of one key, TIMESTAMP and SESSION of one session. So a part by key is
//! judged for the former and a part by session for the latter, each by the check of a whole history
//! (`anomalist_timestamp::offline`), and what they find together is what that check finds in the whole.
//!
//! Which transactions of unknown outcome committed is found out in rounds, as `offline` does: in each, the
//! parts say what their wrong reads ask for, and transactions that must have committed count as committed in
//! the next.

use crate::error::Error;
use crate::spill::Spill;
use crate::stage::{self, Parcel, decode};
use crate::work::{Parts, Site};
use anomalist_format::shard::{MakeUp, Origin, Part, PartError, Whole};
use anomalist_history::{History, TxnId};
use anomalist_level::Budget;
use anomalist_timestamp::offline::{self, Findings, LISTED};
use anomalist_timestamp::{Axiom, Class, Mode, Rule, Violation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use timely::worker::Worker;

/// A violation, by numbers of the whole input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Noted {
    pub axiom: u8,
    /// Where it stands among those of its axiom.
    pub order: Order,
    pub txn: u64,
    /// An operation of the transaction on the key in question.
    pub at: Option<u32>,
    pub other: Option<u64>,
    pub read: Option<u32>,
    pub class: Option<u8>,
    pub source: Option<u64>,
}

/// The order in which violations of an axiom are listed: by key, or by the transaction's place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    Key(Origin, u32),
    Place {
        commit: (i64, i64),
        read_only: bool,
        start: (i64, i64),
        session: String,
        number: u64,
        seq: u64,
        read: Option<u32>,
    },
}

/// What was found in a mode.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Found {
    pub counts: [u64; Axiom::ALL.len()],
    pub listed: Vec<Noted>,
    pub unjudged: u64,
    pub unmatched: u64,
    /// Reads that are wrong so far, and which transactions may explain each.
    pub open: Vec<(Noted, Vec<u64>)>,
}

/// What a part says.
#[derive(Serialize, Deserialize)]
struct Said {
    /// In the order of the modes that are judged.
    found: Vec<Found>,
    keys: u64,
}

/// Classes as numbers.
const CLASSES: [Class; 8] = [
    Class::Stale,
    Class::Overlapping,
    Class::Future,
    Class::Intermediate,
    Class::Own,
    Class::Aborted,
    Class::NeverWritten,
    Class::Mixed,
];

pub(crate) fn class(number: u8) -> Option<Class> {
    CLASSES.get(number as usize).copied()
}

const fn is_of_key(axiom: Axiom) -> bool {
    !matches!(axiom, Axiom::Timestamp | Axiom::Session)
}

/// What all parts found: complete on the first worker.
pub(crate) struct Judged {
    pub found: Vec<Found>,
    pub keys: u64,
}

/// Judges the parts of this worker; repeats that until no more transaction of unknown outcome must have
/// committed.
pub(crate) fn judge(
    worker: &mut Worker,
    site: &Site<'_>,
    whole: &Whole,
    spill: &Spill,
    modes: &[Mode],
) -> Result<Judged, Error> {
    // In each mode by itself: what must have committed under one rule need not under the other.
    let mut forced: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); modes.len()];
    loop {
        let judged = round(worker, site, whole, spill, modes, &forced)?;
        let mut more: Vec<Vec<u64>> = Vec::new();
        for found in &judged.found {
            let one = found.open.iter().filter(|(_, asked)| asked.len() == 1);
            more.push(one.flat_map(|(_, asked)| asked.clone()).collect());
        }
        let said = share(worker, &more)?;
        if said.iter().all(Vec::is_empty) {
            return Ok(judged);
        }
        forced.iter_mut().zip(said).for_each(|(forced, more)| forced.extend(more));
    }
}

/// Tells all workers what the first one says.
pub(crate) fn share<T>(worker: &mut Worker, value: &T) -> Result<T, Error>
where
    T: Serialize + for<'a> Deserialize<'a>,
{
    let (first, peers) = (worker.index() == 0, worker.peers());
    let mut answer = None;
    stage::run(
        worker,
        |out| {
            if first {
                (0..peers).try_for_each(|to| out.tell(to, 0, value))?;
            }
            Ok(false)
        },
        |parcel| {
            answer = Some(decode(&parcel.bytes)?);
            Ok(())
        },
    )?;
    answer.ok_or_else(|| Error::Lost("the first worker said nothing".to_owned()))
}

fn round(
    worker: &mut Worker,
    site: &Site<'_>,
    whole: &Whole,
    spill: &Spill,
    modes: &[Mode],
    forced: &[BTreeSet<u64>],
) -> Result<Judged, Error> {
    let (index, workers) = (worker.index(), worker.peers());
    let mine = site.parts.owned(index, workers);
    let mut labels = mine.iter();
    let mut judged = Judged { found: vec![Found::default(); modes.len()], keys: 0 };
    stage::run(
        worker,
        |out| {
            site.poll()?;
            let Some(&label) = labels.next() else { return Ok(false) };
            let said = examine(site, whole, spill, label, workers, (modes, forced))?;
            if let Some(said) = said {
                out.tell(0, label as u32, &said)?;
            }
            site.tell("judging", 1, mine.len());
            Ok(true)
        },
        |Parcel { bytes, .. }| {
            let said: Said = decode(&bytes)?;
            judged.keys += said.keys;
            judged.found.iter_mut().zip(said.found).for_each(|(sum, found)| sum.add(found));
            Ok(())
        },
    )?;
    judged.found.iter_mut().for_each(Found::tidy);
    Ok(judged)
}

/// The part with this label; `None` if it is empty.
pub(crate) fn load(
    site: &Site<'_>,
    whole: &Whole,
    spill: &Spill,
    (label, workers): (usize, usize),
    make_up: MakeUp,
) -> Result<Option<Part>, Error> {
    let local = site.parts.local(label, workers);
    let size = spill.size(local);
    let concerns = |hash| site.parts.of_key(hash) == label;
    if size == 0 && (label >= site.parts.keys || whole.headers.is_empty()) {
        return Ok(None);
    }
    site.allows(size)?;
    let blocks = spill.read(local)?;
    let part = whole.part(&blocks.all(), make_up, concerns, |_| 0).map_err(|error| match error {
        PartError::Damaged => Error::Scratch(error.to_string()),
        PartError::Read(error) => error.into(),
    })?;
    Ok(Some(part))
}

fn examine(
    site: &Site<'_>,
    whole: &Whole,
    spill: &Spill,
    label: usize,
    workers: usize,
    (modes, forced): (&[Mode], &[BTreeSet<u64>]),
) -> Result<Option<Said>, Error> {
    let of_keys = label < site.parts.keys;
    let make_up = if of_keys { MakeUp::Ties } else { MakeUp::Writers };
    let Some(part) = load(site, whole, spill, (label, workers), make_up)? else { return Ok(None) };
    let keys = if of_keys { part.key_count() as u64 } else { 0 };
    let stop = || site.poll().is_err();
    let budget = Budget::new(&stop);
    let mut found = Vec::new();
    for (&mode, forced) in modes.iter().zip(forced) {
        let rule = Rule { mode, tie: site.job.tie };
        let certain: Vec<TxnId> = forced.iter().filter_map(|&seq| part.txn(seq)).collect();
        let changed = (!certain.is_empty()).then(|| part.history().clone().with_committed(&certain));
        let history = changed.as_ref().unwrap_or(part.history());
        let doubts = offline::doubts(history, rule, LISTED, &budget).map_err(|_| Error::Stopped)?;
        let doubts = doubts.unwrap_or_default();
        found.push(note(&part, history, whole.numbered, of_keys, doubts));
    }
    Ok(Some(Said { found, keys }))
}

/// What was found in a part, by numbers of the whole.
fn note(part: &Part, history: &History, numbered: bool, of_keys: bool, doubts: offline::Doubts) -> Found {
    let offline::Doubts { found, open } = doubts;
    let Findings { counts, listed, unjudged, unmatched, .. } = found;
    let concerns = |axiom: Axiom| is_of_key(axiom) == of_keys;
    let noting = Noting { part, history, numbered };
    let noted = listed.iter().enumerate().filter(|(_, v)| concerns(v.axiom));
    let mut all = Found {
        listed: noted.map(|(nth, v)| noting.note(v, nth)).collect(),
        unjudged,
        unmatched,
        ..Found::default()
    };
    for axiom in Axiom::ALL.into_iter().filter(|&axiom| concerns(axiom)) {
        all.counts[axiom as usize] = counts[axiom as usize];
    }
    let seqs = |asked: Vec<TxnId>| asked.into_iter().map(|t| part.seq(t)).collect();
    let open = open.into_iter().enumerate().map(|(nth, (v, asked))| (noting.note(&v, nth), seqs(asked)));
    all.open = open.collect();
    all
}

struct Noting<'a> {
    part: &'a Part,
    history: &'a History,
    numbered: bool,
}

impl Noting<'_> {
    fn note(&self, v: &Violation, nth: usize) -> Noted {
        let Noting { part, history, .. } = self;
        let read = v.read.map(|read| part.op(v.txn, read));
        let first = history.op_range(v.txn).start;
        let on_key = v.key.and_then(|key| {
            let local = history.op_range(v.txn).find(|&i| history.heads()[i].key() == key)?;
            Some(part.op(v.txn, (local - first) as u32))
        });
        let order = match v.axiom {
            Axiom::Ext | Axiom::NoConflict | Axiom::Tie => {
                let origin = v.key.and_then(|key| part.origin(key)).unwrap_or_default();
                Order::Key(origin, nth as u32)
            }
            Axiom::Timestamp | Axiom::Session | Axiom::Int => self.place(v, read),
        };
        Noted {
            axiom: v.axiom as u8,
            order,
            txn: part.seq(v.txn),
            at: read.or(on_key),
            other: v.other.map(|t| part.seq(t)),
            read,
            class: v.class.and_then(|class| CLASSES.iter().position(|c| *c == class)).map(|i| i as u8),
            source: v.source.map(|t| part.seq(t)),
        }
    }

    /// The transaction's [`Place`](anomalist_timestamp::Place) in the whole history.
    fn place(&self, v: &Violation, read: Option<u32>) -> Order {
        let Noting { part, history, numbered } = self;
        let t = v.txn;
        let stamps = history.stamps().map(|stamps| stamps[t.index()]).unwrap_or_default();
        let number = history.numbers().filter(|_| *numbered).map_or(0, |numbers| numbers[t.index()]);
        Order::Place {
            commit: (stamps.commit.physical, stamps.commit.logical),
            read_only: !part.writes(t),
            start: (stamps.start.physical, stamps.start.logical),
            session: history.show(history.session_label(history.issuer(t))).raw().to_string(),
            number,
            seq: part.seq(t),
            read,
        }
    }
}

impl Found {
    fn add(&mut self, other: Found) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
        self.unjudged += other.unjudged;
        self.unmatched += other.unmatched;
        self.open.extend(other.open);
        self.listed.extend(other.listed);
        if self.listed.len() > 4 * LISTED * Axiom::ALL.len() {
            self.tidy();
        }
    }

    /// Puts the list in its order, and keeps the first of each axiom.
    fn tidy(&mut self) {
        self.listed.sort_by(|a, b| (a.axiom, &a.order).cmp(&(b.axiom, &b.order)));
        let mut kept = [0; Axiom::ALL.len()];
        self.listed.retain(|noted| {
            kept[noted.axiom as usize] += 1;
            kept[noted.axiom as usize] <= LISTED
        });
    }

    /// The transactions that a list of its violations is about.
    pub fn transactions(&self) -> impl Iterator<Item = u64> + '_ {
        self.listed.iter().flat_map(|noted| [Some(noted.txn), noted.other, noted.source]).flatten()
    }
}

impl Parts {
    /// The labels of a worker's parts.
    pub fn owned(self, index: usize, workers: usize) -> Vec<usize> {
        (0..self.all()).filter(|label| label % workers == index).collect()
    }
}
