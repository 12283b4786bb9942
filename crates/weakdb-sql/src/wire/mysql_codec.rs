//! Values, columns and numbers in MySQL's protocol.

use super::broken;
use crate::{ResultColumn, Type, time};
use anomalist_sqltext::Dialect;
use anomalist_weakdb::Value;
use std::io;

/// Takes a packet apart.
pub struct Packet<'p> {
    bytes: &'p [u8],
}

impl<'p> Packet<'p> {
    /// A packet's body.
    pub fn new(bytes: &'p [u8]) -> Self {
        Self { bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn rest(&mut self) -> &'p [u8] {
        std::mem::take(&mut self.bytes)
    }

    pub fn take(&mut self, length: usize) -> io::Result<&'p [u8]> {
        if self.bytes.len() < length {
            return Err(broken("a packet is too short"));
        }
        let (taken, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Ok(taken)
    }

    pub fn u8(&mut self) -> io::Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub fn u16(&mut self) -> io::Result<u16> {
        self.number(2).map(|n| n as u16)
    }

    pub fn u32(&mut self) -> io::Result<u32> {
        self.number(4).map(|n| n as u32)
    }

    /// An integer, the least byte first.
    fn number(&mut self, length: usize) -> io::Result<u64> {
        Ok(self.take(length)?.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)))
    }

    /// An integer that says its own length.
    fn length(&mut self) -> io::Result<u64> {
        match self.u8()? {
            0xfc => self.number(2),
            0xfd => self.number(3),
            0xfe => self.number(8),
            small => Ok(u64::from(small)),
        }
    }

    /// A text up to its zero, or to the end.
    pub fn text(&mut self) -> io::Result<String> {
        let end = self.bytes.iter().position(|&b| b == 0).unwrap_or(self.bytes.len());
        let text = String::from_utf8_lossy(&self.bytes[..end]).into_owned();
        self.bytes = self.bytes.get(end + 1..).unwrap_or_default();
        Ok(text)
    }
}

/// Writes an integer that says its own length.
pub fn put_length(body: &mut Vec<u8>, length: u64) {
    match length {
        0..=250 => body.push(length as u8),
        251..=0xffff => {
            body.push(0xfc);
            body.extend(&length.to_le_bytes()[..2]);
        }
        0x1_0000..=0xff_ffff => {
            body.push(0xfd);
            body.extend(&length.to_le_bytes()[..3]);
        }
        _ => {
            body.push(0xfe);
            body.extend(length.to_le_bytes());
        }
    }
}

fn put_bytes(body: &mut Vec<u8>, bytes: &[u8]) {
    put_length(body, bytes.len() as u64);
    body.extend(bytes);
}

/// A column of a result.
#[derive(Clone)]
pub struct Column {
    name: String,
    table: String,
    kind: Type,
}

impl Column {
    pub fn new(name: &str, kind: Type) -> Self {
        Self { name: name.to_owned(), table: String::new(), kind }
    }

    /// Number, character set, shown length, flags, decimals.
    fn row(&self) -> (u8, u16, u32, u16, u8) {
        const BINARY: u16 = 63;
        const UTF8: u16 = 45;
        match self.kind {
            Type::Bool => (1, BINARY, 1, 0x8000, 0),
            Type::Int1 => (1, BINARY, 4, 0x8000, 0),
            Type::Int2 => (2, BINARY, 6, 0x8000, 0),
            Type::Int4 => (3, BINARY, 11, 0x8000, 0),
            Type::Int8 | Type::Oid => (8, BINARY, 20, 0x8000, 0),
            Type::Float4 => (4, BINARY, 12, 0x8000, 31),
            Type::Float8 => (5, BINARY, 22, 0x8000, 31),
            Type::Numeric(scale) => (246, BINARY, 67, 0x8000, scale.unwrap_or(10)),
            Type::Date => (10, BINARY, 10, 0x80, 0),
            Type::Time => (11, BINARY, 10, 0x80, 0),
            Type::Timestamp | Type::TimestampTz => (12, BINARY, 26, 0x80, 6),
            Type::Bytes => (252, BINARY, 65_535, 0x90, 0),
            Type::Text | Type::Json => (252, UTF8, 262_140, 0x10, 0),
            Type::Varchar(Some(n)) | Type::Char(n) => (253, UTF8, n.saturating_mul(4), 0, 0),
            _ => (253, UTF8, 1024, 0, 0),
        }
    }

