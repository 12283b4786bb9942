//! `anomalist completions` and `anomalist man`: made from the flags, so they cannot go out of date.

use crate::cli::Cli;
use crate::destination::write_file;
use crate::exit::{Exit, Failure};
use crate::terminal;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::path::PathBuf;

/// Flags of `completions`.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: anomalist completions bash > ~/.local/share/bash-completion/completions/anomalist"
)]
pub struct CompletionFlags {
    /// The shell
    shell: Shell,
}

/// Flags of `man`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: anomalist man check | man -l -\n          anomalist man --dir ~/.local/share/man/man1"
)]
pub struct ManFlags {
    /// Print the page of this command instead of the program's
    command: Option<String>,
    /// Write all pages into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Prints the completions for a shell.
pub fn completions(flags: &CompletionFlags) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "anomalist", &mut script);
    terminal::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Holds)
}

/// Prints or writes manual pages.
pub fn man(flags: &ManFlags) -> Result<Exit, Failure> {
    let mut program = Cli::command();
    program.build();
    if let Some(folder) = &flags.dir {
        std::fs::create_dir_all(folder).map_err(|error| Failure::io(folder, error))?;
        write_file(&folder.join("anomalist.1"), &page(program.clone())?)?;
        for command in program.get_subcommands().filter(|c| c.get_name() != "help") {
            let name = format!("anomalist-{}.1", command.get_name());
            write_file(&folder.join(name), &page(command.clone())?)?;
        }
        return Ok(Exit::Holds);
    }
    let wanted = match &flags.command {
        None => program,
        Some(name) => program.find_subcommand(name).cloned().ok_or_else(|| {
            Failure::input(format_args!("there is no command `{name}`\n  help: `anomalist help` lists them"))
        })?,
    };
    terminal::print(&String::from_utf8_lossy(&page(wanted)?))?;
    Ok(Exit::Holds)
}

fn page(command: clap::Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text).map_err(Failure::input)?;
    Ok(with_sections(&String::from_utf8_lossy(&text)).into_bytes())
}

/// clap_mangen puts everything that follows the flags into a section EXTRA. Its paragraphs belong into the
/// sections that manual pages have for them.
fn with_sections(page: &str) -> String {
    let Some((before, rest)) = page.split_once(".SH EXTRA\n") else { return page.to_owned() };
    let (extra, after) = rest.find(".SH ").map_or((rest, ""), |at| rest.split_at(at));
    let (mut notes, mut status, mut examples) = (String::new(), String::new(), String::new());
    for paragraph in extra.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
        if let Some(text) = paragraph.strip_prefix("Exit status: ") {
            status = format!(".SH \"EXIT STATUS\"\n{text}\n");
        } else if let Some((_, text)) =
            paragraph.split_once(": ").filter(|_| paragraph.starts_with("Example"))
        {
            let lines: String = text.lines().map(|line| format!("{}\n", line.trim())).collect();
            examples = format!(".SH EXAMPLES\n.nf\n{lines}.fi\n");
        } else {
            let heading = if notes.is_empty() { ".SH NOTES\n" } else { ".PP\n" };
            notes += &format!("{heading}{paragraph}\n");
        }
    }
    format!("{before}{notes}{status}{examples}{after}")
}
