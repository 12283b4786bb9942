//! Names that cannot be guessed.

use std::io;

/// 128 random bits in hexadecimal digits.
///
/// # Errors
/// If the system has no randomness.
pub fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
