//! Verdicts by family and bound.

use super::fixture::{Checked, checked, example};
use crate::{Style, column_title, ladder, ladder_html, ladder_markdown, ladder_text, summary_sentence};
use anomalist_level::{AnomalyKind, Bound, By, Judgement, Level, LevelVerdict, Verdict, Why};

fn verdicts(of: &[(Level, By, Verdict)]) -> Checked {
    let levels = of
        .iter()
        .cloned()
        .map(|(level, by, verdict)| LevelVerdict { level, by, verdict, anomalies: Vec::new() })
        .collect();
    Checked { judgement: Judgement { levels, ..Judgement::default() }, ..checked("w(x,1)") }
}

#[test]
fn every_level_is_in_exactly_one_cell_of_its_family_and_bound() {
    // With equal verdicts families stay together; with different ones cells are split. Both must be whole.
    for pattern in 0..8 {
        let verdict = |i: usize| match (i * pattern) % 3 {
            0 => Verdict::Holds,
            1 => Verdict::Violated,
            _ => Verdict::Unknown(Why::Stopped),
        };
        let footings = [By::Values, By::Timestamps];
        let all: Vec<_> = Level::ALL
            .iter()
            .flat_map(|&level| footings.map(|by| (level, by, verdict(level.index() + by as usize))))
            .collect();
        let c = verdicts(&all);
        let mut seen = Vec::new();
        for rung in ladder(&c.subject()).rungs {
            for (bound, cell) in Bound::ALL.into_iter().zip(&rung.cells) {
                for l in cell.iter().flat_map(|cell| &cell.levels) {
                    assert_eq!(l.level.bound(), bound, "{}", l.level);
                    assert_eq!(Some(&l.verdict), cell.as_ref().map(|c| c.verdict()));
                    assert!(
                        rung.name.starts_with(l.level.info().rung) || rung.name.starts_with(l.level.name())
                    );
                    assert!(rung.name.ends_with(l.by.name()), "{}", rung.name);
                    seen.push((l.level, l.by, l.verdict.clone()));
                }
            }
        }
        seen.sort_by_key(|(level, by, _)| (*level, *by));
        assert_eq!(seen, all);
    }
}

#[test]
fn the_levels_that_are_decided_are_twelve_families() {
    let c = checked("w(x,1)");
    let names: Vec<String> = ladder(&c.subject()).rungs.into_iter().map(|rung| rung.name).collect();
    assert_eq!(
        names,
        [
            "read uncommitted",
            "read committed",
            "cut isolation",
            "session guarantees",
            "read atomic",
            "causal",
            "prefix",
            "parallel SI",
            "snapshot isolation",
            "repeatable read",
            "update serializable",
            "serializable"
        ]
    );
    assert_eq!(Bound::ALL.map(column_title), ["plain", "in sessions", "in real time"]);
}

