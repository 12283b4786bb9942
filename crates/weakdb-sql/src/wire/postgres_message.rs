//! Parts of PostgreSQL's messages: the fields of an error, the format of a value.

use crate::SqlError;

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

pub(super) fn format_of(formats: &[i16], at: usize) -> i16 {
    match formats {
        [] => 0,
        [one] => *one,
        several => several.get(at).copied().unwrap_or(0),
    }
}
