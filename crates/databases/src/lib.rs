//! Connections to real databases, and workloads on them.
//!
//! A [`Target`] is a database named by a URL; it opens [`Connection`]s, one per session and thread. All of
//! them answer in the same [`Value`]s, and fail with an [`Error`] that says what is certain about the
//! transaction: whether it is open, aborted or unknown ([`Fate`]). A checker can only be as honest as this.
//! [`engine::SqlEngine`] runs the workloads of `anomalist-client` on them.
//!
//! ```
//! # #[cfg(feature = "sqlite")] {
//! use anomalist_databases::{Database, Target, Value};
//! # let folder = std::env::temp_dir().join(format!("anomalist-databases-example-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let file = folder.join("a.db");
//! let target: Target = format!("sqlite:{}", file.display()).parse()?;
//! let mut session = target.connect()?;
//! session.run("CREATE TABLE register (k INTEGER PRIMARY KEY, v INTEGER)")?;
//! let level = session.product().isolation("immediate").ok_or("no such level")?;
//! session.begin(&level)?;
//! session.query("INSERT INTO register VALUES (?, ?)", &[Value::Int(1), Value::Int(10)])?;
//! session.commit()?;
//! let reply = session.query("SELECT v FROM register WHERE k = ?", &[Value::Int(1)])?;
//! assert_eq!(reply.int(), Some(10));
//! # std::fs::remove_dir_all(&folder)?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each database is a cargo feature: `postgres`, `mysql`, `sqlite`. To add one: a file with a
//! [`Connection`], a [`Family`], its levels in `product.rs`, and a call of the conformance suite in
//! `crates/lab/tests/conformance.rs`.

#![cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(
        dead_code,
        unreachable_code,
        unused_imports,
        unused_variables,
        reason = "what a left-out database needs"
    )
)]

pub mod broken;
pub mod collect;
mod connection;
pub mod engine;
mod error;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod product;
#[cfg(feature = "sqlite")]
mod sqlite;
mod target;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod tls;
mod url;
mod value;

pub use connection::{Cancel, Connection, Database, Query, Reply};
pub use error::{Error, Fate, Kind};
#[cfg(feature = "postgres")]
pub use postgres::{LogStream, Logged};
pub use product::{Family, Isolation, Product};
pub use target::Target;
pub use url::UrlError;
pub use value::Value;
