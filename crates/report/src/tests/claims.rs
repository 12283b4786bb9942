//! What `explain` says is what `check` decides: every "allowed by", every "forbidden by" and every example,
//! by the engine.

use super::fixture::timed_history;
use crate::vocabulary::{allowing, broken_by_example, forbidding};
use crate::{Style, explain_level, levels_text};
use anomalist_check::{Budget, Request, check};
use anomalist_history::Indexed;
use anomalist_level::{AnomalyKind, Level, Verdict};

/// The verdict on an example of the tables.
fn verdict(example: &str, level: Level) -> Verdict {
    let history = timed_history(example);
    let indexed = Indexed::new(&history, 1.try_into().unwrap());
    let request = Request { levels: vec![level], ..Request::default() };
    check(&indexed, &request, &Budget::unlimited()).verdict(level).unwrap().clone()
}

#[test]
fn anomalies_break_the_levels_that_forbid_them_and_no_level_that_allows_them() {
    let mut wrong = Vec::new();
    for &kind in AnomalyKind::ALL {
        let Some(example) = kind.info().example else { continue };
        for &level in Level::CANONICAL {
            let verdict = verdict(example, level);
            if forbidding(kind).contains(&level) && verdict != Verdict::Violated {
                wrong.push(format!("{kind} is forbidden by {level}, its example is {}", verdict.name()));
            }
            if allowing(kind).contains(&level) && verdict != Verdict::Holds {
                wrong.push(format!("{kind} is allowed by {level}, its example is {}", verdict.name()));
            }
            if broken_by_example(kind).contains(&level)
                && (verdict == Verdict::Holds || forbidding(kind).contains(&level))
            {
                wrong.push(format!("the example of {kind} does not break {level}, or every instance does"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn examples_of_levels_are_what_they_are_called() {
    let mut wrong = Vec::new();
    for &level in Level::CANONICAL {
        let info = level.info();
        for (example, expected) in
            [(info.example_accepts, Verdict::Holds), (info.example_rejects, Verdict::Violated)]
        {
            let found = example.map(|example| verdict(example, level));
            if found.as_ref().is_some_and(|found| *found != expected) {
                wrong.push(format!("{level}: {} instead of {}", found.unwrap().name(), expected.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `levels` has every name that `check` can print, and says of implications what `explain` says.
#[test]
fn levels_and_explanations_say_the_same() {
    let style = Style { width: 100, ..Style::default() };
    let listed = levels_text(&style);
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for &level in Level::ALL {
        assert!(listed.contains(&format!("\n  {}", level.name())), "{level}");
        let explained = flat(&explain_level(level, &style));
        if let Some((_, rest)) = explained.split_once(" implies ") {
            let implied = rest.split(" implied by ").next().unwrap().split(" forbids ").next().unwrap();
            let implied = implied.split(" source ").next().unwrap();
            assert!(flat(&listed).contains(&format!("implies {implied}")), "{level}: {implied}");
        }
        assert!(!level.info().name_only || !explained.contains("sessions may be reordered"), "{level}");
    }
    for &kind in AnomalyKind::ALL {
        assert!(listed.contains(&format!("\n  {}", kind.name())), "{kind}");
    }
}
