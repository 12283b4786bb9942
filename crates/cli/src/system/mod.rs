//! What the standard library has for some systems only: positioned reads and writes, identities of files,
//! sockets in the file system, accounts, limits, processes.
//!
//! The same functions on every system. Where one cannot work it fails and says what it needs.

#[cfg(not(unix))]
mod elsewhere;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub use elsewhere::{
    account, address_space, connect, identity, interrupt, is_abort, listen, parent, read_at, start_apart,
    sync_folder, write_all_at,
};
#[cfg(unix)]
pub use unix::{
    account, address_space, connect, identity, interrupt, is_abort, listen, parent, read_at, start_apart,
    sync_folder, write_all_at,
};

use std::fs::File;
use std::io::{self, Read, Write};

/// A connection in both directions.
pub struct Stream {
    /// What the other side sends.
    pub reader: Box<dyn Read + Send>,
    /// What is sent to it; not if the connection cannot be shared.
    pub writer: io::Result<Box<dyn Write + Send>>,
}

/// Reads from an offset until the buffer is full.
pub fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match read_at(file, buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                buffer = &mut buffer[read..];
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom};

    #[test]
    fn positioned_access_leaves_the_cursor() {
        let path = std::env::temp_dir().join(format!("anomalist-system-{}", std::process::id()));
        let mut file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        write_all_at(&file, b"0123456789", 0).unwrap();
        file.seek(SeekFrom::Start(3)).unwrap();
        let mut buffer = [0; 4];
        read_exact_at(&file, &mut buffer, 6).unwrap();
        assert_eq!(&buffer, b"6789");
        assert_eq!(read_exact_at(&file, &mut buffer, 8).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        write_all_at(&file, b"ab", 8).unwrap();
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "34567ab");
        std::fs::remove_file(&path).unwrap();
    }
}
