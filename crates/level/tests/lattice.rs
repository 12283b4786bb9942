//! The tables are what they claim to be: one row per name, one meaning per name, implications without
//! contradiction.

use anomalist_level::{AnomalyKind, Level, elle};
use std::collections::HashMap;

#[test]
fn rows_stand_in_the_order_of_the_enum_and_are_filled_in() {
    for (position, &level) in Level::ALL.iter().enumerate() {
        let info = level.info();
        assert_eq!((level.index(), info.level, info.name), (position, level, level.name()));
        assert!(!info.definition.is_empty() && !info.source.is_empty(), "{level}");
        assert_eq!(level.is_canonical(), level.family().is_some(), "{level}");
        assert!(level.is_canonical() || info.elle_name.is_some(), "{level} is neither canonical nor of Elle");
        assert!(!level.is_canonical() || info.example_rejects.is_some(), "{level} has no example");
    }
    for (position, &kind) in AnomalyKind::ALL.iter().enumerate() {
        let info = kind.info();
        assert_eq!((kind.index(), info.kind, info.name), (position, kind, kind.name()));
        assert!(!info.definition.is_empty() && !info.source.is_empty(), "{kind}");
        let reported = elle::anomalies().iter().all(|a| a.kind != kind || !a.emitted_by.is_empty());
        assert!(!info.instance.is_empty() || !reported, "{kind}: what is one instance?");
        assert_eq!(info.name, info.name.to_lowercase());
    }
    let taps: Vec<_> = AnomalyKind::TAPS.iter().map(|k| k.code()).collect();
    assert_eq!(taps, ('a'..='n').map(|c| format!("TAP-{c}")).collect::<Vec<_>>());
}

/// The paper uses one code for an axiom and its variant at commit; the code alone means the former.
const SERIAL_STAMPS: [AnomalyKind; 2] = [AnomalyKind::SessionCommit, AnomalyKind::ExtCommit];

#[test]
fn every_name_means_one_thing() {
    let mut seen = HashMap::new();
    for &level in Level::ALL {
        for spelling in [level.name()].into_iter().chain(level.info().aliases.iter().copied()) {
            assert_eq!(spelling, spelling.to_lowercase());
            assert_eq!(seen.insert(spelling, level), None, "{spelling} names two levels");
        }
    }
    let mut seen: HashMap<String, AnomalyKind> = HashMap::new();
    for &kind in AnomalyKind::ALL {
        let info = kind.info();
        for spelling in [info.name, info.code].into_iter().chain(info.aliases.iter().copied()) {
            let other = *seen.entry(spelling.to_lowercase()).or_insert(kind);
            // Elle's code for what TAP-c is called; `elle::anomaly` resolves it for the drop-in.
            let excused = spelling == "future-read" && kind == AnomalyKind::ElleFutureRead
                || spelling == info.code && SERIAL_STAMPS.contains(&kind);
            assert!(other == kind || excused, "{spelling} names {other} and {kind}");
        }
    }
}

#[test]
fn names_round_trip() {
    for &level in Level::ALL {
        assert_eq!(level.to_string().parse(), Ok(level));
        for alias in level.info().aliases {
            assert_eq!(alias.to_uppercase().parse(), Ok(level));
        }
    }
    for &kind in AnomalyKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
        if kind != AnomalyKind::ElleFutureRead && !SERIAL_STAMPS.contains(&kind) {
            assert_eq!(kind.code().parse(), Ok(kind));
        }
        for alias in kind.info().aliases {
            assert_eq!(alias.parse(), Ok(kind));
        }
    }
    assert_eq!("READ COMMITTED".parse(), Ok(Level::ReadCommitted));
    assert_eq!("strict_serializable".parse(), Ok(Level::StrictSerializable));
    assert_eq!("future-read".parse(), Ok(AnomalyKind::FutureRead));
    assert_eq!(elle::anomaly("future-read").unwrap().kind, AnomalyKind::ElleFutureRead);
    assert_eq!(elle::model("read-committed").unwrap().level, Level::AdyaReadCommitted);
    assert_eq!(elle::model("strict-serializable").unwrap().printed, "strong-serializable");
}

