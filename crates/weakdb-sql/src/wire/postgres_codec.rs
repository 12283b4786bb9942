//! Values in PostgreSQL's binary formats.

use crate::arrays::{self, Element};
use crate::{Code, SqlError, Type, time};
use anomalist_sqltext::Dialect;
use anomalist_weakdb::Value;

/// Days and microseconds are counted from 2000-01-01.
const EPOCH_DAYS: i64 = 10_957;
const EPOCH_MICROS: i64 = EPOCH_DAYS * 86_400_000_000;

fn invalid(kind: Type) -> SqlError {
    SqlError::new(Code::InvalidValue, format!("incorrect binary data format for type {}", kind.name()))
}

/// A parameter as the client sent it.
pub fn decode(kind: Type, bytes: Option<&[u8]>, binary: bool) -> Result<Value, SqlError> {
    let Some(bytes) = bytes else { return Ok(Value::Null) };
    if !binary {
        let text = std::str::from_utf8(bytes).map_err(|_| invalid(Type::Text))?;
        let value = Value::from(text);
        return match kind {
            Type::Unknown | Type::Numeric(_) | Type::Varchar(_) | Type::Char(_) => Ok(value),
            kind => kind.coerce(value, Dialect::PostgreSql),
        };
    }
    let wrong = || invalid(kind);
    let int = || -> Result<i64, SqlError> {
        match bytes {
            [a] => Ok(i64::from(*a as i8)),
            [a, b] => Ok(i64::from(i16::from_be_bytes([*a, *b]))),
            [a, b, c, d] => Ok(i64::from(i32::from_be_bytes([*a, *b, *c, *d]))),
            eight => Ok(i64::from_be_bytes(eight.try_into().map_err(|_| wrong())?)),
        }
    };
    Ok(match kind {
        Type::Bool => Value::Bool(bytes.first().is_some_and(|&b| b != 0)),
        Type::Int1 | Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid => Value::Int(int()?),
        Type::Float4 => Value::Real(f64::from(f32::from_be_bytes(bytes.try_into().map_err(|_| wrong())?))),
        Type::Float8 => Value::Real(f64::from_be_bytes(bytes.try_into().map_err(|_| wrong())?)),
        Type::Bytes => Value::Bytes(bytes.into()),
        Type::Date => Value::from(time::show_date(int()?.saturating_add(EPOCH_DAYS)).ok_or_else(wrong)?),
        Type::Timestamp | Type::TimestampTz => {
            Value::from(time::show(int()?.saturating_add(EPOCH_MICROS)).ok_or_else(wrong)?)
        }
        Type::Time => Value::from(time::show(int()?).and_then(|t| time::time(&t)).ok_or_else(wrong)?),
        Type::Uuid if bytes.len() == 16 => {
            let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            Type::Uuid.coerce(digits.into(), Dialect::PostgreSql)?
        }
        Type::Numeric(_) => Value::from(numeric_text(bytes).ok_or_else(wrong)?),
        Type::List(element) => Value::from(list_text(element, bytes).ok_or_else(wrong)?),
        Type::Json if bytes.first() == Some(&1) => {
            Value::from(std::str::from_utf8(&bytes[1..]).map_err(|_| wrong())?)
        }
        _ => Value::from(std::str::from_utf8(bytes).map_err(|_| wrong())?),
    })
}

