//! The Rust of the book (`docs/`), of the README and of the READMEs of the crates, compiled and run as
//! doctests.
//!
//! `cargo test -p anomalist-book --doc` runs it. Console blocks of the same pages are run by
//! `crates/cli/tests/tidy.rs`. A page that has Rust and is not listed here fails `tidy`.

macro_rules! pages {
    ($($name:ident: $path:literal)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!($path)]
            pub mod $name {}
        )*
    };
}

pages! {
    readme: "../../../README.md"
    library: "../../../docs/library.md"
    start_database_engineer: "../../../docs/start/database-engineer.md"
    weak_isolation: "../../../docs/weak-isolation.md"
    crate_anomalist: "../../anomalist/README.md"
    crate_check: "../../check/README.md"
    crate_client: "../../client/README.md"
    crate_databases: "../../databases/README.md"
    crate_explore: "../../explore/README.md"
    crate_format: "../../format/README.md"
    crate_graph: "../../graph/README.md"
    crate_history: "../../history/README.md"
    crate_http: "../../http/README.md"
    crate_incremental: "../../incremental/README.md"
    crate_jepsen: "../../jepsen/README.md"
    crate_lab: "../../lab/README.md"
    crate_level: "../../level/README.md"
    crate_online: "../../online/README.md"
    crate_proxy: "../../proxy/README.md"
    crate_report: "../../report/README.md"
    crate_sql: "../../sql/README.md"
    crate_sqltext: "../../sqltext/README.md"
    crate_timestamp: "../../timestamp/README.md"
    crate_verify: "../../verify/README.md"
    crate_weakdb: "../../weakdb/README.md"
    crate_weakdb_sql: "../../weakdb-sql/README.md"
    crate_workload: "../../workload/README.md"
}
