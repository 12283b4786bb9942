#![no_main]

use anomalist_weakdb_sql::wire::{Protocol, replay};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    _ = replay(&anomalist_fuzz::weak::database(), Protocol::Http, bytes);
});
