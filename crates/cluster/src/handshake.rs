//! How two processes of a run come to trust one connection.
//!
//! Both know a token. The one that connects says which process it is, what the connection is for, and a
//! random number; the other answers with one of its own and proves that it knows the token, and then the
//! first does. A proof is the HMAC (RFC 2104, SHA-256) of the side, what was said, and both numbers, so it
//! cannot be used again, nor sent back. Nothing after that is encrypted: it is for networks that may be
//! trusted not to change what they carry.

use sha2::{Digest, Sha256};
use std::io::{Error, ErrorKind, Read, Result, Write};

/// The first bytes of a connection.
const MAGIC: &[u8; 24] = b"anomalist cluster, v1\r\n\0";
const NUMBER: usize = 32;

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Timely's messages.
    Data,
    /// Signs of life.
    Pulse,
}

/// Who connects, and what for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    pub from: u32,
    pub to: u32,
    pub purpose: Purpose,
}

impl Hello {
    fn bytes(self) -> [u8; 9] {
        let mut bytes = [0; 9];
        bytes[..4].copy_from_slice(&self.from.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.to.to_le_bytes());
        bytes[8] = u8::from(self.purpose == Purpose::Pulse);
        bytes
    }

    fn read(bytes: &[u8; 9]) -> Hello {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let purpose = if bytes[8] == 0 { Purpose::Data } else { Purpose::Pulse };
        Hello { from: number(0), to: number(4), purpose }
    }
}

fn stranger(what: &str) -> Error {
    Error::new(ErrorKind::PermissionDenied, what)
}

fn random() -> Result<[u8; NUMBER]> {
    let mut number = [0; NUMBER];
    getrandom::fill(&mut number).map_err(|error| Error::other(error.to_string()))?;
    Ok(number)
}

/// What proves that a side knows the token.
fn proof(token: &[u8], side: u8, hello: Hello, numbers: [&[u8; NUMBER]; 2]) -> [u8; 32] {
    const BLOCK: usize = 64;
    let mut key = [0; BLOCK];
    match token.len() <= BLOCK {
        true => key[..token.len()].copy_from_slice(token),
        false => key[..32].copy_from_slice(&Sha256::digest(token)),
    }
    let padded = |pad: u8| key.map(|byte| byte ^ pad);
    let mut inner = Sha256::new();
    inner.update(padded(0x36));
    inner.update([side]);
    inner.update(hello.bytes());
    numbers.into_iter().for_each(|number| inner.update(number));
    let mut outer = Sha256::new();
    outer.update(padded(0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

/// Whether two proofs are the same, in a time that does not say where they differ.
fn is_same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// The side that connected.
pub(crate) fn connect(stream: &mut (impl Read + Write), token: &[u8], hello: Hello) -> Result<()> {
    let mine = random()?;
    let mut first = MAGIC.to_vec();
    first.extend(hello.bytes());
    first.extend(mine);
    stream.write_all(&first)?;
    stream.flush()?;
    let (mut theirs, mut proven) = ([0; NUMBER], [0; 32]);
    stream.read_exact(&mut theirs)?;
    stream.read_exact(&mut proven)?;
    if !is_same(&proven, &proof(token, 1, hello, [&mine, &theirs])) {
        return Err(stranger("it does not know the token"));
    }
    stream.write_all(&proof(token, 0, hello, [&mine, &theirs]))?;
    stream.flush()
}

/// The side that listened: who is it?
pub(crate) fn accept(stream: &mut (impl Read + Write), token: &[u8]) -> Result<Hello> {
    let (mut magic, mut hello, mut theirs) = ([0; MAGIC.len()], [0; 9], [0; NUMBER]);
    stream.read_exact(&mut magic)?;
    if magic != *MAGIC {
        return Err(stranger("it speaks another language"));
    }
    stream.read_exact(&mut hello)?;
    stream.read_exact(&mut theirs)?;
    let (hello, mine) = (Hello::read(&hello), random()?);
    stream.write_all(&[mine, proof(token, 1, hello, [&theirs, &mine])].concat())?;
    stream.flush()?;
    let mut proven = [0; 32];
    stream.read_exact(&mut proven)?;
    match is_same(&proven, &proof(token, 0, hello, [&theirs, &mine])) {
        true => Ok(hello),
        false => Err(stranger("it does not know the token")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::{TcpListener, TcpStream};

    const HELLO: Hello = Hello { from: 1, to: 0, purpose: Purpose::Pulse };

    fn meet(there: &'static [u8], here: &'static [u8]) -> (Result<()>, Result<Hello>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let other =
            std::thread::spawn(move || connect(&mut TcpStream::connect(address).unwrap(), there, HELLO));
        let accepted = accept(&mut listener.accept().unwrap().0, here);
        (other.join().unwrap(), accepted)
    }

    #[test]
    fn who_knows_the_token_is_let_in() {
        let (connected, accepted) = meet(b"secret", b"secret");
        connected.unwrap();
        assert_eq!(accepted.unwrap(), HELLO);
        let long: &[u8] = &[7; 100];
        meet(long, long).1.unwrap();
    }

    #[test]
    fn others_are_not() {
        for (there, here) in [(&b"secret"[..], &b"Secret"[..]), (b"", b"x"), (b"x", b"")] {
            let (connected, accepted) = meet(there, here);
            assert!(connected.is_err() && accepted.is_err());
        }
    }

    #[test]
    fn proofs_depend_on_side_and_token() {
        let zero = [0; NUMBER];
        let one = proof(b"key", 0, HELLO, [&zero, &zero]);
        assert_ne!(one, proof(b"key", 1, HELLO, [&zero, &zero]));
        assert_ne!(one, proof(b"kez", 0, HELLO, [&zero, &zero]));
        assert_ne!(one, proof(b"key", 0, Hello { from: 2, ..HELLO }, [&zero, &zero]));
        assert_ne!(one, proof(b"key", 0, HELLO, [&[1; NUMBER], &zero]));
    }

    #[test]
    fn a_stranger_is_not_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.write_all(&[b'G'; 200]).unwrap();
        let mut met = listener.accept().unwrap().0;
        assert_eq!(accept(&mut met, b"t").unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}
