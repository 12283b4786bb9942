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
//! `ulimit -v` leave, as Linux tells; on other systems there is none. Under `ulimit -v` the figure is the
//! address space that was taken since, stacks included, and where there is little there are fewer threads.
//! What is not in the share is left for tables that grow between two polls (`confined.rs` has the rest).

use crate::exit::Failure;
use crate::{interrupt, system};
use anomalist_level::Why;
use cap::Cap;
use std::alloc::System;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Once, OnceLock};
use std::thread;
use std::time::Duration;

/// Counts, and never refuses.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

/// The limit in bytes, as the user says.
static ASKED: AtomicU64 = AtomicU64::new(u64::MAX);

/// The limit that the machine sets, once it was looked up: that takes longer than a small history.
static OF_MACHINE: OnceLock<u64> = OnceLock::new();

/// What was held when the limit was first exceeded; 0: it was not. What gave up may have freed it since.
static OVER: AtomicU64 = AtomicU64::new(0);

/// The share of what there is that a command may use, in percent.
const SHARE: u64 = 80;

/// Bytes of the file that is being read, and how many of them were read; 0: nothing is being read, or its
/// size is not known.
static READING: (AtomicU64, AtomicU64) = (AtomicU64::new(0), AtomicU64::new(0));

/// Resident memory when the thread last looked, or the address space taken since the limit was set, if that
/// is what is limited; 0: not known.
static RESIDENT: AtomicU64 = AtomicU64::new(0);

/// When the thread looks first: many histories are judged by then.
const FIRST: Duration = Duration::from_millis(20);
/// The address space that was there and taken when the limit was set; none: it is not what is limited.
static SPACE: OnceLock<(u64, u64)> = OnceLock::new();
/// What a thread may take of it: its stack, and blocks of input that it parses.
const SPACE_OF_THREAD: u64 = 8 << 20;
/// How often the thread looks: memory can be taken at some 2 GB per second.
const TICK: Duration = Duration::from_millis(4);
/// A request that is worth looking the limits of the machine up.
const LARGE: u64 = 1 << 20;
/// How far beyond the limit a command may go until it has polled, as a part of the limit, and in bytes.
const POLLED: (u64, u64) = (16, 4 << 20);
/// How far beyond the limit the process may go at all.
const ENDED: (u64, u64) = (6, 16 << 20);

/// Sets the limit, before a history is read, and has it watched.
pub fn set_limit(asked: Option<usize>) {
    ASKED.store(asked.map_or(u64::MAX, |bytes| bytes as u64), Relaxed);
    OVER.store(0, Relaxed);
    keep_freed();
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        if let Some(limit) = system::address_space() {
            let taken = pages().0;
            let left = limit.saturating_sub(taken);
            if share(left) < ASKED.load(Relaxed) {
                _ = SPACE.set((left, taken));
            }
        }
        _ = thread::Builder::new().name("memory".to_owned()).spawn(watch);
    });
}

/// Has the allocator keep freed blocks of up to this size for the next ones, instead of returning them to
/// the system and asking for new pages: pages that are used for the first time cost up to a third of a
/// check. glibc does so once a block of that size was freed; 32 MiB is the most. Elsewhere this does
/// nothing.
fn keep_freed() {
    const MOST: usize = 31 << 20;
    let mut block = Vec::<u8>::new();
    // Where the system refuses so much, nothing is kept.
    _ = block.try_reserve_exact(MOST);
    drop(std::hint::black_box(block));
}

fn limit() -> u64 {
    let space = SPACE.get().map_or(u64::MAX, |&(left, _)| share(left));
    ASKED.load(Relaxed).min(OF_MACHINE.get().copied().unwrap_or(u64::MAX)).min(space)
}

/// What a command may use of so much.
fn share(bytes: u64) -> u64 {
    bytes / 100 * SHARE
}

/// Looks the limit of the machine up, if none was asked for: that one may be above it.
fn look_up() {
    OF_MACHINE.get_or_init(|| {
        let is_asked = ASKED.load(Relaxed) < u64::MAX;
        let machine = if is_asked { None } else { installed().into_iter().chain(of_group()).min() };
        machine.map_or(u64::MAX, share)
    });
}

/// Ends the process once it is far beyond the limit.
fn watch() {
    thread::sleep(FIRST);
    look_up();
    loop {
        look();
        if is_beyond(ENDED) {
            OVER.fetch_max(used().max(RESIDENT.load(Relaxed)), Relaxed);
            interrupt::end_with(&Failure::Memory(None, of_reading()));
        }
        thread::sleep(TICK);
    }
}

/// Looks at what is used.
fn look() {
    let (size, resident) = pages();
    RESIDENT.store(SPACE.get().map_or(resident, |(_, taken)| size.saturating_sub(*taken)), Relaxed);
}

/// How many of so many threads there is room for.
pub fn threads(wanted: NonZeroUsize) -> NonZeroUsize {
    let Some((left, _)) = SPACE.get() else { return wanted };
    // Half of the room is for what is read.
    let most = usize::try_from(left / 2 / SPACE_OF_THREAD).unwrap_or(usize::MAX);
    wanted.min(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN))
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

/// The address space, and resident memory without the program's own code; 0 where the system does not tell.
fn pages() -> (u64, u64) {
    // `/proc/self/statm`: all, resident, shared …, in pages of 4 KiB on all but a few systems.
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = text.split(' ').map(|field| field.parse::<u64>().unwrap_or(0));
    let mut next = || pages.next().unwrap_or(0) << 12;
    let (size, resident, shared) = (next(), next(), next());
    (size, resident.saturating_sub(shared))
}

/// Notes how far reading has come: of `size` bytes, so many were read.
pub fn note_reading(size: Option<u64>, consumed: u64) {
    READING.0.store(size.unwrap_or(0), Relaxed);
    READING.1.store(consumed, Relaxed);
}

/// Bytes that are allocated and, as far as the system tells, used.
fn used() -> u64 {
    let held = HEAP.allocated() as u64;
    match (RESIDENT.load(Relaxed), SPACE.get()) {
        (taken, Some(_)) => held.max(taken),
        (0, None) => held,
        (resident, None) => held.min(resident),
    }
}

/// Bytes that may be used.
#[cfg(feature = "cluster")]
pub fn allowed() -> u64 {
    look_up();
    limit()
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
    // Before the thread has looked, nothing but a large request can be too much.
    if bytes > LARGE {
        look_up();
    }
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

/// The memory of the machine.
fn installed() -> Option<u64> {
    kilobytes(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
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
