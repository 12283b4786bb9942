//! Clients that others wrote, unmodified: psql, pgbench, psycopg, SQLAlchemy, PyMySQL, the MariaDB client,
//! Connector/J.
//!
//! `scripts/test` installs them. One that is missing is a failure unless `ANOMALIST_SKIP` names `clients`
//! (or `python`).

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_level::Level;
use anomalist_testkit::skip;
use anomalist_weakdb::{Options, Store};
use anomalist_weakdb_sql::Database;
use anomalist_weakdb_sql::wire::{Addresses, Server};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn server() -> Server {
    let store = Store::new(Options::new(Level::Serializable)).unwrap();
    Server::start(Database::new(store), &Addresses::free()).unwrap()
}

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Whether there is such a program.
fn has(program: &str, probe: &[&str]) -> bool {
    let found = Command::new(program).args(probe).output().is_ok_and(|o| o.status.success());
    if !found {
        let resource = if program.contains("python") { "python" } else { "clients" };
        skip::missing(resource, format!("{program} {probe:?} fails"));
    }
    found
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs psql with these commands.
fn psql(server: &Server, options: &[&str], commands: &[&str]) -> Output {
    let port = server.postgres().unwrap().port().to_string();
    let mut command = Command::new("psql");
    command.args(["-X", "-q", "-v", "VERBOSITY=verbose", "-h", "127.0.0.1", "-p", &port, "-U", "postgres"]);
    command.args(options).arg("weakdb");
    commands.iter().for_each(|c| {
        command.args(["-c", c]);
    });
    command.env("PGCONNECT_TIMEOUT", "10").env_remove("PGSERVICE").output().unwrap()
}

#[test]
fn psql_and_pgbench() {
    if !has("psql", &["--version"]) || !has("pgbench", &["--version"]) {
        return;
    }
    let server = server();
    let port = server.postgres().unwrap().port().to_string();
    let psql = |sql: &[&str]| psql(&server, &["-A", "-t"], sql);
    let made = psql(&[
        "CREATE TABLE acc (id INT PRIMARY KEY, bal INT NOT NULL); INSERT INTO acc SELECT g, 100 FROM generate_series(1, 10) g",
    ]);
    assert!(made.status.success(), "{}", text(&made));
    assert_eq!(
        text(&psql(&["SELECT id, bal FROM acc WHERE id < 3 ORDER BY id", "SELECT NULL, 1.5"])),
        "1|100\n2|100\n|1.5\n"
    );
    assert!(text(&psql(&["INSERT INTO acc VALUES (1, 0)"])).contains("23505"));
    assert!(text(&psql(&["BEGIN; SELECT 1/0; SELECT 2"])).contains("22012"));
    assert!(text(&psql(&["SELEC"])).contains("42601"));
    assert!(text(&psql(&["CREATE RULE r AS ON INSERT TO acc DO NOTHING"])).contains("ERROR"));
    let script = std::env::temp_dir().join(format!("weakdb-pgbench-{}.sql", std::process::id()));
    let steps = "\\set a random(1, 10)\n\\set b random(1, 10)\nBEGIN;\nSELECT bal FROM acc WHERE id = :a;\n\
                 UPDATE acc SET bal = bal - 1 WHERE id = :a;\nUPDATE acc SET bal = bal + 1 WHERE id = :b;\nCOMMIT;\n";
    std::fs::write(&script, steps).unwrap();
    for mode in ["simple", "extended", "prepared"] {
        let mut command = Command::new("pgbench");
        command.args(["-n", "-M", mode, "-c", "3", "-t", "20", "--max-tries=100", "-f"]).arg(&script);
        command.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "weakdb"]);
        let printed = run(&mut command);
        assert!(printed.contains("number of failed transactions: 0"), "{printed}");
    }
    std::fs::remove_file(&script).unwrap();
    assert_eq!(text(&psql(&["SELECT sum(bal), count(*) FROM acc"])), "1000|10\n");
}

/// A server with an author, a book, an index, a view and a sequence, and psql to ask about them.
struct Described(Server);

impl Described {
    /// None where psql is not installed and may be missing.
    fn new() -> Option<Described> {
        let server = has("psql", &["--version"]).then(server)?;
        let made = psql(
            &server,
            &[],
            &[
                "CREATE TABLE author (id SERIAL PRIMARY KEY, name VARCHAR(30) NOT NULL UNIQUE,
                    born INT DEFAULT 1970 CHECK (born > 0), price NUMERIC(8,2))",
                "CREATE TABLE book (id INT PRIMARY KEY, a INT REFERENCES author(id) ON DELETE CASCADE, t TEXT)",
                "CREATE INDEX book_t ON book (t)",
                "CREATE VIEW v AS SELECT name FROM author",
                "CREATE SEQUENCE sq INCREMENT BY 5",
            ],
        );
        assert!(made.status.success(), "{}", text(&made));
        Some(Described(server))
    }

    /// What psql prints for a command has these lines, whatever the width of its columns.
    fn shows(&self, command: &str, lines: &[&str]) {
        let printed = text(&psql(&self.0, &[], &[command]));
        assert!(!printed.contains("ERROR"), "{command}: {printed}");
        let words = |l: &str| l.split_whitespace().collect::<Vec<_>>().join(" ");
        for line in lines {
            let found = printed.lines().any(|l| words(l) == words(line));
            assert!(found, "{command} lacks {line:?}:\n{printed}");
        }
    }
}

