//! Parameters and columns, in PostgreSQL's text format: every type has one, and the server works out the
//! types.

use crate::Value;
use bytes::{BufMut, BytesMut};
use postgres_protocol::{IsNull, Oid};
use std::fmt::Write;

/// Writes a parameter.
pub(super) fn encode(value: &Value, out: &mut BytesMut) -> Result<IsNull, std::fmt::Error> {
    match value {
        Value::Null => return Ok(IsNull::Yes),
        Value::Int(int) => write!(out, "{int}")?,
        Value::Float(float) => match float.is_infinite() {
            true => out.put_slice(if *float > 0.0 { b"Infinity" } else { b"-Infinity" }),
            false => write!(out, "{float:?}")?,
        },
        Value::Text(text) => out.put_slice(text.as_bytes()),
        Value::Bytes(bytes) => {
            out.put_slice(b"\\x");
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
        }
    }
    Ok(IsNull::No)
}

/// Reads a column of this type.
pub(super) fn decode(oid: Oid, bytes: &[u8]) -> Value {
    let Ok(text) = std::str::from_utf8(bytes) else { return Value::Bytes(bytes.to_vec()) };
    let or_text = |value: Option<Value>| value.unwrap_or_else(|| Value::Text(text.to_owned()));
    match oid {
        // bool
        16 => Value::Int(i64::from(text == "t")),
        // int8, int2, int4, oid, xid, xid8
        20 | 21 | 23 | 26 | 28 | 5069 => or_text(text.parse().ok().map(Value::Int)),
        // float4, float8
        700 | 701 => or_text(text.parse().ok().map(Value::Float)),
        // numeric
        1700 => Value::decimal(text),
        // bytea
        17 => or_text(text.strip_prefix("\\x").and_then(hexadecimal).map(Value::Bytes)),
        _ => Value::Text(text.to_owned()),
    }
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_back_as_they_went() {
        let values = [
            (20, Value::Int(i64::MIN)),
            (701, Value::Float(0.1)),
            (701, Value::Float(f64::NEG_INFINITY)),
            (701, Value::Float(1e300)),
            (25, Value::from("a'b\\c\u{20ac}")),
            (17, Value::Bytes(vec![0, 255, 16])),
        ];
        for (oid, value) in values {
            let mut out = BytesMut::new();
            encode(&value, &mut out).unwrap();
            assert_eq!(decode(oid, &out), value);
        }
        assert_eq!(decode(1700, b"12.00"), Value::Int(12));
        assert_eq!(decode(1700, b"-12"), Value::Int(-12));
        assert_eq!(decode(1700, b"12.5"), Value::from("12.5"));
        assert_eq!(decode(1700, b"99999999999999999999"), Value::from("99999999999999999999"));
        assert_eq!(decode(16, b"t"), Value::Int(1));
        assert_eq!(decode(17, b"\\x0"), Value::from("\\x0"));
    }
}
