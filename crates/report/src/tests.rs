//! Every rendering of small histories, one per pattern.

mod claims;
pub(crate) mod fixture;
mod formats;
mod ladders;
mod pages;
mod sentences;
mod texts;
