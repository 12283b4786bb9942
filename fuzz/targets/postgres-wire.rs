#![no_main]

use anomalist_weakdb_sql::wire::Protocol;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anomalist_fuzz::weak::connection(Protocol::Postgres, bytes));
