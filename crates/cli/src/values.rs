//! Values of flags: formats, durations, and the format that a file name suggests.

use anomalist::Basis;
use anomalist_format::Format;
use anomalist_level::Definitions;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

/// A format by its name.
pub fn format() -> impl TypedValueParser<Value = Format> {
    let names = Format::ALL.iter().map(|format| format.name());
    // Only names of formats pass the list, so the fallback is never taken.
    PossibleValuesParser::new(names).map(|name| Format::from_name(&name).unwrap_or(Format::Anomalist))
}

/// What verdicts rest on.
pub fn basis() -> impl TypedValueParser<Value = Basis> {
    let values = [
        ("values", "What was read and written"),
        ("timestamps", "The database's timestamps as well"),
        ("both", "Each by itself, and where they differ"),
    ];
    let names = values.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(names).map(|name| match name.as_str() {
        "values" => Basis::Values,
        "timestamps" => Basis::Timestamps,
        _ => Basis::Both,
    })
}

/// Whose definitions of the weak levels count, by name.
pub fn definitions() -> impl TypedValueParser<Value = Definitions> {
    // Only these names pass the list, so the fallback is never taken.
    PossibleValuesParser::new(Definitions::ALL.map(Definitions::name))
        .map(|name| Definitions::of(&name).unwrap_or_default())
}

/// `500ms`, `30s`, `2m`, `1h`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit {unit:?}; write 500ms, 30s, 2m or 1h")),
    };
    let number: f64 = number.parse().map_err(|_| "write 500ms, 30s, 2m or 1h".to_owned())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|e| e.to_string())
}

/// `HOST:PORT`, or a port of this machine alone.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let found = text.to_socket_addrs().map_err(|e| format!("{e}; write HOST:PORT or a port"))?.next();
    found.ok_or_else(|| "no such host".to_owned())
}

/// `700MB`, `64k`, `1.5GiB`; a bare number is bytes.
pub fn size(text: &str) -> Result<usize, String> {
    const HOW: &str = "write 700MB, 64kB or 1.5GiB";
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("unknown unit {unit:?}; {HOW}")),
    };
    let number: f64 = number.parse().map_err(|_| HOW.to_owned())?;
    Ok((number * factor) as usize)
}

/// How a file is compressed, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Not at all.
    None,
    /// `.gz`.
    Gzip,
    /// `.zst`.
    Zstd,
}

/// How the name says that a file is compressed, and the name without that.
pub fn compression(path: &Path) -> (Compression, String) {
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    if let Some(rest) = name.strip_suffix(".gz") {
        (Compression::Gzip, rest.to_owned())
    } else if let Some(rest) = name.strip_suffix(".zst") {
        (Compression::Zstd, rest.to_owned())
    } else {
        (Compression::None, name)
    }
}

/// The format that a file name suggests. Timestamps decide between formats that share an extension.
pub fn format_of_name(path: &Path, timestamped: bool) -> Option<Format> {
    let (_, name) = compression(path);
    let (stem, extension) = name.rsplit_once('.')?;
    Some(match extension {
        "anomalist" => Format::Anomalist,
        "json" if timestamped => Format::Timekiller,
        "json" => Format::ElleJson,
        "jsonl" if timestamped || stem.ends_with(".anomalist") => Format::Anomalist,
        "jsonl" => Format::ElleJsonl,
        _ => {
            let suggested = |format: &Format| !format.is_folder() && format.extensions().contains(&extension);
            Format::ALL.iter().copied().find(suggested)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("700MB"), Ok(700_000_000));
        assert_eq!(size("1.5 KiB"), Ok(1536));
        assert_eq!(size("12"), Ok(12));
        assert!(size("").is_err() && size("5 parsecs").is_err());
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        for wrong in ["", "s", "5 parsecs", "1e3s", "99999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_suggest_formats() {
        let of = |name: &str, stamped| format_of_name(Path::new(name), stamped).map(Format::name);
        assert_eq!(of("h.txt.gz", false), Some("plume"));
        assert_eq!(of("a/h.json", false), Some("elle-json"));
        assert_eq!(of("a/h.json.zst", true), Some("timekiller"));
        assert_eq!(of("h.anomalist.jsonl", false), Some("anomalist"));
        assert_eq!(of("h", false), None);
    }
}
