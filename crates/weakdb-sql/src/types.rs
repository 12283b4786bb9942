//! Types of columns and of results, and values that fit them.
//!
//! SQLite's values have one of five storage classes and columns do not insist on any. So types are ours: a
//! value is made to fit its column when it is written, and to fit its described type when it is sent. Dates
//! and times are texts in ISO order, which compare as they should. Decimals are texts, too (`decimal.rs`).

use super::arrays::{self, Element};
use super::decimal::{self, Decimal};
use super::error::{Code, SqlError};
use super::time;
use anomalist_sqltext::Dialect;
use anomalist_weakdb::Value;

/// The type of a column, a result or a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Nothing is known; sent as text.
    Unknown,
    /// True or false.
    Bool,
    /// 8 bits, of MySQL.
    Int1,
    /// 16 bits.
    Int2,
    /// 32 bits.
    Int4,
    /// 64 bits.
    Int8,
    /// Single precision.
    Float4,
    /// Double precision.
    Float8,
    /// A decimal with so many digits after the point, if it says.
    Numeric(Option<u8>),
    /// Text of any length.
    Text,
    /// Text of at most so many characters.
    Varchar(Option<u32>),
    /// Text of exactly so many characters; kept without the spaces at its end.
    Char(u32),
    /// Bytes.
    Bytes,
    /// A day.
    Date,
    /// A time of day.
    Time,
    /// A moment, without time zone.
    Timestamp,
    /// A moment; shown in UTC.
    TimestampTz,
    /// A UUID, as text.
    Uuid,
    /// JSON, as text.
    Json,
    /// An object identifier of PostgreSQL's catalogue.
    Oid,
    /// A name in PostgreSQL's catalogue.
    Name,
    /// A list, as text in PostgreSQL's form.
    List(Element),
}

impl Type {
    /// A short text for it, that [`Type::from_code`] reads.
    #[must_use]
    pub fn code(self) -> String {
        match self {
            Self::Numeric(Some(scale)) => format!("numeric {scale}"),
            Self::Varchar(Some(length)) => format!("varchar {length}"),
            Self::Varchar(None) => "varchar".into(),
            Self::Char(length) => format!("char {length}"),
            Self::Unknown => "unknown".into(),
            Self::Int1 => "tinyint".into(),
            other => other.name().into(),
        }
    }

    /// The type of a code.
    #[must_use]
    pub fn from_code(code: &str) -> Self {
        match code.rsplit_once(' ') {
            Some(("numeric", scale)) => return Self::Numeric(scale.parse().ok()),
            Some(("varchar", length)) => return Self::Varchar(length.parse().ok()),
            Some(("char", length)) => return Self::Char(length.parse().unwrap_or(1)),
            _ => {}
        }
        let plain = [
            Self::Bool,
            Self::Int2,
            Self::Int4,
            Self::Int8,
            Self::Float4,
            Self::Float8,
            Self::Numeric(None),
            Self::Text,
            Self::Bytes,
            Self::Date,
            Self::Time,
            Self::Timestamp,
            Self::TimestampTz,
            Self::Uuid,
            Self::Json,
            Self::Oid,
            Self::Name,
        ];
        match code {
            "tinyint" => Self::Int1,
            list if list.ends_with("[]") => {
                Self::List(Element::of(Self::from_code(list.trim_end_matches("[]"))))
            }
            "varchar" => Self::Varchar(None),
            "weak_regclass" | "weak_regtype" | "weak_regnamespace" | "weak_regrole" => Self::Oid,
            _ => plain.into_iter().find(|kind| kind.name() == code).unwrap_or(Self::Unknown),
        }
    }

    /// Whether it is an integer type.
    #[must_use]
    pub fn is_integer(self) -> bool {
        matches!(self, Self::Int1 | Self::Int2 | Self::Int4 | Self::Int8 | Self::Oid)
    }

    /// Whether it is a number of any kind.
    #[must_use]
    pub fn is_number(self) -> bool {
        self.is_integer() || matches!(self, Self::Float4 | Self::Float8 | Self::Numeric(_))
    }

    /// Whether it is a decimal.
    #[must_use]
    pub fn is_decimal(self) -> bool {
        matches!(self, Self::Numeric(_))
    }

