//! Procedural macros of gort. Use them through the `gort` crate, which re-exports them.

mod select;

use proc_macro::TokenStream;

/// The expansion of `gort::chan::select!` and `select_biased!`: the path of the gort crate, whether the select is
/// biased, and the cases.
#[doc(hidden)]
#[proc_macro]
pub fn __select(input: TokenStream) -> TokenStream {
    select::expand(input.into()).unwrap_or_else(|err| err.to_compile_error()).into()
}
