//! The sources of a watch: the lines of a random history, with repetitions and garbage between them.

use anomalist_cli::commands::watch::NAMED;
use anomalist_cli::commands::watch::engine::STANDARD_INPUT;
use anomalist_format::{Format, Sink};
use anomalist_history::History;
use anomalist_testkit::random::StampedShape;
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A source of lines.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name, as the engine knows it.
    pub name: String,
    /// Its lines, each with its end.
    pub lines: Vec<Vec<u8>>,
    /// Those, from 0, that cannot be used, and those that repeat a transaction.
    pub bad: BTreeSet<usize>,
}

/// The source that can be read again.
pub const FILE: &str = "stream.jsonl";

/// A shape of histories.
pub fn shape(mut rng: Rng) -> StampedShape {
    let base =
        StampedShape { txns: 12, clock: [6, 15, 40][rng.usize(..3)], wrong: 0.08, ..StampedShape::default() };
    match rng.u8(..8) {
        0 => StampedShape { lists: 1.0, ..base },
        1 => StampedShape { lists: 0.5, mixed: 0.2, repeated: 0.2, ..base },
        2 => StampedShape { skewed: 0.2, ..base },
        3 => StampedShape { sets: 0.5, ..base },
        4 => StampedShape { lost: 0.4, ..base },
        5 => StampedShape { numbered: 0.9, ..base },
        6 => StampedShape { points: 0.6, initial: 0.2, ..base },
        _ => base,
    }
}

/// The lines of a history, in Anomalist's own format; each transaction has an id.
fn lines(history: &History) -> Vec<String> {
    #[derive(Clone, Default)]
    struct Bytes(Arc<Mutex<Vec<u8>>>);
    impl Write for Bytes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let bytes = Bytes::default();
    let written = anomalist_format::writer(Format::Anomalist, Sink::Stream(Box::new(bytes.clone())), false)
        .and_then(|mut writer| writer.append(history).and_then(|()| writer.finish()));
    written.unwrap_or_else(|error| panic!("{error}"));
    let bytes = std::mem::take(&mut *bytes.0.lock().unwrap_or_else(PoisonError::into_inner));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let named =
        |(n, line): (usize, &str)| line.replacen(",\"ops\":", &format!(",\"id\":{n},\"ops\":"), 1) + "\n";
    text.lines().enumerate().map(named).collect()
}

/// The lines of a history, each session's in one of the sources, with repetitions and garbage between them.
pub fn sources(rng: &mut Rng, history: &History) -> Vec<Source> {
    let names = [FILE.to_owned(), format!("{NAMED}a"), format!("{NAMED}b"), STANDARD_INPUT.to_owned()];
    let mut all = lines(history);
    let header = all.remove(0);
    let mut sources: Vec<Source> = names
        .into_iter()
        .filter(|_| rng.u8(..3) > 0)
        .map(|name| Source { name, lines: vec![header.clone().into_bytes()], bad: BTreeSet::new() })
        .collect();
    if sources.is_empty() {
        let lines = vec![header.into_bytes()];
        sources.push(Source { name: FILE.to_owned(), lines, bad: BTreeSet::new() });
    }
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for line in all {
        let session = line.split(',').next().unwrap_or_default().to_owned();
        let place = *places.entry(session).or_insert_with(|| rng.usize(..sources.len()));
        let source = &mut sources[place];
        source.lines.push(line.into_bytes());
        while rng.u8(..6) == 0 {
            let bad = match rng.u8(..3) {
                0 => source.lines[rng.usize(1..source.lines.len())].clone(),
                _ => garbage(rng, &source.lines),
            };
            source.bad.insert(source.lines.len());
            source.lines.push(bad);
        }
    }
    sources
}

/// A line that is no transaction.
fn garbage(rng: &mut Rng, lines: &[Vec<u8>]) -> Vec<u8> {
    let line = &lines[rng.usize(..lines.len())];
    let mut bad = match rng.u8(..5) {
        0 => line[..rng.usize(1..line.len() - 1)].to_vec(),
        1 => (0..rng.usize(1..40)).map(|_| rng.u8(..).max(b'!')).collect(),
        2 => br#"{"session":9,"id":"u","ops":[["w",1,5]]}"#.to_vec(),
        3 => [&line[..line.len() - 1], b"}"].concat(),
        _ => b"\0\xff{{{".to_vec(),
    };
    bad.retain(|&b| b != b'\n');
    // Not a line that has only an end.
    bad.push(b'?');
    bad.push(b'\n');
    bad
}
