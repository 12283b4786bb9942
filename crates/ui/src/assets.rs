//! The files of the application, in the binary.

use anomalist_http::{IntoResponse, Response, header};

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! assets {
    ($($name:literal $kind:expr,)*) => {
        &[$(($name, $kind, include_str!(concat!("../web/", $name))),)*]
    };
}

const FILES: &[(&str, &str, &str)] = assets![
    "base.css" STYLE,
    "pages.css" STYLE,
    "main.js" SCRIPT,
    "dom.js" SCRIPT,
    "api.js" SCRIPT,
    "chart.js" SCRIPT,
    "compare.js" SCRIPT,
    "drop.js" SCRIPT,
    "form.js" SCRIPT,
    "jobs.js" SCRIPT,
    "levels.js" SCRIPT,
    "lattice.js" SCRIPT,
    "results.js" SCRIPT,
    "run.js" SCRIPT,
    "runs.js" SCRIPT,
    "theme.js" SCRIPT,
    "watch.js" SCRIPT,
];

/// The page that holds the application.
pub(crate) fn index() -> Response {
    let page = include_str!("../web/index.html");
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

/// The icon of the tab.
pub(crate) fn icon() -> Response {
    ([(header::CONTENT_TYPE, "image/svg+xml")], include_str!("../web/icon.svg")).into_response()
}

/// A file by its name.
pub(crate) fn file(name: &str) -> Option<Response> {
    let (_, kind, text) = FILES.iter().find(|(known, ..)| *known == name)?;
    Some(([(header::CONTENT_TYPE, *kind)], *text).into_response())
}

#[cfg(test)]
mod tests {
    use super::FILES;

    /// Names in data must never become markup, and files must be readable in one sitting.
    #[test]
    fn scripts_insert_text_as_text() {
        for (name, _, text) in FILES {
            assert!(text.lines().count() <= 500, "{name} has {} lines", text.lines().count());
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "DOMParser",
                "srcdoc",
                ".setAttribute('on",
            ] {
                assert!(!text.contains(word), "{name} uses {word}");
            }
        }
    }
}
