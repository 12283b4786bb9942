//! `isolde elle`: elle-cli's flags and output, Elle's own answer.
//!
//! `valid?`, `anomaly-types`, `not` and `also-not` are Elle's (`isolde_check::elle`). What Isolde's own engines find is under the key `isolde`, and
//! `--extended` lets it count.

mod extended;
mod files;
mod json;
mod sentences;

use crate::cli::{Global, ReadFlags};
use crate::exit::{Exit, Failure};
use crate::load::{self, Read};
use crate::progress::Progress;
use crate::{interrupt, terminal};
use clap::Args;
use extended::Beyond;
use isolde_check::Budget;
use isolde_check::elle::{self, Answer, Datatype, Options, Validity};
use isolde_format::Format;
use isolde_history::History;
use isolde_level::elle::{anomalies, anomaly, model, models};
use isolde_level::{AnomalyKind, Level};
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Flags of `elle`.
#[derive(Args, Debug)]
#[command(after_help = "Examples: isolde elle -m list-append history.edn\n          \
    isolde elle -m rw-register -c serializable --linearizable-keys -v h.json\n\n\
    Exit status: 0 valid, 1 invalid, 2 unknown, 3 bad usage or input.")]
pub struct Flags {
    /// Files in EDN, JSON or JSON lines, or - for standard input
    #[arg(value_name = "HISTORY", required = true)]
    histories: Vec<PathBuf>,
    /// What the history is about: list-append or rw-register
    #[arg(long, short, value_name = "MODEL")]
    model: String,
    /// edn, json, or any format that check reads [default: detect]
    #[arg(long, short, value_name = "F")]
    format: Option<String>,
    /// Consistency models that must hold, or none
    #[arg(
        long,
        short,
        value_name = "MODELS",
        value_delimiter = ',',
        default_value = "strict-serializable",
        allow_hyphen_values = true
    )]
    consistency_models: Vec<String>,
    /// Anomalies that must not occur, besides those that the models forbid
    #[arg(long, short, value_name = "ANOMALIES", value_delimiter = ',', default_value = "G0")]
    anomalies: Vec<String>,
    /// Stop searching for cycles after so many milliseconds [default: never; the search is polynomial]
    #[arg(long, short = 's', value_name = "MS")]
    cycle_search_timeout: Option<u64>,
    /// Write explanations and pictures of what was found into this folder
    #[arg(long, short, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Format of the pictures; svg is the only one drawn
    #[arg(long, short, value_name = "F", default_value = "svg")]
    plot_format: String,
    /// Accepted for elle-cli's sake: drawing takes no time to speak of
    #[arg(long, short = 't', value_name = "MS", default_value_t = 5000)]
    plot_timeout: u64,
    /// Leave out pictures larger than this
    #[arg(long, short = 'b', value_name = "BYTES", default_value_t = 65_536)]
    max_plot_bytes: usize,
    /// Registers: a transaction that reads and writes a key overwrites what it read
    #[arg(long)]
    wfr_keys: bool,
    /// Registers: each key alone is sequentially consistent
    #[arg(long)]
    sequential_keys: bool,
    /// Registers: each key alone is linearizable
    #[arg(long)]
    linearizable_keys: bool,
    /// Registers: a JSON object from indices of completions to numbers, in whose order they wrote
    #[arg(long, value_name = "FILE")]
    transaction_order: Option<PathBuf>,
    /// Let what Isolde finds beyond Elle count in the verdict and the types
    #[arg(long)]
    extended: bool,
}

/// What was asked for, names resolved.
struct Question {
    options: Options,
    format: Option<Format>,
}

/// Checks as elle-cli does.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let question = question(flags)?;
    let mut exit = Exit::Holds;
    let mut unreadable = false;
    for path in &flags.histories {
        if interrupt::is_requested() {
            return Err(Failure::Interrupted);
        }
        match judge(path, flags, &question, global) {
            Ok(validity) => exit = exit.max_by_weight(validity),
            Err(failure @ Failure::Input(_)) if flags.histories.len() > 1 => {
                terminal::tell(failure.message().unwrap_or_default());
                unreadable = true;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(if unreadable { Exit::BadInput } else { exit })
}

impl Exit {
    /// Invalid outweighs unknown, which outweighs valid.
    fn max_by_weight(self, validity: Validity) -> Exit {
        match (self, validity) {
            (Exit::Violated, _) | (_, Validity::Invalid) => Exit::Violated,
            (Exit::Undecided, _) | (_, Validity::Unknown) => Exit::Undecided,
            _ => self,
        }
    }
}

fn question(flags: &Flags) -> Result<Question, Failure> {
    if flags.plot_format != "svg" {
        return Err(Failure::input("pictures are drawn as svg only; leave out --plot-format"));
    }
    let datatype = match flags.model.as_str() {
        "list-append" => Datatype::ListAppend,
        "rw-register" => Datatype::RwRegister,
        other => {
            let message = format!("unknown model {other:?}; the models are list-append, rw-register");
            return Err(Failure::input(message));
        }
    };
    let mut options = Options::new(datatype);
    options.models = names(&flags.consistency_models, "consistency model", consistency_model)?;
    options.anomalies = names(&flags.anomalies, "anomaly", anomaly_kind)?;
    options.wfr_keys = flags.wfr_keys;
    options.sequential_keys = flags.sequential_keys;
    options.linearizable_keys = flags.linearizable_keys;
    if let Some(path) = &flags.transaction_order {
        options.transaction_order = Some(transaction_order(path)?);
    }
    Ok(Question { options, format: format(flags.format.as_deref())? })
}

fn consistency_model(name: &str) -> Result<Level, Vec<&'static str>> {
    model(name).map(|m| m.level).ok_or_else(|| models().iter().map(|m| m.printed).collect())
}

fn anomaly_kind(name: &str) -> Result<AnomalyKind, Vec<&'static str>> {
    anomaly(name).map(|a| a.kind).ok_or_else(|| anomalies().iter().map(|a| a.name()).collect())
}

