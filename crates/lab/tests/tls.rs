//! TLS with certificates made for the purpose: what each `sslmode` accepts and refuses.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]
#![cfg(all(feature = "postgres", feature = "mysql"))]

mod suite;

use anomalist_databases::{Database, Target};
use anomalist_lab::fault::is_encrypted;
use anomalist_lab::server::{Engine, Setup};
use std::path::{Path, PathBuf};
use std::process::Command;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl").current_dir(folder).args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, a certificate of it for `localhost`, and another authority that has nothing to do with it.
fn certificates(name: &str) -> Folder {
    let folder = std::env::temp_dir().join(format!("anomalist-tls-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for authority in ["ca", "other"] {
        let made = format!(
            "req -x509 {key} -keyout {authority}.key -out {authority}.crt -days 2 -subj /CN={authority}"
        );
        openssl(&folder, &made);
    }
    openssl(&folder, &format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"));
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
        .unwrap();
    openssl(
        &folder,
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt",
    );
    openssl(&folder, &format!("req {key} -keyout bob.key -out bob.csr -subj /CN=bob"));
    std::fs::write(folder.join("client"), "basicConstraints=CA:FALSE\n").unwrap();
    openssl(
        &folder,
        "x509 -req -in bob.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile client -out bob.crt",
    );
    Folder(folder)
}

fn tries(target: &Target, host: &str, mode: &str, roots: Option<&Path>) -> Result<bool, String> {
    let (_, port) = target.address().unwrap();
    let mut target = target.via(host, port).with_parameter("sslmode", mode).unwrap();
    if let Some(roots) = roots {
        target = target.with_parameter("sslrootcert", roots.to_str().unwrap()).unwrap();
    }
    let mut session = target.connect().map_err(|e| e.to_string())?;
    is_encrypted(session.as_mut()).map_err(|e| e.to_string())
}

fn with_tls(engine: Engine) {
    let folder = certificates(engine.name());
    let file = |name: &str| folder.0.join(name);
    let authority = if engine == Engine::Postgres { "ssl_ca_file" } else { "ssl-ca" };
    let settings = vec![(authority.to_owned(), file("ca.crt").display().to_string())];
    let setup = Setup { tls: Some((file("server.crt"), file("server.key"))), settings };
    let Some(server) = suite::server(engine, &setup) else { return };
    let target = server.target(0);
    let (ours, others) = (file("ca.crt"), file("other.crt"));

    assert_eq!(tries(target, "127.0.0.1", "disable", None), Ok(false));
    assert_eq!(tries(target, "127.0.0.1", "allow", None), Ok(false));
    assert_eq!(tries(target, "127.0.0.1", "prefer", None), Ok(true));
    assert_eq!(tries(target, "127.0.0.1", "require", None), Ok(true));
    assert_eq!(tries(target, "127.0.0.1", "verify-ca", Some(&ours)), Ok(true), "the name does not matter");
    assert_eq!(tries(target, "localhost", "verify-full", Some(&ours)), Ok(true));
    for (host, mode, roots, why) in [
        ("127.0.0.1", "verify-full", Some(&ours), "another name"),
        ("localhost", "verify-full", Some(&others), "another authority"),
        ("127.0.0.1", "verify-ca", Some(&others), "another authority"),
        ("localhost", "verify-full", None, "not an authority that the machine knows"),
    ] {
        let refused = tries(target, host, mode, roots.map(PathBuf::as_path));
        assert!(refused.is_err(), "{engine:?} {mode}: {why}");
    }
    if engine == Engine::Postgres {
        // The server's own certificate may be what is trusted.
        assert_eq!(tries(target, "localhost", "verify-full", Some(&file("server.crt"))), Ok(true));
        assert!(tries(target, "127.0.0.1", "verify-full", Some(&file("server.crt"))).is_err());
        // With roots, libpq's require is verify-ca.
        assert!(tries(target, "127.0.0.1", "require", Some(&others)).is_err());
        // Through a proxy the certificate has to be that of the server itself.
        let (_, port) = target.address().unwrap();
        let strict = |host: &str| {
            let roots = ours.display().to_string();
            let target = target.via(host, port).with_parameter("sslmode", "verify-full").unwrap();
            target.with_parameter("sslrootcert", &roots).unwrap().through("127.0.0.1", port).connect()
        };
        assert!(strict("localhost").is_ok() && strict("127.0.0.1").is_err());
        scram(target);
    } else {
        let created = "CREATE USER ann@'%' IDENTIFIED BY 'sesame'; CREATE USER bob@'%' REQUIRE X509; \
             GRANT ALL PRIVILEGES ON anomalist.* TO ann@'%', bob@'%'";
        target.connect().unwrap().run(created).unwrap();
    }
    passwords(target);
    // The server accepts as Bob only a client that has Bob's certificate.
    let bob = target.clone().with_login("bob", None).with_parameter("sslmode", "require").unwrap();
    assert!(bob.connect().is_err());
    let path = |name: &str| file(name).display().to_string();
    let bob = bob.with_parameter("sslcert", &path("bob.crt")).unwrap();
    let bob = bob.with_parameter("sslkey", &path("bob.key")).unwrap();
    bob.connect().unwrap();
}

/// A user with a password that PostgreSQL asks for by SCRAM.
fn scram(target: &Target) {
    let mut admin = target.connect().unwrap();
    admin.run("CREATE ROLE ann LOGIN PASSWORD 'sesame'; CREATE ROLE bob LOGIN").unwrap();
    let file = admin.run("SHOW hba_file").unwrap()[0].value().unwrap().as_text().unwrap().to_owned();
    let rules = "host all ann 127.0.0.1/32 scram-sha-256\nhostssl all bob 127.0.0.1/32 cert\n\
                 host all bob 127.0.0.1/32 reject\nhost all all 127.0.0.1/32 trust\n";
    std::fs::write(&file, rules).unwrap();
    admin.run("SELECT pg_reload_conf()").unwrap();
    // The postmaster takes a moment to read the file.
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while target.clone().with_login("ann", None).connect().is_ok() {
        assert!(std::time::Instant::now() < limit);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Who knows the password gets in, and no failure repeats one.
fn passwords(target: &Target) {
    let ann = |password| target.clone().with_login("ann", password);
    assert!(ann(Some("sesame")).connect().is_ok());
    for password in [Some("wrong-secret"), None] {
        let error = ann(password).connect().err().unwrap();
        assert!(!format!("{error} {error:?}").contains("wrong-secret"), "{error}");
    }
    assert!(!format!("{:?} {}", ann(Some("sesame")), ann(Some("sesame"))).contains("sesame"));
}

#[test]
fn postgres() {
    with_tls(Engine::Postgres);
}

#[test]
fn mariadb() {
    with_tls(Engine::Mariadb);
}

#[test]
fn a_server_without_tls() {
    let Some(server) = suite::server(Engine::Postgres, &Setup::default()) else { return };
    assert_eq!(tries(server.target(0), "127.0.0.1", "prefer", None), Ok(false));
    let refused = tries(server.target(0), "127.0.0.1", "require", None).unwrap_err();
    assert!(refused.contains("does not offer TLS"), "{refused}");
}
