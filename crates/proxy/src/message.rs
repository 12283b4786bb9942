//! Messages of PostgreSQL's protocol, version 3, as bytes: a kind, a length that counts itself, a body.
//! The first message of a connection has no kind.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

/// The longest first message that a server takes.
pub const LONGEST_STARTUP: usize = 10_000;

/// An error of the kind that a broken peer causes.
#[must_use]
pub fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Writes one message.
///
/// # Errors
/// If the writer fails, or the body is longer than a length can say.
pub fn put(writer: &mut impl Write, kind: u8, body: &[u8]) -> io::Result<()> {
    let length = i32::try_from(body.len() + 4).map_err(|_| broken("a message is too long"))?;
    writer.write_all(&[kind])?;
    writer.write_all(&length.to_be_bytes())?;
    writer.write_all(body)
}

/// The kind of the next message and the length of its body; nothing at the end of the stream.
///
/// # Errors
/// If the stream ends within the head, or the length is impossible.
pub fn head(reader: &mut impl Read) -> io::Result<Option<(u8, usize)>> {
    let mut head = [0; 5];
    if reader.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    reader.read_exact(&mut head[1..])?;
    let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    let body = length.checked_sub(4).and_then(|n| usize::try_from(n).ok());
    body.map(|body| Some((head[0], body))).ok_or_else(|| broken("a message has an impossible length"))
}

/// Reads exactly so many bytes. Memory grows with what arrives, not with what the length promises.
///
/// # Errors
/// If the stream ends before.
pub fn read_exactly(reader: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length.min(1 << 16));
    Read::take(reader, length as u64).read_to_end(&mut bytes)?;
    if bytes.len() == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// The first message of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// A wish for encryption, by TLS or GSSAPI: answered by one byte, after which there is another first
    /// message.
    Encryption,
    /// A wish to cancel what another connection runs: its process and its secret.
    Cancel(Vec<u8>),
    /// A session, by version 3 of the protocol.
    Session {
        /// The minor version that the client wants.
        minor: u16,
        /// User, database, settings.
        options: BTreeMap<String, String>,
        /// The whole message, as it came.
        bytes: Vec<u8>,
    },
    /// Another version of the protocol.
    Unknown,
}

/// Reads the first message.
///
/// # Errors
/// If the stream fails, or the message is longer than [`LONGEST_STARTUP`].
pub fn first(reader: &mut impl Read) -> io::Result<First> {
    let mut head = [0; 8];
    reader.read_exact(&mut head)?;
    let length = i32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    let code = i32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    let rest = usize::try_from(i64::from(length) - 8).ok().filter(|&n| n <= LONGEST_STARTUP);
    let body = read_exactly(reader, rest.ok_or_else(|| broken("a first message has an impossible length"))?)?;
    Ok(match code {
        80_877_103 | 80_877_104 => First::Encryption,
        80_877_102 => First::Cancel([&head[..], &body].concat()),
        version if version >> 16 == 3 => {
            let mut words = body.split(|&b| b == 0).map(|w| String::from_utf8_lossy(w).into_owned());
            let mut options = BTreeMap::new();
            while let (Some(name), Some(value)) = (words.next().filter(|n| !n.is_empty()), words.next()) {
                options.insert(name, value);
            }
            First::Session { minor: (version & 0xffff) as u16, options, bytes: [&head[..], &body].concat() }
        }
        _ => First::Unknown,
    })
}

/// Takes a message's body apart.
#[derive(Clone, Copy, Debug)]
pub struct Body<'b> {
    /// What has not been taken yet.
    pub bytes: &'b [u8],
}

impl<'b> Body<'b> {
    /// So many bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn take(&mut self, length: usize) -> io::Result<&'b [u8]> {
        let (taken, rest) =
            self.bytes.split_at_checked(length).ok_or_else(|| broken("a message is too short"))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Bytes up to a zero.
    ///
    /// # Errors
    /// If there is no zero.
    pub fn raw_text(&mut self) -> io::Result<&'b [u8]> {
        let end = self.bytes.iter().position(|&b| b == 0).ok_or_else(|| broken("a text does not end"))?;
        let text = self.take(end)?;
        self.take(1)?;
        Ok(text)
    }

    /// A text up to a zero.
    ///
    /// # Errors
    /// If there is no zero.
    pub fn text(&mut self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(self.raw_text()?).into_owned())
    }

    /// A byte.
    ///
    /// # Errors
    /// If nothing is left.
    pub fn byte(&mut self) -> io::Result<u8> {
        Ok(self.take(1)?[0])
    }

    /// An integer of two bytes.
    ///
    /// # Errors
    /// If fewer are left.
    pub fn short(&mut self) -> io::Result<i16> {
        let b = self.take(2)?;
        Ok(i16::from_be_bytes([b[0], b[1]]))
    }

    /// An integer of four bytes.
    ///
    /// # Errors
    /// If fewer are left.
    pub fn int(&mut self) -> io::Result<i32> {
        let b = self.take(4)?;
        Ok(i32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// A counted list of integers of two bytes: formats.
    ///
    /// # Errors
    /// If fewer are left.
    pub fn shorts(&mut self) -> io::Result<Vec<i16>> {
        let count = self.short()?;
        (0..count).map(|_| self.short()).collect()
    }

    /// Values with their lengths, counted: a row, or the parameters of a statement. `None` is NULL.
    ///
    /// # Errors
    /// If the lengths do not fit.
    pub fn values(&mut self) -> io::Result<Vec<Option<&'b [u8]>>> {
        let count = self.short()?;
        let value = |body: &mut Self| {
            let length = body.int()?;
            usize::try_from(length).ok().map(|n| body.take(n)).transpose()
        };
        (0..count).map(|_| value(self)).collect()
    }
}

