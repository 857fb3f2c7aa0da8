//! Expands `#[gort::main]` and `#[gort::test]`.
//!
//! The expansion moves the function, unchanged, into a function of the same name that runs it as a goroutine:
//!
//! ```text
//! #[attributes]                      #[attributes]
//! fn main() -> Result<(), E> {  →    fn main() -> ExitCode {
//!     body                               fn main() -> Result<(), E> { body }
//! }                                      ::gort::run(|| Termination::report(main()))
//!                                    }
//! ```
//!
//! - The body is an inner function, not a closure. So `?`, `return`, `impl Termination` and `!` work as in
//!   any function, and a recursive call refers to the inner function.
//! - The goroutine converts the result to an exit code. A goroutine's result must be `Send`, and the errors
//!   that people return from `main`, such as `Box<dyn Error>`, are not. A function that returns `()` keeps
//!   its type: there is nothing to convert, and `#[should_panic]` accepts no other type.
//! - The body is passed on token by token and not parsed, so it may use syntax that only a newer rustc knows.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Attribute, Error, Ident, LitStr, Result, ReturnType, Signature, Token, Type, Visibility};

/// Expands `#[gort::main]`.
pub(crate) fn main(args: TokenStream, item: TokenStream) -> TokenStream {
    let function = refuse_arguments(args).and_then(|()| Function::parse_item("main", item.clone()));
    match function {
        Ok(function) if function.signature.ident == "main" => {
            function.run_as_goroutine(quote! { run }, TokenStream::new())
        }
        Ok(function) => {
            let message = "`#[gort::main]` is for `fn main`; call `gort::run(…)` in other functions";
            let error = Error::new_spanned(function.signature.ident, message).into_compile_error();
            quote! { #error #item }
        }
        Err(error) => {
            let error = error.into_compile_error();
            // This `main` keeps rustc from also complaining that there is none.
            quote! { #error fn main() {} }
        }
    }
}

/// Expands `#[gort::test]`.
pub(crate) fn test(args: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = syn::parse2::<TestArguments>(args).and_then(|arguments| {
        let function = Function::parse_item("test", item)?;
        if let Some(test) = function.attributes.iter().find(|attribute| attribute.path().is_ident("test")) {
            let message = "`#[gort::test]` takes the place of `#[test]`: with both the test would run twice";
            return Err(Error::new_spanned(test, message));
        }
        // The full path, because a plain `test` may refer to this macro if the user has imported it.
        let runner = match arguments.leaks_are_denied {
            true => quote! { runtime::__run_test_denying_leaks },
            false => quote! { __run_test },
        };
        Ok(function.run_as_goroutine(runner, quote! { #[::core::prelude::v1::test] }))
    });
    expanded.unwrap_or_else(Error::into_compile_error)
}

fn refuse_arguments(args: TokenStream) -> Result<()> {
    if args.is_empty() {
        return Ok(());
    }
    let message = "`#[gort::main]` takes no arguments; GOMAXPROCS or `gort::runtime::set_max_procs` set the \
                   number of Ps";
    Err(Error::new_spanned(args, message))
}

/// The arguments of `#[gort::test]`.
struct TestArguments {
    leaks_are_denied: bool,
}

impl Parse for TestArguments {
    fn parse(input: ParseStream) -> Result<TestArguments> {
        let mut arguments = TestArguments { leaks_are_denied: false };
        while !input.is_empty() {
            let name: Ident = input.call(Ident::parse_any)?;
            if name != "leaks" {
                let message = format!(
                    "`#[gort::test]` knows no argument `{name}`; its only one is `leaks = \"deny\"` \
                     (GOMAXPROCS or `gort::runtime::set_max_procs` set the number of Ps)"
                );
                return Err(Error::new_spanned(name, message));
            }
            if arguments.leaks_are_denied {
                return Err(Error::new_spanned(name, "`leaks` is given twice"));
            }
            let message = "expected `leaks = \"deny\"`: the test fails if goroutines that it started wait \
                           forever; without the argument they may";
            let value = match input.parse::<Token![=]>() {
                Ok(_) => input.parse::<TokenTree>().map_err(|_| Error::new_spanned(&name, message))?,
                Err(_) => return Err(Error::new_spanned(name, message)),
            };
            match syn::parse2::<LitStr>(value.to_token_stream()) {
                Ok(text) if text.value() == "deny" => arguments.leaks_are_denied = true,
                _ => return Err(Error::new_spanned(value, message)),
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}

/// A function with a body.
struct Function {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    signature: Signature,
    body: TokenTree,
}

impl Parse for Function {
    fn parse(input: ParseStream) -> Result<Function> {
        let function = Function {
            attributes: input.call(Attribute::parse_outer)?,
            visibility: input.parse()?,
            signature: input.parse()?,
            body: input.parse()?,
        };
        match &function.body {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Ok(function),
            other => Err(Error::new(other.span(), "expected a body")),
        }
    }
}

impl Function {
    fn parse_item(attribute: &str, item: TokenStream) -> Result<Function> {
        let form = if attribute == "main" { "fn main() { … }" } else { "fn name() { … }" };
        let message = format!("`#[gort::{attribute}]` goes on a function: `{form}`");
        let function: Function = syn::parse2(item.clone()).map_err(|_| Error::new_spanned(&item, message))?;
        function.check_signature(attribute)?;
        Ok(function)
    }

    /// Reports every problem of the signature, not only the first.
    fn check_signature(&self, attribute: &str) -> Result<()> {
        let Signature { constness, asyncness, safety, abi, generics, inputs, variadic, .. } = &self.signature;
        let mut problems: Vec<Error> = Vec::new();
        let mut refuse = |part: &dyn ToTokens, why: &str| {
            let message = format!("a function with `#[gort::{attribute}]` {why}");
            if !part.to_token_stream().is_empty() {
                problems.push(Error::new_spanned(part, message));
            }
        };
        refuse(asyncness, "is not `async`: it blocks where async code awaits; remove `async` and `.await`");
        refuse(constness, "cannot be `const`");
        refuse(safety, "cannot be `unsafe`: nobody could vouch for the call");
        refuse(abi, "cannot be `extern`");
        refuse(generics, "cannot be generic: nobody would choose the types");
        refuse(inputs, "takes no parameters");
        refuse(variadic, "takes no parameters");
        let all = problems.into_iter().reduce(|mut all, problem| {
            all.combine(problem);
            all
        });
        all.map_or(Ok(()), Err)
    }

    fn run_as_goroutine(&self, runner: TokenStream, more_attributes: TokenStream) -> TokenStream {
        let Function { attributes, visibility, signature, body } = self;
        let name = &signature.ident;
        let (output, call) = match &signature.output {
            ReturnType::Type(_, ty) if !is_unit_or_never(ty) => {
                // The span makes rustc point to the return type if `main` cannot return it.
                let report = quote_spanned! { ty.span() => ::std::process::Termination::report(#name()) };
                (quote! { -> ::std::process::ExitCode }, quote! { || #report })
            }
            same => (same.to_token_stream(), name.to_token_stream()),
        };
        quote! {
            #more_attributes
            #(#attributes)*
            #visibility fn #name() #output {
                #signature #body
                ::gort::#runner(#call)
            }
        }
    }
}

fn is_unit_or_never(ty: &Type) -> bool {
    match ty {
        Type::Tuple(tuple) => tuple.elems.is_empty(),
        Type::Never(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
