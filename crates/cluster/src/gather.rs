//! The last stage: the transactions that the listed violations are about, whole again, on the first worker.

use crate::error::Error;
use crate::judge::{Found, class, load, share};
use crate::spill::Spill;
use crate::stage;
use crate::totals::Totals;
use crate::work::Site;
use anomalist_format::shard::{MakeUp, Part, PartError, Whole, records};
use anomalist_history::OpId;
use anomalist_timestamp::offline::Findings;
use anomalist_timestamp::{Axiom, Violation};
use std::collections::BTreeSet;
use timely::worker::Worker;

/// Collects transactions; on the first worker, which says which, the history of just these is the result.
pub(crate) fn gather(
    worker: &mut Worker,
    site: &Site<'_>,
    (whole, totals): (&Whole, &Totals),
    spill: &Spill,
    wanted: &BTreeSet<u64>,
) -> Result<Option<Part>, Error> {
    let wanted = share(worker, wanted)?;
    let (index, workers) = (worker.index(), worker.peers());
    let mine = if wanted.is_empty() { Vec::new() } else { site.parts.owned(index, workers) };
    let mut labels = mine.iter();
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    stage::run(
        worker,
        |out| {
            site.poll()?;
            let Some(&label) = labels.next() else { return Ok(false) };
            let found = records_of(site, whole, spill, (label, workers), &wanted)?;
            found.into_iter().for_each(|record| out.put(0, 0, record));
            site.tell("gathering", 1, mine.len());
            Ok(true)
        },
        |parcel| {
            blocks.push(parcel.bytes);
            Ok(())
        },
    )?;
    if index != 0 {
        return Ok(None);
    }
    // The name of a transaction is in the record of its session: that one first.
    let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    let files = site.job.files.len();
    let line = |seq| totals.line(crate::input::place(seq), files);
    let part = whole.part(&blocks, MakeUp::Nothing, |_| true, line).map_err(damaged)?;
    Ok(Some(part))
}

fn damaged(error: PartError) -> Error {
    match error {
        PartError::Damaged => Error::Scratch(error.to_string()),
        PartError::Read(error) => error.into(),
    }
}

/// The records of some transactions in a part, each as a block.
fn records_of(
    site: &Site<'_>,
    whole: &Whole,
    spill: &Spill,
    (label, workers): (usize, usize),
    wanted: &BTreeSet<u64>,
) -> Result<Vec<Vec<u8>>, Error> {
    let local = site.parts.local(label, workers);
    let blocks = spill.read(local)?;
    let (mut found, mut unnamed) = (Vec::new(), Vec::new());
    for record in blocks.all().iter().flat_map(|block| records(block)) {
        let record = record.map_err(damaged)?;
        if !wanted.contains(&record.seq) {
            continue;
        }
        match label >= site.parts.keys && !record.is_named() {
            true => unnamed.push(record.seq),
            false => found.push(block(|out| record.put(None, out))),
        }
    }
    if unnamed.is_empty() {
        return Ok(found);
    }
    // Blocks come from several readers.
    unnamed.sort_unstable();
    // What has no name of its own is called by its rank in its session, which only the session shows.
    let part = load(site, whole, spill, (label, workers), MakeUp::Nothing)?;
    for record in blocks.all().iter().flat_map(|block| records(block)) {
        let record = record.map_err(damaged)?;
        if unnamed.binary_search(&record.seq).is_ok()
            && let Some(part) = &part
            && let Some(t) = part.txn(record.seq)
        {
            let name = part.history().raw_name(t);
            found.push(block(|out| record.put(Some(&name), out)));
        }
    }
    Ok(found)
}

fn block(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut block = Vec::new();
    put(&mut block);
    block
}

/// What was found, about the gathered transactions.
pub(crate) fn findings(part: &Part, found: &Found) -> Findings {
    let history = part.history();
    let listed = found.listed.iter().filter_map(|noted| {
        let txn = part.txn(noted.txn)?;
        let first = history.op_range(txn).start as u32;
        let at = noted.at.and_then(|op| part.local(txn, op));
        Some(Violation {
            axiom: *Axiom::ALL.get(noted.axiom as usize)?,
            txn,
            key: at.map(|local| history.op(OpId(first + local)).key),
            other: noted.other.and_then(|seq| part.txn(seq)),
            read: noted.read.and_then(|op| part.local(txn, op)),
            class: noted.class.and_then(class),
            source: noted.source.and_then(|seq| part.txn(seq)),
        })
    });
    let listed: Vec<Violation> = listed.collect();
    Findings {
        counts: found.counts,
        listed,
        unjudged: found.unjudged,
        unmatched: found.unmatched,
        open: found.open.len() as u64,
        forks: false,
    }
}
