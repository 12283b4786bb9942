//! Every rendering of small histories, one per pattern.

pub(crate) mod fixture;
mod formats;
mod sentences;
mod texts;
