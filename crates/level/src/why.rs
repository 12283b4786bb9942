//! Why something is not known: data, not sentences.
//!
//! An engine says what was missing or which limit it reached; `anomalist-report` has the sentences. A
//! program that reacts to an unknown matches on [`Why`] here, or on its [`code`](Why::code) in the JSON.

/// How far a search for an order came.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Progress {
    /// Dependencies known, if they were worked out.
    pub known: usize,
    /// Orders tried.
    pub rounds: u64,
    /// Constraints found while trying.
    pub constraints: usize,
    /// Conflicts of the solver.
    pub conflicts: u64,
    /// Constraints that the last order missed.
    pub missed: usize,
}

/// Declares the reasons, each with its code, so that no reason lacks one.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $code:literal $([$inner:ty])? $({$($(#[$field_doc:meta])* $field:ident: $kind:ty),*})?,)*) => {
        /// Why a verdict is unknown: what was missing, or which limit was reached.
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Why {
            $($(#[$doc])* $name $(($inner))? $({$($(#[$field_doc])* $field: $kind),*})?,)*
        }

        impl Why {
            /// Every code, in the order of the enum.
            pub const CODES: &'static [&'static str] = &[$($code),*];

            /// The code that stands for it in JSON. Codes are stable; sentences are not.
            pub const fn code(&self) -> &'static str {
                match self { $(Why::$name { .. } => $code,)* }
            }
        }
    };
}

reasons! {
    /// An interrupt or the time limit came first.
    Stopped "stopped",
    /// An interrupt or the time limit came before the history was read.
    NotRead "not-read",
    /// An interrupt or the time limit ended the search for an order.
    Search "search-stopped" [Progress],
    /// It would have taken more memory than the limit allows.
    Memory "memory" {
        /// Bytes that would be needed, as far as is known: at least so many.
        needed: u64,
        /// Bytes that are allowed.
        limit: u64
    },
    /// Only some kinds of anomaly were looked for.
    OnlyAsked "only-anomalies-asked",
    /// The level is a name without a definition.
    NameOnly "name-only",
    /// The level is about real time, of which the history has none.
    NoRealTime "no-real-time",
    /// No engine decides the level, and no weaker one is violated.
    NotDecided "not-decided",
    /// Reads return a value that several transactions wrote.
    AmbiguousReads "ambiguous-reads" {
        /// How many.
        reads: usize
    },
    /// Values repeat, and a transaction read others' values after its own write: Plume does not define that.
    PlumeRepeats "plume-repeated-values",
    /// The violation rests on a transaction of unknown outcome whose write was read, which the level allows
    /// of aborted ones.
    DirtyRead "dirty-read-allowed",
    /// A read that nothing explains is allowed by the level, and may show an order of its own.
    ForgivenRead "unexplained-read-allowed",
    /// A transaction of unknown outcome has a read that nothing explains, and may have been read from.
    UnexplainedRead "unexplained-read-of-unknown-outcome",
    /// Elements of lists repeat, and the appends chosen for them are no versions of their keys.
    RepeatedElements "repeated-elements",
    /// A read that nothing explains depends on one of several transactions.
    OpenDependency "open-dependency",
    /// Reads of lists are faulty, so the order of their versions is not known.
    FaultyLists "faulty-lists",
    /// Reads of registers do not show in which order some keys were written.
    RegisterOrder "register-order",
    /// No read shows in which order the last appends to some keys took effect.
    AppendOrder "append-order",
    /// There are too many pairs of a reader and an append that it did not see.
    PairsLeftOut "pairs-left-out",
    /// Neither a violation nor an order of versions that shows its absence was found.
    NoVersionOrder "no-version-order",
    /// There are more transactions than can be put in order.
    TooManyTransactions "too-many-transactions" {
        /// The limit.
        limit: usize
    },
    /// A transaction declares a level that cannot be mixed with others.
    CannotMix "level-cannot-be-mixed" {
        /// The transaction's name.
        transaction: String,
        /// What it declares.
        level: String
    },
    /// A level is declared for which there is no rule.
    NoRule "declared-level-without-rule",
    /// Levels with real time are declared, and the history has none.
    DeclaredRealTime "declared-real-time",
    /// Levels with real time are declared, and it is open whether a transaction of unknown outcome was read
    /// from.
    DeclaredUnknownOutcome "declared-real-time-unknown-outcome",
    /// Transactions have a commit timestamp and no start timestamp.
    NoStart "no-start-timestamp" {
        /// How many.
        transactions: usize
    },
    /// Reads are of a written value that was appended to, which has no definition.
    AppendedValue "appended-value" {
        /// How many.
        reads: u64
    },
    /// Too many transactions appended to one list at the same commit timestamp.
    AppendsAtOnce "appends-at-one-timestamp" {
        /// How many reads of such a list.
        reads: u64
    },
    /// Reads are right only for some choice of which transactions of unknown outcome committed.
    OutcomeChoice "outcome-choice" {
        /// How many.
        reads: u64
    },
    /// Some snapshots do not contain one another.
    ForkedSnapshots "forked-snapshots",
    /// Several workers do not judge by values yet.
    NotByWorkers "not-by-workers",
    /// Nothing was judged by timestamps.
    NoTimestamps "not-by-timestamps",
    /// None was found, and no level forbids the anomaly, so none proves its absence.
    NoLevelForbids "no-level-forbids-it",
    /// None was found, and not every cycle was looked at.
    CyclesLeft "not-every-cycle",
    /// The recording was cut off, and reads return values whose writer is missing.
    MissingWriters "recording-cut-off-writers" {
        /// How many.
        reads: usize
    },
    /// The recording was cut off, and operations that were in flight are missing.
    MissingOperations "recording-cut-off",
    /// Reads of a counter do not show which additions they include.
    CounterReads "counter-reads",
    /// Reads of a bank do not show which transfers they include.
    BankReads "bank-reads",
    /// The versions that reads by predicate saw are not all known.
    PredicateReads "predicate-reads",
    /// No round of a campaign was run.
    NoRound "no-round" {
        /// What the database said.
        error: String
    },
    /// More than half of a campaign's statements failed.
    StatementsFailed "statements-failed" {
        /// How many.
        failed: usize,
        /// Of how many.
        statements: usize,
        /// What the first failure was.
        first: Option<String>
    },
    /// No transaction of a campaign was committed.
    NothingCommitted "nothing-committed" {
        /// What the first failure was.
        first: Option<String>
    },
    /// No two committed transactions of a campaign, one of them a writer, were open at once.
    NothingConcurrent "nothing-concurrent",
}
