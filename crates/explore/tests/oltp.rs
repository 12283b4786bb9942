//! The OLTP suites' assertions hold on a real database that runs their transactions one after another.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use isolde_driver::server::{Engine, Server, Setup};
use isolde_explore::oltp::{Load, all, run, set_up};

#[test]
fn assertions_hold_where_transactions_run_one_after_another() {
    let server = match Server::start(Engine::Mariadb, &Setup::default()) {
        Ok(server) => server,
        Err(missing) if std::env::var_os("CI").is_none() => {
            eprintln!("skipped: {missing}");
            return;
        }
        Err(missing) => panic!("{missing}"),
    };
    let target = server.target(0);
    for suite in all() {
        set_up(suite, target).unwrap();
        let load = Load {
            sessions: 1,
            transactions: 60,
            seed: 1,
            isolation: "serializable".into(),
            before_assertions: None,
        };
        let ran = run(suite, target, &load).unwrap();
        assert_eq!((ran.failed, ran.committed), (0, 60), "{}", suite.name());
        let broken: Vec<_> = ran.broken.iter().map(|&i| suite.assertions()[i]).collect();
        assert!(broken.is_empty(), "{}: {broken:?}", suite.name());
    }
}