#[test]
fn a_fractured_read() {
    let c = example(AnomalyKind::FracturedReadCo).requiring(&[Level::Serializable]);
    insta::assert_snapshot!(summary_sentence(&c.subject()), @"Required: serializable holds. read-atomic is the weakest level violated; read-committed, the session guarantees and serializable (not in sessions) are the strongest that hold.");
    insta::assert_snapshot!(ladder_text(&c.subject(), &Style::default()).unwrap(), @"
                          plain    in sessions   in real time
    read uncommitted      holds
    read committed        holds    holds
    cut isolation         holds
    session guarantees             holds
    read atomic                    VIOLATED
    causal                         VIOLATED
    prefix                         VIOLATED
    parallel SI                    VIOLATED
    snapshot isolation    holds    VIOLATED      VIOLATED
    repeatable read       holds
    update serializable   holds
    serializable          holds*   VIOLATED      VIOLATED

    *   required
    ");
    insta::assert_snapshot!(ladder_text(&c.subject(), &Style { signs: true, ..Style::default() }).unwrap(), @"
                          plain      in sessions   in real time
    read uncommitted      ✓ holds
    read committed        ✓ holds    ✓ holds
    cut isolation         ✓ holds
    session guarantees               ✓ holds
    read atomic                      ✗ VIOLATED
    causal                           ✗ VIOLATED
    prefix                           ✗ VIOLATED
    parallel SI                      ✗ VIOLATED
    snapshot isolation    ✓ holds    ✗ VIOLATED    ✗ VIOLATED
    repeatable read       ✓ holds
    update serializable   ✓ holds
    serializable          ✓ holds*   ✗ VIOLATED    ✗ VIOLATED

    *   required
    ");
    insta::assert_snapshot!(ladder_markdown(&c.subject()), @"
    | level | plain | in sessions | in real time |
    |---|---|---|---|
    | read uncommitted | ✓ holds | | |
    | read committed | ✓ holds | ✓ holds | |
    | cut isolation | ✓ holds | | |
    | session guarantees | | ✓ holds | |
    | read atomic | | ✗ **violated** | |
    | causal | | ✗ **violated** | |
    | prefix | | ✗ **violated** | |
    | parallel SI | | ✗ **violated** | |
    | snapshot isolation | ✓ holds | ✗ **violated** | ✗ **violated** |
    | repeatable read | ✓ holds | | |
    | update serializable | ✓ holds | | |
    | serializable | ✓ holds, required | ✗ **violated** | ✗ **violated** |
    ");
    insta::assert_snapshot!(ladder_html(&c.subject()), @r#"
    <table class="ladder">
    <thead><tr><th scope="col">level</th><th scope="col">plain</th><th scope="col">in sessions</th><th scope="col">in real time</th></tr></thead>
    <tbody>
    <tr><th scope="row">read uncommitted</th><td class="holds" data-levels="read-uncommitted" data-by="values"><span aria-hidden="true">✓</span> holds</td><td class="none"></td><td class="none"></td></tr>
    <tr><th scope="row">read committed</th><td class="holds" data-levels="adya-read-committed" data-by="values"><span aria-hidden="true">✓</span> holds</td><td class="holds" data-levels="read-committed" data-by="values"><span aria-hidden="true">✓</span> holds</td><td class="none"></td></tr>
    <tr><th scope="row">cut isolation</th><td class="holds" data-levels="cut-isolation" data-by="values"><span aria-hidden="true">✓</span> holds</td><td class="none"></td><td class="none"></td></tr>
    <tr><th scope="row">session guarantees</th><td class="none"></td><td class="holds" data-levels="read-your-writes monotonic-reads monotonic-writes writes-follow-reads" data-by="values"><span aria-hidden="true">✓</span> holds</td><td class="none"></td></tr>
    <tr><th scope="row">read atomic</th><td class="none"></td><td class="violated" data-levels="read-atomic" data-by="values" title="fractured-read-co (TAP-k) ×1"><span aria-hidden="true">✗</span> violated</td><td class="none"></td></tr>
    <tr><th scope="row">causal</th><td class="none"></td><td class="violated" data-levels="causal" data-by="values" title="fractured-read-co (TAP-k) ×1"><span aria-hidden="true">✗</span> violated</td><td class="none"></td></tr>
    <tr><th scope="row">prefix</th><td class="none"></td><td class="violated" data-levels="prefix" data-by="values" title="fractured-read-co (TAP-k) ×1"><span aria-hidden="true">✗</span> violated</td><td class="none"></td></tr>
    <tr><th scope="row">parallel SI</th><td class="none"></td><td class="violated" data-levels="parallel-snapshot-isolation" data-by="values" title="fractured-read-co (TAP-k) ×1"><span aria-hidden="true">✗</span> violated</td><td class="none"></td></tr>
    <tr><th scope="row">snapshot isolation</th><td class="holds" data-levels="snapshot-isolation" data-by="values"><span aria-hidden="true">✓</span> holds</td><td class="violated" data-levels="strong-session-snapshot-isolation" data-by="values" title="fractured-read-co (TAP-k) ×1"><span aria-hidden="true">✗</span> violated</td><td class="violated" data-levels="strong-snapshot-isolation" data-by="values" title="fractured-read-co (TAP-k) ×1"><span aria-hidden="true">✗</span> violated</td></tr>
    <tr><th scope="row">repeatable read</th><td class="holds" data-levels="repeatable-read" data-by="values"><span aria-hidden="true">✓</span> holds</td><td class="none"></td><td class="none"></td></tr>
    <tr><th scope="row">update serializable</th><td class="holds" data-levels="update-serializable" data-by="values"><span aria-hidden="true">✓</span> holds</td><td class="none"></td><td class="none"></td></tr>
    <tr><th scope="row">serializable</th><td class="holds required" data-levels="serializable" data-by="values"><span aria-hidden="true">✓</span> holds, required</td><td class="violated" data-levels="strong-session-serializable" data-by="values" title="fractured-read-co (TAP-k) ×1"><span aria-hidden="true">✗</span> violated</td><td class="violated" data-levels="strict-serializable" data-by="values" title="fractured-read-co (TAP-k) ×1"><span aria-hidden="true">✗</span> violated</td></tr>
    </tbody>
    </table>
    "#);
}

#[test]
fn guarantees_that_differ_have_rows_of_their_own() {
    let c = checked("w(x,1); r(x,0)");
    insta::assert_snapshot!(ladder_text(&c.subject(), &Style::default()).unwrap(), @"
                          plain   in sessions   in real time
    read uncommitted      holds
    read committed        holds   holds
    cut isolation         holds
    read-your-writes              VIOLATED
    monotonic-reads               holds
    monotonic-writes              holds
    writes-follow-reads           holds
    read atomic                   VIOLATED
    causal                        VIOLATED
    prefix                        VIOLATED
    parallel SI                   VIOLATED
    snapshot isolation    holds   VIOLATED      VIOLATED
    repeatable read       holds
    update serializable   holds
    serializable          holds   VIOLATED      VIOLATED
    ");
}

#[test]
fn it_fits_or_is_not_there() {
    let c = checked("w(x,1); r(x,0)");
    for width in 60..200 {
        for signs in [false, true] {
            let style = Style { width, signs, ..Style::default() };
            let text = ladder_text(&c.subject(), &style).unwrap();
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}\n{text}");
            assert!(signs || text.is_ascii(), "{text}");
        }
    }
    assert_eq!(ladder_text(&c.subject(), &Style { width: 50, ..Style::default() }), None);
}

#[test]
fn nothing_violated_and_nothing_known() {
    let real_time = (Level::StrictSerializable, By::Values, Verdict::Unknown(Why::NoRealTime));
    let holds = (Level::StrongSessionSerializable, By::Values, Verdict::Holds);
    let c = verdicts(&[holds, real_time.clone()]);
    insta::assert_snapshot!(summary_sentence(&c.subject()), @"strong-session-serializable is the strongest level that holds; no violation was found, but strict-serializable is unknown.");
    let c = verdicts(&[real_time]);
    insta::assert_snapshot!(summary_sentence(&c.subject()), @"no level is known to hold; no violation was found, but strict-serializable is unknown.");
    insta::assert_snapshot!(summary_sentence(&checked("w(x,1) || r(x,1)").subject()), @"strong-session-serializable is the strongest level that holds; no violation was found, but strong-snapshot-isolation is unknown.");
}