    /// Whether it is a text.
    #[must_use]
    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Varchar(_) | Self::Char(_))
    }

    /// As PostgreSQL names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown | Self::Text => "text",
            Self::Bool => "boolean",
            Self::Int1 | Self::Int2 => "smallint",
            Self::Int4 => "integer",
            Self::Int8 => "bigint",
            Self::Float4 => "real",
            Self::Float8 => "double precision",
            Self::Numeric(_) => "numeric",
            Self::Varchar(_) => "character varying",
            Self::Char(_) => "character",
            Self::Bytes => "bytea",
            Self::Date => "date",
            Self::Time => "time without time zone",
            Self::Timestamp => "timestamp without time zone",
            Self::TimestampTz => "timestamp with time zone",
            Self::Uuid => "uuid",
            Self::Json => "jsonb",
            Self::Oid => "oid",
            Self::Name => "name",
            Self::List(element) => element.list().1,
        }
    }

    /// Its number in PostgreSQL.
    #[must_use]
    pub fn oid(self) -> u32 {
        match self {
            Self::Unknown | Self::Text => 25,
            Self::Bool => 16,
            Self::Int1 | Self::Int2 => 21,
            Self::Int4 => 23,
            Self::Int8 => 20,
            Self::Float4 => 700,
            Self::Float8 => 701,
            Self::Numeric(_) => 1700,
            Self::Varchar(_) => 1043,
            Self::Char(_) => 1042,
            Self::Bytes => 17,
            Self::Date => 1082,
            Self::Time => 1083,
            Self::Timestamp => 1114,
            Self::TimestampTz => 1184,
            Self::Uuid => 2950,
            Self::Json => 3802,
            Self::Oid => 26,
            Self::Name => 19,
            Self::List(element) => element.list().0,
        }
    }

    /// The type of a number that PostgreSQL's clients send; 0 and what is not known are unknown.
    #[must_use]
    pub fn from_oid(oid: u32) -> Self {
        match oid {
            16 => Self::Bool,
            17 => Self::Bytes,
            19 => Self::Name,
            20 => Self::Int8,
            21 => Self::Int2,
            23 => Self::Int4,
            25 => Self::Text,
            26 => Self::Oid,
            114 | 3802 => Self::Json,
            700 => Self::Float4,
            701 => Self::Float8,
            1042 | 1043 => Self::Varchar(None),
            1082 => Self::Date,
            1083 => Self::Time,
            1114 => Self::Timestamp,
            1184 => Self::TimestampTz,
            1700 => Self::Numeric(None),
            2950 => Self::Uuid,
            _ => Element::numbered(oid).map_or(Self::Unknown, Self::List),
        }
    }

    /// As MySQL shows it in DESCRIBE.
    #[must_use]
    pub fn mysql_name(self) -> String {
        match self {
            Self::Bool => "tinyint(1)".into(),
            Self::Int1 => "tinyint(4)".into(),
            Self::Int2 => "smallint(6)".into(),
            Self::Int4 => "int(11)".into(),
            Self::Int8 | Self::Oid => "bigint(20)".into(),
            Self::Float4 => "float".into(),
            Self::Float8 => "double".into(),
            Self::Numeric(scale) => format!("decimal(65,{})", scale.unwrap_or(0)),
            Self::Varchar(Some(n)) => format!("varchar({n})"),
            Self::Char(n) => format!("char({n})"),
            Self::Bytes => "blob".into(),
            Self::Date => "date".into(),
            Self::Time => "time".into(),
            Self::Timestamp => "datetime".into(),
            Self::TimestampTz => "timestamp".into(),
            Self::Json => "longtext".into(),
            Self::Uuid => "uuid".into(),
            Self::Unknown | Self::Text | Self::Varchar(None) | Self::Name | Self::List(_) => "text".into(),
        }
    }

    /// The value as this type holds it.
    ///
    /// # Errors
    /// If it is no value of the type. MySQL truncates nothing here: it behaves as in strict mode.
    pub fn coerce(self, value: Value, dialect: Dialect) -> Result<Value, SqlError> {
        if value == Value::Null {
            return Ok(value);
        }
        let invalid = |value: &Value| {
            let shown = plain(value);
            SqlError::new(
                Code::InvalidValue,
                format!("invalid input syntax for type {}: \"{shown}\"", self.name()),
            )
        };
        match self {
            Self::Unknown => Ok(value),
            Self::Bool => truth(&value).map(Value::Bool).ok_or_else(|| invalid(&value)),
            Self::Int1 => self.integer(&value, -128, 255),
            Self::Int2 => self.integer(&value, i64::from(i16::MIN), i64::from(i16::MAX)),
            Self::Int4 => self.integer(&value, i64::from(i32::MIN), i64::from(i32::MAX)),
            Self::Int8 | Self::Oid => self.integer(&value, i64::MIN, i64::MAX),
            Self::Float4 => {
                number(&value).map(|n| Value::Real(f64::from(n as f32))).ok_or_else(|| invalid(&value))
            }
            Self::Float8 => number(&value).map(Value::Real).ok_or_else(|| invalid(&value)),
            Self::Numeric(scale) => {
                let decimal = Decimal::of(&value).ok_or_else(|| decimal::invalid(&value))?;
                Ok(decimal.fit(None, scale, dialect)?.into())
            }
            Self::Text | Self::Name | Self::Varchar(None) => Ok(Value::from(plain(&value))),
            Self::Varchar(Some(length)) => fit(plain(&value), length),
            Self::Char(length) => fit(plain(&value).trim_end_matches(' ').to_owned(), length),
            Self::Bytes => Ok(Value::Bytes(bytes(&value, dialect).into())),
            Self::Date => time::date(&plain(&value)).map(Value::from).ok_or_else(|| no_moment(self, &value)),
            Self::Time => time::time(&plain(&value)).map(Value::from).ok_or_else(|| no_moment(self, &value)),
            Self::Timestamp | Self::TimestampTz => time::timestamp(&plain(&value), self == Self::TimestampTz)
                .map(Value::from)
                .ok_or_else(|| no_moment(self, &value)),
            Self::Uuid => uuid(&plain(&value)).map(Value::from).ok_or_else(|| invalid(&value)),
            Self::Json => Ok(Value::from(plain(&value))),
            Self::List(element) => {
                let (items, _) = arrays::items(&plain(&value)).ok_or_else(|| invalid(&value))?;
                let shown = |item: Option<String>| {
                    let Some(item) = item else { return Ok(None) };
                    let kind = element.kind();
                    kind.coerce(item.into(), dialect).map(|fitting| kind.text(&fitting, dialect))
                };
                let items: Vec<Option<String>> = items.into_iter().map(shown).collect::<Result<_, _>>()?;
                Ok(Value::from(arrays::list(&items)))
            }
        }
    }

    fn integer(self, value: &Value, low: i64, high: i64) -> Result<Value, SqlError> {
        let shown = plain(value);
        let found = match value {
            Value::Int(i) => Some(*i),
            Value::Bool(b) => Some(i64::from(*b)),
            Value::Real(r) if r.abs() < 9.3e18 => Some(r.round_ties_even() as i64),
            // A decimal is rounded when it is stored as an integer.
            Value::Text(t) if t.contains('.') => Decimal::parse(t).and_then(|d| d.to_int()),
            Value::Text(t) => t.trim().parse().ok(),
            _ => None,
        };
        match found {
            Some(i) if (low..=high).contains(&i) => Ok(Value::Int(i)),
            Some(_) => Err(SqlError::new(Code::OutOfRange, format!("{} out of range", self.name()))),
            None => {
                let text = format!("invalid input syntax for type {}: \"{shown}\"", self.name());
                Err(SqlError::new(Code::InvalidValue, text))
            }
        }
    }

    /// The value as text, as the databases print it.
    #[must_use]
    pub fn text(self, value: &Value, dialect: Dialect) -> Option<String> {
        Some(match (self, value) {
            (_, Value::Null) => return None,
            (Self::Bool, value) if dialect == Dialect::PostgreSql => match truth(value) {
                Some(true) => "t".into(),
                Some(false) => "f".into(),
                None => plain(value),
            },
            (_, Value::Bool(b)) if dialect == Dialect::PostgreSql => if *b { "t" } else { "f" }.into(),
            (_, Value::Bool(b)) => i64::from(*b).to_string(),
            (Self::Numeric(scale), value) => shown_decimal(value, scale, dialect),
            (Self::List(_), value) => {
                self.coerce(value.clone(), dialect).map_or_else(|_| plain(value), |list| plain(&list))
            }
            (Self::TimestampTz, value) if dialect == Dialect::PostgreSql => format!("{}+00", plain(value)),
            (_, Value::Bytes(b)) if dialect == Dialect::PostgreSql => {
                b.iter().fold("\\x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
            }
            (_, value) => plain(value),
        })
    }
}