    /// The packet that describes it.
    pub fn definition(&self) -> Vec<u8> {
        let (kind, charset, length, flags, decimals) = self.row();
        let mut body = Vec::new();
        for text in ["def", "weakdb", &self.table, &self.table, &self.name, &self.name] {
            put_bytes(&mut body, text.as_bytes());
        }
        body.push(0x0c);
        body.extend(charset.to_le_bytes());
        body.extend(length.to_le_bytes());
        body.push(kind);
        body.extend(flags.to_le_bytes());
        body.push(decimals);
        body.extend([0, 0]);
        body
    }
}

/// The columns of a result. Where nothing is known of a type, the rows say it.
pub fn columns(columns: &[ResultColumn], rows: &[Vec<Value>]) -> Vec<Column> {
    let of = |(at, column): (usize, &ResultColumn)| {
        let kind = if column.kind == Type::Unknown && !rows.is_empty() {
            let all = |fits: fn(&Value) -> bool| {
                rows.iter().all(|r| r.get(at).is_none_or(|v| *v == Value::Null || fits(v)))
            };
            if all(|v| matches!(v, Value::Int(_))) {
                Type::Int8
            } else if all(|v| matches!(v, Value::Real(_))) {
                Type::Float8
            } else {
                Type::Unknown
            }
        } else {
            column.kind
        };
        Column { name: column.name.clone(), table: column.table.clone().unwrap_or_default(), kind }
    };
    columns.iter().enumerate().map(of).collect()
}

/// A row as text.
pub fn text_row(columns: &[Column], row: &[Value]) -> Vec<u8> {
    let mut body = Vec::new();
    for (column, value) in columns.iter().zip(row) {
        match value {
            Value::Null => body.push(0xfb),
            Value::Bytes(bytes) => put_bytes(&mut body, bytes),
            value => {
                put_bytes(&mut body, column.kind.text(value, Dialect::MySql).unwrap_or_default().as_bytes())
            }
        }
    }
    body
}

/// A row of a prepared statement.
pub fn binary_row(columns: &[Column], row: &[Value]) -> Vec<u8> {
    let mut nulls = vec![0u8; (columns.len() + 9) / 8];
    let mut values = Vec::new();
    for (at, (column, value)) in columns.iter().zip(row).enumerate() {
        let text = || column.kind.text(value, Dialect::MySql).unwrap_or_default();
        let coerced = column.kind.coerce(value.clone(), Dialect::MySql).unwrap_or(Value::Null);
        let integer = match &coerced {
            Value::Int(i) => *i,
            Value::Bool(b) => i64::from(*b),
            _ => 0,
        };
        match (column.kind, &coerced) {
            (_, Value::Null) => nulls[(at + 2) / 8] |= 1 << ((at + 2) % 8),
            (Type::Bool | Type::Int1, _) => values.push(integer as u8),
            (Type::Int2, _) => values.extend((integer as i16).to_le_bytes()),
            (Type::Int4, _) => values.extend((integer as i32).to_le_bytes()),
            (Type::Int8 | Type::Oid, _) => values.extend(integer.to_le_bytes()),
            (Type::Float4, Value::Real(r)) => values.extend((*r as f32).to_le_bytes()),
            (Type::Float8, Value::Real(r)) => values.extend(r.to_le_bytes()),
            (Type::Date, v) => {
                let micros = v.as_text().and_then(time::parse).unwrap_or(0);
                values.push(4);
                put_date(&mut values, micros);
            }
            (Type::Timestamp | Type::TimestampTz, v) => {
                let micros = v.as_text().and_then(time::parse).unwrap_or(0);
                let fraction = micros.rem_euclid(1_000_000) as u32;
                values.push(if fraction == 0 { 7 } else { 11 });
                put_date(&mut values, micros);
                put_clock(&mut values, micros);
                if fraction != 0 {
                    values.extend(fraction.to_le_bytes());
                }
            }
            (Type::Time, v) => {
                let micros = v.as_text().and_then(time::parse_time).unwrap_or(0);
                values.extend([8, 0, 0, 0, 0, 0]);
                put_clock(&mut values, micros);
            }
            (_, Value::Bytes(bytes)) => put_bytes(&mut values, bytes),
            _ => put_bytes(&mut values, text().as_bytes()),
        }
    }
    [vec![0], nulls, values].concat()
}

