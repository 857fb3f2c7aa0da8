use quote::quote;

use super::*;

/// Compares token by token and ignores the spacing.
#[track_caller]
fn check(expanded: TokenStream, expected: TokenStream) {
    let compact = |tokens: TokenStream| tokens.to_string().replace(' ', "");
    assert_eq!(compact(expanded), compact(expected));
}

/// The message of each `compile_error!` in an expansion.
fn errors(expanded: TokenStream) -> Vec<String> {
    let file: syn::File = syn::parse2(expanded).unwrap();
    let message = |item: &syn::Item| match item {
        syn::Item::Macro(item) if item.mac.path.segments.last().unwrap().ident == "compile_error" => {
            Some(item.mac.parse_body::<syn::LitStr>().unwrap().value())
        }
        _ => None,
    };
    file.items.iter().filter_map(message).collect()
}

#[test]
fn main_without_a_result_calls_run() {
    check(
        main(
            quote!(),
            quote!(
                fn main() {
                    work();
                }
            ),
        ),
        quote! {
            fn main() {
                fn main() { work(); }
                ::gort::run(main)
            }
        },
    );
}

#[test]
fn results_become_exit_codes_on_the_goroutine() {
    check(
        main(
            quote!(),
            quote!(
                fn main() -> Result<(), Box<dyn Error>> {
                    Ok(work()?)
                }
            ),
        ),
        quote! {
            fn main() -> ::std::process::ExitCode {
                fn main() -> Result<(), Box<dyn Error>> { Ok(work()?) }
                ::gort::run(|| ::std::process::Termination::report(main()))
            }
        },
    );
}

#[test]
fn unit_and_never_stay_as_they_are() {
    for ty in [quote!(()), quote!(!)] {
        check(
            main(quote!(), quote!(fn main() -> #ty { work() })),
            quote! {
                fn main() -> #ty {
                    fn main() -> #ty { work() }
                    ::gort::run(main)
                }
            },
        );
    }
}

#[test]
fn attributes_docs_and_visibility_stay_outside() {
    check(
        test(
            quote!(),
            quote! {
                /// Says why.
                #[should_panic(expected = "gone")]
                #[ignore]
                #[cfg(unix)]
                pub(crate) fn it_works() { #![allow(unused)] panic!("gone") }
            },
        ),
        quote! {
            #[::core::prelude::v1::test]
            /// Says why.
            #[should_panic(expected = "gone")]
            #[ignore]
            #[cfg(unix)]
            pub(crate) fn it_works() {
                fn it_works() { #![allow(unused)] panic!("gone") }
                ::gort::__run_test(it_works)
            }
        },
    );
}

#[test]
fn bodies_are_passed_on_unparsed() {
    // syn cannot parse this body, but its tokens are balanced.
    let body = quote!({ let x <- 1 until ?? ; @ });
    let expanded = test(quote!(), quote!(fn odd() #body)).to_string();
    assert!(expanded.contains(&body.to_string()), "{expanded}");
}

#[test]
fn wrong_functions_are_refused() {
    for (item, expected) in [
        (
            quote!(
                async fn main() {}
            ),
            "is not `async`",
        ),
        (
            quote!(
                const fn main() {}
            ),
            "cannot be `const`",
        ),
        (
            quote!(
                unsafe fn main() {}
            ),
            "cannot be `unsafe`",
        ),
        (
            quote!(
                extern "C" fn main() {}
            ),
            "cannot be `extern`",
        ),
        (
            quote!(
                fn main<T>() {}
            ),
            "cannot be generic",
        ),
        (
            quote!(
                fn main<'a>() {}
            ),
            "cannot be generic",
        ),
        (
            quote!(
                fn main(x: u32) {}
            ),
            "takes no parameters",
        ),
        (
            quote!(
                fn main(&self) {}
            ),
            "takes no parameters",
        ),
        (
            quote!(
                fn main();
            ),
            "goes on a function: `fn main() { … }`",
        ),
        (
            quote!(
                struct Main;
            ),
            "goes on a function",
        ),
        (
            quote!(
                mod main {}
            ),
            "goes on a function",
        ),
        (
            quote!(
                fn start() {}
            ),
            "is for `fn main`",
        ),
    ] {
        let found = errors(main(quote!(), item.clone()));
        assert_eq!(found.len(), 1, "{item}: {found:?}");
        assert!(found[0].contains(expected) && found[0].contains("#[gort::main]"), "{item}: {found:?}");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let found = errors(test(
        quote!(),
        quote!(
            async fn t<T>(x: T) {}
        ),
    ));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|message| message.starts_with("a function with `#[gort::test]` ")), "{found:?}");
}

#[test]
fn a_main_that_is_refused_leaves_an_empty_one() {
    let expanded = main(
        quote!(),
        quote!(
            async fn main() {
                work().await
            }
        ),
    );
    assert!(
        expanded.to_string().ends_with(
            &quote!(
                fn main() {}
            )
            .to_string()
        ),
        "{expanded}"
    );
}

#[test]
fn a_second_test_attribute_is_refused() {
    let found = errors(test(
        quote!(),
        quote!(
            #[test]
            fn twice() {}
        ),
    ));
    assert_eq!(found, ["`#[gort::test]` takes the place of `#[test]`: with both the test would run twice"]);
}

#[test]
fn arguments_are_refused() {
    for args in [quote!(flavor = "multi_thread"), quote!(4), quote!("x")] {
        let found = errors(main(
            args,
            quote!(
                fn main() {}
            ),
        ));
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("takes no arguments; GOMAXPROCS or"), "{found:?}");
    }
}

#[test]
fn tests_can_deny_leaks_and_nothing_else() {
    let expand = |args| {
        test(
            args,
            quote!(
                fn t() {}
            ),
        )
    };
    assert!(expand(quote!(leaks = "deny")).to_string().contains("__run_test_denying_leaks"));
    assert!(!expand(quote!()).to_string().contains("__run_test_denying_leaks"));
    for (args, message) in [
        (quote!(threads = 2), "knows no argument `threads`"),
        (quote!(leaks), "expected `leaks = \"deny\"`"),
        (quote!(leaks =), "expected `leaks = \"deny\"`"),
        (quote!(leaks = "forbid"), "expected `leaks = \"deny\"`"),
        (quote!(leaks = deny), "expected `leaks = \"deny\"`"),
        (quote!(leaks = "deny", leaks = "deny"), "given twice"),
    ] {
        let found = errors(expand(args));
        assert!(found.len() == 1 && found[0].contains(message), "{found:?}");
    }
}
