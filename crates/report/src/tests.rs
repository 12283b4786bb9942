//! Every rendering of small histories, one per pattern.

mod fixture;
mod formats;
mod sentences;
mod texts;
