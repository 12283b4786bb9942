//! `anomalist convert`: a history in another format, or an error that names what would be lost.

use crate::cli::{Global, Limits, ReadFlags};
use crate::destination::Destination;
use crate::exit::{Exit, Failure};
use crate::{load, values};
use anomalist_format::{Format, PathName};
use clap::Args;
use std::path::{Path, PathBuf};

/// Flags of `convert`.
#[derive(Args, Debug)]
#[command(after_help = "Examples: anomalist convert history.edn history.txt.zst --to plume\n          \
    anomalist convert cobra-logs/ - --to anomalist")]
pub struct Flags {
    /// The history to read: a file, a folder of Cobra's or Viper's logs, or - for standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Where to write it: a file (compressed if its name ends in .gz or .zst), a folder, or - for standard
    /// output
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Format to read [default: detect]
    #[arg(long, value_name = "F", value_parser = values::format())]
    from: Option<Format>,
    /// Format to write [default: by the extension of OUT]
    #[arg(long, value_name = "F", value_parser = values::format())]
    to: Option<Format>,
    /// Value of a key before any write [default: the format's]
    #[arg(long, value_name = "V", allow_hyphen_values = true)]
    initial: Option<String>,
    /// Leave out what the new format cannot express, and what follows a malformed end of the old file
    #[arg(long)]
    lossy: bool,
    #[command(flatten)]
    limits: Limits,
}

/// Converts.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    // Before reading: a missing --to should not cost the time to read a large file. Which of two formats
    // with one extension it is depends on the content.
    let Some(guess) = flags.to.or_else(|| values::format_of_name(&flags.output, false)) else {
        return Err(unknown_target(&flags.output));
    };
    let read = ReadFlags {
        format: flags.from,
        initial: flags.initial.clone(),
        lossy: flags.lossy,
        limits: flags.limits,
    };
    let history = load::read(&flags.input, &read, global)?.history;
    let by_content = values::format_of_name(&flags.output, history.stamps().is_some());
    let to = flags.to.or(by_content).unwrap_or(guess);
    let mut destination = Destination::create(&flags.output, to, flags.lossy)?;
    destination.append(&history)?;
    destination.finish()?;
    Ok(Exit::Holds)
}

fn unknown_target(output: &Path) -> Failure {
    let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
    Failure::input(format_args!(
        "cannot tell from the name {:?} which format to write\n  help: add --to and one of {}",
        output.shown(),
        names.join(", ")
    ))
}
