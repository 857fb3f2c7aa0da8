//! Stacks of blocking calls in functions with frame pointers, of which the kernel does not tell the value:
//! the right frames are found, and data that looks like a frame does no harm.

#[path = "../common/mod.rs"]
mod common;

use std::arch::global_asm;

use common::{alone, named, until};
use gort::runtime::longest_blocking_calls;

// gort_test_outer(descriptor, word) calls gort_test_inner(descriptor, word), which fills its frame with data
// that looks like two frames that return to `word`, and then reads a byte.
global_asm!(
    ".globl gort_test_outer",
    ".type gort_test_outer,@function",
    "gort_test_outer:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    ".globl gort_test_body",
    "gort_test_body:",
    "call gort_test_inner",
    ".globl gort_test_return",
    "gort_test_return:",
    "leave",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size gort_test_outer, . - gort_test_outer",
    //
    ".globl gort_test_inner",
    ".type gort_test_inner,@function",
    "gort_test_inner:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "sub rsp, 80",
    "lea rax, [rsp + 32]",
    "mov [rsp + 16], rax",
    "mov [rsp + 24], rsi",
    "mov qword ptr [rsp + 32], 12345",
    "mov [rsp + 40], rsi",
    "mov qword ptr [rsp + 48], 0",
    "mov qword ptr [rsp + 56], 0",
    "mov qword ptr [rsp + 64], 0",
    "mov qword ptr [rsp + 72], 0",
    "mov rsi, rsp",
    "mov edx, 1",
    "call read@PLT",
    "leave",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size gort_test_inner, . - gort_test_inner",
);

unsafe extern "C" {
    fn gort_test_outer(descriptor: i32, word: usize) -> isize;
    fn gort_test_body();
    fn gort_test_return();
}

#[inline(never)]
fn calls_functions_with_frame_pointers(descriptor: i32, word: usize) {
    // SAFETY: they follow the calling convention, and read one byte into their own frame.
    assert_eq!(unsafe { gort_test_outer(descriptor, word) }, 0);
}

fn check(name: &'static str, word: usize) {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors, which are ours.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    let [read, write] = ends;
    let blocked = named(name, move || calls_functions_with_frame_pointers(read, word));
    let listed = || longest_blocking_calls().into_iter().find(|call| call.goroutine().name() == Some(name));
    until("the call is listed", || listed().is_some());
    let text = listed().unwrap().to_string();
    // Nobody else has them.
    for end in [write, read] {
        // SAFETY: nobody uses the writing end any more; after that, nobody the reading end.
        assert_eq!(unsafe { libc::close(end) }, 0);
        if end == write {
            until("the reader saw the end", || listed().is_some_and(|call| call.is_over()));
        }
    }
    blocked.join().unwrap();
    let places: Vec<_> = ["gort_test_inner", "gort_test_outer", "calls_functions_with_frame_pointers"]
        .map(|function| text.matches(function).count() == 1)
        .into();
    assert_eq!(places, [true; 3], "{name}: {text}");
    assert!(text.find("gort_test_inner") < text.find("gort_test_outer"), "{text}");
}

#[test]
fn data_that_looks_like_a_frame_is_not_taken_for_one() {
    if !alone("data_that_looks_like_a_frame_is_not_taken_for_one") {
        return;
    }
    check("no data", 0);
    // An unwinder looks at the instruction before a return address.
    check("an address in the code", gort_test_body as *const () as usize + 1);
    check("a return address", gort_test_return as *const () as usize);
}
