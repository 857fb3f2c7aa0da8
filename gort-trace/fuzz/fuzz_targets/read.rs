//! Any bytes give a trace whose parts do not contradict each other, or an error. See ../run.

#![no_main]

#[path = "../../tests/common/mod.rs"]
mod common;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match gort_trace::Trace::read(bytes) {
        Ok(trace) => drop(common::check(&trace)),
        Err(error) => assert!(error.offset <= bytes.len(), "{error}"),
    }
});
