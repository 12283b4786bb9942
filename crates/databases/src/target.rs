//! A database named by a URL.

use crate::url::{Parts, parse};
use crate::{Connection, Database, Error, Family, Kind, UrlError};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A database named by a URL: `postgres://`, `mysql://` (MySQL, MariaDB, TiDB) or `sqlite:`.
///
/// ```
/// let target: anomalist_databases::Target = "postgres://ann:secret@db.example:5433/bank?sslmode=verify-full".parse()?;
/// assert_eq!(target.to_string(), "postgres://ann@db.example:5433/bank");
/// assert!(!format!("{target:?}").contains("secret"));
/// # Ok::<(), anomalist_databases::UrlError>(())
/// ```
///
/// Parameters, after a question mark: `sslmode` (`disable`, `allow`, `prefer`, `require`, `verify-ca`,
/// `verify-full`: as libpq has them; MySQL without it tries no TLS), `sslrootcert`, `sslcert` and `sslkey`
/// (PEM files), `connect_timeout` and `statement_timeout` in seconds; of PostgreSQL also `application_name`
/// and `options`; of SQLite `journal` (`wal`, `delete`, …) and `synchronous`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(crate) parts: Parts,
    /// Whom the server has to be by its certificate, if not whom we reach it as.
    pub(crate) certified: Option<String>,
    pub(crate) connect_timeout: Duration,
    pub(crate) statement_timeout: Duration,
}

const KNOWN: &[(&str, &[Family])] = &[
    ("connect_timeout", &[Family::Postgres, Family::Mysql]),
    ("statement_timeout", &[Family::Postgres, Family::Mysql, Family::Sqlite]),
    ("sslmode", &[Family::Postgres, Family::Mysql]),
    ("sslrootcert", &[Family::Postgres, Family::Mysql]),
    ("sslcert", &[Family::Postgres, Family::Mysql]),
    ("sslkey", &[Family::Postgres, Family::Mysql]),
    ("application_name", &[Family::Postgres]),
    ("options", &[Family::Postgres]),
    ("journal", &[Family::Sqlite]),
    ("synchronous", &[Family::Sqlite]),
];

impl Target {
    /// Whose SQL and protocol it speaks.
    pub fn family(&self) -> Family {
        self.parts.family
    }

    /// The user, if one is named.
    pub fn user(&self) -> Option<&str> {
        self.parts.user.as_deref()
    }

    /// The password, if one is known.
    pub fn password(&self) -> Option<&str> {
        self.parts.password.as_ref().map(|secret| secret.0.as_str())
    }

    /// The database, if one is named.
    pub fn database(&self) -> Option<&str> {
        self.parts.database.as_deref()
    }

    /// Host and port, if it is reached by TCP.
    pub fn address(&self) -> Option<(&str, u16)> {
        let local = self.family() == Family::Sqlite || self.parts.host.starts_with('/');
        (!local).then_some((self.parts.host.as_str(), self.parts.port))
    }

    /// The same database through a proxy: the server's certificate still has to be that of its own address.
    #[must_use]
    pub fn through(&self, host: &str, port: u16) -> Target {
        let mut other = self.via(host, port);
        other.certified = Some(self.certified.as_ref().unwrap_or(&self.parts.host).clone());
        other
    }

    /// The same database under another address.
    #[must_use]
    pub fn via(&self, host: &str, port: u16) -> Target {
        let mut other = self.clone();
        host.clone_into(&mut other.parts.host);
        other.parts.port = port;
        other
    }

    /// Another database of the same server, or another file.
    #[must_use]
    pub fn with_database(&self, name: &str) -> Target {
        let mut other = self.clone();
        other.parts.database = Some(name.to_owned());
        other
    }

    /// How long one statement may take before its connection is given up; 30 s unless set.
    #[must_use]
    pub fn with_statement_timeout(mut self, limit: Duration) -> Target {
        self.statement_timeout = limit;
        self
    }