/// Resolves names; `none` and nothing are no name. An unknown one is an error that lists all.
fn names<T>(
    given: &[String],
    what: &str,
    resolve: impl Fn(&str) -> Result<T, Vec<&'static str>>,
) -> Result<Vec<T>, Failure> {
    let given = given.iter().map(|name| name.trim().trim_start_matches(':'));
    given
        .filter(|name| !name.is_empty() && *name != "none")
        .map(|name| {
            resolve(name).map_err(|mut all| {
                all.sort_unstable();
                Failure::input(format_args!("unknown {what} {name:?}; known are {}", all.join(", ")))
            })
        })
        .collect()
}

/// Elle's names are notations; `json` is an array or lines, whichever the file has.
fn format(name: Option<&str>) -> Result<Option<Format>, Failure> {
    match name {
        None | Some("json") => Ok(None),
        Some("edn") => Ok(Some(Format::ElleEdn)),
        Some("jsonl") => Ok(Some(Format::ElleJsonl)),
        Some(other) => Format::from_name(other)
            .map(Some)
            .ok_or_else(|| Failure::input(format_args!("unknown format {other:?}; give edn, json or jsonl"))),
    }
}

fn transaction_order(path: &Path) -> Result<FxHashMap<i64, f64>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::io(path, error))?;
    let wrong = |what: &str| {
        let expected = "expected a JSON object from indices to numbers, such as {\"0\": 2, \"3\": 1}";
        Failure::input(format_args!("{}: {expected}: {what}", path.display()))
    };
    let document: serde_json::Value = serde_json::from_str(&text).map_err(|e| wrong(&e.to_string()))?;
    let object = document.as_object().ok_or_else(|| wrong("found something else"))?;
    object
        .iter()
        .map(|(index, number)| {
            let index = index.trim_start_matches(':').parse::<i64>();
            let entry = index.ok().zip(number.as_f64());
            entry.ok_or_else(|| wrong(&format!("found an entry of {number}")))
        })
        .collect()
}

/// Answers for one history, and prints.
fn judge(path: &Path, flags: &Flags, question: &Question, global: &Global) -> Result<Validity, Failure> {
    let read = ReadFlags { format: question.format, initial: None, lossy: false };
    let verbose = global.verbose > 0;
    let Read { history, .. } = load::read(path, &read, global)?;
    let mut answer = ask(&history, &path.display().to_string(), flags, question, global)?;
    if let Some(objection) = answer.objection.as_ref().filter(|_| !global.quiet) {
        terminal::tell(&format!("warning: {}: {objection}; Elle itself would stop here", path.display()));
    }
    let beyond =
        (verbose || flags.extended).then(|| Beyond::find(&history, &question.options, &answer, global));
    let mut types: Vec<&str> = answer.reported.iter().map(|(kind, _)| kind.code()).collect();
    if let (true, Some(beyond)) = (flags.extended, &beyond) {
        answer.validity = beyond.worse_of(answer.validity);
        types.extend(beyond.codes());
        types.sort_unstable();
        types.dedup();
    }
    if let Some(folder) = &flags.directory {
        files::write(&files::folder(folder, path, flags.histories.len() > 1), &history, &answer, flags)?;
    }
    if verbose {
        let document = json::document(&history, &answer, &types, beyond.as_ref());
        terminal::print(&format!("{document:#}"))?;
    } else {
        terminal::print(&format!("{}\t{}", path.display(), word(answer.validity)))?;
    }
    Ok(answer.validity)
}

fn ask(
    history: &History,
    name: &str,
    flags: &Flags,
    question: &Question,
    global: &Global,
) -> Result<Answer, Failure> {
    let since = Instant::now();
    let bar = Progress::spinner(global, &format!("checking {name}"));
    let limit = flags.cycle_search_timeout.map(Duration::from_millis);
    let spent = || {
        bar.pulse();
        interrupt::is_requested() || limit.is_some_and(|limit| since.elapsed() >= limit)
    };
    elle::check(history, &question.options, &Budget::new(&spent))
        .map_err(|unfit| Failure::input(format_args!("{name}: {}", unfit.describe(history))))
}

/// elle-cli's word.
fn word(validity: Validity) -> &'static str {
    match validity {
        Validity::Valid => "true",
        Validity::Invalid => "false",
        Validity::Unknown => "unknown",
    }
}
