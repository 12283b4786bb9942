//! EXT (Definition 4 of the paper): a transaction's first read of a key returns the last version visible to
//! it.
//!
//! Where several visible versions share the largest commit, each of them may be the last that no later one
//! of its session follows: the order of equal commits is unknown and keeps sessions. Under serializability,
//! what other sessions commit at the reader's own moment may come before it or not. So a read is right if
//! some such order explains it, read by read, and a read that is right by one of several versions is a TIE.
//!
//! A read that sees no version returns the initial state; the empty list will do, unless the key began as
//! another list. Of a list, all visible versions are its content ([`list`](crate::list)). What a key holds
//! that was both written and appended to is the database's business, unless the last versions are written
//! values.
//!
//! Costs the versions of the last commit for a written value, all visible versions for a list. Both checks
//! look first whether one written value is last by itself, which is nearly always so.

use crate::Stamped;
use crate::list::{Block, Fit, is_concatenation};

/// A value, or an element of a list.
pub trait Nil: Copy + Eq {
    /// No value; for a list key, the empty list.
    const NIL: Self;
}

impl Nil for anomalist_history::Value {
    const NIL: Self = anomalist_history::Value::NIL;
}

/// What a transaction leaves of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a, V> {
    /// This value.
    Written(V),
    /// What was there before, and these elements.
    Appended(&'a [V]),
    /// No defined content: it appends to a register value.
    Undefined,
}

/// What a read returned of others' work, or what a key holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen<'a, V> {
    /// One value.
    One(V),
    /// A list.
    List(&'a [V]),
}

/// A version of a key.
pub trait Version: Stamped + Copy {
    /// A value.
    type Value: Nil;

    /// What its writer left.
    fn content(&self) -> Content<'_, Self::Value>;
}

/// A read, and what its key began as.
pub struct Read<'a, V, F> {
    /// What it returned of others' work.
    pub seen: Seen<'a, V>,
    /// What the key holds before any write, if that is known.
    pub initial: Option<Seen<'a, V>>,
    /// Whether it returned this written value.
    pub shows: F,
}

/// The versions that a read sees, or may see.
pub struct Scope<I, R> {
    /// Those that it sees, the last in the order of commits first.
    pub required: I,
    /// Those that it may see: other sessions committed them at the reader's own commit.
    pub optional: Vec<R>,
    /// There are older ones, which are not at hand.
    pub cut: bool,
    /// Some of those that it sees is known to be more than appends.
    pub mixed: bool,
}

/// How a read compares with what it should have returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Match {
    /// It is right.
    Right,
    /// It is right by one of several versions that share the commit.
    Tied,
    /// It is wrong.
    Wrong,
    /// A written value was appended to: what that gives is not defined.
    Unjudged,
    /// There are too many orders of equal commits to try.
    GaveUp,
}

impl Match {
    /// Right or wrong.
    #[inline]
    pub fn of(right: bool) -> Match {
        if right { Match::Right } else { Match::Wrong }
    }
}

/// The answer depends on versions that are not at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut;

