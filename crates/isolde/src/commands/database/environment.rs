//! What a URL leaves out, the environment may say: libpq's variables, and those of MySQL's clients.

use isolde_driver::{Family, Target};

/// The variables of a family: user, password, host, port, database.
fn variables(family: Family) -> Option<[&'static str; 5]> {
    match family {
        Family::Postgres => Some(["PGUSER", "PGPASSWORD", "PGHOST", "PGPORT", "PGDATABASE"]),
        Family::Mysql => Some(["", "MYSQL_PWD", "MYSQL_HOST", "MYSQL_TCP_PORT", ""]),
        Family::Sqlite => None,
    }
}

/// The target of a URL, completed. `variable` looks a name up.
pub fn completed(url: &str, mut target: Target, variable: &dyn Fn(&str) -> Option<String>) -> Target {
    let (Some(names), Some((_, rest))) = (variables(target.family()), url.split_once("://")) else {
        return target;
    };
    let [user, password, host, port, database] =
        names.map(|name| if name.is_empty() { None } else { variable(name).filter(|v| !v.is_empty()) });
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    let given = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
    let (authority, path) = before.split_once('/').unwrap_or((before, ""));
    let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    if place.is_empty() && !given("host") && (host.is_some() || port.is_some()) {
        let usual = target.address().map_or(0, |(_, port)| port);
        let port = port.and_then(|port| port.parse().ok()).unwrap_or(usual);
        target = target.via(host.as_deref().unwrap_or("localhost"), port);
    }
    if path.is_empty()
        && !given("dbname")
        && let Some(database) = database
    {
        target = target.with_database(&database);
    }
    if login.is_empty() && !given("user") {
        if let Some(user) = user {
            target = target.with_login(&user, password.as_deref());
        }
    } else if !login.contains(':')
        && !given("password")
        && let Some(password) = password
    {
        // As the target shows it, without escapes.
        let shown = target.to_string();
        let user = shown.split_once("://").and_then(|(_, rest)| rest.split_once('@')).map(|(user, _)| user);
        if let Some(user) = user.map(str::to_owned) {
            target = target.with_login(&user, Some(&password));
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str, variables: &[(&str, &str)]) -> String {
        let target = url.parse().unwrap();
        let variable =
            |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        completed(url, target, &variable).to_string()
    }

    #[test]
    fn what_the_url_says_counts() {
        let all = [("PGUSER", "ann"), ("PGHOST", "db"), ("PGPORT", "5433"), ("PGDATABASE", "bank")];
        assert_eq!(shown("postgres://", &all), "postgres://ann@db:5433/bank");
        assert_eq!(shown("postgres:///test", &all), "postgres://ann@db:5433/test");
        assert_eq!(shown("postgres://bob@h:1/x", &all), "postgres://bob@h:1/x");
        assert_eq!(shown("postgres://h/x?user=eve", &all), "postgres://eve@h:5432/x");
        assert_eq!(shown("mysql://root@h/x", &all), "mysql://root@h:3306/x");
        assert_eq!(shown("mysql://root@/x", &[("MYSQL_HOST", "db")]), "mysql://root@db:3306/x");
    }

    #[test]
    fn passwords_are_taken_and_not_shown() {
        let variables = [("PGPASSWORD", "secret")];
        let url = "postgres://ann@h/x";
        let target: Target = url.parse().unwrap();
        let variable = |name: &str| (name == "PGPASSWORD").then(|| variables[0].1.to_owned());
        let with = completed(url, target.clone(), &variable);
        assert_ne!(with, target, "it has a password now");
        assert_eq!((with.to_string(), format!("{with:?}").contains("secret")), (target.to_string(), false));
    }
}
