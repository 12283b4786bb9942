//! Reports for other programs, about several histories at once: one row per kind, so that a new kind is a
//! module of this folder and a row.

mod sarif;

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
];
