//! `anomalist`: flags, files, environment, progress, exit statuses.
//!
//! The crate that prints. A command is one file under `commands/`: its flags, and a `run` that returns an
//! [`Exit`] or a [`Failure`]; what becomes of either is decided here, once. Deciding levels, reading
//! formats and setting text is the business of the libraries.
//!
//! It is a library only so that `crates/bench` can use its parts: nothing of it is stable. Programs use the
//! crate `anomalist`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    reason = "this is the crate that talks to the user"
)]

mod basis;
mod bug;
pub mod cli;
pub mod commands;
mod confined;
pub mod destination;
mod documents;
pub mod exit;
pub mod interrupt;
pub mod load;
mod memory;
pub mod pages;
mod progress;
mod runs;
mod secret;
mod supervised;
mod system;
pub mod terminal;
pub mod values;

use clap::Parser;
use clap::error::ErrorKind;
use cli::{Cli, Command};
use exit::{Exit, Failure};
use std::io::{self, Write};
use std::panic;
use std::path::Path;
use std::process::ExitCode;

/// The program: parses the command line, runs the command.
pub fn main() -> ExitCode {
    match parse::<Cli>() {
        Ok(cli) => guarded(|| run(&cli)),
        Err(status) => status,
    }
}

/// Parses the command line; if it is wrong or asks for help, prints what there is to say.
pub fn parse<P: Parser>() -> Result<P, ExitCode> {
    P::try_parse().map_err(|error| {
        let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        // An error repeats what was typed.
        let said = error.render().to_string();
        let printed = match secret::masked(&said) {
            masked if !asked && masked != said => {
                terminal::tell(masked.trim_end());
                Ok(())
            }
            _ => error.print().and_then(|()| io::stdout().flush()),
        };
        if let (true, Err(failed)) = (asked, printed) {
            match Failure::io(Path::new("standard output"), failed) {
                Failure::ClosedPipe => {}
                failure => {
                    terminal::tell(&failure.message().unwrap_or_default());
                    return failure.exit().into();
                }
            }
        }
        if !asked && wants_json() {
            let message = secret::masked(&said);
            _ = terminal::print(&exit::json_error("usage", message.trim_end(), Exit::BadInput, &[]));
        }
        if asked { Exit::Holds } else { Exit::BadInput }.into()
    })
}

/// What is said after a panic.
const INTERNAL: &str = concat!(
    "anomalist ",
    env!("CARGO_PKG_VERSION"),
    " stopped because of an internal error; your history is not at fault.\n",
    "Please report it with the lines above, the command and, if you can, the input."
);

/// Does the work of a program: listens for Ctrl-C, prints a failure, turns a panic into a bug report.
pub fn guarded(work: impl FnOnce() -> Result<Exit, Failure>) -> ExitCode {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        usual(info);
        if !confined::is_awaited() {
            terminal::tell(INTERNAL);
        }
    }));
    interrupt::listen();
    supervised::listen();
    match panic::catch_unwind(panic::AssertUnwindSafe(work)) {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(failure)) => {
            if let Some(message) = failure.message() {
                terminal::tell(&message);
            }
            if let Some(document) = failure.json().filter(|_| wants_json()) {
                _ = terminal::print(&document);
            }
            failure.exit().into()
        }
        Err(_) => {
            if wants_json() {
                _ = terminal::print(&exit::json_error("internal", "a panic", Exit::Bug, &[]));
            }
            Exit::Bug.into()
        }
    }
}

/// Whether the answer is for a program: then an error is, too.
fn wants_json() -> bool {
    std::env::args_os().skip(1).take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

fn run(cli: &Cli) -> Result<Exit, Failure> {
    if let Some(ended) = confined::run(&cli.command) {
        return ended;
    }
    let global = &cli.global;
    if matches!(
        cli.command,
        Command::Verify(_) | Command::Stats(_) | Command::Convert(_) | Command::Lint(_) | Command::Elle(_)
    ) {
        interrupt::end_soon(true);
    }
    match &cli.command {
        Command::Check(flags) => commands::check::run(flags, global),
        Command::Shrink(flags) => commands::shrink::run(flags, global),
        Command::Verify(flags) => commands::verify::run(flags, global),
        Command::Stats(flags) => commands::stats::run(flags, global),
        Command::Convert(flags) => commands::convert::run(flags, global),
        Command::Generate(flags) => commands::generate::run(flags, global),
        Command::Levels(flags) => commands::levels::run(flags, global),
        Command::Explain(flags) => commands::explain::run(flags, global),
        Command::Elle(flags) => commands::elle::run(flags, global),
        Command::Sql(flags) => commands::sql::run(flags, global),
        Command::Report(flags) => commands::report::run(flags, global),
        Command::Lint(flags) => commands::lint::run(flags, global),
        #[cfg(feature = "weakdb")]
        Command::Explore(flags) => commands::explore::run(flags, global),
        Command::Test(flags) => commands::test::run(flags, global),
        Command::Watch(flags) => commands::watch::run(flags, global),
        #[cfg(feature = "postgres")]
        Command::Record(flags) => commands::record::run(flags, global),
        Command::Ui(flags) => commands::ui::run(flags, global),
        #[cfg(feature = "weakdb")]
        Command::Weakdb(flags) => commands::weakdb::run(flags, global),
        Command::Completions(flags) => commands::shell::completions(flags),
        Command::Man(flags) => commands::shell::man(flags),
    }
}