/// An error, as a server reports one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// SQLSTATE.
    pub code: String,
    /// What people read.
    pub message: String,
}

impl ServerError {
    /// From the fields of an ErrorResponse.
    #[must_use]
    pub fn of(body: &[u8]) -> Self {
        let field = |wanted: u8| {
            let mut fields = body.split(|&b| b == 0);
            let found = fields.find(|f| f.first() == Some(&wanted));
            found.map(|f| String::from_utf8_lossy(&f[1..]).into_owned()).unwrap_or_default()
        };
        Self { code: field(b'C'), message: field(b'M') }
    }

    /// The fields of an ErrorResponse with this severity.
    #[must_use]
    pub fn fields(&self, severity: &str) -> Vec<u8> {
        let message = self.message.replace('\0', " ");
        format!("S{severity}\0V{severity}\0C{}\0M{message}\0\0", self.code).into_bytes()
    }
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for ServerError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_comes_back() {
        let mut bytes = Vec::new();
        put(&mut bytes, b'Q', b"SELECT 1\0").unwrap();
        let mut reader = bytes.as_slice();
        assert_eq!(head(&mut reader).unwrap(), Some((b'Q', 9)));
        assert_eq!(Body { bytes: reader }.text().unwrap(), "SELECT 1");
        assert_eq!(head(&mut [].as_slice()).unwrap(), None);
        for cut in 1..5 {
            assert!(head(&mut &bytes[..cut]).is_err(), "{cut} bytes of a head");
        }
        assert!(head(&mut [b'Q', 0, 0, 0, 3].as_slice()).is_err());
        assert!(head(&mut [b'Q', 0x80, 0, 0, 0].as_slice()).is_err());
        assert!(read_exactly(&mut [1, 2].as_slice(), usize::MAX).is_err());
    }

    #[test]
    fn first_messages() {
        let message = |code: i32, body: &[u8]| {
            [&(body.len() as i32 + 8).to_be_bytes()[..], &code.to_be_bytes(), body].concat()
        };
        assert_eq!(first(&mut message(80_877_103, b"").as_slice()).unwrap(), First::Encryption);
        let cancel = message(80_877_102, &[0, 0, 0, 1, 0, 0, 0, 2]);
        assert_eq!(first(&mut cancel.as_slice()).unwrap(), First::Cancel(cancel));
        let session = message(3 << 16, b"user\0me\0database\0d\0\0");
        let found = first(&mut session.as_slice()).unwrap();
        let First::Session { minor: 0, options, bytes } = found else { panic!("{found:?}") };
        assert_eq!((options["user"].as_str(), options["database"].as_str()), ("me", "d"));
        assert_eq!(bytes, session);
        assert_eq!(first(&mut message(2 << 16, b"").as_slice()).unwrap(), First::Unknown);
        let long = [&20_000i32.to_be_bytes()[..], &(3i32 << 16).to_be_bytes()].concat();
        assert!(first(&mut long.as_slice()).is_err());
    }

    #[test]
    fn bodies_that_are_too_short_are_errors() {
        let mut body = Body { bytes: &[0, 2, 0, 0, 0, 1, b'a', 0xff, 0xff, 0xff, 0xff] };
        assert_eq!(body.values().unwrap(), [Some(&b"a"[..]), None]);
        assert!(Body { bytes: &[0, 1, 0, 0, 0, 2, b'a'] }.values().is_err());
        assert!(Body { bytes: b"abc" }.text().is_err());
        let error = ServerError { code: "40001".into(), message: "again".into() };
        assert_eq!(ServerError::of(&error.fields("ERROR")), error);
    }
}
