//! What the tests of formats share: random numbers, histories as comparable text, writing to memory or a
//! folder.
#![allow(dead_code, clippy::unwrap_used)]

use anomalist_format::{Format, Input, Loaded, ReadError, ReadOptions, Sink, WriteError};
use anomalist_history::{Builder, History, OpKind, Outcome, Value};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Formats of registers over numbers.
pub const FORMATS: [Format; 5] = [Format::Plume, Format::Awdit, Format::Dbcop, Format::Cobra, Format::Viper];

/// xorshift64*.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }
}

/// A sink whose bytes can be had back.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A folder of this test's own.
pub fn fresh_folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("folder-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes batches and reads the result back.
pub fn through(format: Format, batches: &[&History], lossy: bool) -> Result<Loaded, WriteError> {
    let folder = format.is_folder().then(fresh_folder);
    let memory = Memory::default();
    let sink = match &folder {
        Some(folder) => Sink::Directory(folder.clone()),
        None => Sink::Stream(Box::new(memory.clone())),
    };
    let mut writer = anomalist_format::writer(format, sink, lossy)?;
    for batch in batches {
        writer.append(batch)?;
    }
    writer.finish()?;
    let input = match &folder {
        Some(folder) => Input::open(folder).unwrap(),
        None => Input::from_bytes("written", memory.bytes()),
    };
    let loaded = anomalist_format::read(input, &ReadOptions::default()).unwrap();
    assert_eq!(loaded.format, format);
    if let Some(folder) = folder {
        std::fs::remove_dir_all(folder).unwrap();
    }
    Ok(loaded)
}

/// A history as text: per session its transactions, then initial values of the keys that occur.
pub fn model(h: &History) -> String {
    let mut text = String::new();
    for s in h.sessions() {
        text += "session\n";
        for t in h.session_txns(s) {
            text += &format!("  {:?}", h.outcome(t));
            for (_, op) in h.ops(t) {
                text += &format!(" {:?} {}={}", op.kind, h.show_key(op.key), h.show(op.value));
            }
            text.push('\n');
        }
    }
    let mut keys: Vec<String> = h
        .keys()
        .map(|k| format!("{} {:?}", h.show_key(k), h.initial().of(k).map(|v| h.show(v).to_string())))
        .collect();
    keys.sort();
    text + &keys.join("\n")
}

/// What a random history may contain.
pub struct Allowed {
    pub aborted: bool,
    pub empty: bool,
    pub negative: bool,
    pub initial: Option<Value>,
}

/// A random history; the first transaction never looks like the loading of initial values.
pub fn random_history(random: &mut Random, allowed: &Allowed) -> History {
    let mut b = Builder::new();
    b.set_initial_default(allowed.initial);
    let sessions = 1 + random.below(4);
    let large: i64 = if random.below(3) == 0 { i64::MAX - 100 } else { 0 };
    for _ in 0..1 + random.below(12) {
        let label = b.int(random.below(sessions) as i64);
        let session = b.session(label);
        let draft = b.transaction(session);
        let aborted = allowed.aborted && random.below(4) == 0;
        let least = usize::from(!allowed.empty);
        for _ in 0..least + random.below(4) {
            let sign = if allowed.negative && random.below(2) == 0 { -1 } else { 1 };
            let key = b.int(sign * (large + random.below(5) as i64));
            let key = b.key(key);
            let value = b.int(sign * (large + 1 + random.below(20) as i64));
            match allowed.initial {
                Some(initial) if random.below(4) == 0 => b.op(draft, OpKind::Read, key, initial),
                _ if random.below(2) == 0 => b.op(draft, OpKind::Write, key, value),
                _ => b.op(draft, OpKind::Read, key, value),
            }
        }
        if aborted {
            b.set_outcome(draft, Outcome::Aborted);
        }
    }
    b.finish().unwrap()
}

/// Reads bytes as a format.
pub fn read(format: Option<Format>, bytes: &[u8], lossy: bool) -> Result<Loaded, ReadError> {
    let options = ReadOptions { format, lossy, ..ReadOptions::default() };
    anomalist_format::read(Input::from_bytes("h", bytes.to_vec()), &options)
}

/// Reads text that must be good.
pub fn good(format: Format, text: &[u8]) -> Loaded {
    read(Some(format), text, false).unwrap_or_else(|e| panic!("{e}"))
}

/// The message about bytes that must be bad.
pub fn bad(format: Format, bytes: &[u8]) -> String {
    match read(Some(format), bytes, false) {
        Ok(loaded) => panic!("accepted: {}", model(&loaded.history)),
        Err(error) => error.to_string(),
    }
}
