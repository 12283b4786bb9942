//! Append-only files of frames, each with its length and its checksum. What a crash cut off is not a frame.
//! The checksum is of length and bytes: zeros, which a file system may leave where a write was lost, are no
//! frame either.

use super::medium::{How, Medium, Opened};
use std::io;

/// Length and checksum.
const HEAD: usize = 8;

/// A log that is extended.
pub struct FrameLog {
    file: Box<dyn Opened>,
    end: u64,
}

impl FrameLog {
    /// Opens a log, or makes it. Returns its frames, up to the first that is not whole; the rest is cut off.
    pub fn open(medium: &dyn Medium, name: &str) -> io::Result<(FrameLog, Vec<Vec<u8>>)> {
        let file = medium.open(name, How::Any)?;
        let length = file.length()?;
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read(&mut bytes, 0)?;
        let (frames, end) = frames(&bytes);
        if end < length {
            file.cut(end)?;
        }
        Ok((FrameLog { file, end }, frames))
    }

    /// Adds frames, all with one call to the system.
    pub fn append<'a>(&mut self, frames: impl IntoIterator<Item = &'a [u8]>) -> io::Result<()> {
        let mut out = Vec::new();
        for frame in frames {
            let length =
                u32::try_from(frame.len()).map_err(|_| io::Error::other("a frame of more than 4 GiB"))?;
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&checksum(frame));
            out.extend_from_slice(frame);
        }
        self.file.write(&out, self.end)?;
        self.end += out.len() as u64;
        Ok(())
    }

    /// Forces everything so far to disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

fn checksum(frame: &[u8]) -> [u8; 4] {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&(frame.len() as u64).to_le_bytes());
    sum.update(frame);
    sum.finalize().to_le_bytes()
}

/// The whole frames that bytes begin with, and where the last of them ends.
fn frames(bytes: &[u8]) -> (Vec<Vec<u8>>, u64) {
    let (mut frames, mut at) = (Vec::new(), 0);
    while let Some(head) = bytes.get(at..at + HEAD) {
        let mut word = [0; 4];
        word.copy_from_slice(&head[..4]);
        let length = u32::from_le_bytes(word) as usize;
        let Some(frame) = bytes.get(at + HEAD..at + HEAD + length) else { break };
        if head[4..] != checksum(frame) {
            break;
        }
        frames.push(frame.to_vec());
        at += HEAD + length;
    }
    (frames, at as u64)
}

#[cfg(test)]
mod tests {
    use super::super::medium::OnDisk;
    use super::*;
    use anomalist_client::remains::Folder;
    use std::fs;

    #[test]
    fn a_log_ends_with_its_last_whole_frame() {
        let folder = Folder::temporary("log").unwrap();
        let (medium, path) = (OnDisk::open(folder.path()).unwrap(), folder.path().join("log"));
        let open = || FrameLog::open(&*medium, "log").unwrap();
        open().0.append([&b"one"[..], b"", b"three"]).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (mut log, frames) = open();
            assert_eq!(frames.len(), [11, 19, 32].iter().filter(|&&end| end <= cut).count(), "{cut}");
            log.append([&b"more"[..]]).unwrap();
            assert_eq!(open().1.last().map(Vec::as_slice), Some(&b"more"[..]));
        }
    }

    #[test]
    fn a_hole_ends_a_log() {
        let folder = Folder::temporary("hole").unwrap();
        let (medium, path) = (OnDisk::open(folder.path()).unwrap(), folder.path().join("log"));
        let open = || FrameLog::open(&*medium, "log").unwrap();
        open().0.append([&b"first"[..], b"12345678", b"third"]).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[13..29].fill(0);
        fs::write(&path, bytes).unwrap();
        assert_eq!(open().1, [b"first"]);
    }
}