/// A value of a result; `None` is NULL.
pub fn encode(kind: Type, value: &Value) -> Result<Option<Vec<u8>>, SqlError> {
    if *value == Value::Null {
        return Ok(None);
    }
    let text = |value: &Value| kind.text(value, Dialect::PostgreSql).unwrap_or_default();
    // A decimal keeps its own scale.
    let kind = if kind.is_decimal() { Type::Numeric(None) } else { kind };
    let value = kind.coerce(value.clone(), Dialect::PostgreSql)?;
    let wrong = || invalid(kind);
    Ok(Some(match (kind, &value) {
        (Type::Bool, Value::Bool(b)) => vec![u8::from(*b)],
        (Type::Int1 | Type::Int2, Value::Int(i)) => (*i as i16).to_be_bytes().to_vec(),
        (Type::Int4, Value::Int(i)) => (*i as i32).to_be_bytes().to_vec(),
        (Type::Oid, Value::Int(i)) => (*i as u32).to_be_bytes().to_vec(),
        (Type::Int8, Value::Int(i)) => i.to_be_bytes().to_vec(),
        (Type::Float4, Value::Real(r)) => (*r as f32).to_be_bytes().to_vec(),
        (Type::Float8, Value::Real(r)) => r.to_be_bytes().to_vec(),
        (Type::Bytes, Value::Bytes(b)) => b.to_vec(),
        (Type::Date, v) => {
            let days = v.as_text().and_then(time::parse_date).ok_or_else(wrong)?;
            ((days - EPOCH_DAYS) as i32).to_be_bytes().to_vec()
        }
        (Type::Timestamp | Type::TimestampTz, v) => {
            let micros = v.as_text().and_then(time::parse).ok_or_else(wrong)?;
            (micros - EPOCH_MICROS).to_be_bytes().to_vec()
        }
        (Type::Time, v) => v.as_text().and_then(time::parse_time).ok_or_else(wrong)?.to_be_bytes().to_vec(),
        (Type::Uuid, v) => {
            let digits: String = v.as_text().unwrap_or_default().chars().filter(|c| *c != '-').collect();
            let number = u128::from_str_radix(&digits, 16).map_err(|_| wrong())?;
            number.to_be_bytes().to_vec()
        }
        (Type::Numeric(_), v) => numeric_bytes(&text(v)).ok_or_else(wrong)?,
        (Type::List(element), v) => list_bytes(element, &text(v)).ok_or_else(wrong)?,
        (Type::Json, v) => [vec![1], text(v).into_bytes()].concat(),
        (_, v) => text(v).into_bytes(),
    }))
}

/// A list is its dimensions (one, or none if it is empty), whether it has a NULL, the number of its
/// elements' type, its length and first subscript, and for each element a length and its bytes; the length
/// of NULL is −1.
fn list_bytes(element: Element, text: &str) -> Option<Vec<u8>> {
    let items = arrays::elements(text)?;
    let mut bytes = Vec::new();
    let mut put = |number: i32| bytes.extend(number.to_be_bytes());
    put(i32::from(!items.is_empty()));
    put(i32::from(items.contains(&None)));
    put(element.kind().oid() as i32);
    if !items.is_empty() {
        put(i32::try_from(items.len()).ok()?);
        put(1);
    }
    for item in items {
        match encode(element.kind(), &item.map_or(Value::Null, Value::from)).ok()? {
            None => bytes.extend((-1i32).to_be_bytes()),
            Some(item) => {
                bytes.extend(i32::try_from(item.len()).ok()?.to_be_bytes());
                bytes.extend(item);
            }
        }
    }
    Some(bytes)
}

fn list_text(element: Element, bytes: &[u8]) -> Option<String> {
    let mut rest = bytes;
    let int = |rest: &mut &[u8]| {
        let (four, more) = rest.split_first_chunk::<4>()?;
        *rest = more;
        Some(i32::from_be_bytes(*four))
    };
    let (dimensions, _, _) = (int(&mut rest)?, int(&mut rest)?, int(&mut rest)?);
    if dimensions == 0 {
        return Some("{}".to_owned());
    }
    let (length, _) = (int(&mut rest)?, int(&mut rest)?);
    let mut items = Vec::new();
    for _ in 0..length {
        let item = match int(&mut rest)? {
            -1 => None,
            size => {
                let (item, more) = rest.split_at_checked(usize::try_from(size).ok()?)?;
                rest = more;
                let value = decode(element.kind(), Some(item), true).ok()?;
                element.kind().text(&value, Dialect::PostgreSql)
            }
        };
        items.push(item);
    }
    (dimensions == 1 && rest.is_empty()).then(|| arrays::list(&items))
}

