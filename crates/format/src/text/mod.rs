//! Text and numbers, whatever they mean: readers of JSON, EDN and decimal numbers, values as text, and what
//! is wrong where.

pub(crate) mod decimal;
pub(crate) mod edn;
pub(crate) mod fault;
pub(crate) mod json;
pub(crate) mod number;
pub(crate) mod tree;
pub(crate) mod value;
