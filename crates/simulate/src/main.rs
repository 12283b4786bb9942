//! Simulates seeds from 0 on, or one: `scripts/simulate` says how.

use anomalist_simulate::{Seen, simulate};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--seed", seed] => range(number(seed), number(seed) + 1, None),
        ["--progress", file, count] => {
            let done = std::fs::read_to_string(file).ok().map_or(0, |text| number(text.trim()));
            if done > 0 {
                say(&format!("{done} seeds were simulated before"));
            }
            range(done, number(count), Some(file))
        }
        [count] if !count.starts_with('-') => range(0, number(count), None),
        _ => {
            say("usage: simulate [--progress FILE] COUNT | --seed SEED");
            ExitCode::from(3)
        }
    }
}

fn say(text: &str) {
    // A closed pipe does not end a simulation.
    _ = writeln!(std::io::stdout(), "{text}");
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}

/// Simulates these seeds, and keeps in a file how far it got.
fn range(first: u64, end: u64, progress: Option<&str>) -> ExitCode {
    const STEP: u64 = 1_000;
    let mut seen = Seen::default();
    for seed in first..end {
        // A panic is caught and reported with its plan.
        std::panic::set_hook(Box::new(|_| {}));
        let simulated = simulate(seed, &mut seen);
        _ = std::panic::take_hook();
        if let Err(message) = simulated {
            say(&message);
            return ExitCode::FAILURE;
        }
        if (seed + 1) % STEP == 0 || seed + 1 == end {
            if let Some(file) = progress {
                let kept = std::fs::write(format!("{file}.new"), format!("{}\n", seed + 1))
                    .and_then(|()| std::fs::rename(format!("{file}.new"), file));
                kept.unwrap_or_else(|error| panic!("{file}: {error}"));
            }
            if (seed + 1) % (100 * STEP) == 0 {
                say(&format!("{} seeds", seed + 1));
            }
        }
    }
    say(&format!("{} seeds, nothing wrong: {:?}", end.saturating_sub(first), seen.0));
    ExitCode::SUCCESS
}
