//! Addresses of databases: what libpq, MySQL's and SQLite's own clients call a URL, parsed without guessing.

use crate::Family;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// A password. Neither printed nor shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Why a text is no address. The text itself is not repeated: it may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    /// Not one of the schemes.
    #[error("unknown scheme; an address begins with postgres://, mysql:// or sqlite:")]
    Scheme,
    /// The scheme's database was left out of this build.
    #[error("this build of anomalist has no {0}; build with the cargo feature of that name")]
    LeftOut(&'static str),
    /// A port that is no number up to 65535.
    #[error("the port is not a number between 1 and 65535")]
    Port,
    /// A percent sign without two hexadecimal digits, or not UTF-8 after decoding.
    #[error("a percent sign must be followed by two hexadecimal digits of UTF-8 text")]
    Escape,
    /// No file given for SQLite.
    #[error("sqlite: needs the path of a file")]
    Path,
    /// An at sign behind the host: a login with a character that ends it.
    #[error(
        "an @ after the host; in a user or password, / ? and % are written %2F, %3F and %25, and behind the host @ is %40"
    )]
    At,
    /// A parameter that is not known, or whose value is not.
    #[error("parameter {0}: unknown, or its value is invalid")]
    Parameter(String),
}

/// The parts of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) family: Family,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    /// Empty for SQLite, a folder or file for local sockets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The database's name, or the file's path.
    pub(crate) database: Option<String>,
    pub(crate) parameters: BTreeMap<String, String>,
}

pub(crate) fn parse(url: &str) -> Result<Parts, UrlError> {
    let (scheme, rest) = url.split_once(':').ok_or(UrlError::Scheme)?;
    let family = match scheme.to_ascii_lowercase().as_str() {
        "postgres" | "postgresql" => Family::Postgres,
        "mysql" | "mariadb" | "tidb" => Family::Mysql,
        "sqlite" => Family::Sqlite,
        _ => return Err(UrlError::Scheme),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = rest.strip_prefix("//").and_then(|rest| rest.split_once('/')).map_or("", |(_, path)| path);
    // What follows may be most of a password: it must not be taken for a name, which is shown.
    if family != Family::Sqlite && (path.contains('@') || query.contains('@')) {
        return Err(UrlError::At);
    }
    let mut parameters = BTreeMap::new();
    for pair in query.split('&').filter(|p| !p.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        parameters.insert(decode(name)?, decode(value)?);
    }
    if family == Family::Sqlite {
        let path = decode(rest.strip_prefix("//").unwrap_or(rest))?;
        if path.is_empty() {
            return Err(UrlError::Path);
        }
        let (host, database) = (String::new(), Some(path));
        return Ok(Parts { family, user: None, password: None, host, port: 0, database, parameters });
    }
    let rest = rest.strip_prefix("//").ok_or(UrlError::Scheme)?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(Secret(decode(password)?))),
        None => (login, None),
    };
    let (host, port) = match place.strip_prefix('[').and_then(|p| p.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let standard = if family == Family::Postgres { 5432 } else { 3306 };
    let mut taken = |name: &str| parameters.remove(name);
    let host = taken("host").or_else(|| taken("socket")).map_or_else(|| decode(host), Ok)?;
    let port = match taken("port").as_deref().or(port.filter(|p| !p.is_empty())) {
        Some(port) => port.parse().ok().filter(|&p| p != 0).ok_or(UrlError::Port)?,
        None => standard,
    };
    let user = taken("user").map_or_else(|| decode(user), Ok)?;
    let password = taken("password").map(Secret).or(password);
    let database = taken("dbname").map_or_else(|| decode(path), Ok)?;
    let some = |text: String| (!text.is_empty()).then_some(text);
    let host = some(host).unwrap_or_else(|| "localhost".to_owned());
    Ok(Parts { family, user: some(user), password, host, port, database: some(database), parameters })
}

fn decode(text: &str) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or(UrlError::Escape)?;
        let digits = std::str::from_utf8(digits).map_err(|_| UrlError::Escape)?;
        if !digits.bytes().all(|d| d.is_ascii_hexdigit()) {
            return Err(UrlError::Escape);
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| UrlError::Escape)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| UrlError::Escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_forms() {
        let parts = parse("postgres://ann:p%40ss@[::1]:5433/bank?sslmode=require").unwrap();
        assert_eq!((parts.host.as_str(), parts.port), ("::1", 5433));
        assert_eq!((parts.user.as_deref(), parts.database.as_deref()), (Some("ann"), Some("bank")));
        assert_eq!(parts.password, Some(Secret("p@ss".to_owned())));
        assert_eq!(parts.parameters["sslmode"], "require");
        assert!(!format!("{parts:?}").contains("p@ss"));

        let parts = parse("mysql://root@db").unwrap();
        assert_eq!((parts.host.as_str(), parts.port, parts.database), ("db", 3306, None));
        let parts = parse("postgresql:///bank?host=/var/run/postgresql&user=ann").unwrap();
        assert_eq!((parts.host.as_str(), parts.user.as_deref()), ("/var/run/postgresql", Some("ann")));
        let parts = parse("sqlite:/tmp/a b%20c.db?journal=wal").unwrap();
        assert_eq!(parts.database.as_deref(), Some("/tmp/a b c.db"));
        assert_eq!(parse("sqlite:///tmp/x").unwrap().database.as_deref(), Some("/tmp/x"));
        assert_eq!(parse("sqlite:x.db").unwrap().database.as_deref(), Some("x.db"));
        assert_eq!(parse("sqlite:/tmp/a@b.db").unwrap().database.as_deref(), Some("/tmp/a@b.db"));
        // A password may contain an at sign that is not escaped.
        assert_eq!(parse("mysql://u:a@b@h/d").unwrap().password, Some(Secret("a@b".to_owned())));
    }

    #[test]
    fn what_is_no_address_says_why_and_not_what() {
        let cases = [
            ("redis://h", UrlError::Scheme),
            ("bank", UrlError::Scheme),
            ("postgres:h", UrlError::Scheme),
            ("mysql://h:99999", UrlError::Port),
            ("mysql://h:0", UrlError::Port),
            ("mysql://a:secret%4@h", UrlError::Escape),
            ("mysql://a:secret%+1@h", UrlError::Escape),
            ("sqlite:", UrlError::Path),
            ("postgres://u:12?secret=x@h/db", UrlError::At),
            ("postgres://u:12/secret@h/db", UrlError::At),
            ("mysql://u:/secret@h", UrlError::At),
        ];
        for (url, expected) in cases {
            let error = parse(url).unwrap_err();
            assert_eq!(error, expected, "{url}");
            assert!(!error.to_string().contains("secret"));
        }
    }
}
