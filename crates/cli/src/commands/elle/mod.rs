//! `anomalist elle`: elle-cli's flags and output, Elle's own answer.
//!
//! `valid?`, `anomaly-types`, `not` and `also-not` are Elle's (`anomalist_jepsen::elle`). What Anomalist's
//! own engines find is under the key `anomalist`, and `--extended` lets it count.

mod extended;
mod files;
mod json;
mod sentences;

use crate::cli::{Global, Limits, ReadFlags};
use crate::exit::{Exit, Failure};
use crate::load::{self, Read};
use crate::progress::Progress;
use crate::{interrupt, memory, terminal};
use anomalist_check::Budget;
use anomalist_format::{Format, PathName};
use anomalist_history::{AtomKind, History, View};
use anomalist_jepsen::elle::{self, Datatype, Options, Validity};
use anomalist_jepsen::models::{self, Model, Valid};
use anomalist_level::elle as lattice;
use anomalist_level::{AnomalyKind, Level};
use clap::Args;
use extended::{Beyond, GLANCE, PATIENCE};
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Flags of `elle`.
#[derive(Args, Debug)]
#[command(after_help = "Examples: anomalist elle -m list-append history.edn\n          \
    anomalist elle -m rw-register -c serializable --linearizable-keys -v h.json\n\n\
    Exit status: 0 valid, 1 invalid, 2 unknown, 3 bad usage or input.")]
pub struct Flags {
    /// Files in EDN, JSON or JSON lines, or - for standard input
    #[arg(value_name = "HISTORY", required = true)]
    histories: Vec<PathBuf>,
    /// What the history is about
    #[arg(long, short, value_name = "MODEL", value_parser = MODELS)]
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
    /// Stop searching after this many milliseconds [default: never for cycles, found in polynomial time;
    /// 60000 for cas-register and mutex]
    #[arg(long, short = 's', value_name = "MS")]
    cycle_search_timeout: Option<u64>,
    /// Write explanations and pictures of what was found into this folder
    #[arg(long, short, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Format of the pictures; svg is the only one drawn
    #[arg(long, short, value_name = "F", default_value = "svg")]
    plot_format: String,
    /// Accepted for compatibility with elle-cli; drawing takes negligible time
    #[arg(long, short = 't', value_name = "MS", default_value_t = 5000)]
    plot_timeout: u64,
    /// Leave out pictures larger than this
    #[arg(long, short = 'b', value_name = "BYTES", default_value_t = 65_536)]
    max_plot_bytes: usize,
    /// long-fork: how many keys each read has [default: as many as it has]
    #[arg(long, short = 'g', value_name = "N", default_value_t = 0)]
    group_size: usize,
    /// bank: balances may be negative
    #[arg(long, short = 'n')]
    allow_negative_balances: bool,
    /// bank: accepted for compatibility with elle-cli; not needed
    #[arg(long, value_name = "N")]
    max_transfer: Option<i64>,
    /// bank: the total of all balances [default: that of the first read]
    #[arg(long, short = 'o', value_name = "N")]
    total_amount: Option<i64>,
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
    /// Let what Anomalist finds beyond Elle count in the verdict and the types
    #[arg(long)]
    extended: bool,
    #[command(flatten)]
    limits: Limits,
}

const MODELS: [&str; 12] = [
    "list-append",
    "rw-register",
    "bank",
    "counter",
    "set",
    "set-full",
    "long-fork",
    "cas-register",
    "mutex",
    "comments",
    "sequential",
    "closed-predicate",
];

/// What was asked for, names resolved.
struct Question {
    rule: Rule,
    format: Option<Format>,
    limits: Limits,
}

/// What to check.
enum Rule {
    /// Dependencies between transactions.
    Transactions(Options),
    /// One of Jepsen's other models.
    Model(Model, models::Options),
}

