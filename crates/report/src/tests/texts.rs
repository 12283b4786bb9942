//! Text for people.

use super::fixture::{Checked, checked, example};
use crate::layout::width;
use crate::{
    Hints, Style, Subject, colors, explain_anomaly, explain_level, json, levels_text, summary_table, text,
};
use anomalist_level::{Anomaly, AnomalyKind, By, Level, LevelVerdict, Verdict};

const PLAIN: Style = Style {
    color: false,
    signs: false,
    lanes: false,
    width: 80,
    verbose: 0,
    hints: Hints { examples: Some("-v"), versions: None, memory: None },
};
const VERBOSE: Style = Style { verbose: 1, ..PLAIN };
const COLOR: Style = Style { color: true, ..PLAIN };

fn fits(text: &str) {
    for line in text.lines() {
        assert!(width(line) <= 80, "{line}");
    }
}

#[test]
fn a_violation() {
    insta::assert_snapshot!(text(&example(AnomalyKind::FracturedReadCo).subject(), &PLAIN), @"
    h.txt: plume, 2 sessions, 3 transactions, 5 operations, 2 keys

    read-atomic is the weakest level violated; read-committed, the session
    guarantees and serializable (not in sessions) are the strongest that hold.

                            plain   in sessions   in real time
      read uncommitted      holds
      read committed        holds   holds
      cut isolation         holds
      session guarantees            holds
      read atomic                   VIOLATED
      causal                        VIOLATED
      prefix                        VIOLATED
      parallel SI                   VIOLATED
      snapshot isolation    holds   VIOLATED      VIOLATED
      repeatable read       holds
      update serializable   holds
      serializable          holds   VIOLATED      VIOLATED

      fractured-read-co (TAP-k)   breaks read-atomic

    fractured-read-co (TAP-k): fractured read, once. Here:
      T1 (1:1, line 1)  w(x,1)
      T2 (1:2, line 2)  w(x,2) w(y,1)
      T3 (2:1, line 4)  r(x,1) r(y,1)
      1. T3 read y = 1, which T2 wrote, so T3 must see T2.
      2. T2 wrote x = 2, yet T3 read x = 1, which T1 wrote: T2 must commit before
         T1.
      3. But T1 comes before T2 in session 1. So T2 < T1 < T2: a contradiction.
    ");
}

#[test]
fn a_clean_history() {
    insta::assert_snapshot!(text(&checked("w(x,1) || r(x,1)").subject(), &VERBOSE), @"
    h.txt: plume, 2 sessions, 2 transactions, 2 operations, 1 key

    strong-session-serializable is the strongest level that holds; no violation was
    found, but strong-snapshot-isolation is unknown.

                            plain   in sessions   in real time
      read uncommitted      holds
      read committed        holds   holds
      cut isolation         holds
      session guarantees            holds
      read atomic                   holds
      causal                        holds
      prefix                        holds
      parallel SI                   holds
      snapshot isolation    holds   holds         unknown [1]
      repeatable read       holds
      update serializable   holds
      serializable          holds   holds         unknown [1]

      [1] the history has no real-time information

    loaded in 12.1 ms, checked in 3.4 ms
    ");
}

#[test]
fn operations_that_do_not_matter_are_left_out_and_many_kinds_are_listed() {
    let c = checked(
        "w(a,1) w(x,1) w(b,1); w(c,1) w(x,2) w(y,1) w(d,1) !abort || r(y,1) r(a,1) r(x,1); w(x,5) r(x,1); r(q,9) || \
         w(p,1); w(p,2) w(s,1) || r(p,2); r(p,1)",
    );
    insta::assert_snapshot!(text(&c.requiring(&[Level::Causal, Level::Serializable]).subject(), &PLAIN), @"
    h.txt: plume, 4 sessions, 9 transactions (1 aborted), 18 operations, 9 keys

    Required: causal is VIOLATED, serializable is VIOLATED. adya-read-committed and
    the session guarantees are the weakest levels violated; read-uncommitted and
    cut-isolation are the strongest that hold.

                            plain       in sessions   in real time
      read uncommitted      holds
      read committed        VIOLATED    VIOLATED
      cut isolation         holds
      session guarantees                VIOLATED
      read atomic                       VIOLATED
      causal                            VIOLATED*
      prefix                            VIOLATED
      parallel SI                       VIOLATED
      snapshot isolation    VIOLATED    VIOLATED      VIOLATED
      repeatable read       VIOLATED
      update serializable   VIOLATED
      serializable          VIOLATED*   VIOLATED      VIOLATED

      *   required

      thin-air-read (TAP-a)      breaks adya-read-committed, the session guarantees
      aborted-read (TAP-b)       breaks adya-read-committed, the session guarantees
      not-my-own-write (TAP-d)   breaks read-committed, the session guarantees,
                                 snapshot-isolation, repeatable-read,
                                 update-serializable
      co-conflict-cm (TAP-m)     breaks causal
      conflict-cm (TAP-n)        breaks causal
      non-monotonic-reads (MR)   breaks monotonic-reads

    thin-air-read (TAP-a): garbage read, once. Here:
      T1 (2:3, line 13)  r(q,9)
      1. T1 read q = 9, but no transaction wrote 9 to q.

    aborted-read (TAP-b): dirty read, once. Here:
      T1 (1:2, line 4, aborted)  … w(y,1) …
      T2 (2:1, line 8)           r(y,1) …
      1. T2 read y = 1, which T1 wrote. T1 aborted, so no read should return it.

    not-my-own-write (TAP-d): own write ignored, once. Here:
      T1 (1:1, line 1)   … w(x,1) …
      T2 (2:2, line 11)  w(x,5) r(x,1)
      1. T2 wrote x = 5, and then read x = 1, which T1 wrote. It should have read
         its own 5.

    -v shows examples of 3 more kinds.
    ");
}

#[test]
fn by_values_and_by_timestamps() {
    let mut c = checked("w(x,1) || r(x,1)");
    let level =
        |by, verdict| LevelVerdict { level: Level::SnapshotIsolation, by, verdict, anomalies: Vec::new() };
    c.judgement.levels = vec![level(By::Values, Verdict::Holds), level(By::Timestamps, Verdict::Violated)];
    c.judgement.notes = vec!["stamps are those of two clocks".to_owned()];
    insta::assert_snapshot!(text(&c.subject(), &PLAIN), @r"
    h.txt: plume, 2 sessions, 2 transactions, 2 operations, 1 key

      snapshot-isolation by values       holds
      snapshot-isolation by timestamps   VIOLATED

    no level is known to hold

    note: stamps are those of two clocks
    ");
}

/// The contrast of a colour of the 6×6×6 cube with white and with black, as WCAG 2 defines it.
fn contrasts(code: &str) -> [f64; 2] {
    let number: usize = code.rsplit(';').next().unwrap().parse().unwrap();
    let part = |n: usize| {
        let share = [0.0, 95.0, 135.0, 175.0, 215.0, 255.0][n % 6] / 255.0_f64;
        if share <= 0.03928 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    let cube = number - 16;
    let light = 0.2126 * part(cube / 36) + 0.7152 * part(cube / 6) + 0.0722 * part(cube);
    [1.05 / (light + 0.05), (light + 0.05) / 0.05]
}

#[test]
fn colours_can_be_read_on_white_and_on_black() {
    for code in [colors::GOOD, colors::BAD, colors::OPEN] {
        for contrast in contrasts(code) {
            assert!(contrast >= 4.5, "{code}: {contrast}");
        }
    }
}

#[test]
fn colour_only_when_asked_and_never_counted() {
    let c = example(AnomalyKind::ConflictCm);
    let (plain, color) = (text(&c.subject(), &PLAIN), text(&c.subject(), &COLOR));
    assert!(
        !plain.contains('\x1b') && color.contains(&format!("\x1b[{}mVIOLATED\x1b[0m", colors::BAD)),
        "{color}"
    );
    let mut bare = color;
    for code in ["0", "1", colors::GOOD, colors::OPEN, colors::BAD] {
        bare = bare.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(bare, plain);
}

#[test]
fn eighty_columns() {
    for &kind in AnomalyKind::ALL {
        if let Some(example) = kind.info().example {
            fits(&text(&checked(example).subject(), &VERBOSE));
        }
        fits(&explain_anomaly(kind, &PLAIN));
    }
    for &level in Level::ALL {
        fits(&explain_level(level, &PLAIN));
    }
    fits(&levels_text(&VERBOSE));
    let key = "k".repeat(200);
    let ops = (0..40).map(|i| format!("w(key{i},{i})")).collect::<Vec<_>>().join(" ");
    let mut c = checked(&format!("w({key},1); w({key},2) {ops} || r({key},2) r({key},1)"));
    c.facts.path = "a/very/long/path/".repeat(12);
    fits(&text(&c.subject(), &VERBOSE));
    fits(&summary_table(&[c.subject(), c.subject()], &PLAIN));
}

#[test]
fn control_characters_reach_no_terminal() {
    let mut c = checked("w(\x1b[31m,a\nb) || r(\x1b[31m,zz\x07)");
    c.facts.path = "evil\x1b]0;\x07.txt".to_owned();
    assert!(!text(&c.subject(), &VERBOSE).contains(['\x1b', '\x07']));
}

#[test]
fn many_histories() {
    let mut all: Vec<Checked> =
        ["w(x,1) || r(x,1)", "w(x,1); r(x,0)", "w(x,1); w(x,2) w(y,1) || r(y,1) r(x,1)"]
            .into_iter()
            .map(checked)
            .collect();
    for (i, c) in all.iter_mut().enumerate() {
        c.facts.path = format!("run-{i}.txt");
    }
    all[2].required = vec![Level::ReadAtomic];
    let subjects: Vec<Subject<'_>> = all.iter().map(Checked::subject).collect();
    insta::assert_snapshot!(summary_table(&subjects, &PLAIN), @r"
    history    transactions  strongest level that holds
    run-0.txt             2  strong-session-serializable
    run-1.txt             2  read-committed, monotonic-reads, monotonic-writes,
                             writes-follow-reads, serializable
    run-2.txt             3  VIOLATED: read-atomic; read-your-writes,
                             monotonic-reads, monotonic-writes, writes-follow-reads,
                             serializable

    anomaly                        instances  histories
    non-mono-read-co (TAP-h)               1          1
    fractured-read-co (TAP-k)              1          1
    not-read-your-writes (RYW)             1          1
    g-single-item-process                  1          1

    anomalies in 2 of 3 histories
    ");
    assert!(summary_table(&subjects[..1], &PLAIN).ends_with("\nno anomaly in 1 history\n"));
}

#[test]
fn a_level_explained() {
    insta::assert_snapshot!(explain_level(Level::ReadAtomic, &PLAIN), @r"
    read-atomic

      A transaction sees all of another's writes or none of them, in whatever order
      it reads, and repeats its reads. In the axiom, visible means earlier in the
      reader's session, or read from at any point.

      also called  ra, atomic-visibility
      bound by     the order of each session
      implies      cut-isolation, read-committed, read-your-writes
      implied by   causal
      forbids      TAP-a, TAP-b, TAP-c, TAP-d, TAP-e, TAP-f, TAP-g, TAP-h, TAP-i,
                   TAP-j, TAP-k, TAP-l, RYW, G0, G1a, G1b, G1c, G0-process,
                   G1c-process, internal, future-read, dirty-update,
                   duplicate-elements, incompatible-order, read-skew
      source       Biswas & Enea 2019; Plume, Theorem 4
      in Plume     the same axiom (Definition 5), but its patterns TAP-k and TAP-l
                   need two keys, so Theorem 4 misses histories of one key (with
                   Plume's definitions)

      A history that satisfies it:

        session 1    session 2
        ──────────   ──────────
        T1  w(x,1)   T2  r(x,1)
                     T3  r(x,0)

      A history that violates it:

        session 1           session 2
        ─────────────────   ─────────────────
        T1  w(x,1) w(y,1)   T2  r(x,0) r(y,1)
    ");
}

#[test]
fn an_anomaly_explained() {
    insta::assert_snapshot!(explain_anomaly(AnomalyKind::AbortedRead, &PLAIN), @r"
    aborted-read (TAP-b): dirty read

      A read returned a value whose only writer aborted.

      counted as    one read
      is also       G1a
      rules out     adya-read-committed, read-your-writes, monotonic-reads,
                    monotonic-writes, writes-follow-reads
      forbidden by  adya-read-committed, read-committed, read-your-writes,
                    monotonic-reads, monotonic-writes, writes-follow-reads,
                    read-atomic, causal, prefix, parallel-snapshot-isolation,
                    snapshot-isolation, strong-session-snapshot-isolation,
                    strong-snapshot-isolation, repeatable-read, update-serializable,
                    serializable, strong-session-serializable, strict-serializable
      allowed by    read-uncommitted, cut-isolation
      source        Plume (Liu et al. 2024), Table 1

      A history that has it:

        session 1           session 2
        ─────────────────   ──────────
        T1  w(x,1) aborts   T2  r(x,1)
    ");
}

#[test]
fn every_level_is_listed() {
    let all = levels_text(&PLAIN);
    for level in Level::ALL {
        assert!(all.contains(&format!("\n  {level}")), "{level}");
    }
    assert!(all.contains("fractured-read-co (TAP-k, fractured read)"));
}

/// Write skew: G2-item, and with it what other levels call the same cycle.
const SKEW: &str = "r(x,0) w(y,1) || r(y,0) w(x,1)";

#[test]
fn one_example_is_shown_once() {
    let mut c = checked(SKEW);
    let first = c.judgement.anomalies[0].clone();
    let other = AnomalyKind::GUpdate;
    c.judgement.anomalies = vec![first.clone(), Anomaly { kind: other, ..first.clone() }];
    let text = text(&c.subject(), &Style { verbose: 1, ..PLAIN });
    assert_eq!(text.matches("a contradiction").count(), 1, "{text}");
    assert!(text.contains(&format!(": as {}, above.", crate::titled(first.kind))), "{text}");
    assert_eq!(json(&[c.subject()])["anomalies"][1]["same_as"], first.kind.name());
}

#[test]
fn what_required_levels_allow_is_named_not_explained() {
    let c = checked(SKEW).requiring(&[Level::SnapshotIsolation]);
    let reported = text(&c.subject(), &PLAIN);
    assert!(
        !reported.contains("contradiction") && reported.contains("allowed by what is required"),
        "{reported}"
    );
    let reported = text(&c.requiring(&[Level::Serializable]).subject(), &PLAIN);
    assert!(reported.contains("contradiction"), "{reported}");
}

#[test]
fn the_strongest_of_some_levels_is_called_that() {
    let mut c = checked("w(x,1) || r(x,1)").requiring(&[Level::ReadCommitted]);
    c.judgement.levels.retain(|l| l.level == Level::ReadCommitted);
    let reported = text(&c.subject(), &PLAIN);
    assert!(reported.contains("strongest of the levels asked: read-committed"), "{reported}");
    assert_eq!(json(&[c.subject()])["strongest_of"], "levels asked");
}

#[test]
fn what_holds_without_a_test_says_so() {
    let mut c = checked("w(x,1) || w(y,1)");
    c.facts.vacuous = Some("no transaction read what another wrote");
    let reported = text(&c.subject(), &PLAIN);
    assert!(
        reported.replace('\n', " ").contains("Yet no transaction read what another wrote."),
        "{reported}"
    );
    assert_eq!(json(&[c.subject()])["vacuous"], "no transaction read what another wrote");
    assert!(summary_table(&[c.subject()], &PLAIN).contains("(no write was read)"));
}

const DRAWN: Style = Style { signs: true, lanes: true, ..PLAIN };

#[test]
fn an_example_is_drawn_in_lanes() {
    let c = example(AnomalyKind::FracturedReadCo);
    let anomaly = c.anomaly(AnomalyKind::FracturedReadCo);
    insta::assert_snapshot!(crate::example_text(&c.subject(), anomaly, &DRAWN), @"
    fractured-read-co (TAP-k): fractured read, once. Here:
      session 1           session 2
      ┌ T1  1:1, line 1
      └ w(x,1)  (2)
      ┌ T2  1:2, line 2
      │ w(x,2)  (2)
      └ w(y,1)  (1)
                          ┌ T3  2:1, line 4
                          │ r(x,1)  (2)
                          └ r(y,1)  (1)
      1. T3 read y = 1, which T2 wrote, so T3 must see T2.
      2. T2 wrote x = 2, yet T3 read x = 1, which T1 wrote: T2 must commit before
         T1.
      3. But T1 comes before T2 in session 1. So T2 < T1 < T2: a contradiction.
    ");
    let ascii = Style { signs: false, ..DRAWN };
    insta::assert_snapshot!(crate::example_text(&c.subject(), anomaly, &ascii), @"
    fractured-read-co (TAP-k): fractured read, once. Here:
      session 1           session 2
      + T1  1:1, line 1
      + w(x,1)  (2)
      + T2  1:2, line 2
      | w(x,2)  (2)
      + w(y,1)  (1)
                          + T3  2:1, line 4
                          | r(x,1)  (2)
                          + r(y,1)  (1)
      1. T3 read y = 1, which T2 wrote, so T3 must see T2.
      2. T2 wrote x = 2, yet T3 read x = 1, which T1 wrote: T2 must commit before
         T1.
      3. But T1 comes before T2 in session 1. So T2 < T1 < T2: a contradiction.
    ");
}

#[test]
fn transactions_that_overlap_stand_side_by_side() {
    let history = super::fixture::timed_history(SKEW);
    let c = super::fixture::judged(history);
    let anomaly = c.anomaly(AnomalyKind::G2Item);
    insta::assert_snapshot!(crate::example_text(&c.subject(), anomaly, &DRAWN), @"
    g2-item: write skew, once. Here:
      session 1           session 2
      ┌ T1  1:1, line 1
      │ r(x,0)  (1)
      │ w(y,1)  (2)
      │                   ┌ T2  2:1, line 3
      │                   │ r(y,0)  (2)
      │                   │ w(x,1)  (1)
      └                   │
                          └
      1. T1 read x = 0, the initial value, which T2 replaced by 1: T1 comes before
         T2.
      2. But T2 read y = 0, the initial value, which T1 replaced by 1: T2 comes
         before T1. So T1 < T2 < T1: a contradiction.
    ");
}

#[test]
fn what_does_not_fit_is_a_list() {
    let c = example(AnomalyKind::FracturedReadCo);
    let anomaly = c.anomaly(AnomalyKind::FracturedReadCo);
    for width in 50..120 {
        let text = crate::example_text(&c.subject(), anomaly, &Style { width, ..DRAWN });
        assert!(text.lines().all(|line| crate::layout::width(line) <= width), "{text}");
    }
    let five = "w(a,1) || w(b,1) || w(c,1) || r(a,1) r(b,0) || r(b,1) r(c,0) || r(c,1) r(a,0)";
    let c = checked(five);
    for anomaly in &c.judgement.anomalies {
        let text = crate::example_text(&c.subject(), anomaly, &DRAWN);
        assert!(anomaly.witness.transactions.len() <= 4 || !text.contains('┌'), "{text}");
    }
}

#[test]
fn what_only_shows_an_order_makes_room_for_the_lanes() {
    // The third transaction, a read, shows the order of the appends.
    let c = example(AnomalyKind::G0);
    let anomaly = c.anomaly(AnomalyKind::G0);
    let wide = crate::example_text(&c.subject(), anomaly, &DRAWN);
    assert!(wide.contains("session 3") && !wide.contains("Evidence"), "{wide}");
    let narrow = crate::example_text(&c.subject(), anomaly, &Style { width: 50, ..DRAWN });
    let (lanes, evidence) = narrow.split_once("  Evidence:\n").unwrap_or_else(|| panic!("{narrow}"));
    assert!(lanes.contains("┌ T2") && !lanes.contains("T3"), "{narrow}");
    assert!(evidence.starts_with("  T3 "), "{narrow}");
}
