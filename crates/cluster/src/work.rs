//! What one worker does, stage by stage.

use crate::error::Error;
use crate::gather::{findings, gather};
use crate::input::{Files, Stamp};
use crate::judge::{Found, judge, share};
use crate::read::read;
use crate::spill::Spill;
use crate::stage::{self, decode};
use crate::totals::{Counted, Totals};
use crate::{Answer, Job, Progress, Size};
use anomalist_format::Format;
use anomalist_timestamp::Mode;
use anomalist_timestamp::offline::{self, ByStamps};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use timely::worker::Worker;

/// How the history is cut. Parts are numbered: first those by key, then those by session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub keys: usize,
    pub sessions: usize,
}

impl Parts {
    pub fn all(self) -> usize {
        self.keys + self.sessions
    }

    pub fn of_key(self, hash: u64) -> usize {
        (hash % self.keys as u64) as usize
    }

    pub fn of_session(self, hash: u64) -> usize {
        self.keys + (hash % self.sessions as u64) as usize
    }

    /// The number of a part among those of its owner.
    pub fn local(self, label: usize, workers: usize) -> usize {
        label / workers
    }
}

/// Where a worker works.
pub(crate) struct Site<'a> {
    pub job: &'a Job,
    pub parts: Parts,
    /// Workers of this process, which share its memory.
    pub here: usize,
    pub index: usize,
}

/// Bytes of memory that a part takes while it is judged, per byte of its records.
const GROWTH: u64 = 9;
/// Bytes of records per byte of text, as far as memory is concerned, in hundredths.
const RECORDS: u64 = 60;

impl Site<'_> {
    /// Fails if the work is to end.
    pub fn poll(&self) -> Result<(), Error> {
        if (self.job.stop)() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Fails if a part with so many bytes of records does not fit into this worker's share of memory.
    pub fn allows(&self, records: u64) -> Result<(), Error> {
        let (needed, limit) = (records * GROWTH, self.job.memory / self.here as u64);
        if needed <= limit {
            Ok(())
        } else {
            Err(Error::Memory { needed: needed * self.here as u64, limit: self.job.memory })
        }
    }

    pub fn tell(&self, stage: &'static str, done: usize, of: usize) {
        (self.job.tell)(Progress { stage, worker: self.index, done, of });
    }
}

/// What the processes must agree on.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Plan {
    version: String,
    files: Vec<Stamp>,
    question: String,
    keys: usize,
}

/// How many parts by key make each small enough for the memory of a worker.
fn parts(job: &Job, text: u64, here: usize, workers: usize) -> usize {
    const MOST: u64 = 4096;
    if let Some(parts) = job.parts {
        return parts.get();
    }
    // Parts are of different sizes: a third of the memory is for the usual one.
    let share = (job.memory / here as u64 / 3).max(1);
    let needed = (text / 100 * RECORDS).saturating_mul(GROWTH) / share + 1;
    (needed.min(MOST) as usize).max(4 * workers)
}

/// Does a worker's part of the job; the first one has the answer.
pub(crate) fn work(worker: &mut Worker, job: &Job, here: usize) -> Result<Option<Answer>, Error> {
    let (index, workers) = (worker.index(), worker.peers());
    let opened = Files::new(&job.files, job.piece).and_then(|files| Ok((format(job)?, files)));
    let (plan, opened) = agree(worker, job, here, opened)?;
    let (format, files) = opened;
    let parts = Parts { keys: plan, sessions: plan.min(4 * workers) };
    let site = Site { job, parts, here, index };
    let scratch = job.scratch.join(format!("worker-{index}"));
    let mut spill = Spill::new(scratch, parts.all().div_ceil(workers))?;
    let (counted, exchanged) = read(worker, &site, &files, format, &mut spill)?;
    let (totals, exchanged) = sum(worker, &counted, exchanged)?;
    drop(counted);
    let name = job.files.first().map_or_else(String::new, |path| path.display().to_string());
    let stamped = totals.check(&name).and_then(|()| suits(&totals));
    // Every worker has the same totals, and so the same opinion.
    stamped?;
    let whole = totals.whole(format, &name, job.initial.clone());
    let asked = job.modes();
    let modes: Vec<Mode> =
        asked.into_iter().filter(|&mode| mode == Mode::Ser || totals.without_start == 0).collect();
    let judged = judge(worker, &site, &whole, &spill, &modes)?;
    let wanted: BTreeSet<u64> = judged.found.iter().flat_map(Found::transactions).collect();
    let part = gather(worker, &site, (&whole, &totals), &spill, &wanted)?;
    let Some(part) = part else { return Ok(None) };
    let request = ByStamps {
        levels: job.levels.clone(),
        anomalies: job.anomalies.clone(),
        tie: job.tie,
        threads: NonZeroUsize::MIN,
    };
    let find = |mode| {
        let at = modes.iter().position(|&m| m == mode)?;
        Some(findings(&part, &judged.found[at]))
    };
    let (judgement, violations) =
        offline::conclude(part.history(), &request, totals.without_start as usize, find);
    let size = Size {
        sessions: totals.sessions.len() as u64,
        transactions: totals.transactions,
        aborted: totals.aborted,
        indeterminate: totals.indeterminate,
        operations: totals.operations,
        keys: judged.keys,
    };
    Ok(Some(Answer { history: part.into_history(), judgement, violations, size, format, exchanged }))
}