/// Judges a read. Also returns the last version in the order of commits that it sees; `None`: the initial
/// state.
pub fn judge<R, F>(
    read: &Read<'_, R::Value, F>,
    scope: Scope<impl Iterator<Item = R>, R>,
) -> Result<(Match, Option<R>), Cut>
where
    R: Version,
    F: Fn(R::Value) -> bool,
{
    let Scope { mut required, optional, cut, mixed } = scope;
    let mut tie: Vec<R> = Vec::new();
    let mut older = required.next();
    while let Some(version) = older.filter(|v| tie.first().is_none_or(|last| last.commit() == v.commit())) {
        tie.push(version);
        older = required.next();
    }
    if tie.is_empty() && cut {
        return Err(Cut);
    }
    let expected = tie.first().copied();
    let mut candidates = last_ones(tie.clone());
    candidates.extend_from_slice(&optional);
    if candidates.is_empty() {
        return Ok((Match::of(is_initial(read.initial, read.seen)), expected));
    }
    let several = candidates.len() + usize::from(tie.is_empty()) > 1;
    let matched = |right: bool| match right {
        true if several => Match::Tied,
        right => Match::of(right),
    };
    let initially = tie.is_empty() && is_initial(read.initial, read.seen);
    if let Some(shown) = shows_one(read, &candidates) {
        return Ok((matched(initially || shown), expected));
    }
    let appends = |v: &R| matches!(v.content(), Content::Appended(_));
    let mut versions = tie;
    let mut pure = !mixed && versions.iter().chain(&optional).all(appends);
    while let Some(version) = older.filter(|_| pure) {
        pure = appends(&version);
        versions.push(version);
        older = required.next();
    }
    if !pure {
        return Ok((Match::Unjudged, expected));
    }
    if cut {
        return Err(Cut);
    }
    let matched = match (read.seen, read.initial) {
        (Seen::One(_), _) => matched(initially),
        (Seen::List(seen), initial) => match is_list(initial, &versions, &optional, seen) {
            Fit::Yes => matched(true),
            Fit::No => Match::Wrong,
            Fit::GaveUp => Match::GaveUp,
        },
    };
    Ok((matched, expected))
}

/// Whether a read returned one of these versions; `None` if not all of them are written values.
fn shows_one<R: Version, F>(read: &Read<'_, R::Value, F>, versions: &[R]) -> Option<bool>
where
    F: Fn(R::Value) -> bool,
{
    versions.iter().try_fold(false, |shown, version| match version.content() {
        Content::Written(value) => Some(shown || (read.shows)(value)),
        Content::Appended(_) | Content::Undefined => None,
    })
}

/// Of versions with one commit, those that may be the last: of each session the last.
fn last_ones<R: Version>(mut versions: Vec<R>) -> Vec<R> {
    if versions.len() > 1 {
        versions.sort_by_key(|v| (v.session(), v.position()));
        let last = |own: &[R]| own.last().copied();
        versions = versions.chunk_by(|a, b| a.session() == b.session()).filter_map(last).collect();
    }
    versions
}

/// Whether a read that sees no version is right.
pub fn is_initial<V: Nil>(initial: Option<Seen<'_, V>>, seen: Seen<'_, V>) -> bool {
    match (initial, seen) {
        (Some(Seen::List(list)), Seen::List(seen)) => seen == list,
        (Some(Seen::List(list)), Seen::One(value)) => list.is_empty() && value == V::NIL,
        (_, Seen::List(seen)) => seen.is_empty(),
        (initial, Seen::One(_)) => initial == Some(seen),
    }
}

/// The list that a key begins as.
pub fn initial_list<'a, V>(initial: Option<Seen<'a, V>>) -> &'a [V] {
    match initial {
        Some(Seen::List(list)) => list,
        Some(Seen::One(_)) | None => &[],
    }
}

/// Whether a list is what the key held at first, what the versions appended and perhaps what the optional
/// ones did.
fn is_list<R: Version>(
    initial: Option<Seen<'_, R::Value>>,
    versions: &[R],
    optional: &[R],
    seen: &[R::Value],
) -> Fit {
    let Some(seen) = seen.strip_prefix(initial_list(initial)) else { return Fit::No };
    let required = versions.iter().map(|v| (v, true));
    let mut all: Vec<(&R, bool)> = required.chain(optional.iter().map(|v| (v, false))).collect();
    all.sort_by_key(|(v, _)| (v.commit(), v.session(), v.position()));
    let blocks = all.into_iter().map(|(v, required)| Block {
        commit: v.commit(),
        session: v.session(),
        required,
        elements: match v.content() {
            Content::Appended(elements) => elements,
            Content::Written(_) | Content::Undefined => &[],
        },
    });
    is_concatenation(blocks, seen)
}
