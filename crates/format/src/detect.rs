//! Which format is it? The one table of formats, and detection by content.
//!
//! Every module says whether the first 64 KiB could be its own. If several say yes, the file name decides;
//! if it does not say, the first row wins, so the pickier come first.

use crate::write::{HistoryWriter, Sink};
use crate::{Diagnostic, Format, Hint, Input, Loaded, Place, ReadError, ReadOptions, WriteError};
use crate::{anomalist, awdit, cobra, dbcop, elle, plume, timekiller, viper};

/// What every format provides.
pub(crate) struct Module {
    format: Format,
    name: &'static str,
    extensions: &'static [&'static str],
    /// A history is a folder with one file per session.
    folder: bool,
    sniff: fn(&[u8]) -> bool,
    read: fn(Input, &ReadOptions<'_>) -> Result<Loaded, ReadError>,
    writer: fn(Sink, bool) -> Result<Box<dyn HistoryWriter>, WriteError>,
}

const MODULES: &[Module] = &[
    Module {
        format: Format::Plume,
        name: "plume",
        extensions: &["txt"],
        folder: false,
        sniff: plume::sniff,
        read: plume::read,
        writer: plume::writer,
    },
    Module {
        format: Format::Awdit,
        name: "awdit",
        extensions: &["txt"],
        folder: false,
        sniff: awdit::sniff,
        read: awdit::read,
        writer: awdit::writer,
    },
    Module {
        format: Format::Anomalist,
        name: "anomalist",
        extensions: &["jsonl"],
        folder: false,
        sniff: anomalist::sniff,
        read: anomalist::read,
        writer: anomalist::writer,
    },
    Module {
        format: Format::Timekiller,
        name: "timekiller",
        extensions: &["json"],
        folder: false,
        sniff: timekiller::sniff,
        read: timekiller::read,
        writer: timekiller::writer,
    },
    Module {
        format: Format::ElleJsonl,
        name: "elle-jsonl",
        extensions: &["jsonl"],
        folder: false,
        sniff: elle::sniff_jsonl,
        read: elle::read_jsonl,
        writer: elle::write::jsonl,
    },
    Module {
        format: Format::ElleJson,
        name: "elle-json",
        extensions: &["json"],
        folder: false,
        sniff: elle::sniff_json,
        read: elle::read_json,
        writer: elle::write::json,
    },
    Module {
        format: Format::ElleEdn,
        name: "elle-edn",
        extensions: &["edn"],
        folder: false,
        sniff: elle::sniff_edn,
        read: elle::read_edn,
        writer: elle::write::edn,
    },
    Module {
        format: Format::Viper,
        name: "viper",
        extensions: &["log"],
        folder: true,
        sniff: viper::sniff,
        read: viper::read,
        writer: viper::writer,
    },
    Module {
        format: Format::Dbcop,
        name: "dbcop",
        extensions: &["bincode"],
        folder: false,
        sniff: dbcop::sniff,
        read: dbcop::read,
        writer: dbcop::writer,
    },
    Module {
        format: Format::Cobra,
        name: "cobra",
        extensions: &["log"],
        folder: true,
        sniff: cobra::sniff,
        read: cobra::read,
        writer: cobra::writer,
    },
];

const ALL: [Format; MODULES.len()] = {
    let mut all = [Format::Plume; MODULES.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = MODULES[at].format;
        at += 1;
    }
    all
};

impl Format {
    /// All formats.
    pub const ALL: &'static [Format] = &ALL;

    /// The name by which users ask for it.
    pub fn name(self) -> &'static str {
        self.module().map_or("", |module| module.name)
    }

    /// The format of this name.
    ///
    /// ```
    /// use anomalist_format::Format;
    /// assert_eq!(Format::from_name("elle-edn"), Some(Format::ElleEdn));
    /// ```
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.iter().copied().find(|format| format.name() == name)
    }

    /// True if a history in this format is a folder with one file per session.
    pub fn is_folder(self) -> bool {
        self.module().is_some_and(|module| module.folder)
    }

    /// The extensions of file names that suggest this format, without compression's.
    pub fn extensions(self) -> &'static [&'static str] {
        self.module().map_or(&[], |module| module.extensions)
    }

    fn module(self) -> Option<&'static Module> {
        MODULES.iter().find(|module| module.format == self)
    }
}

