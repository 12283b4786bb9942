//! Which of the allowed values a read returns.
//!
//! A choice is made from the seed and the read's own name ([`ReadName`]), so that it does not depend on how
//! threads ran, or from a [`Replay`]. A level hands over *spans* of a key's writers and a test; what it
//! allows is the members of the spans that pass. So a choice costs about the number of spans, not of
//! candidates, unless most of them fail the test.

use super::base::{Base, KeyId, Seq};
use super::isolation::Isolation;
use super::options::Latest;
use super::value::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A transaction by its session and its number in it, both from 0, in the order in which they were opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub struct TxnName {
    /// The session.
    pub session: u32,
    /// How many transactions the session had begun before, whatever became of them.
    pub transaction: u32,
}

impl fmt::Display for TxnName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.session, self.transaction)
    }
}

/// A read of a value that another transaction wrote, by its number in its transaction, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub struct ReadName {
    /// Who reads.
    pub by: TxnName,
    /// How many such reads it had made before.
    pub read: u32,
}

/// A read and the value it was given.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The read.
    pub read: ReadName,
    /// The key.
    pub key: Arc<str>,
    /// Whose write it returned; `None` is the initial value.
    pub source: Option<TxnName>,
    /// What it returned.
    pub value: Option<Value>,
    /// Whose write was the newest that it could have returned.
    pub newest: Option<TxnName>,
    /// What that one wrote.
    pub newest_value: Option<Value>,
    /// All that it could have returned, oldest first; empty unless asked for
    /// ([`Options::record_alternatives`](super::Options::record_alternatives)).
    pub alternatives: Vec<Option<TxnName>>,
    /// The statement it was made for, if the session said so.
    pub statement: Option<Arc<str>>,
}

impl Choice {
    /// True if a newer value was allowed.
    pub fn is_stale(&self) -> bool {
        self.source != self.newest
    }
}

/// What a read does for which no choice is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Otherwise {
    /// The newest allowed value.
    #[default]
    Newest,
    /// The oldest allowed value: the first of the alternatives, where all are to be tried.
    Oldest,
    /// At random, from the seed.
    Random,
}

/// Choices to repeat. One that is not allowed any more, because the program did something else, counts as
/// not given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replay {
    /// The source of these reads.
    pub choices: BTreeMap<ReadName, Option<TxnName>>,
    /// The source of all others.
    pub otherwise: Otherwise,
}

/// Chooses for every read that is free to: it is given the read and all that it may return, oldest first,
/// and returns a position among them.
#[derive(Clone)]
pub struct Chooser(pub Arc<Pick>);

/// The function of a [`Chooser`].
pub type Pick = dyn Fn(ReadName, &[Option<TxnName>]) -> usize + Send + Sync;

impl fmt::Debug for Chooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chooser")
    }
}

/// How one read chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish {
    Newest,
    Oldest,
    /// Among the newest of each session.
    Latest(Latest),
    Uniform,
    /// With this probability not the newest.
    Stale(f64),
}

/// What a read may return.
pub(crate) struct Candidates<'a> {
    pub isolation: &'a dyn Isolation,
    pub base: &'a Base,
    pub session: usize,
    pub key: KeyId,
    /// Ascending.
    pub spans: Vec<&'a [Seq]>,
}

/// How often a random candidate may fail before all are looked at.
const TRIES: usize = 24;

impl<'a> Candidates<'a> {
    pub fn new(isolation: &'a dyn Isolation, base: &'a Base, session: usize, key: KeyId) -> Candidates<'a> {
        let spans = isolation.spans(base, session, key);
        Candidates { isolation, base, session, key, spans }
    }

    pub fn allows(&self, source: Seq) -> bool {
        self.spans.iter().any(|s| s.binary_search(&source).is_ok()) && self.passes(source)
    }

    fn passes(&self, source: Seq) -> bool {
        self.isolation.allows(self.base, self.session, self.key, source)
    }

    /// Everything that is allowed, in the order of commits.
    pub fn all(&self) -> Vec<Seq> {
        let mut all: Vec<Seq> = self.spans.iter().flat_map(|s| s.iter().copied()).collect();
        all.sort_unstable();
        all.retain(|&s| self.passes(s));
        all
    }

    /// The allowed one that committed last.
    pub fn newest(&self) -> Seq {
        let mut spans = self.spans.clone();
        loop {
            let top = spans.iter_mut().filter(|s| !s.is_empty()).max_by_key(|s| s[s.len() - 1]);
            // Some candidate always passes (see `isolation.rs`), so the spans are never exhausted.
            let Some((&last, rest)) = top.as_ref().and_then(|s| s.split_last()) else { return Seq::INITIAL };
            if self.passes(last) {
                return last;
            }
            if let Some(span) = top {
                *span = rest;
            }
        }
    }

    pub fn choose(&self, wish: Wish, random: &mut fastrand::Rng) -> Seq {
        match wish {
            Wish::Newest => self.newest(),
            Wish::Oldest => self.all().first().copied().unwrap_or(Seq::INITIAL),
            Wish::Latest(latest) => {
                let latest = self.latest(latest);
                latest[random.usize(..latest.len())]
            }
            Wish::Uniform => self.uniform(random, None).unwrap_or_else(|| self.newest()),
            Wish::Stale(p) => {
                let newest = self.newest();
                if random.f64() >= p {
                    return newest;
                }
                self.uniform(random, Some(newest)).unwrap_or(newest)
            }
        }
    }

    /// Any of them with the same probability, except this one; `None` if there is no other.
    fn uniform(&self, random: &mut fastrand::Rng, except: Option<Seq>) -> Option<Seq> {
        let count: usize = self.spans.iter().map(|s| s.len()).sum();
        if count > TRIES {
            for _ in 0..TRIES {
                let mut at = random.usize(..count);
                let span = self.spans.iter().find(|s| {
                    let here = at < s.len();
                    at -= if here { 0 } else { s.len() };
                    here
                });
                let Some(&pick) = span.and_then(|s| s.get(at)) else { continue };
                if Some(pick) != except && self.passes(pick) {
                    return Some(pick);
                }
            }
        }
        let mut all = self.all();
        all.retain(|&s| Some(s) != except);
        (!all.is_empty()).then(|| all[random.usize(..all.len())])
    }

    /// The newest allowed write of each session, by the rule of [`Latest`]. With [`Latest::On`], the
    /// initial value only if there is nothing else.
    pub fn latest(&self, rule: Latest) -> Vec<Seq> {
        let mut tops = Vec::new();
        let each = rule == Latest::PerSession && self.isolation.spans_are_sessions();
        for span in &self.spans {
            let mut last = None;
            for &writer in span.iter().rev() {
                let session = self.base.writer(writer).map(|name| name.session);
                if last != Some(session) && self.passes(writer) {
                    tops.push(writer);
                    last = Some(session);
                    if !each {
                        break;
                    }
                }
            }
        }
        let over = |a: Seq| tops.iter().any(|&b| a != b && self.isolation.before(a, b));
        let mut latest: Vec<Seq> =
            tops.iter().copied().filter(|&a| rule == Latest::PerSession || !over(a)).collect();
        latest.sort_unstable();
        if latest.is_empty() { vec![self.newest()] } else { latest }
    }
}
