//! Text, HTML, Markdown, SVG and JSON of one result agree: the same levels with the same verdicts, the same
//! anomalies with the same counts, and the same transactions in the example. On 200 random histories.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::{History, Indexed};
use anomalist_level::{Anomaly, Bound, Judgement, Level};
use anomalist_page::{Page, Run};
use anomalist_report::{HistoryFacts, Style, Subject, column_title};
use anomalist_testkit::random::{self, Shape};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const RESULTS: u64 = 200;

/// Verdicts by row and column of the ladder.
type Cells = BTreeMap<(String, String), String>;

/// What JSON says, put into the rows and columns of the table of levels.
fn cells_of_json(document: &Value) -> Cells {
    let mut cells: BTreeMap<(String, String), BTreeMap<String, String>> = BTreeMap::new();
    for entry in document["levels"].as_array().unwrap() {
        let level: Level = entry["level"].as_str().unwrap().parse().unwrap();
        let at = (level.info().rung.to_owned(), column_title(level.bound()).to_owned());
        let verdict = entry["verdict"].as_str().unwrap().to_owned();
        cells.entry(at).or_default().insert(level.name().to_owned(), verdict);
    }
    let mut flat = Cells::new();
    for ((row, column), levels) in cells {
        let verdicts: BTreeSet<&String> = levels.values().collect();
        if verdicts.len() == 1 {
            flat.insert((row, column), levels.into_values().next().unwrap());
        } else {
            flat.extend(levels.into_iter().map(|(level, verdict)| ((level, column.clone()), verdict)));
        }
    }
    flat
}

/// A cell's word, whatever stands around it.
fn word(cell: &str) -> Option<String> {
    let cell = cell.to_lowercase();
    ["holds", "violated", "unknown"].into_iter().find(|word| cell.contains(word)).map(str::to_owned)
}

/// The ladder of a text: cells start where the headings do.
fn cells_of_text(text: &str) -> Cells {
    let titles = Bound::ALL.map(column_title);
    let heading = text.lines().position(|line| titles.iter().all(|title| line.contains(title))).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let chars = |line: &str| line.chars().collect::<Vec<char>>();
    let starts = titles.map(|title| lines[heading][..lines[heading].find(title).unwrap()].chars().count());
    let mut cells = Cells::new();
    for line in lines[heading + 1..].iter().take_while(|line| !line.is_empty()) {
        let line = chars(line);
        let part = |from: usize, to: usize| -> String {
            line.iter().skip(from).take(to - from).collect::<String>().trim().to_owned()
        };
        let row = part(0, starts[0]);
        for (i, title) in titles.into_iter().enumerate() {
            let end = starts.get(i + 1).copied().unwrap_or(1000);
            cells.extend(word(&part(starts[i], end)).map(|word| ((row.clone(), title.to_owned()), word)));
        }
    }
    cells
}

/// Rows of a table, of which the first cell is the row's name.
fn cells_of_rows(rows: impl Iterator<Item = Vec<String>>) -> Cells {
    let mut cells = Cells::new();
    for row in rows {
        for (cell, bound) in row[1..].iter().zip(Bound::ALL) {
            cells.extend(word(cell).map(|word| ((row[0].clone(), column_title(bound).to_owned()), word)));
        }
    }
    cells
}

fn cells_of_markdown(text: &str) -> Cells {
    let rows = text.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    cells_of_rows(rows.map(|line| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    }))
}

fn cells_of_html(text: &str) -> Cells {
    let rows = text.split("<tr>").skip(2);
    cells_of_rows(rows.map(|row| {
        let cells = row.split("</td>").flat_map(|part| part.split("</th>"));
        cells.map(|cell| plain(cell).trim().to_owned()).take(4).collect()
    }))
}

/// HTML without tags.
fn plain(html: &str) -> String {
    let mut inside = false;
    let text: String = html
        .chars()
        .filter(|&c| {
            let shown = !inside && c != '<' && c != '>';
            inside = c == '<' || inside && c != '>';
            shown
        })
        .collect();
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}

/// `once`, `twice`, `17 times` as a number, of the first line that starts with a title and has one.
fn count_after(text: &str, title: &str) -> Option<u64> {
    let named = |line: &str| -> Option<u64> {
        let rest = line.trim_start_matches(['#', '-', ' ']).strip_prefix(title)?.replace(['.', ';'], " ");
        let words: Vec<String> =
            rest.split_whitespace().map(|word| word.trim_end_matches([',', ':']).to_owned()).collect();
        let at = words.iter().position(|word| ["once", "twice", "times"].contains(&word.as_str()))?;
        match words[at].as_str() {
            "once" => Some(1),
            "twice" => Some(2),
            _ => words[at.checked_sub(1)?].replace(',', "").parse().ok(),
        }
    };
    text.lines().find_map(named)
}