/// Checks as elle-cli does.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let question = question(flags)?;
    let mut exit = Exit::Holds;
    let mut unreadable = false;
    let histories = load::runs(&flags.histories);
    for path in &histories {
        if interrupt::is_requested() {
            return Err(Failure::Interrupted);
        }
        match judge(path, flags, &question, global) {
            Ok(validity) => exit = exit.max_by_weight(validity),
            Err(failure @ (Failure::Input(_) | Failure::Malformed(..))) if histories.len() > 1 => {
                terminal::tell(&failure.message().unwrap_or_default());
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
    let format = format(flags.format.as_deref())?;
    let datatype = match flags.model.as_str() {
        "list-append" => Datatype::ListAppend,
        "rw-register" => Datatype::RwRegister,
        other => {
            let model = Model::from_name(other)
                .ok_or_else(|| Failure::input(format_args!("unknown model {other:?}")))?;
            let options = models::Options {
                group_size: (flags.group_size > 0).then_some(flags.group_size),
                allow_negative_balances: flags.allow_negative_balances,
                total_amount: flags.total_amount,
                levels: names(&flags.consistency_models, "consistency model", consistency_model)?,
                ..models::Options::default()
            };
            return Ok(Question { rule: Rule::Model(model, options), format, limits: flags.limits });
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
    Ok(Question { rule: Rule::Transactions(options), format, limits: flags.limits })
}

fn consistency_model(name: &str) -> Result<Level, Vec<&'static str>> {
    let all =
        || lattice::models().iter().flat_map(|m| [m.printed].into_iter().chain(m.aliases.iter().copied()));
    lattice::model(name).map(|m| m.level).ok_or_else(|| all().collect())
}

fn anomaly_kind(name: &str) -> Result<AnomalyKind, Vec<&'static str>> {
    lattice::anomaly(name)
        .map(|a| a.kind)
        .ok_or_else(|| lattice::anomalies().iter().map(|a| a.name()).collect())
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
    let text = load::small_text(path)?;
    let wrong = |what: &str| {
        let expected = "expected a JSON object from indices to numbers, such as {\"0\": 2, \"3\": 1}";
        Failure::input(format_args!("{}: {expected}: {what}", path.shown()))
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
    let read = ReadFlags { format: question.format, initial: None, lossy: false, limits: question.limits };
    let (validity, document) = match &question.rule {
        Rule::Transactions(options) => transactions(path, &read, options, flags, global)?,
        Rule::Model(model, options) => other_model(path, &read, (*model, options), flags, global)?,
    };
    if global.verbose > 0 {
        terminal::print(&format!("{document:#}"))?;
    } else {
        terminal::print(&format!("{}\t{}", path.shown(), word(validity)))?;
    }
    Ok(validity)
}

fn transactions(
    path: &Path,
    read: &ReadFlags,
    options: &Options,
    flags: &Flags,
    global: &Global,
) -> Result<(Validity, serde_json::Value), Failure> {
    let name = path.shown();
    let Read { history, .. } = load::read(path, read, global)?;
    let recorded = anomalist::History::from(history);
    let history = recorded.transactions();
    let limit = flags.cycle_search_timeout.map(Duration::from_millis);
    let answer = with_budget(path, limit, global, |budget| elle::check(history, options, budget));
    let mut answer =
        answer.map_err(|unfit| Failure::input(format_args!("{name}: {}", unfit.describe(history))))?;
    if answer.validity == Validity::Valid && asks_for_order(options) && is_unordered(history) {
        answer.validity = Validity::Unknown;
        let why = "operations without a process cannot be paired, so their order is not known";
        answer.objection.get_or_insert(why.to_owned());
    }
    let objection = answer.objection.as_ref().filter(|_| answer.validity != Validity::Unknown);
    if let Some(objection) = objection.filter(|_| !global.quiet) {
        terminal::tell(&format!("warning: {name}: {objection}"));
    }
    let wanted = global.verbose > 0 || flags.extended;
    // Of registers Elle infers little, so its "true" is not left to stand alone.
    let blind = options.datatype == Datatype::RwRegister
        && answer.validity == Validity::Valid
        && !options.models.is_empty();
    let patience = if wanted { PATIENCE } else { GLANCE };
    let beyond =
        (wanted || blind).then(|| Beyond::find(&recorded, options, &answer, patience, global)).transpose()?;
    let missed =
        beyond.as_ref().filter(|_| blind && !flags.extended).map(Beyond::violated).unwrap_or_default();
    if !missed.is_empty() && !global.quiet {
        terminal::tell(&format!(
            "warning: {name}: Elle's inference finds nothing, but {} is violated: --extended lets that count, anomalist check \
             explains it",
            missed.join(", ")
        ));
    }
    if let (true, Some(beyond)) = (flags.extended, &beyond) {
        beyond.merge_into(&mut answer);
    }
    if answer.validity == Validity::Unknown && !global.quiet {
        let reasons = answer.reported.iter().flat_map(|(_, cases)| cases);
        let reason = reasons.map(|case| sentences::case(history, case)).next();
        let reason = answer.objection.clone().or(reason).unwrap_or_default();
        terminal::tell(&format!("{name}: unknown: {}", reason.trim_end()));
    }
    if let Some(folder) = &flags.directory {
        files::write(&files::folder(folder, path, flags.histories.len() > 1), history, &answer, flags)?;
    }
    let document = json::document(history, &answer, beyond.as_ref(), flags.extended);
    // The document keeps Elle's own word beside ours; one word alone, and the exit status, must not call
    // this valid.
    let validity = if missed.is_empty() { answer.validity } else { Validity::Unknown };
    Ok((validity, document))
}

/// True if sessions or real time matter for the answer.
fn asks_for_order(options: &Options) -> bool {
    let ordered =
        |kind: &AnomalyKind| kind.code().ends_with("-process") || kind.code().ends_with("-realtime");
    options.prohibited().iter().any(ordered)
}

/// True if it is not known who ran the transactions, nor when: each is a session of its own.
fn is_unordered(history: &History) -> bool {
    let is_nameless = |session| match history.session_label(session).view() {
        View::Atom(id) => matches!(history.atom(id), (AtomKind::Token, name) if name.starts_with('?')),
        _ => false,
    };
    history.intervals().is_none() && history.sessions().any(is_nameless)
}

fn other_model(
    path: &Path,
    read: &ReadFlags,
    (model, options): (Model, &models::Options),
    flags: &Flags,
    global: &Global,
) -> Result<(Validity, serde_json::Value), Failure> {
    let events = load::events(path, read, global)?;
    let limit = flags.cycle_search_timeout.map_or(LINEARIZABILITY, Duration::from_millis);
    let result =
        with_budget(path, Some(limit), global, |budget| models::check(model, &events, options, budget));
    let result = result.map_err(|malformed| Failure::input(format_args!("{}: {malformed}", path.shown())))?;
    let validity = match &result.valid {
        Valid::True => Validity::Valid,
        Valid::False => Validity::Invalid,
        Valid::Unknown(reason) => {
            if !global.quiet {
                terminal::tell(&format!("{}: unknown: {reason}", path.shown()));
            }
            Validity::Unknown
        }
    };
    let document = serde_json::from_str(&anomalist_format::datum_json(&result.details));
    Ok((validity, document.map_err(Failure::input)?))
}

/// How long the search for a linearization may take, unless the user says otherwise: it is exponential at
/// worst.
const LINEARIZABILITY: Duration = Duration::from_secs(60);

/// Checks until the time is up or the user has had enough.
fn with_budget<T>(
    path: &Path,
    limit: Option<Duration>,
    global: &Global,
    check: impl FnOnce(&Budget<'_>) -> T,
) -> T {
    let since = Instant::now();
    let bar = Progress::spinner(global, &format!("checking {}", path.shown()));
    let spent = || {
        bar.pulse();
        interrupt::is_requested()
            || memory::is_exceeded()
            || limit.is_some_and(|limit| since.elapsed() >= limit)
    };
    check(&Budget::new(&spent).with_memory(&|bytes| memory::ask(bytes).is_ok()))
}

/// elle-cli's word.
fn word(validity: Validity) -> &'static str {
    match validity {
        Validity::Valid => "true",
        Validity::Invalid => "false",
        Validity::Unknown => "unknown",
    }
}
