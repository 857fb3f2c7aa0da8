//! `#[gort::main]` and `#[gort::test]` as users meet them: programs that compile and run, and the compiler's
//! messages about programs that do not. `TRYBUILD=overwrite cargo test --test macros` records new messages.

use std::error::Error;
use std::process::ExitCode;

#[test]
fn programs_compile_and_run_or_fail_with_clear_messages() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/docs/ui/pass/*.rs");
    cases.compile_fail("tests/docs/ui/fail/*.rs");
}

#[gort::test]
fn a_test_runs_as_a_goroutine() {
    assert_ne!(gort::current().id(), 0, "a thread that is no goroutine has the id 0");
}

#[gort::test]
#[should_panic(expected = "the panic's own message")]
fn a_panic_reaches_should_panic() {
    panic!("the panic's own message");
}

#[gort::test]
fn a_test_may_return_a_result() -> Result<(), Box<dyn Error>> {
    let number: u32 = "42".parse()?;
    assert_eq!(number, 42);
    Ok(())
}

#[gort::test]
fn a_test_may_return_an_exit_code() -> ExitCode {
    ExitCode::SUCCESS
}

mod imported {
    use gort::test;

    #[test]
    fn the_attribute_may_be_imported_in_place_of_the_builtin_one() {
        assert_ne!(gort::current().id(), 0, "a thread that is no goroutine has the id 0");
    }
}
