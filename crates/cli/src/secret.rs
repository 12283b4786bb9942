//! Passwords in what users typed, before it is repeated to them.

/// The text without what may be a login: from `://` to the last `@` of its line, since a password may contain anything. The value of a
/// parameter `password` goes, too, and a quoted command of `exec:`.
pub fn masked(text: &str) -> String {
    text.split_inclusive('\n').map(line).collect()
}

/// An argument without secrets: the command of `exec:` may have some anywhere.
pub fn masked_argument(argument: &str) -> String {
    if argument.starts_with("exec:") { "exec:***".to_owned() } else { masked(argument) }
}

fn line(line: &str) -> String {
    let mut out = line.to_owned();
    if let Some(start) = out.find("://").map(|at| at + 3)
        && let Some(end) = out.rfind('@').filter(|&end| end > start)
    {
        out.replace_range(start..end, "***");
    }
    const COMMAND: &str = "'exec:";
    if let Some(start) = out.find(COMMAND).map(|at| at + COMMAND.len())
        && let Some(end) = out.rfind('\'').filter(|&end| end > start)
    {
        out.replace_range(start..end, "***");
    }
    const PARAMETER: &str = "password=";
    let mut from = 0;
    while let Some(at) = out[from..].find(PARAMETER) {
        let start = from + at + PARAMETER.len();
        let rest = &out[start..];
        let length = rest.find(|c: char| c == '&' || c == '\'' || c.is_whitespace()).unwrap_or(rest.len());
        out.replace_range(start..start + length, "***");
        from = start + 3;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_repeated() {
        for (text, shown) in [
            (
                "unexpected argument 'postgres://u:SECRET@h/db' found",
                "unexpected argument 'postgres://***@h/db' found",
            ),
            ("'postgres://u:SEC RET@SECRET@h/db'\nnext", "'postgres://***@h/db'\nnext"),
            (
                "postgres://h/db?user=u&password=SECRET&sslmode=require",
                "postgres://h/db?user=u&password=***&sslmode=require",
            ),
            ("argument 'exec:PW='SECRET' python3 c.py' found", "argument 'exec:***' found"),
            ("mysql://h/db", "mysql://h/db"),
            ("write to ann@example.com", "write to ann@example.com"),
        ] {
            assert_eq!(masked(text), shown);
        }
        assert_eq!(masked_argument("exec:PGPASSWORD=SECRET python3 c.py"), "exec:***");
    }
}
