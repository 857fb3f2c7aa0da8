#![deny(missing_docs, unused, unreachable_code)]
//! Lints hold inside, and attributes silence them.

/// Says hello.
#[gort::main()]
#[expect(unused_variables)]
pub fn main() {
    #![allow(unused_mut)]
    let mut unused = 1;
}