/// What psql prints about tables is what it prints when PostgreSQL is behind it.
#[test]
fn psql_describes_a_relation() {
    let Some(psql) = Described::new() else { return };
    psql.shows(
        "\\d author",
        &[
            "Table \"public.author\"",
            "Column | Type | Collation | Nullable | Default",
            "id | integer | | not null | nextval('author_id_seq'::regclass)",
            "name | character varying(30) | | not null |",
            "born | integer | | | 1970",
            "price | numeric(8,2) | | |",
            "\"author_pkey\" PRIMARY KEY, btree (id)",
            "\"author_name_key\" UNIQUE CONSTRAINT, btree (name)",
            "\"author_born_check\" CHECK (born > 0)",
            "TABLE \"book\" CONSTRAINT \"book_a_fkey\" FOREIGN KEY (a) REFERENCES author(id) ON DELETE CASCADE",
        ],
    );
    psql.shows(
        "\\d book",
        &["\"book_t\" btree (t)", "\"book_a_fkey\" FOREIGN KEY (a) REFERENCES author(id) ON DELETE CASCADE"],
    );
    psql.shows("\\d+ author", &["Access method: heap", "\"author_born_check\" CHECK (born > 0)"]);
    let primary = ["id | integer | yes | id", "primary key, btree, for table \"public.author\""];
    psql.shows("\\d author_pkey", &primary);
    psql.shows("\\d v", &["View \"public.v\"", "name | character varying(30) | | |"]);
    psql.shows("\\d+ v", &["View definition:", "SELECT name FROM author;"]);
    psql.shows("\\d sq", &["bigint | 1 | 1 | 9223372036854775807 | 5 | no | 1"]);
    psql.shows("\\d author_id_seq", &["Owned by: public.author.id"]);
}

#[test]
fn psql_lists_relations() {
    let Some(psql) = Described::new() else { return };
    let relations = [
        "public | author | table | postgres",
        "public | author_id_seq | sequence | postgres",
        "public | v | view | postgres",
        "(5 rows)",
    ];
    psql.shows("\\d", &relations);
    let tables = ["public | author | table | postgres", "public | book | table | postgres", "(2 rows)"];
    psql.shows("\\dt", &tables);
    psql.shows("\\di", &["public | book_t | index | postgres | book", "(4 rows)"]);
    psql.shows("\\dv", &["public | v | view | postgres"]);
    psql.shows("\\ds", &["public | sq | sequence | postgres"]);
    psql.shows("\\l", &["List of databases", "(1 row)"]);
    psql.shows("\\dn", &["(1 row)"]);
    psql.shows("\\du", &["List of roles"]);
    for rest in
        ["\\d+", "\\l+", "\\dn+", "\\du+", "\\dp", "\\df", "\\dx", "\\dT", "\\db", "\\sv v", "\\conninfo"]
    {
        psql.shows(rest, &[]);
    }
}

#[test]
fn psql_asks_the_catalogue() {
    let Some(Described(server)) = Described::new() else { return };
    // What is not there is named.
    let unknown = text(&psql(&server, &[], &["SELECT 1 FROM pg_catalog.pg_opfamily o"]));
    assert!(unknown.contains("42P01") && unknown.contains("pg_opfamily"), "{unknown}");
    let missing = text(&psql(&server, &[], &["SELECT 'nothing'::regclass"]));
    assert!(missing.contains("42P01"), "{missing}");
    let counted = psql(
        &server,
        &["-A", "-t"],
        &["SELECT nextval('sq'), nextval('sq')", "SELECT count(*) FROM pg_trigger"],
    );
    assert_eq!(text(&counted), "1|6\n0\n");
}

#[test]
fn python() {
    let python = std::env::var("ANOMALIST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if !has(&python, &["-c", "import psycopg, pymysql, sqlalchemy"]) {
        return;
    }
    let server = server();
    let ports = [server.postgres().unwrap().port().to_string(), server.mysql().unwrap().port().to_string()];
    let printed = run(Command::new(python).arg(here("clients.py")).args(ports));
    assert_eq!(printed.trim(), "all clients agree");
}

#[test]
fn mariadb() {
    if !has("mariadb", &["--version"]) {
        return;
    }
    let server = server();
    let port = server.mysql().unwrap().port().to_string();
    let ask = |sql: &str| {
        let mut command = Command::new("mariadb");
        command.args([
            "--no-defaults",
            "-N",
            "-B",
            "-h",
            "127.0.0.1",
            "-P",
            &port,
            "-uroot",
            "-pany",
            "weakdb",
            "-e",
            sql,
        ]);
        command.output().unwrap()
    };
    let made = ask(
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, NULL), (2, 'b'); SELECT * FROM t",
    );
    assert_eq!(text(&made), "1\tNULL\n2\tb\n");
    assert_eq!(text(&ask("START TRANSACTION; DELETE FROM t; ROLLBACK; SELECT count(*) FROM t")), "2\n");
    assert!(text(&ask("PREPARE s FROM 'SELECT 1'")).contains("ERROR 1235 (42000)"));
    assert!(text(&ask("INSERT INTO t VALUES (1, '')")).contains("ERROR 1062 (23000)"));
    assert!(text(&ask("SELECT * FROM nothing")).contains("ERROR 1146 (42S02)"));
    assert_eq!(text(&ask("SHOW TABLES; SELECT @@version_comment")), "t\nanomalist weakdb\n");
}

#[test]
fn connector_j() {
    let jar = "/usr/share/java/mariadb-java-client.jar";
    if !Path::new(jar).exists() {
        return skip::missing("clients", format!("{jar} (libmariadb-java) does not exist"));
    }
    if !has("java", &["-version"]) {
        return;
    }
    let server = server();
    let port = server.mysql().unwrap().port().to_string();
    let printed = run(Command::new("java")
        .args(["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", jar])
        .arg(here("Client.java"))
        .arg(port));
    assert_eq!(printed.trim(), "Connector/J agrees");
}
