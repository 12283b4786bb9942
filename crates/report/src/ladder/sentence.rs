//! The sentence above the ladder: the weakest levels that are violated, and the strongest that hold.

use crate::Subject;
use crate::layout::listed;
use anomalist_level::{Bound, Level, Verdict};

/// One sentence about all verdicts: first what was required, then the weakest levels that are violated, the
/// strongest that hold, and how many are open.
pub fn summary_sentence(subject: &Subject<'_>) -> String {
    let judgement = subject.judgement;
    let required = required(subject);
    if !required.is_empty() && judgement.levels.iter().all(|l| subject.required.contains(&l.level)) {
        return required.trim_end().to_owned();
    }
    let with = |wanted: fn(&Verdict) -> bool| -> Vec<Level> {
        let has = |l: &&Level| judgement.verdict(**l).is_some_and(wanted);
        Level::ALL.iter().filter(has).copied().collect()
    };
    let violated = Level::weakest(&with(|v| *v == Verdict::Violated));
    let open = Level::weakest(&with(|v| matches!(v, Verdict::Unknown(_))));
    let strongest = judgement.strongest();
    let mut parts = Vec::new();
    match names(&violated).as_slice() {
        [] => {}
        [one] => parts.push(format!("{one} is the weakest level violated")),
        many => parts.push(format!("{} are the weakest levels violated", listed(many))),
    }
    let noun = if violated.is_empty() { "level " } else { "" };
    let nouns = if violated.is_empty() { "levels " } else { "" };
    match unless_in_sessions(subject, &strongest).as_slice() {
        [] => parts.push("no level is known to hold".to_owned()),
        [one] => parts.push(format!("{one} is the strongest {noun}that holds")),
        many => parts.push(format!("{} are the strongest {nouns}that hold", listed(many))),
    }
    match (violated.is_empty(), open.is_empty()) {
        (true, true) => parts.push("none is violated".to_owned()),
        (true, false) => parts.push(format!("no violation was found, but {} unknown", are(&open))),
        (false, _) => {}
    }
    format!("{required}{}.", parts.join("; "))
}

fn are(open: &[Level]) -> String {
    let names = names(open);
    format!("{} {}", listed(&names), if names.len() == 1 { "is" } else { "are" })
}

/// What was required, as a sentence; nothing if nothing was.
fn required(subject: &Subject<'_>) -> String {
    let mut verdicts = Vec::new();
    for &level in subject.required {
        let word = match subject.judgement.verdict(level) {
            Some(Verdict::Holds) => "holds",
            Some(Verdict::Violated) => "is VIOLATED",
            Some(Verdict::Unknown(_)) => "is unknown",
            None => "is not decided",
        };
        verdicts.push(format!("{level} {word}"));
    }
    if verdicts.is_empty() { String::new() } else { format!("Required: {}. ", verdicts.join(", ")) }
}

/// The names of levels, and "the session guarantees" if all of a family's levels of one bound are there.
pub(crate) fn names(levels: &[Level]) -> Vec<String> {
    let kin = |level: Level| -> Vec<Level> {
        let info = level.info();
        let same = |l: &&Level| l.info().rung == info.rung && l.bound() == level.bound();
        Level::CANONICAL.iter().filter(same).copied().collect()
    };
    let mut names: Vec<String> = Vec::new();
    for &level in levels {
        let kin = kin(level);
        let all = kin.len() > 1 && kin.iter().all(|l| levels.contains(l));
        let name = if all { format!("the {}", level.info().rung) } else { level.name().to_owned() };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The names of levels that hold, with a word where only the order of sessions, or of real time, breaks
/// them: `serializable (not in sessions)`.
fn unless_in_sessions(subject: &Subject<'_>, levels: &[Level]) -> Vec<String> {
    let broken = |level: Level, bound: Bound| {
        let same = |l: &&Level| l.info().rung == level.info().rung && l.bound() == bound;
        let violated = |l: &Level| subject.judgement.verdict(*l) == Some(&Verdict::Violated);
        level.bound() < bound && Level::CANONICAL.iter().filter(same).any(violated)
    };
    let mut shown = names(levels);
    for &level in levels {
        let how = match (broken(level, Bound::Session), broken(level, Bound::RealTime)) {
            (true, _) => "not in sessions",
            (false, true) => "not in real time",
            (false, false) => continue,
        };
        for name in shown.iter_mut().filter(|name| *name == level.name()) {
            *name = format!("{level} ({how})");
        }
    }
    shown
}
