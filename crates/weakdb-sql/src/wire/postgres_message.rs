//! PostgreSQL's messages: written with their length, taken apart field by field.

use super::broken;
use crate::SqlError;
use std::io::{self, Write};

pub(super) fn message(writer: &mut impl Write, kind: u8, body: &[u8]) -> io::Result<()> {
    let length = i32::try_from(body.len() + 4).map_err(|_| broken("an answer is too long"))?;
    writer.write_all(&[kind])?;
    writer.write_all(&length.to_be_bytes())?;
    writer.write_all(body)
}

pub(super) fn error_fields(error: &SqlError) -> Vec<u8> {
    let severity = if error.is_fatal() { "FATAL" } else { "ERROR" };
    let mut fields = format!(
        "S{severity}\0V{severity}\0C{}\0M{}\0",
        error.code.sqlstate(),
        error.message.replace('\0', " ")
    );
    if let Some(name) = &error.constraint {
        fields += &format!("n{name}\0");
    }
    fields.push('\0');
    fields.into_bytes()
}

/// Takes a message's body apart.
pub(super) struct Body<'b> {
    pub(super) bytes: &'b [u8],
}

impl<'b> Body<'b> {
    pub(super) fn take(&mut self, length: usize) -> io::Result<&'b [u8]> {
        if self.bytes.len() < length {
            return Err(broken("a message is too short"));
        }
        let (taken, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Ok(taken)
    }

    pub(super) fn text(&mut self) -> io::Result<String> {
        let end = self.bytes.iter().position(|&b| b == 0).ok_or_else(|| broken("a text does not end"))?;
        let text = String::from_utf8_lossy(&self.bytes[..end]).into_owned();
        self.bytes = &self.bytes[end + 1..];
        Ok(text)
    }

    pub(super) fn byte(&mut self) -> io::Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn short(&mut self) -> io::Result<i16> {
        let b = self.take(2)?;
        Ok(i16::from_be_bytes([b[0], b[1]]))
    }

    pub(super) fn int(&mut self) -> io::Result<i32> {
        let b = self.take(4)?;
        Ok(i32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// A counted list of formats.
    pub(super) fn shorts(&mut self) -> io::Result<Vec<i16>> {
        let count = self.short()?;
        (0..count).map(|_| self.short()).collect()
    }
}

pub(super) fn format_of(formats: &[i16], at: usize) -> i16 {
    match formats {
        [] => 0,
        [one] => *one,
        several => several.get(at).copied().unwrap_or(0),
    }
}
