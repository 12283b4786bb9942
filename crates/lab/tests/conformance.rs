//! Every driver keeps the same promises: the suite, on SQLite and on throw-away servers.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod suite;

#[test]
fn sqlite() {
    let folder = std::env::temp_dir().join(format!("anomalist-conformance-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for journal in ["wal", "delete"] {
        let file = folder.join(format!("{journal}.db"));
        let target = format!("sqlite:{}?journal={journal}", file.display()).parse().unwrap();
        if journal == "wal" {
            suite::conforms(&target);
        } else {
            suite::rollback_journal(&target);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(feature = "postgres")]
#[test]
fn postgres() {
    use anomalist_lab::server::{Engine, Setup};
    let Some(server) = suite::server(Engine::Postgres, &Setup::default()) else { return };
    suite::conforms(server.target(0));
}

#[cfg(feature = "mysql")]
#[test]
fn mariadb() {
    use anomalist_lab::server::{Engine, Setup};
    let Some(server) = suite::server(Engine::Mariadb, &Setup::default()) else { return };
    suite::conforms(server.target(0));
}
