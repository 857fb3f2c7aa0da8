//! Procedural macros of gort. Use them through the `gort` crate, which re-exports them.

mod entry;
mod select;

use proc_macro::TokenStream;

/// Runs `main` as a goroutine: the program's first.
///
/// The runtime starts, the function's body runs as a goroutine, and the program ends when it returns, whatever
/// other goroutines do then. `main` may return what every `main` may return; the value becomes the exit code as
/// usual, and it need not be [`Send`].
///
/// The attribute takes no arguments. It is short for `fn main() { gort::run(|| { … }) }`, which is what a program writes that
/// has settings (`gort::runtime::Config`) to make before. The stack is a goroutine's: 256 KiB, not the 8 MiB of a process's
/// first thread. Where that is not enough, spawn the rest with `gort::Builder::stack_size`.
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
/// Takes the place of `#[test]` and goes together with `#[should_panic]`, `#[ignore]` and tests that return a
/// `Result`. The attribute takes no arguments.
///
/// The stack is a goroutine's: 256 KiB. What the body prints is not captured by the test harness, which knows its own threads
/// only; nor is the message of a panic.
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

/// The expansion of `gort::chan::select!` and `select_biased!`: the path of the gort crate, whether the select is
/// biased, and the cases.
#[doc(hidden)]
#[proc_macro]
pub fn __select(input: TokenStream) -> TokenStream {
    select::expand(input.into()).unwrap_or_else(|err| err.to_compile_error()).into()
}