/// That a text is no date or time: it has no such form, or the calendar has no such day.
fn no_moment(kind: Type, value: &Value) -> SqlError {
    let shown = plain(value);
    let formed = shown.starts_with(|c: char| c.is_ascii_digit())
        && shown.contains(['-', ':', '/'])
        && !shown.contains(|c: char| c.is_alphabetic());
    match formed {
        true => {
            let text = format!("date/time field value out of range: \"{shown}\"");
            SqlError::new(Code::MomentOverflow, text)
        }
        false => {
            let text = format!("invalid input syntax for type {}: \"{shown}\"", kind.name());
            SqlError::new(Code::InvalidMoment, text)
        }
    }
}

fn fit(text: String, length: u32) -> Result<Value, SqlError> {
    let trimmed = text.trim_end_matches(' ');
    if text.chars().count() <= length as usize {
        Ok(Value::from(text))
    } else if trimmed.chars().count() <= length as usize {
        Ok(Value::from(trimmed))
    } else {
        Err(SqlError::new(Code::TooLong, format!("value too long for type character varying({length})")))
    }
}

/// A decimal as it is sent. In PostgreSQL a value has its own scale, in MySQL the column has one.
fn shown_decimal(value: &Value, scale: Option<u8>, dialect: Dialect) -> String {
    match (Decimal::of(value), scale) {
        (Some(decimal), Some(scale)) if dialect == Dialect::MySql => decimal.padded(scale).to_string(),
        (Some(decimal), _) => decimal.to_string(),
        (None, _) => plain(value),
    }
}

