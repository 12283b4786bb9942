#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anomalist_fuzz::weak::script(bytes));
