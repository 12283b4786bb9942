//! Every rendering of small histories, one per pattern.

mod claims;
pub(crate) mod fixture;
mod formats;
mod sentences;
mod texts;