impl Module {
    pub fn read(&self, input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
        (self.read)(input, options)
    }
}

/// The module of a format.
pub(crate) fn module(format: Format, name: &str) -> Result<&'static Module, ReadError> {
    format.module().ok_or_else(|| {
        let message = format!("the format {} is not supported", format.name());
        ReadError::Malformed(vec![Diagnostic::error(name, Place::File, message)])
    })
}

/// A writer for a format. It refuses what the format cannot express, unless `lossy`.
pub(crate) fn writer(format: Format, sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    let module = format.module().ok_or(WriteError::Unsupported(format))?;
    (module.writer)(sink, lossy)
}

/// Skips the byte order mark that some editors put before a text.
pub(crate) fn skip_mark(input: &mut Input, format: Option<Format>) -> Result<(), ReadError> {
    const MARK: &[u8] = b"\xEF\xBB\xBF";
    if input.is_folder() || format == Some(Format::Dbcop) {
        return Ok(());
    }
    let head = input.peek()?;
    if head.starts_with(MARK) && !dbcop::sniff(head) {
        input.skip(MARK.len());
    }
    Ok(())
}

/// Refuses an input that begins with nothing but NULs, such as `/dev/zero`. Binary formats have NULs among
/// their numbers, and other bytes as well.
pub(crate) fn refuse_blank(input: &mut Input) -> Result<(), ReadError> {
    if input.is_folder() {
        return Ok(());
    }
    let name = input.name().to_owned();
    let head = input.peek()?;
    if head.is_empty() || head.iter().any(|&byte| byte != 0) {
        Ok(())
    } else {
        Err(unrecognised(&name, head))
    }
}

/// The format that the content shows. A folder shows that of its logs.
pub(crate) fn detect(input: &mut Input) -> Result<Format, ReadError> {
    if input.is_folder() {
        return detect_folder(input);
    }
    let name = input.name().to_owned();
    let head = input.peek()?;
    choose(head, &name, |_| true).ok_or_else(|| unrecognised(&name, head))
}

fn detect_folder(input: &Input) -> Result<Format, ReadError> {
    let mut shown: Option<(String, Vec<u8>)> = None;
    for mut log in input.logs()? {
        let name = log.name().to_owned();
        let head = log.peek()?;
        // A session may have done nothing: its log is empty.
        if let Some(format) = choose(head, &name, Format::is_folder) {
            return Ok(format);
        }
        if !head.is_empty() {
            shown.get_or_insert_with(|| (name, head.to_vec()));
        }
    }
    let (name, head) = shown.unwrap_or_else(|| (input.name().to_owned(), Vec::new()));
    Err(unrecognised(&name, &head))
}

fn choose(head: &[u8], name: &str, allowed: impl Fn(Format) -> bool) -> Option<Format> {
    let name = name.trim_end_matches(".zst").trim_end_matches(".gz");
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let mut fitting = MODULES.iter().filter(|m| allowed(m.format) && (m.sniff)(head)).map(|m| m.format);
    let first = fitting.next()?;
    let by_name = |format: &Format| format.extensions().contains(&extension);
    Some(std::iter::once(first).chain(fitting).find(by_name).unwrap_or(first))
}

fn unrecognised(name: &str, head: &[u8]) -> ReadError {
    if head.is_empty() {
        let message = "no transaction: the input is empty";
        return ReadError::Malformed(vec![Diagnostic::error(name, Place::File, message)]);
    }
    if head.get(257..262) == Some(b"ustar") {
        let error = Diagnostic::error(name, Place::File, "this is a tar archive");
        return ReadError::Malformed(vec![error.help("unpack it and name the folder")]);
    }
    let shown = &head[..head.len().min(24)];
    let (place, what) = match memchr::memchr(0, head) {
        Some(at) => (Place::Byte(at as u64), "a NUL byte: no text, and no binary format that is read"),
        None => (Place::File, "unknown format"),
    };
    let message = format!("{what}; the input begins with \"{}\"", shown.escape_ascii());
    let names: Vec<&str> = Format::ALL.iter().map(|f| f.name()).collect();
    let help = format!("the formats are {}", names.join(", "));
    ReadError::Malformed(vec![Diagnostic::error(name, place, message).help(help).hint(Hint::Format)])
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn every_format_has_a_row() {
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Some(*format));
        }
    }
}