fn put_date(values: &mut Vec<u8>, micros: i64) {
    let date = time::at(micros).unwrap_or_default();
    values.extend((date.year() as u16).to_le_bytes());
    values.extend([date.month() as u8, date.day() as u8]);
}

fn put_clock(values: &mut Vec<u8>, micros: i64) {
    let seconds = micros.rem_euclid(86_400_000_000) / 1_000_000;
    values.extend([(seconds / 3600) as u8, (seconds / 60 % 60) as u8, (seconds % 60) as u8]);
}

/// Bytes of a parameter: text, unless they are declared or look binary.
pub fn text_or_bytes(bytes: &[u8], kind: u8) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) if !matches!(kind, 249..=252) || !text.contains('\0') => Value::from(text),
        _ => Value::Bytes(bytes.into()),
    }
}

/// A parameter of a prepared statement.
pub fn decode(packet: &mut Packet<'_>, kind: u8, unsigned: bool) -> io::Result<Value> {
    let integer = |n: u64, bits: u32| {
        if unsigned { Value::Int(n as i64) } else { Value::Int((n << (64 - bits)) as i64 >> (64 - bits)) }
    };
    Ok(match kind {
        6 => Value::Null,
        1 => integer(packet.number(1)?, 8),
        2 | 13 => integer(packet.number(2)?, 16),
        3 | 9 => integer(packet.number(4)?, 32),
        8 => Value::Int(packet.number(8)? as i64),
        4 => Value::Real(f64::from(f32::from_bits(packet.u32()?))),
        5 => Value::Real(f64::from_bits(packet.number(8)?)),
        7 | 10 | 12 => {
            let length = packet.u8()?;
            let mut parts = Packet::new(packet.take(usize::from(length))?);
            if length == 0 {
                return Ok(Value::from("0000-00-00 00:00:00"));
            }
            let (year, month, day) = (parts.number(2)?, parts.u8()?, parts.u8()?);
            let mut text = format!("{year:04}-{month:02}-{day:02}");
            if length >= 7 {
                text += &format!(" {:02}:{:02}:{:02}", parts.u8()?, parts.u8()?, parts.u8()?);
            }
            if length >= 11 {
                text += &format!(".{:06}", parts.number(4)?);
            }
            Value::from(text)
        }
        11 => {
            let length = packet.u8()?;
            let mut parts = Packet::new(packet.take(usize::from(length))?);
            if length == 0 {
                return Ok(Value::from("00:00:00"));
            }
            parts.take(5)?;
            Value::from(format!("{:02}:{:02}:{:02}", parts.u8()?, parts.u8()?, parts.u8()?))
        }
        0 | 15 | 16 | 245..=255 => {
            let length = usize::try_from(packet.length()?).map_err(|_| broken("a text is too long"))?;
            text_or_bytes(packet.take(length)?, kind)
        }
        other => return Err(broken(&format!("a parameter of type {other}"))),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lengths_go_there_and_back() {
        for length in [0, 250, 251, 65_535, 65_536, 0xff_ffff, 0x100_0000, u64::MAX] {
            let mut body = Vec::new();
            put_length(&mut body, length);
            assert_eq!(Packet::new(&body).length().unwrap(), length);
        }
    }

    #[test]
    fn integers_have_signs() {
        let decoded = |bytes: &[u8], kind, unsigned| decode(&mut Packet::new(bytes), kind, unsigned).unwrap();
        assert_eq!(decoded(&[0xff], 1, false), Value::Int(-1));
        assert_eq!(decoded(&[0xff], 1, true), Value::Int(255));
        assert_eq!(decoded(&[0xfe, 0xff, 0xff, 0xff], 3, false), Value::Int(-2));
    }
}
