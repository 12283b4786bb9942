//! How much memory a command may use, and how much it uses.
//!
//! The allocator counts every byte that is allocated and not freed, so the figure is what readers, indexes
//! and engines really hold, whatever they are. Reading and checking poll it; tables that grow faster than
//! the history are asked about before they are allocated. Nothing is refused by the allocator itself: a
//! refusal there would end the process.
//!
//! Unless the user says otherwise the limit is a share of what the machine, the control group (cgroup) and
//! `ulimit -v` leave, as Linux tells; on other systems there is none.

use anomalist_level::Why;
use cap::Cap;
use mimalloc::MiMalloc;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts, and never refuses. What it counts is mimalloc's, which asks Linux for huge pages: page faults were
/// a third of the time of a large check.
#[global_allocator]
static HEAP: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

/// The limit in bytes.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

/// What was held when the limit was first exceeded; 0: it was not. What gave up may have freed it since.
static OVER: AtomicU64 = AtomicU64::new(0);

/// The share of what there is that a command may use, in percent.
const SHARE: u64 = 80;

/// Sets the limit, before a history is read.
pub fn set_limit(asked: Option<usize>) {
    let limit = asked.map(|bytes| bytes as u64).or_else(|| Some(of_machine()? / 100 * SHARE));
    LIMIT.store(limit.unwrap_or(u64::MAX), Relaxed);
    OVER.store(0, Relaxed);
}

/// Bytes that are allocated.
fn held() -> u64 {
    HEAP.allocated() as u64
}

/// True if more than the limit is allocated, or was since it was set.
pub fn is_exceeded() -> bool {
    let held = held();
    if held > LIMIT.load(Relaxed) {
        OVER.fetch_max(held, Relaxed);
    }
    OVER.load(Relaxed) > 0
}

/// Whether so many bytes more may be allocated; if not, what would be needed.
pub fn ask(bytes: u64) -> Result<(), Why> {
    if is_exceeded() {
        return Err(Why::Memory { needed: OVER.load(Relaxed), limit: LIMIT.load(Relaxed) });
    }
    let needed = held().saturating_add(bytes);
    let limit = LIMIT.load(Relaxed);
    if needed <= limit { Ok(()) } else { Err(Why::Memory { needed, limit }) }
}

/// What reading to the end would take, if it goes on as so far: of `size` bytes, `consumed` were read.
pub fn of_reading(size: Option<u64>, consumed: u64) -> Why {
    let (held, limit) = (OVER.load(Relaxed).max(held()), LIMIT.load(Relaxed));
    let whole = size.filter(|&size| size > consumed && consumed > 0);
    let needed = whole.map_or(held, |size| (held as f64 * (size as f64 / consumed as f64)) as u64);
    Why::Memory { needed: needed.max(held), limit }
}

/// What this process may use at most.
fn of_machine() -> Option<u64> {
    let total = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| kilobytes(&text, "MemTotal:"));
    let space = || {
        let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
        let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
        let used = std::fs::read_to_string("/proc/self/status").ok();
        let used = used.and_then(|text| kilobytes(&text, "VmSize:")).unwrap_or(0);
        Some(limit.saturating_sub(used))
    };
    [total, of_group(), space()].into_iter().flatten().min()
}

/// A line of `/proc` such as `MemTotal:  16384 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|n| n * 1024)
}

/// The smallest limit of the control groups that this process is in.
fn of_group() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    groups.lines().filter_map(|line| group_limit(line, Path::new("/sys/fs/cgroup"))).min()
}

/// The limit of a group and of those above it; a line is `0::/path` (version 2) or `N:memory:/path`.
fn group_limit(line: &str, root: &Path) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (base, file) = match controllers {
        "" => (root.to_owned(), "memory.max"),
        _ if controllers.split(',').any(|c| c == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
        _ => return None,
    };
    let folder = base.join(path.trim_start_matches('/'));
    let above = folder.ancestors().take_while(|folder| folder.starts_with(&base)).map(PathBuf::from);
    let limit = |folder: PathBuf| std::fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok();
    above.filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_are_read() {
        assert_eq!(kilobytes("MemTotal:       16384 kB\nMemFree: 1 kB\n", "MemTotal:"), Some(16384 * 1024));
        assert_eq!(kilobytes("", "MemTotal:"), None);
    }

    #[test]
    fn the_smallest_group_above_counts() {
        let root = std::env::temp_dir().join(format!("anomalist-group-{}", std::process::id()));
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/memory.max"), "1000\n").unwrap();
        std::fs::write(root.join("a/b/memory.max"), "max\n").unwrap();
        assert_eq!(group_limit("0::/a/b", &root), Some(1000));
        assert_eq!(group_limit("0::/", &root), None);
        assert_eq!(group_limit("3:cpu:/a", &root), None);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn what_is_allocated_is_counted() {
        set_limit(Some(1 << 40));
        let before = held();
        let block = vec![1u8; 64 << 20];
        assert!(held() >= before + block.len() as u64);
        assert!(ask(u64::MAX).is_err());
    }
}