    /// How long connecting may take; 10 s unless set.
    #[must_use]
    pub fn with_connect_timeout(mut self, limit: Duration) -> Target {
        self.connect_timeout = limit;
        self
    }

    /// With a user and password, in place of the URL's.
    #[must_use]
    pub fn with_login(mut self, user: &str, password: Option<&str>) -> Target {
        self.parts.user = Some(user.to_owned());
        self.parts.password = password.map(|p| crate::url::Secret(p.to_owned()));
        self
    }

    /// With this parameter, as in the URL.
    pub fn with_parameter(mut self, name: &str, value: &str) -> Result<Target, UrlError> {
        self.parts.parameters.insert(name.to_owned(), value.to_owned());
        let target = Target::from_parts(self.parts)?;
        Ok(Target { certified: self.certified, ..target })
    }

    /// Whether the server's certificate has to be that of its address.
    pub fn verifies_name(&self) -> bool {
        self.parameter("sslmode") == Some("verify-full")
    }

    fn from_parts(parts: Parts) -> Result<Target, UrlError> {
        for name in parts.parameters.keys() {
            if !KNOWN.iter().any(|(known, of)| known == name && of.contains(&parts.family)) {
                return Err(UrlError::Parameter(name.clone()));
            }
        }
        let wrong = |name: &str| UrlError::Parameter(name.to_owned());
        let seconds = |name: &str, otherwise: u64| match parts.parameters.get(name) {
            Some(text) => {
                let number = text.parse::<f64>().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
                number.filter(|limit| !limit.is_zero()).ok_or_else(|| wrong(name))
            }
            None => Ok(Duration::from_secs(otherwise)),
        };
        let sslmodes = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];
        if parts.parameters.get("sslmode").is_some_and(|mode| !sslmodes.contains(&mode.as_str())) {
            return Err(wrong("sslmode"));
        }
        let (connect_timeout, statement_timeout) =
            (seconds("connect_timeout", 10)?, seconds("statement_timeout", 30)?);
        Ok(Target { parts, certified: None, connect_timeout, statement_timeout })
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parts.parameters.get(name).map(String::as_str)
    }
}

impl FromStr for Target {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Target, UrlError> {
        let parts = parse(url)?;
        let left_out = match parts.family {
            Family::Postgres => (!cfg!(feature = "postgres")).then_some("postgres"),
            Family::Mysql => (!cfg!(feature = "mysql")).then_some("mysql"),
            Family::Sqlite => (!cfg!(feature = "sqlite")).then_some("sqlite"),
        };
        match left_out {
            Some(feature) => Err(UrlError::LeftOut(feature)),
            None => Target::from_parts(parts),
        }
    }
}

impl fmt::Display for Target {
    /// The address without its password and parameters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.parts.database.as_deref().unwrap_or_default();
        let scheme = match self.family() {
            Family::Postgres => "postgres",
            Family::Mysql => "mysql",
            Family::Sqlite => return write!(f, "sqlite:{database}"),
        };
        write!(f, "{scheme}://")?;
        if let Some(user) = &self.parts.user {
            write!(f, "{user}@")?;
        }
        let (host, port) = (&self.parts.host, self.parts.port);
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}/{database}"),
            false => write!(f, "{host}:{port}/{database}"),
        }
    }
}

impl Database for Target {
    fn connect(&self) -> Result<Box<dyn Connection>, Error> {
        match self.family() {
            #[cfg(feature = "postgres")]
            Family::Postgres => Ok(Box::new(crate::postgres::open(self)?)),
            #[cfg(feature = "mysql")]
            Family::Mysql => Ok(Box::new(crate::mysql::open(self)?)),
            #[cfg(feature = "sqlite")]
            Family::Sqlite => Ok(Box::new(crate::sqlite::open(self)?)),
            #[allow(unreachable_patterns, reason = "reached in builds without some database")]
            _ => Err(Error::new(Kind::Unsupported, "this build has no driver for it")),
        }
    }
}
