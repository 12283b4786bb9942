//! One function per target: text from a history becomes text of a terminal, XML, Markdown, DOT, SARIF or a
//! workflow command, in which it can neither break the document nor command the program that shows it.
//!
//! Every target shows the same characters for what has no look of its own: those that
//! [`anomalist_history::inert`] escapes, as it escapes them.

use anomalist_history::{inert, is_active, push_escape};

/// Each character by `special`, or escaped if it is hidden, or as it is.
fn mapped(text: &str, special: impl Fn(char) -> Option<&'static str>) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        match special(c) {
            Some(text) => out.push_str(text),
            None if is_active(c) => push_escape(&mut out, c),
            None => out.push(c),
        }
        out
    })
}

/// A name for terminals and logs. No word of it starts with `::` and none contains `##[`, because a log of
/// GitHub's obeys a line that starts with the one or contains the other.
///
/// ```
/// assert_eq!(anomalist_report::printable("a\u{1b}[2J\n::error::"), "a\\u{1b}[2J\\n::error::");
/// ```
pub fn terminal(text: &str) -> String {
    let out = inert(text).into_owned();
    let out = if out.starts_with("::") { format!("\\{out}") } else { out };
    out.replace(" ::", " \\::").replace("##[", "#\\#[")
}

/// Text or attribute value in XML and HTML.
pub fn xml(text: &str) -> String {
    mapped(text, |c| {
        Some(match c {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '"' => "&quot;",
            '\'' => "&apos;",
            '\n' => "\n",
            '\t' => "\t",
            _ => return None,
        })
    })
}

/// Text in a line or a cell of Markdown, as GitHub and GitLab read it: no markup and no link.
pub(crate) fn markdown(text: &str) -> String {
    let out = mapped(text, |c| {
        Some(match c {
            '\\' => "\\\\",
            '`' => "\\`",
            '*' => "\\*",
            '_' => "\\_",
            '[' => "\\[",
            ']' => "\\]",
            '<' => "\\<",
            '>' => "\\>",
            '|' => "\\|",
            '#' => "\\#",
            '&' => "\\&",
            '~' => "\\~",
            '!' => "\\!",
            '$' => "\\$",
            '\n' => "\\\\n",
            _ => return None,
        })
    });
    let out = out.replace("://", "\\://").replace("www.", "www\\.");
    let out = out.trim_start();
    // What starts a list, a rule or a heading at the beginning of a line.
    let digits = out.len() - out.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    match out[digits..].chars().next() {
        Some('-' | '+' | '=' | ':') if digits == 0 => format!("\\{out}"),
        Some('.' | ')') if digits > 0 => format!("{}\\{}", &out[..digits], &out[digits..]),
        _ => out.to_owned(),
    }
}

/// Lines of text as a block of code in Markdown, in a fence longer than any in the text.
pub(crate) fn markdown_block(text: &str) -> String {
    let text = mapped(text, |c| (c == '\n').then_some("\n"));
    let runs = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(runs.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// A string of DOT; a line break becomes `\n`, which DOT centres.
pub(crate) fn dot(text: &str) -> String {
    let hidden = mapped(text, |c| (c == '\n').then_some("\n"));
    format!("\"{}\"", hidden.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// The message of a workflow command of GitHub.
pub(crate) fn workflow_data(text: &str) -> String {
    mapped(text, |c| {
        Some(match c {
            '%' => "%25",
            '\r' => "%0D",
            '\n' => "%0A",
            _ => return None,
        })
    })
}

/// A property of a workflow command.
pub(crate) fn workflow_property(text: &str) -> String {
    workflow_data(text).replace(':', "%3A").replace(',', "%2C")
}

/// The text of a SARIF message: braces are no placeholders, brackets are no links.
pub(crate) fn sarif(text: &str) -> String {
    let out = mapped(text, |c| {
        Some(match c {
            '{' => "{{",
            '}' => "}}",
            '\n' => "\n",
            _ => return None,
        })
    });
    out.replace("](", "] (")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_holds_any_text() {
        assert_eq!(xml("<a b='x'>\"&\u{1}\r</a>"), "&lt;a b=&apos;x&apos;&gt;&quot;&amp;\\u{1}\\r&lt;/a&gt;");
        assert_eq!(workflow_data("50%\n::error::"), "50%25%0A::error::");
        assert_eq!(workflow_property("C:\\a,b"), "C%3A\\a%2Cb");
        assert_eq!(dot("a\"b\\c\nd\u{7}"), "\"a\\\"b\\\\c\\nd\\\\u{7}\"");
        assert_eq!(terminal("\u{1b}[31m\n"), "\\u{1b}[31m\\n");
        assert_eq!(terminal("::error::a ::b a::c ##[d]"), "\\::error::a \\::b a::c #\\#[d]");
        assert_eq!(markdown("a|b`c`\n[d](http://e)"), "a\\|b\\`c\\`\\\\n\\[d\\](http\\://e)");
        assert_eq!(markdown_block("a\n````\n"), "`````text\na\n````\n`````\n");
        assert_eq!(sarif("{0} [a](1)"), "{{0}} [a] (1)");
    }

    #[test]
    fn nothing_hidden_gets_through() {
        let hidden: String = (0..=0x10_ffff).filter_map(char::from_u32).filter(|&c| is_active(c)).collect();
        let functions =
            [terminal, xml, markdown, markdown_block, dot, workflow_data, workflow_property, sarif];
        for escape in functions {
            let shown = escape(&hidden);
            let left: Vec<char> = shown.chars().filter(|&c| is_active(c) && c != '\n' && c != '\t').collect();
            assert_eq!(left, [], "{shown}");
        }
    }
}
