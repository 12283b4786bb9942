//! Lines of a stream: each is taken or refused by itself, and what was refused leaves nothing.
#![no_main]

use anomalist_format::{StreamError, StreamReader};
use anomalist_history::Builder;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (mut reader, mut builder) = (StreamReader::default(), Builder::new());
    let mut taken = 0;
    for (number, line) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
        match reader.read(line, number, &mut builder) {
            Ok(()) => taken += 1,
            Err(StreamError::Malformed(fault)) => {
                assert!(fault.at <= line.len() && !fault.message.is_empty());
            }
            Err(StreamError::Untimed(_)) => {}
        }
    }
    if let Ok(history) = builder.finish() {
        assert!(history.txn_count() <= taken);
    }
});
