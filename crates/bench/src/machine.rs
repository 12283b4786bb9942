//! What the figures were measured on.

use serde_json::{Value, json};
use std::fs;

/// Processor, cores, memory, system, and how busy it is. What the system does not tell is null.
pub fn describe() -> Value {
    let cpu = field("/proc/cpuinfo", "model name");
    let memory_kib = field("/proc/meminfo", "MemTotal").and_then(|text| kib(&text));
    let load = fs::read_to_string("/proc/loadavg").ok();
    let load: Option<f64> = load.and_then(|text| text.split_whitespace().next()?.parse().ok());
    json!({
        "cpu": cpu,
        "cores": std::thread::available_parallelism().ok().map(std::num::NonZeroUsize::get),
        "memory_mib": memory_kib.map(|k| k / 1024),
        "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        "load_before": load,
    })
}

/// The most memory this process has had, in MiB; only Linux tells.
pub fn peak_mib() -> Option<f64> {
    let peak = kib(&field("/proc/self/status", "VmHWM")?)?;
    Some(peak as f64 / 1024.0)
}

/// The first value of a name in one of Linux's tables.
fn field(table: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(table).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kib(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.trim().parse().ok()
}
