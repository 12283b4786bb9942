#![no_main]

use isolde_format::Format;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| isolde_fuzz::read(Some(Format::Awdit), bytes));
