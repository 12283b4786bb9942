//! Flags for the reports of `anomalist_report::DOCUMENTS`, the same for every command that has them.

use crate::destination::write_file;
use crate::exit::Failure;
use anomalist_report::{DOCUMENTS, Document, Subject};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use std::path::PathBuf;

/// The reports asked for, each with its file.
#[derive(Clone, Debug, Default)]
pub struct Documents(Vec<(&'static Document, PathBuf)>);

impl Documents {
    /// Whether any is asked for.
    pub fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.iter().map(|(_, path)| path)
    }

    /// Writes all of them.
    pub fn write(&self, subjects: &[Subject<'_>]) -> Result<(), Failure> {
        self.0.iter().try_for_each(|(document, path)| write_file(path, (document.write)(subjects).as_bytes()))
    }
}

impl FromArgMatches for Documents {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Documents, clap::Error> {
        let asked = |document: &'static Document| {
            Some((document, matches.get_one::<PathBuf>(document.name)?.clone()))
        };
        Ok(Documents(DOCUMENTS.iter().filter_map(asked).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Documents::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Documents {
    fn augment_args(command: Command) -> Command {
        DOCUMENTS.iter().fold(command, |command, document| {
            let file = Arg::new(document.name).long(document.name).value_name("FILE");
            command.arg(file.help(format!("Write {}", document.about)).value_parser(value_parser!(PathBuf)))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Documents::augment_args(command)
    }
}
