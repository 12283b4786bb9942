//! The types that declarations and casts mean.

use super::arrays::Element;
use super::error::{Code, SqlError};
use super::types::Type;
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::{ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, TimezoneInfo};

impl Type {
    /// The type that a declaration means.
    pub fn declared(declared: &DataType) -> Result<Self, SqlError> {
        use DataType as D;
        Ok(match declared {
            D::Bool | D::Boolean => Self::Bool,
            D::TinyInt(Some(1)) => Self::Bool,
            D::TinyInt(_) | D::TinyIntUnsigned(_) | D::UTinyInt => Self::Int1,
            D::SmallInt(_) | D::Int2(_) => Self::Int2,
            D::SmallIntUnsigned(_) | D::Int2Unsigned(_) | D::MediumInt(_) | D::MediumIntUnsigned(_) => {
                Self::Int4
            }
            D::Int(_) | D::Integer(_) | D::Int4(_) | D::Int32 => Self::Int4,
            D::IntUnsigned(_) | D::IntegerUnsigned(_) | D::Int4Unsigned(_) => Self::Int8,
            D::BigInt(_) | D::BigIntUnsigned(_) | D::Int8(_) | D::Int8Unsigned(_) | D::Int64 => Self::Int8,
            D::Signed | D::SignedInteger | D::Unsigned | D::UnsignedInteger => Self::Int8,
            D::Real | D::Float4 | D::Float32 | D::RealUnsigned => Self::Float4,
            D::Float(_) | D::Float8 | D::Float64 | D::Double(_) | D::DoublePrecision => Self::Float8,
            D::FloatUnsigned(_) | D::DoubleUnsigned(_) | D::DoublePrecisionUnsigned => Self::Float8,
            D::Numeric(n) | D::Decimal(n) | D::Dec(n) | D::DecimalUnsigned(n) | D::DecUnsigned(n) => {
                Self::Numeric(match n {
                    ExactNumberInfo::None => None,
                    ExactNumberInfo::Precision(_) => Some(0),
                    ExactNumberInfo::PrecisionAndScale(_, scale) => u8::try_from(*scale).ok(),
                })
            }
            D::Text | D::TinyText | D::MediumText | D::LongText | D::String(_) | D::Clob(_) => Self::Text,
            D::Varchar(n) | D::CharacterVarying(n) | D::CharVarying(n) | D::Nvarchar(n) => {
                Self::Varchar(length(n))
            }
            D::Char(n) | D::Character(n) => Self::Char(length(n).unwrap_or(1)),
            D::Blob(_) | D::TinyBlob | D::MediumBlob | D::LongBlob | D::Bytea | D::Bytes(_) => Self::Bytes,
            D::Binary(_) | D::Varbinary(_) => Self::Bytes,
            D::Date => Self::Date,
            D::Time(..) => Self::Time,
            D::Datetime(_) | D::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
                Self::Timestamp
            }
            D::Timestamp(..) => Self::TimestampTz,
            D::Uuid => Self::Uuid,
            D::JSON | D::JSONB => Self::Json,
            D::Enum(..) => Self::Varchar(None),
            D::Regclass => Self::Oid,
            D::Array(ArrayElemTypeDef::SquareBracket(of, _) | ArrayElemTypeDef::Parenthesis(of)) => {
                Self::List(Element::of(Self::declared(of)?))
            }
            D::Custom(name, _) => return Self::custom(&name.to_string()),
            other => return Err(SqlError::unsupported(format!("the type {other}"))),
        })
    }

    /// The digits of a decimal, if it says how many.
    #[must_use]
    pub fn precision(declared: &DataType) -> Option<u64> {
        use DataType as D;
        match declared {
            D::Numeric(n) | D::Decimal(n) | D::Dec(n) | D::DecimalUnsigned(n) | D::DecUnsigned(n) => {
                match n {
                    ExactNumberInfo::None => None,
                    ExactNumberInfo::Precision(digits) | ExactNumberInfo::PrecisionAndScale(digits, _) => {
                        Some(*digits)
                    }
                }
            }
            _ => None,
        }
    }

    /// Precision and scale of a declared decimal. In MySQL, DECIMAL is DECIMAL(10,0).
    #[must_use]
    pub fn digits(declared: &DataType, scale: Option<u8>, dialect: Dialect) -> (Option<u64>, Option<u8>) {
        match Self::precision(declared) {
            None if dialect == Dialect::MySql => (Some(10), Some(0)),
            precision => (precision, scale),
        }
    }

    /// The type of a column, and the precision of a decimal.
    pub fn of_column(declared: &DataType, dialect: Dialect) -> Result<(Self, Option<u64>), SqlError> {
        Ok(match Self::declared(declared)? {
            Self::Numeric(scale) => {
                let (precision, scale) = Self::digits(declared, scale, dialect);
                (Self::Numeric(scale), precision)
            }
            kind => (kind, None),
        })
    }

    /// The type that a value is cast to. In MySQL, CHAR is as long as the value.
    pub fn cast(declared: &DataType, dialect: Dialect) -> Result<Self, SqlError> {
        match declared {
            DataType::Char(None) | DataType::Character(None) if dialect == Dialect::MySql => Ok(Self::Text),
            _ => Ok(Self::of_column(declared, dialect)?.0),
        }
    }

    fn custom(name: &str) -> Result<Self, SqlError> {
        let bare = name.rsplit('.').next().unwrap_or(name).trim_matches('"').to_ascii_lowercase();
        Ok(match bare.as_str() {
            "serial" | "serial4" => Self::Int4,
            "bigserial" | "serial8" => Self::Int8,
            "smallserial" | "serial2" => Self::Int2,
            "timestamptz" => Self::TimestampTz,
            "bpchar" => Self::Char(1),
            "oid" | "regtype" | "regclass" | "regproc" | "regnamespace" => Self::Oid,
            "name" => Self::Name,
            "year" => Self::Int2,
            "citext" | "\"char\"" | "char" => Self::Text,
            "unknown" => Self::Unknown,
            // A type of the language by the name that PostgreSQL's catalogue has for it.
            other => {
                let missing =
                    || SqlError::new(Code::UndefinedObject, format!("type \"{name}\" does not exist"));
                return super::system::type_named(other).ok_or_else(missing);
            }
        })
    }

    /// Whether a declaration counts upwards by itself.
    pub fn is_serial(declared: &DataType) -> bool {
        matches!(declared, DataType::Custom(name, _) if name.to_string().to_ascii_lowercase().contains("serial"))
    }
}

fn length(length: &Option<CharacterLength>) -> Option<u32> {
    match length {
        Some(CharacterLength::IntegerLength { length, .. }) => u32::try_from(*length).ok(),
        _ => None,
    }
}