/// A decimal is a list of digits to the base 10,000, the weight of the first, a sign, and how many decimal
/// places are shown.
fn numeric_bytes(text: &str) -> Option<Vec<u8>> {
    let expanded;
    let text = if text.contains(['e', 'E']) {
        expanded = format!("{}", text.parse::<f64>().ok()?);
        &expanded
    } else {
        text
    };
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let scale = fraction.len();
    let whole = format!("{whole:0>width$}", width = whole.len().div_ceil(4) * 4);
    let fraction = format!("{fraction:0<width$}", width = scale.div_ceil(4) * 4);
    let all = whole.clone() + &fraction;
    let groups: Vec<i16> =
        all.as_bytes().chunks(4).map(|c| std::str::from_utf8(c).ok()?.parse().ok()).collect::<Option<_>>()?;
    let mut weight = (whole.len() / 4) as i16 - 1;
    let leading = groups.iter().take_while(|&&g| g == 0).count();
    let kept: Vec<i16> = groups[leading..].to_vec();
    weight -= leading as i16;
    let end = kept.iter().rposition(|&g| g != 0).map_or(0, |at| at + 1);
    let kept = &kept[..end];
    let sign: u16 = if negative && !kept.is_empty() { 0x4000 } else { 0 };
    let mut bytes = (kept.len() as i16).to_be_bytes().to_vec();
    bytes.extend((if kept.is_empty() { 0 } else { weight }).to_be_bytes());
    bytes.extend(sign.to_be_bytes());
    bytes.extend((scale as i16).to_be_bytes());
    kept.iter().for_each(|g| bytes.extend(g.to_be_bytes()));
    Some(bytes)
}

fn numeric_text(bytes: &[u8]) -> Option<String> {
    let shorts: Vec<i16> = bytes.chunks_exact(2).map(|c| i16::from_be_bytes([c[0], c[1]])).collect();
    let (&[count, weight, sign, scale], digits) = shorts.split_first_chunk::<4>()?;
    if sign as u16 == 0xc000 {
        return Some("NaN".into());
    }
    if digits.len() != usize::try_from(count).ok()?
        || !(-100..=100).contains(&weight)
        || !(0..=100).contains(&scale)
    {
        return None;
    }
    let digit = |at: i16| usize::try_from(at).ok().and_then(|at| digits.get(at)).copied().unwrap_or(0);
    let mut text = if sign as u16 == 0x4000 { "-".to_owned() } else { String::new() };
    let whole: String = (0..=weight).map(|at| format!("{:04}", digit(at))).collect();
    let whole = whole.trim_start_matches('0');
    text += if whole.is_empty() { "0" } else { whole };
    if scale > 0 {
        let groups = (scale + 3) / 4;
        let fraction: String = (1..=groups).map(|at| format!("{:04}", digit(weight + at))).collect();
        text.push('.');
        text += &fraction[..usize::try_from(scale).ok()?];
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_go_there_and_back() {
        let lists = [
            (Element::Int4, "{1,NULL,-3}"),
            (Element::Text, "{a,\"b c\",NULL,\"\"}"),
            (Element::Bool, "{t,f}"),
            (Element::Int2, "{}"),
        ];
        for (element, text) in lists {
            let bytes = list_bytes(element, text).unwrap_or_default();
            assert_eq!(list_text(element, &bytes).as_deref(), Some(text));
            for end in 0..bytes.len() {
                assert_eq!(list_text(element, &bytes[..end]), None, "{text} cut at {end}");
            }
        }
    }

    #[test]
    fn decimals_go_there_and_back() {
        for text in ["0", "1", "-1", "12345.6789", "0.0001", "-99999999.50", "10000", "0.10", "123456789012"]
        {
            let bytes = numeric_bytes(text).unwrap_or_default();
            assert_eq!(numeric_text(&bytes).as_deref(), Some(text));
        }
    }
}