/// The type of a decimal literal.
#[must_use]
pub fn literal_type(text: &str) -> Type {
    Type::Numeric(Decimal::parse(text).and_then(|d| u8::try_from(d.scale()).ok()))
}

/// What counts as true.
#[must_use]
pub fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(b) => Some(*b),
        Value::Int(i) => Some(*i != 0),
        Value::Real(r) => Some(*r != 0.0),
        Value::Text(t) => match t.trim().to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => Some(true),
            "f" | "false" | "n" | "no" | "off" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// The value as a number.
#[must_use]
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(b) => Some(f64::from(u8::from(*b))),
        Value::Int(i) => Some(*i as f64),
        Value::Real(r) => Some(*r),
        Value::Text(t) => t.trim().parse().ok(),
        _ => None,
    }
}

/// The value as text, whatever its type. Numbers print as PostgreSQL prints them.
#[must_use]
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Real(r) if r.is_nan() => "NaN".into(),
        Value::Real(r) if r.is_infinite() => if *r > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        Value::Real(r) if r.abs() >= 1e15 || (*r != 0.0 && r.abs() < 1e-5) => format!("{r:e}"),
        Value::Real(r) => r.to_string(),
        Value::Text(t) => t.to_string(),
        Value::Bytes(b) => String::from_utf8_lossy(b).into_owned(),
        Value::List(_) => value.to_string(),
    }
}

fn bytes(value: &Value, dialect: Dialect) -> Vec<u8> {
    match value {
        Value::Bytes(b) => b.to_vec(),
        Value::Text(t) if dialect == Dialect::PostgreSql && t.starts_with("\\x") => {
            unhex(&t[2..]).unwrap_or_else(|| t.as_bytes().to_vec())
        }
        other => plain(other).into_bytes(),
    }
}

/// Bytes from hexadecimal digits.
#[must_use]
pub fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |byte: u8| char::from(byte).to_digit(16);
    digits.chunks(2).map(|pair| Some((nibble(pair[0])? * 16 + nibble(pair[1])?) as u8)).collect()
}

fn uuid(text: &str) -> Option<String> {
    let digits: String =
        text.chars().filter(|c| !matches!(c, '-' | '{' | '}')).collect::<String>().to_lowercase();
    if digits.len() != 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    Some(format!(
        "{}-{}-{}-{}-{}",
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..]
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn decimals_are_rounded_to_the_nearest() {
        let price = Type::Numeric(Some(2)).coerce(Value::from("19.999"), Dialect::MySql).unwrap();
        assert_eq!(Type::Numeric(Some(2)).text(&price, Dialect::MySql).unwrap(), "20.00");
        let price = Type::Numeric(Some(2)).coerce(Value::from("1.005"), Dialect::PostgreSql).unwrap();
        assert_eq!(price, Value::from("1.01"));
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let code = |kind: Type, value: &str| {
            kind.coerce(Value::from(value), Dialect::PostgreSql).map_err(|e| e.code)
        };
        assert_eq!(code(Type::Int4, "abc"), Err(Code::InvalidValue));
        assert_eq!(code(Type::Int2, "40000"), Err(Code::OutOfRange));
        assert_eq!(code(Type::Varchar(Some(2)), "abc"), Err(Code::TooLong));
        assert_eq!(code(Type::Varchar(Some(2)), "ab   "), Ok(Value::from("ab")));
        assert_eq!(code(Type::Uuid, "x"), Err(Code::InvalidValue));
        assert_eq!(code(Type::Bool, "yes"), Ok(Value::Bool(true)));
        assert_eq!(code(Type::Date, "2026-02-30"), Err(Code::MomentOverflow));
        assert_eq!(code(Type::Timestamp, "soon"), Err(Code::InvalidMoment));
    }
}
