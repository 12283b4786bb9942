//! How much memory a command may use, and how much it uses.
//!
//! The allocator counts every byte that is allocated and not freed, so the figure is what readers, indexes
//! and engines really hold, whatever they are; room that was reserved and not used does not count where
//! Linux tells what is resident. Reading and checking poll the figure; tables that grow faster than
//! the history are asked about before they are allocated. Nothing is refused by the allocator itself: a
//! refusal there would end the process.
//!
//! Steps that do not poll (completing a history, statistics, verifying, writing) are watched by a thread: it
//! looks every few milliseconds. When resident memory is far beyond the limit, it says what would be needed
//! and ends the process. So resident memory stays below 1.3 times the limit and 50 MB, whatever a command
//! does, and no hot loop pays for it.
//!
//! Unless the user says otherwise the limit is a share of what the machine, the control group (cgroup) and
//! `ulimit -v` leave, as Linux tells; on other systems there is none.

use crate::exit::Failure;
use crate::interrupt;
use anomalist_level::Why;
use cap::Cap;
use std::alloc::System;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Counts, and never refuses.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

/// The limit in bytes, as the user says.
static ASKED: AtomicU64 = AtomicU64::new(u64::MAX);

/// The limit that the machine sets, once the thread has found it.
static OF_MACHINE: AtomicU64 = AtomicU64::new(u64::MAX);

/// What was held when the limit was first exceeded; 0: it was not. What gave up may have freed it since.
static OVER: AtomicU64 = AtomicU64::new(0);

/// The share of what there is that a command may use, in percent.
const SHARE: u64 = 80;

/// Bytes of the file that is being read, and how many of them were read; 0: nothing is being read, or its
/// size is not known.
static READING: (AtomicU64, AtomicU64) = (AtomicU64::new(0), AtomicU64::new(0));

/// Resident memory when the thread last looked; 0: not known, or not what is limited.
static RESIDENT: AtomicU64 = AtomicU64::new(0);

/// How often the thread looks: memory can be taken at some 2 GB per second.
const TICK: Duration = Duration::from_millis(4);
/// How far beyond the limit a command may go until it has polled, as a part of the limit, and in bytes.
const POLLED: (u64, u64) = (16, 4 << 20);
/// How far beyond the limit the process may go at all.
const ENDED: (u64, u64) = (6, 16 << 20);

/// Sets the limit, before a history is read, and has it watched.
pub fn set_limit(asked: Option<usize>) {
    ASKED.store(asked.map_or(u64::MAX, |bytes| bytes as u64), Relaxed);
    OVER.store(0, Relaxed);
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        _ = thread::Builder::new().name("memory".to_owned()).spawn(move || watch(asked.is_some()));
    });
}

fn limit() -> u64 {
    ASKED.load(Relaxed).min(OF_MACHINE.load(Relaxed))
}

/// Finds the limit of the machine, which takes longer than a small history, and ends the process once it is
/// far beyond the limit.
fn watch(is_asked: bool) {
    let share = |bytes: u64| bytes / 100 * SHARE;
    let space = address_space().map_or(u64::MAX, share);
    let machine = if is_asked { u64::MAX } else { of_machine().map_or(u64::MAX, share) };
    OF_MACHINE.store(space.min(machine), Relaxed);
    // What is reserved takes address space, whether it is used or not.
    let is_space = space < ASKED.load(Relaxed).min(machine);
    loop {
        if !is_space {
            RESIDENT.store(resident(), Relaxed);
        }
        if is_beyond(ENDED) {
            OVER.fetch_max(used().max(RESIDENT.load(Relaxed)), Relaxed);
            interrupt::end_with(&Failure::Memory(None, of_reading()));
        }
        thread::sleep(TICK);
    }
}

/// True if a step that does not poll has taken so much that an answer must not wait for its end.
pub fn is_pressing() -> bool {
    is_beyond(POLLED)
}

fn is_beyond((part, bytes): (u64, u64)) -> bool {
    let limit = limit();
    let most = limit.saturating_add(limit / part).saturating_add(bytes);
    // What was freed may stay resident.
    used().max(RESIDENT.load(Relaxed)) > most
}

/// Resident memory without the program's own code; 0 where the system does not tell.
fn resident() -> u64 {
    // `/proc/self/statm`: all, resident, shared …, in pages of 4 KiB on all but a few systems.
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = text.split(' ').skip(1).map(|field| field.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    resident.saturating_sub(shared) << 12
}

/// Notes how far reading has come: of `size` bytes, so many were read.
pub fn note_reading(size: Option<u64>, consumed: u64) {
    READING.0.store(size.unwrap_or(0), Relaxed);
    READING.1.store(consumed, Relaxed);
}

/// Bytes that are allocated and, as far as the system tells, used.
fn used() -> u64 {
    let held = HEAP.allocated() as u64;
    match RESIDENT.load(Relaxed) {
        0 => held,
        resident => held.min(resident),
    }
}

/// Bytes that may be used. Before the limit of the machine is found, as much as it leaves.
pub fn allowed() -> u64 {
    let machine = || of_machine().map_or(u64::MAX, |bytes| bytes / 100 * SHARE);
    match limit() {
        u64::MAX => machine(),
        limit => limit,
    }
}

/// Bytes that are allocated, for a command that keeps within its limit by itself.
pub fn allocated() -> usize {
    HEAP.allocated()
}

/// True if more than the limit is used, or was since it was set.
pub fn is_exceeded() -> bool {
    let used = used();
    if used > limit() {
        OVER.fetch_max(used, Relaxed);
    }
    OVER.load(Relaxed) > 0
}

/// Whether so many bytes more may be allocated; if not, what would be needed.
pub fn ask(bytes: u64) -> Result<(), Why> {
    if is_exceeded() {
        return Err(Why::Memory { needed: OVER.load(Relaxed), limit: limit() });
    }
    let needed = used().saturating_add(bytes);
    let limit = limit();
    if needed <= limit { Ok(()) } else { Err(Why::Memory { needed, limit }) }
}

/// What would be needed: to read to the end, if it goes on as so far, or at least what is used.
pub fn of_reading() -> Why {
    let (used, limit) = (OVER.load(Relaxed).max(used()), limit());
    let (size, consumed) = (READING.0.load(Relaxed), READING.1.load(Relaxed));
    let whole = (consumed > 0 && size > consumed).then(|| used as f64 * (size as f64 / consumed as f64));
    Why::Memory { needed: whole.map_or(used, |whole| whole as u64), limit }
}

/// What this process may use at most.
fn of_machine() -> Option<u64> {
    let total = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| kilobytes(&text, "MemTotal:"));
    [total, of_group()].into_iter().flatten().min()
}

/// What `ulimit -v` leaves.
fn address_space() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    let used = std::fs::read_to_string("/proc/self/status").ok();
    let used = used.and_then(|text| kilobytes(&text, "VmSize:")).unwrap_or(0);
    Some(limit.saturating_sub(used))
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
        let before = HEAP.allocated();
        let block = vec![1u8; 64 << 20];
        // The thread that watches allocates and frees a little meanwhile.
        assert!(HEAP.allocated() >= before + block.len() / 2);
        assert!(ask(u64::MAX).is_err());
    }
}
