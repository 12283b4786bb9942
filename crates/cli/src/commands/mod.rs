//! One file per command: its flags, and `run`.

pub mod check;
pub mod convert;
mod database;
pub mod elle;
pub mod explain;
#[cfg(feature = "weakdb")]
pub mod explore;
pub mod generate;
pub mod levels;
pub mod lint;
#[cfg(feature = "postgres")]
pub mod record;
pub mod report;
pub mod shell;
pub mod shrink;
pub mod sql;
pub mod stats;
pub mod test;
pub mod ui;
pub mod verify;
pub mod watch;
#[cfg(feature = "weakdb")]
pub mod weakdb;
