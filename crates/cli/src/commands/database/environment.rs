//! What a URL leaves out, the environment may say: libpq's variables, and those of MySQL's clients.

use anomalist_databases::{Family, Target, UrlError};

/// The variables of a family: user, password, host, port, database.
fn variables(family: Family) -> Option<[&'static str; 5]> {
    match family {
        Family::Postgres => Some(["PGUSER", "PGPASSWORD", "PGHOST", "PGPORT", "PGDATABASE"]),
        Family::Mysql => Some(["", "MYSQL_PWD", "MYSQL_HOST", "MYSQL_TCP_PORT", ""]),
        Family::Sqlite => None,
    }
}

/// Parameters of libpq that may come from variables.
const PARAMETERS: [(&str, &str); 4] = [
    ("PGSSLMODE", "sslmode"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGSSLCERT", "sslcert"),
    ("PGSSLKEY", "sslkey"),
];

/// The target of a URL, completed. `variable` looks a name up; `account` is whom libpq takes for the user
/// if no user is named.
pub fn completed(
    url: &str,
    mut target: Target,
    variable: &dyn Fn(&str) -> Option<String>,
    account: Option<&str>,
) -> Result<Target, UrlError> {
    let (Some(names), Some((_, rest))) = (variables(target.family()), url.split_once("://")) else {
        return Ok(target);
    };
    let variable = |name: &str| if name.is_empty() { None } else { variable(name).filter(|v| !v.is_empty()) };
    let [user, password, host, port, database] = names.map(variable);
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    let given = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
    let (authority, path) = before.split_once('/').unwrap_or((before, ""));
    let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (named, number) = match place.strip_prefix('[').and_then(|p| p.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let host = host.filter(|_| named.is_empty() && !given("host") && !given("socket"));
    let port = port.filter(|_| number.is_none_or(str::is_empty) && !given("port"));
    if host.is_some() || port.is_some() {
        let (own, usual) = target.address().unwrap_or(("localhost", 0));
        let port = port.and_then(|port| port.parse().ok()).unwrap_or(usual);
        // A folder of sockets has no address, and keeps its name.
        if host.is_some() || target.address().is_some() {
            target = target.via(host.as_deref().unwrap_or(own), port);
        }
    }
    if path.is_empty()
        && !given("dbname")
        && let Some(database) = database
    {
        target = target.with_database(&database);
    }
    if target.family() == Family::Postgres {
        for (name, parameter) in PARAMETERS {
            if !given(parameter)
                && let Some(value) = variable(name)
            {
                target = target.with_parameter(parameter, &value)?;
            }
        }
    }
    let has_password = login.contains(':') || given("password");
    if let Some(own) = target.user().map(str::to_owned) {
        if let Some(password) = password.filter(|_| !has_password) {
            target = target.with_login(&own, Some(&password));
        }
    } else if !has_password {
        let usual = if target.family() == Family::Postgres { account } else { Some("root") };
        if let Some(user) = user.as_deref().or(usual) {
            target = target.with_login(user, password.as_deref());
        }
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str, variables: &[(&str, &str)]) -> String {
        let target = url.parse().unwrap();
        let variable =
            |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        completed(url, target, &variable, Some("me")).unwrap().to_string()
    }

    #[test]
    fn what_the_url_says_counts() {
        let all = [("PGUSER", "ann"), ("PGHOST", "db"), ("PGPORT", "5433"), ("PGDATABASE", "bank")];
        assert_eq!(shown("postgres://", &all), "postgres://ann@db:5433/bank");
        assert_eq!(shown("postgres:///test", &all), "postgres://ann@db:5433/test");
        assert_eq!(shown("postgres://bob@h:1/x", &all), "postgres://bob@h:1/x");
        assert_eq!(shown("postgres://h/x?user=eve", &all), "postgres://eve@h:5433/x");
        assert_eq!(shown("postgres://h:5432/x", &all), "postgres://ann@h:5432/x");
        assert_eq!(shown("postgres://[::1]/x", &all), "postgres://ann@[::1]:5433/x");
        assert_eq!(shown("postgres://h/x", &[]), "postgres://me@h:5432/x");
        assert_eq!(shown("mysql://root@h/x", &all), "mysql://root@h:3306/x");
        assert_eq!(shown("mysql://root@/x", &[("MYSQL_HOST", "db")]), "mysql://root@db:3306/x");
    }

    #[test]
    fn passwords_are_taken_and_not_shown() {
        let variables = [("PGPASSWORD", "secret")];
        let url = "postgres://ann@h/x";
        let target: Target = url.parse().unwrap();
        let variable = |name: &str| (name == "PGPASSWORD").then(|| variables[0].1.to_owned());
        let with = completed(url, target.clone(), &variable, None).unwrap();
        assert_ne!(with, target, "it has a password now");
        assert_eq!((with.to_string(), format!("{with:?}").contains("secret")), (target.to_string(), false));
    }

    #[test]
    fn passwords_and_parameters_need_no_user() {
        let given = |url: &str, name: &'static str, value: &'static str| {
            let target: Target = url.parse().unwrap();
            completed(url, target, &|asked| (asked == name).then(|| value.to_owned()), Some("me"))
        };
        let url = "postgres://h/x";
        let target: Target = url.parse().unwrap();
        let with_password = target.clone().with_login("me", Some("secret"));
        assert_eq!(given(url, "PGPASSWORD", "secret"), Ok(with_password));
        let root = "mysql://h/x".parse::<Target>().unwrap().with_login("root", Some("secret"));
        assert_eq!(given("mysql://h/x", "MYSQL_PWD", "secret"), Ok(root));
        let strict = target.with_parameter("sslmode", "verify-full").unwrap().with_login("me", None);
        assert_eq!(given(url, "PGSSLMODE", "verify-full"), Ok(strict));
        assert!(given(url, "PGSSLMODE", "perhaps").is_err());
        let own = "postgres://me@h/x?sslmode=disable";
        assert_eq!(given(own, "PGSSLMODE", "require"), Ok(own.parse().unwrap()));
        assert!(crate::system::account().is_some());
    }
}
