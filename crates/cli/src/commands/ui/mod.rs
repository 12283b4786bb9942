//! `anomalist ui`: the web application on this machine, until Ctrl-C.
//!
//! The application is `anomalist-ui`'s. Here are its flags and the commands that it may run: `forms` has
//! what a form asks for, `arguments` turns a filled-in form into a command line.

mod arguments;
mod forms;

use crate::cli::Global;
use crate::exit::{Exit, Failure};
use crate::{interrupt, supervised, terminal, values};
use anomalist_ui::{Settings, Ui};
use arguments::Allowed;
use clap::Args;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Flags of `ui`.
#[derive(Args, Debug)]
#[command(after_help = "Examples: anomalist ui --open\n          \
    anomalist ui --folder runs --folder store --listen 8080\n          \
    anomalist ui --allow-command 'pytest tests/test_cart.py'\n\n\
    The address that is printed contains a token; without it every request is refused. Ctrl-C ends the \
    application and every command that it runs.")]
pub struct Flags {
    /// Where to listen: HOST:PORT, or a PORT of this machine alone, 0 for a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = values::address)]
    listen: SocketAddr,
    /// Let --listen name an address that other machines reach. The connection is not encrypted
    #[arg(long)]
    allow_remote: bool,
    /// Folder of runs and histories to show; may be repeated. New runs are kept in the first one, which is
    /// made if it is missing [default: runs]
    #[arg(long, value_name = "DIR")]
    folder: Vec<PathBuf>,
    /// A command that `explore`, and `test` with exec:, may run, its words as in a shell, without expansion;
    /// may be repeated
    #[arg(long, value_name = "CMD", value_parser = arguments::words)]
    allow_command: Vec<arguments::Words>,
    /// Largest file that can be dropped on the page, such as 500MB
    #[arg(long, value_name = "SIZE", default_value = "500MB", value_parser = values::size)]
    upload_limit: usize,
    /// Commands that may run at one time
    #[arg(long, value_name = "N", default_value = "4")]
    jobs: NonZeroUsize,
    /// Open the address in a browser
    #[arg(long)]
    open: bool,
}

/// Serves until the user asks for the end.
pub fn run(flags: &Flags, _: &Global) -> Result<Exit, Failure> {
    if !flags.listen.ip().is_loopback() && !flags.allow_remote {
        return Err(Failure::input(format_args!(
            "other machines can reach {}\n  help: --allow-remote allows that; the connection is not encrypted",
            flags.listen
        )));
    }
    let folders = match flags.folder.is_empty() {
        true => vec![PathBuf::from("runs")],
        false => flags.folder.clone(),
    };
    if let Some(first) = folders.first() {
        std::fs::create_dir_all(first).map_err(|e| Failure::io(first, e))?;
    }
    for folder in &folders {
        if !folder.is_dir() {
            return Err(Failure::input(format_args!("{} is not a folder", folder.display())));
        }
    }
    let cannot = |error| Failure::input(format_args!("cannot listen on {}: {error}", flags.listen));
    let listener = TcpListener::bind(flags.listen).map_err(cannot)?;
    let program = std::env::current_exe()
        .map_err(|e| Failure::input(format_args!("the path of this program is not known: {e}")))?;
    let settings = Settings {
        program,
        folders,
        commands: Box::new(Allowed { commands: flags.allow_command.clone() }),
        upload: flags.upload_limit as u64,
        jobs: flags.jobs.get(),
        supervision: supervised::VARIABLE,
    };
    let ui = Ui::start(listener, settings).map_err(cannot)?;
    terminal::print(&format!("anomalist ui: {}\nCtrl-C ends it", ui.address()))?;
    if flags.open {
        open(ui.address());
    }
    while !interrupt::is_requested() {
        thread::sleep(Duration::from_millis(50));
    }
    drop(ui);
    Ok(Exit::Holds)
}

/// Shows an address in the user's browser, with the program that the system has for it.
fn open(address: &str) {
    let (program, before): (_, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("rundll32", &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(before).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        // Waited for on the side: the browser may be that process.
        Ok(mut child) => _ = thread::spawn(move || child.wait()),
        Err(error) => terminal::tell(&format!("cannot open a browser with {program}: {error}")),
    }
}
