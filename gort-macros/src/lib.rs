//! Procedural macros of gort. Use them through the `gort` crate, which re-exports them.

mod entry;
mod select;

use proc_macro::TokenStream;

/// Runs `main` as the program's first goroutine.
///
/// The attribute starts the runtime and runs the function's body as a goroutine. The program ends when that
/// goroutine returns, even if other goroutines still run. `main` may return any type that an ordinary `main`
/// may return; the value becomes the exit code as usual, and it need not be [`Send`].
///
/// The attribute takes no arguments. It is short for `fn main() { gort::run(|| { … }) }`; a program that
/// has to change settings first (`gort::runtime::Config`) writes that instead. `main` has 8 MiB
/// of stack, as the first thread of a process, and usually more (`gort::guide::stacks`).
///
/// # Examples
///
/// ```
/// use std::error::Error;
///
/// #[gort::main]
/// fn main() -> Result<(), Box<dyn Error>> {
///     let answer = gort::spawn(|| "42".parse::<u32>());
///     println!("{}", answer.join().unwrap()?);
///     Ok(())
/// }
/// ```
#[proc_macro_attribute]
pub fn main(args: TokenStream, item: TokenStream) -> TokenStream {
    entry::main(args.into(), item.into()).into()
}

/// A test whose body runs as a goroutine.
///
/// It replaces `#[test]`, and works together with `#[should_panic]`, `#[ignore]` and tests that return a
/// `Result`.
///
/// With `leaks = "deny"` the test also fails if goroutines that it started, or that these started, wait
/// forever when it ends. The message has the stack of each and the place where it was started. What counts is
/// what `gort::runtime::leaked` finds: goroutines that have not ended, and whose wait nothing in the program
/// can end any more. After the function has returned, goroutines get a quarter of a second to end. One that
/// still runs then, or that can still be woken, does not fail the test. Goroutines of other tests, and those
/// that a `std::thread` started, do not count. If goroutines are left and memory cannot be searched, the test
/// fails, too.
///
/// The test has 8 MiB of stack and usually more. The test harness captures what the body prints, and the
/// message of its panic, as for any test. It does not capture what other goroutines print.
///
/// # Examples
///
/// ```
/// #[gort::test]
/// fn goroutines_can_be_joined() {
///     let sum = gort::spawn(|| 1 + 1);
///     assert_eq!(sum.join().unwrap(), 2);
/// }
///
/// #[gort::test(leaks = "deny")]
/// fn nobody_waits_forever() {
///     let (sender, receiver) = gort::chan::bounded(0);
///     gort::spawn(move || sender.send(1));
///     assert_eq!(receiver.recv(), Ok(1)); // without this line, the send would fail, and end
/// }
///
/// #[gort::test]
/// #[should_panic(expected = "no such luck")]
/// fn panics_are_seen() {
///     panic!("no such luck");
/// }
/// ```
#[proc_macro_attribute]
pub fn test(args: TokenStream, item: TokenStream) -> TokenStream {
    entry::test(args.into(), item.into()).into()
}

/// The expansion of `gort::chan::select!` and `select_biased!`. The input is the path of the gort crate,
/// whether the select is biased, and the cases.
#[doc(hidden)]
#[proc_macro]
pub fn __select(input: TokenStream) -> TokenStream {
    select::expand(input.into()).unwrap_or_else(|err| err.to_compile_error()).into()
}
