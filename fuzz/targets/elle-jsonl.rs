#![no_main]

use anomalist_format::Format;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anomalist_fuzz::read(Some(Format::ElleJsonl), bytes));
