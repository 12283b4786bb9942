#![no_main]

use anomalist_format::{Format, Input, ReadError, ReadOptions, datum_json, read_events};

// Jepsen operations of any shape, in each notation: events or a diagnostic, and what is read can be shown and paired.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for format in [Format::ElleEdn, Format::ElleJson, Format::ElleJsonl] {
        let read = |lossy| {
            let options = ReadOptions { format: Some(format), lossy, ..ReadOptions::default() };
            read_events(Input::from_bytes("file", bytes.to_vec()), &options)
        };
        match (read(false), read(true)) {
            (Ok(strict), Ok(lossy)) => {
                assert_eq!(strict.events, lossy.events);
                let operations = strict.events.operations();
                assert!(operations.len() <= strict.events.len());
                for position in 0..strict.events.len() {
                    assert!(!datum_json(&strict.events.datum(position)).is_empty());
                }
            }
            (Ok(_), Err(error)) => panic!("lossy reads less: {error}"),
            (Err(ReadError::Malformed(found)), _) => assert!(!found.is_empty()),
            (Err(error), _) => panic!("{error}"),
        }
    }
});
