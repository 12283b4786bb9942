//! What the unit tests of formats share.

use crate::write::{HistoryWriter, Sink, in_position_order};
use crate::{Format, Input, Loaded, ReadError, ReadOptions, WriteError};
use anomalist_history::History;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Arc, Mutex};

/// Reads a text in a given format.
pub(crate) fn read_bytes(
    name: &str,
    text: &[u8],
    format: Format,
    options: &ReadOptions<'_>,
) -> Result<Loaded, ReadError> {
    let options = ReadOptions { format: Some(format), ..options.clone() };
    crate::read(Input::from_bytes(name, text.to_vec()), &options)
}

/// A stream whose content can be looked at.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a writer makes of histories appended one after another.
pub(crate) fn written(
    make: impl FnOnce(Sink) -> Result<Box<dyn HistoryWriter>, WriteError>,
    histories: &[&History],
) -> Result<String, WriteError> {
    let shared = Shared::default();
    let mut writer = make(Sink::Stream(Box::new(shared.clone())))?;
    for history in histories {
        writer.append(history)?;
    }
    writer.finish()?;
    let bytes = shared.0.lock().unwrap().clone();
    Ok(String::from_utf8(bytes).unwrap())
}

/// Everything in a history, one transaction per line in input order.
pub(crate) fn describe(h: &History, labels: bool) -> String {
    let mut out = String::new();
    for t in in_position_order(h) {
        let _ = write!(out, "{}", h.show(h.session_label(h.session_of(t))));
        if labels && let Some(label) = h.txn_label(t) {
            let _ = write!(out, " #{}", h.show(label));
        }
        let _ = write!(out, " {}", ["ok", "fail", "info"][h.outcome(t) as usize]);
        for (id, o) in h.ops(t) {
            let kind = ["r", "w", "a"][o.kind as usize];
            let initial = if h.initial().of(o.key) == Some(o.value) { "*" } else { "" };
            let _ = write!(out, " {kind}({},{}{initial})", h.show_key(o.key), h.show(o.value));
            if let Some(number) = h.version(id) {
                let _ = write!(out, "@{number}");
            }
        }
        if let Some(s) = h.stamps() {
            let s = s[t.index()];
            let _ = write!(
                out,
                " <{}.{}-{}.{}>",
                s.start.physical, s.start.logical, s.commit.physical, s.commit.logical
            );
        }
        if let Some(set) = h.snapshot(t) {
            let _ = write!(out, " {set}");
        }
        if let Some(id) = h.snapshot_id(t) {
            let _ = write!(out, " ={id}");
        }
        if let Some(i) = h.intervals() {
            let i = i[t.index()];
            let _ = write!(out, " [{}-{}]", i.invoked, i.completed.map_or("?".into(), |c| c.to_string()));
        }
        if let Some(m) = h.metadata().get(&t) {
            let _ = write!(out, " {m:?}");
        }
        out.push('\n');
    }
    out
}

/// A small generator of random numbers.
pub(crate) struct Xorshift(pub u64);

impl Xorshift {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

type Read<'r> = &'r dyn Fn(&[u8], bool) -> Result<Loaded, ReadError>;

/// Every prefix, changed copies of a file, and noise all end with a history or a diagnostic that can be
/// shown.
pub(crate) fn survives(text: &[u8], read: Read<'_>) {
    let check = |text: &[u8]| {
        for lossy in [false, true] {
            match read(text, lossy) {
                Ok(loaded) => assert!(loaded.history.txn_count() > 0),
                Err(error) => assert!(
                    error.to_string().starts_with("error: ") || error.to_string().contains("error: "),
                    "{error}"
                ),
            }
        }
    };
    for end in 0..=text.len() {
        check(&text[..end]);
    }
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    for _ in 0..3000 {
        let mut changed = text.to_vec();
        for _ in 0..=random.below(4) {
            let (i, j) = (random.below(changed.len()), random.below(changed.len()));
            match random.below(5) {
                0 => changed[i] = random.below(256) as u8,
                1 => changed[i] = b"[]{}(),:\"\\#_;-0n\n"[random.below(17)],
                2 => {
                    changed.remove(i);
                }
                3 => changed.swap(i, j),
                _ => changed.insert(i, b"[]{}(),:\"\\#_;-0n\n"[random.below(17)]),
            }
            if changed.is_empty() {
                changed.push(b'[');
            }
        }
        check(&changed);
    }
    for _ in 0..1000 {
        let noise: Vec<u8> = (0..random.below(60)).map(|_| random.below(256) as u8).collect();
        check(&noise);
    }
}

/// The open corpus: id, format, path, text, sessions, transactions, operations of every case in formats of
/// this name.
pub(crate) fn corpus(format: &str) -> Vec<(String, Vec<u8>, [usize; 3])> {
    let Some(root) = anomalist_testkit::skip::corpus() else { return Vec::new() };
    let index = std::fs::read_to_string(root.join("INDEX.tsv")).unwrap();
    let rows = index.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    rows.filter(|row| row[2] == format)
        .map(|row| {
            let mut bytes = std::fs::read(root.join(row[1])).unwrap();
            if row[1].ends_with(".zst") {
                bytes = zstd::decode_all(&bytes[..]).unwrap();
            }
            (row[0].to_owned(), bytes, [6, 7, 8].map(|i| row[i].parse().unwrap_or(0)))
        })
        .collect()
}