#[test]
fn a_typo_is_answered_with_a_suggestion() {
    let level = |typed: &str| typed.parse::<Level>().unwrap_err();
    assert_eq!(level("serialisable").suggestions[0], "serializable");
    assert_eq!(level("raed-committed").suggestions[0], "read-committed");
    assert_eq!(level("casual").suggestions[0], "causal");
    assert!(level("snapshot").suggestions.contains(&"snapshot-isolation"));
    assert!(level("bananas").suggestions.is_empty());
    assert_eq!(
        level("casual").to_string(),
        "unknown level `casual`; did you mean `causal`?",
        "a message a person can act on"
    );
    assert_eq!(level("bananas").to_string(), "unknown level `bananas`");
    let anomaly = |typed: &str| typed.parse::<AnomalyKind>().unwrap_err();
    assert_eq!(anomaly("lost-updates").suggestions[0], "lost-update");
    assert!(anomaly("skew").suggestions.contains(&"write-skew"));
    assert!(level("").suggestions.is_empty() && anomaly("🦀").suggestions.is_empty());
}

#[test]
fn implication_is_a_partial_order() {
    for &a in Level::ALL {
        assert!(a.implies(a) && a.implied().any(|b| b == a));
        for b in a.implied() {
            assert!(a == b || !b.implies(a), "{a} and {b} imply one another");
            assert!(b.implied().all(|c| a.implies(c)));
        }
    }
    for &a in AnomalyKind::ALL {
        assert!(a.implies(a));
        for &b in AnomalyKind::ALL {
            assert!(a == b || !(a.implies(b) && b.implies(a)), "{a} and {b} imply one another");
        }
    }
}

/// The contract's list, closed, is exactly what holds between canonical levels: ways through Elle's models
/// add nothing.
#[test]
fn canonical_implications_are_the_contract() {
    let contract = "strict-serializable>session-ser strict-serializable>strong-si strong-si>session-si session-ser>session-si \
        session-ser>ser session-si>prefix session-si>psi session-si>si prefix>causal psi>causal causal>ra causal>mr causal>mw \
        causal>wfr ra>rc ra>ci ra>ryw rc>pl-2 pl-2>pl-1 ser>si ser>rr ser>pl-3u si>ci si>pl-2 rr>ci rr>pl-2 pl-3u>pl-2";
    let n = Level::CANONICAL.len();
    let mut holds = vec![vec![false; n]; n];
    (0..n).for_each(|i| holds[i][i] = true);
    for pair in contract.split_whitespace() {
        let (a, b) = pair.split_once('>').unwrap();
        holds[a.parse::<Level>().unwrap().index()][b.parse::<Level>().unwrap().index()] = true;
    }
    for via in 0..n {
        for from in 0..n {
            for to in 0..n {
                holds[from][to] |= holds[from][via] && holds[via][to];
            }
        }
    }
    for &a in Level::CANONICAL {
        for &b in Level::CANONICAL {
            assert_eq!(a.implies(b), holds[a.index()][b.index()], "{a} ⇒ {b}");
        }
    }
}

#[test]
fn stronger_levels_and_worse_anomalies_are_forbidden_too() {
    for &strong in Level::ALL {
        for weak in strong.implied() {
            for &kind in AnomalyKind::ALL.iter().filter(|k| !k.is_stamp()) {
                assert!(
                    !weak.forbids(kind) || strong.forbids(kind),
                    "{weak} forbids {kind}, {strong} does not"
                );
            }
        }
        for &worse in AnomalyKind::ALL {
            for &kind in AnomalyKind::ALL.iter().filter(|&&k| worse.implies(k)) {
                assert!(!strong.forbids(kind) || strong.forbids(worse), "{strong}: {worse} ⇒ {kind}");
            }
        }
    }
    for &kind in AnomalyKind::ALL {
        for level in kind.rules_out() {
            assert!(level.is_canonical() && level.forbids(kind));
        }
    }
    assert!(!Level::StrictSerializable.forbids(AnomalyKind::TieStamp));
    assert!(!Level::Serializable.forbids(AnomalyKind::NoConflictStamp));
}

/// They order transactions too, so what leaves no order at all breaks them.
const GUARANTEES: [Level; 4] =
    [Level::ReadYourWrites, Level::MonotonicReads, Level::MonotonicWrites, Level::WritesFollowReads];