/// The format of the input.
fn format(job: &Job) -> Result<Format, Error> {
    let mut found = job.format;
    for path in &job.files {
        let here = match job.format {
            Some(format) => format,
            None => anomalist_format::detect(path)?,
        };
        if *found.get_or_insert(here) != here {
            return Err(Error::Input(format!("{}: the files are in different formats", path.display())));
        }
    }
    found.ok_or_else(|| Error::Input("no file".to_owned()))
}

/// Whether this history can be judged.
fn suits(totals: &Totals) -> Result<(), Error> {
    if totals.sets {
        let message = "snapshots that are sets of transactions are not judged by several workers yet";
        return Err(Error::Unsupported(message.to_owned()));
    }
    if totals.unstamped > 0 || totals.stamped == 0 {
        let message = "the history has no timestamps: some transaction has none";
        return Err(Error::Unsupported(message.to_owned()));
    }
    Ok(())
}

/// The files and the number of parts by key, once all workers see the same files.
fn agree<T>(
    worker: &mut Worker,
    job: &Job,
    here: usize,
    opened: Result<(T, Files), Error>,
) -> Result<(usize, (T, Files)), Error> {
    let (first, workers) = (worker.index() == 0, worker.peers());
    let plan = opened.as_ref().map_err(Error::clone).map(|(_, files)| Plan {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        files: files.stamps.clone(),
        question: format!("{:?} {:?} {} {:?}", job.levels, job.tie, job.piece, job.initial),
        keys: parts(job, files.text, here, workers),
    });
    let mut plans: Vec<Plan> = Vec::new();
    let mut plan = Some(plan);
    stage::run(
        worker,
        |out| {
            let plan = plan.take().unwrap_or(Err(Error::Stopped))?;
            out.tell(0, 0, &plan)?;
            Ok(false)
        },
        |parcel| {
            plans.push(decode(&parcel.bytes)?);
            Ok(())
        },
    )?;
    let mut agreed: Result<usize, Error> = Ok(0);
    if first {
        let same = |plan: &Plan| {
            let with_keys = Plan { keys: plans[0].keys, ..plan.clone() };
            with_keys == plans[0]
        };
        agreed = match plans.iter().all(same) {
            true => Ok(plans.iter().map(|plan| plan.keys).max().unwrap_or(1)),
            false => Err(Error::Input(
                "the processes do not see the same files, or were not asked the same question".to_owned(),
            )),
        };
    }
    let keys = share(worker, &agreed)??;
    Ok((keys, opened?))
}

/// The sum of what all workers counted, on each of them.
fn sum(worker: &mut Worker, counted: &Totals, exchanged: u64) -> Result<(Totals, u64), Error> {
    let peers = worker.peers();
    let (mut totals, mut bytes) = (Totals::default(), 0);
    let mine = counted.to_send();
    stage::run(
        worker,
        |out| {
            (0..peers).try_for_each(|to| out.tell(to, 0, &(&mine, exchanged)))?;
            Ok(false)
        },
        |parcel| {
            let (counted, exchanged): (Counted, u64) = decode(&parcel.bytes)?;
            totals.add(counted);
            bytes += exchanged;
            Ok(())
        },
    )?;
    Ok((totals, bytes))
}
