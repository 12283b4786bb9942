//! Reports for other programs, about several histories at once: one row per kind, so that a new kind is a
//! module of this folder and a row.

mod gitlab;
mod markdown;
mod sarif;

pub use gitlab::gitlab;
pub use markdown::{markdown, step_summary};
pub use sarif::sarif;

use crate::Subject;

/// A kind of report.
#[derive(Debug)]
pub struct Document {
    /// Its name, in lower case.
    pub name: &'static str,
    /// What it is, without a full stop.
    pub about: &'static str,
    /// Its text.
    pub write: fn(&[Subject<'_>]) -> String,
}

/// All kinds.
pub const DOCUMENTS: &[Document] = &[
    Document {
        name: "junit",
        about: "a JUnit report: a suite per history, a case per level",
        write: crate::ci::junit,
    },
    Document { name: "sarif", about: "a SARIF 2.1 report", write: sarif },
    Document { name: "gitlab", about: "a code quality report for GitLab", write: gitlab },
    Document {
        name: "markdown",
        about: "the verdicts and an example of each anomaly as Markdown",
        write: markdown,
    },
];

/// What is the same finding in the next run: the same kind in the history of the same name. Its lines and
/// transactions change with every recording. FNV-1a.
fn fingerprint(subject: &Subject<'_>, what: &str) -> String {
    let text = subject.facts.path.bytes().chain([0]).chain(what.bytes());
    let hash = text
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}