#[test]
fn definitions_by_anomalies_are_the_contract() {
    let forbidden = |level: Level| {
        let taps =
            AnomalyKind::TAPS.iter().filter(|&&k| level.forbids(k)).filter_map(|k| k.code().chars().last());
        taps.collect::<String>()
    };
    assert_eq!(forbidden(Level::ReadCommitted), "abcdefghi");
    assert_eq!(forbidden(Level::CutIsolation), "j");
    assert_eq!(forbidden(Level::ReadAtomic), "abcdefghijkl");
    assert_eq!(forbidden(Level::Causal), "abcdefghijklmn");
    for level in
        [Level::ReadYourWrites, Level::MonotonicReads, Level::MonotonicWrites, Level::WritesFollowReads]
    {
        assert_eq!(forbidden(level), "abcdefg", "{level}");
    }
    // Session-free levels: what a session sees is none of their business (TAP-g to i and k to n).
    assert_eq!(forbidden(Level::AdyaReadCommitted), "abcf");
    assert_eq!(forbidden(Level::SnapshotIsolation), "abcdefj");
    assert_eq!(forbidden(Level::Serializable), "abcdefj");

    use Level::*;
    for (kind, levels) in [
        (
            "TAP-a",
            vec![AdyaReadCommitted, ReadYourWrites, MonotonicReads, MonotonicWrites, WritesFollowReads],
        ),
        ("TAP-h", vec![ReadCommitted]),
        ("TAP-k", vec![ReadAtomic]),
        ("TAP-n", vec![Causal]),
        ("not-read-your-writes", vec![ReadYourWrites]),
        ("g0", [&[ReadUncommitted][..], &GUARANTEES].concat()),
        ("g1c", [&[AdyaReadCommitted][..], &GUARANTEES].concat()),
        ("duplicate-elements", [&[AdyaReadCommitted][..], &GUARANTEES].concat()),
        ("read-skew", vec![ReadAtomic, SnapshotIsolation, RepeatableRead, UpdateSerializable]),
        (
            "lost-update",
            vec![ParallelSnapshotIsolation, SnapshotIsolation, RepeatableRead, UpdateSerializable],
        ),
        ("long-fork", vec![Prefix, SnapshotIsolation, RepeatableRead]),
        ("g2-item", vec![RepeatableRead]),
        ("g2-item-process", vec![StrongSessionSerializable]),
        ("EXT", vec![SnapshotIsolation]),
        ("SESSION", vec![StrongSessionSnapshotIsolation, StrongSessionSerializable]),
        ("TIE", vec![]),
    ] {
        let found = kind.parse::<AnomalyKind>().unwrap().rules_out();
        // A level that another one implies is not a weakest one.
        let expected = Level::weakest(&levels);
        assert_eq!(found, expected, "{kind}");
    }
}

/// Every example is a history of the mini-language (the testkit, which parses it for real, is above this
/// crate).
#[test]
fn examples_are_well_formed() {
    let examples = AnomalyKind::ALL.iter().filter_map(|k| k.info().example).chain(
        Level::ALL.iter().flat_map(|l| [l.info().example_accepts, l.info().example_rejects]).flatten(),
    );
    let mut count = 0;
    for example in examples {
        count += 1;
        for transaction in example.split("||").flat_map(|session| session.split(';')) {
            let transaction = transaction.trim();
            let operations = transaction.strip_suffix(" !abort").unwrap_or(transaction);
            for operation in operations.split_inclusive(')') {
                let body = operation.trim().strip_suffix(')').unwrap_or_else(|| panic!("{example}"));
                let (kind, arguments) = body.split_once('(').unwrap();
                let (key, value) = arguments.split_once(',').unwrap();
                assert!(matches!(kind, "r" | "w" | "a") && matches!(key, "x" | "y" | "z"), "{example}");
                let numbers = value.trim_matches(['[', ']']).split_whitespace();
                assert!(numbers.into_iter().all(|n| n.parse::<u32>().is_ok()), "{example}");
                assert!(kind == "r" || !value.starts_with('['), "{example}");
            }
        }
    }
    assert!(count > 60, "{count}");
    let without = |k: &&AnomalyKind| k.info().example.is_none();
    assert_eq!(AnomalyKind::ALL[..18].iter().find(without), None);
}