/// The names of the transactions that a text lists: `T1`, `T2` …, at the beginning of a line or a bar.
fn players(text: &str) -> BTreeSet<String> {
    let names = text.lines().filter_map(|line| {
        let mut words = line.trim_start_matches([' ', '|', '+']).split_whitespace();
        let (name, next) = (words.next()?, words.next()?);
        let is_name = name.starts_with('T') && name[1..].parse::<u32>().is_ok();
        (is_name && (next.starts_with('(') || next.contains(':') || line.contains("  ")))
            .then(|| name.to_owned())
    });
    names.collect()
}

fn look(history: &History, judgement: &Judgement) {
    let facts = HistoryFacts::of(history, "h.txt", "plume");
    let subject = Subject {
        history,
        facts: &facts,
        judgement,
        timing: None,
        required: &[],
        declared: false,
        stopped: false,
    };
    let json = anomalist_report::json(&[subject]);
    let verbose = Style { verbose: 1, ..Style::default() };
    let text = anomalist_report::text(&subject, &verbose);
    let markdown = anomalist_report::markdown(&[subject]);
    let runs = vec![Run::of(&subject)];
    let page = anomalist_page::html(&Page { title: "a page".to_owned(), command: None, next: None, runs });
    let cells = cells_of_json(&json);
    assert_eq!(cells_of_text(&text), cells, "{text}");
    assert_eq!(cells_of_text(&anomalist_report::text(&subject, &Style { signs: true, ..verbose })), cells);
    assert_eq!(cells_of_markdown(&markdown), cells, "{markdown}");
    assert_eq!(cells_of_markdown(&anomalist_report::step_summary(&[subject])), cells);
    assert_eq!(cells_of_html(&anomalist_report::ladder_html(&subject)), cells);
    let table = page.split_once("<table>").unwrap().1.split_once("</table>").unwrap().0;
    assert_eq!(cells_of_html(table), cells, "{table}");
    for (entry, anomaly) in json["anomalies"].as_array().unwrap().iter().zip(&judgement.anomalies) {
        let (kind, code) = (entry["kind"].as_str().unwrap(), entry["code"].as_str().unwrap());
        let title =
            if kind.eq_ignore_ascii_case(code) { kind.to_owned() } else { format!("{kind} ({code})") };
        let count = entry["count"].as_u64();
        assert_eq!(count_after(&text, &title), count, "{title}\n{text}");
        assert_eq!(count_after(&markdown, &title.replace('_', "\\_")), count, "{title}\n{markdown}");
        let heading = page.split("<h3>").find(|part| part.starts_with(&format!("{kind} ({code})"))).unwrap();
        let found = heading.split_once(" found</h3>").unwrap().0.rsplit(' ').next().unwrap();
        assert_eq!(found.parse().ok(), count, "{title}");
        example(&subject, anomaly, entry);
    }
}

/// The transactions of an example: by name, everywhere.
fn example(subject: &Subject<'_>, anomaly: &Anomaly, entry: &Value) {
    let transactions = entry["witness"]["transactions"].as_array().unwrap();
    let names: BTreeSet<String> =
        transactions.iter().map(|t| t["alias"].as_str().unwrap().to_owned()).collect();
    if transactions.len() > 16 || !names.iter().all(|name| name.starts_with('T')) {
        return;
    }
    for style in [Style::default(), Style { lanes: true, width: 200, ..Style::default() }] {
        let text = anomalist_report::example_text(subject, anomaly, &style);
        assert_eq!(players(&text), names, "{text}");
    }
    let svg = anomalist_report::svg(subject.history, anomaly);
    let drawn: BTreeSet<String> = svg
        .split("font-weight=\"bold\">")
        .skip(1)
        .filter_map(|rest| rest.split_once("</text>"))
        .map(|(name, _)| name.to_owned())
        .filter(|name| names.contains(name))
        .collect();
    assert_eq!(drawn, names, "{svg}");
}

#[test]
fn all_outputs_of_a_result_agree() {
    let mut found = 0;
    for seed in 0..RESULTS {
        let mut rng = fastrand::Rng::with_seed(seed);
        let shapes = [Shape::default(), Shape::faulty(), Shape::lists(), Shape::timed(), Shape::anything()];
        let history = random::tiny(&mut rng, &shapes[seed as usize % shapes.len()]);
        let indexed = Indexed::new(&history, 1.try_into().unwrap());
        let judgement = check(&indexed, &Request::default(), &Budget::unlimited());
        found += judgement.anomalies.len();
        look(&history, &judgement);
    }
    assert!(found > RESULTS as usize, "only {found} anomalies: the test shows little");
}
