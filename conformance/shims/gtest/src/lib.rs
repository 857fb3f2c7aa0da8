//! `#[test]` that runs its body in a goroutine.

use proc_macro::TokenStream;
use quote::quote;
use syn::{parse_macro_input, AttrStyle, ItemFn};

/// Replaces the built-in attribute. In the crates that use it, `std` is `gstd`.
#[proc_macro_attribute]
pub fn test(_: TokenStream, item: TokenStream) -> TokenStream {
    let ItemFn { attrs, sig, block, .. } = parse_macro_input!(item as ItemFn);
    let (name, output) = (&sig.ident, &sig.output);
    let (outer, inner): (Vec<_>, Vec<_>) =
        attrs.into_iter().partition(|attribute| matches!(attribute.style, AttrStyle::Outer));
    let statements = &block.stmts;
    quote! {
        #[::core::prelude::rust_2021::test]
        #(#outer)*
        fn #name() {
            fn body() #output {
                #(#inner)*
                #(#statements)*
            }
            ::std::run_test(|| ::std::must_succeed(body()));
        }
    }
    .into()
}
