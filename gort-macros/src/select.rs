//! Expands `select!`: parses the cases and generates code that evaluates the handles, selects, and runs a
//! body.
//!
//! ```text
//! match &(handle0) { h0 => { let h0: &Receiver<_> = h0;       // keeps temporaries alive
//! match &(handle1) { h1 => { let h1: &Sender<_> = h1;
//!     let c0 = RecvCase::new(h0);
//!     let c1 = SendCase::new(h1);
//!     let chosen = select([c0.case(0), c1.case(1)], biased);
//!     match chosen.index() {
//!         0 => { let value = c0.finish(chosen); let pattern = value; body }
//!         _ => { let value = c1.finish(chosen).send(message); let pattern = value; body }
//!     }
//! }}}}
//! ```
//!
//! Generated names are hygienic (`Span::mixed_site`). No generated closure or loop encloses a body, so
//! `return`, `break` and `?` in a body mean what they mean around the `select!`. No generated value with a
//! destructor is alive while a body runs, so a body may move the handles.

use proc_macro2::{Delimiter, Group, Ident, Spacing, Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, LitBool, Result, Token, token};

/// The parsed input of the macro.
struct Input {
    /// `$crate` as a token, so that the macro works wherever it is re-exported.
    krate: TokenTree,
    biased: LitBool,
    cases: Vec<Case>,
    default: Option<Default>,
}

/// A send or a receive.
struct Case {
    handle: Expr,
    /// The message of a send; `None` for a receive.
    message: Option<Expr>,
    pattern: TokenStream,
    body: TokenStream,
}

struct Default {
    timeout: Option<Expr>,
    body: TokenStream,
}

pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let input = Input::parse.parse2(input)?;
    Ok(input.expand())
}

impl Parse for Input {
    fn parse(input: ParseStream<'_>) -> Result<Input> {
        let krate: TokenTree = input.parse()?;
        let biased: LitBool = input.parse()?;
        if input.is_empty() {
            return Err(Error::new(Span::call_site(), "empty `select!` block"));
        }
        let mut cases = Vec::new();
        let mut default = None;
        while !input.is_empty() {
            let keyword = Ident::parse_any(input)
                .map_err(|err| Error::new(err.span(), "expected one of `recv`, `send`, or `default`"))?;
            match keyword.to_string().as_str() {
                "recv" => cases.push(parse_recv(&keyword, input)?),
                "send" => cases.push(parse_send(&keyword, input)?),
                "default" if default.is_some() => {
                    let text = "there can be only one `default` case in a `select!` block";
                    return Err(Error::new(keyword.span(), text));
                }
                "default" => default = Some(parse_default(input)?),
                other => {
                    let text = format!("expected one of `recv`, `send`, or `default`, found `{other}`");
                    return Err(Error::new(keyword.span(), text));
                }
            }
        }
        Ok(Input { krate, biased, cases, default })
    }
}

fn parse_recv(keyword: &Ident, input: ParseStream<'_>) -> Result<Case> {
    let (span, arguments) = parse_arguments(keyword, input)?;
    let Ok([handle]) = <[Expr; 1]>::try_from(arguments) else {
        return Err(Error::new(span, "`recv` takes one argument, the receiver: `recv(r) -> result => ..`"));
    };
    parse_case(keyword, handle, None, input)
}

fn parse_send(keyword: &Ident, input: ParseStream<'_>) -> Result<Case> {
    let (span, arguments) = parse_arguments(keyword, input)?;
    let Ok([handle, message]) = <[Expr; 2]>::try_from(arguments) else {
        let text =
            "`send` takes two arguments, the sender and the message: `send(s, message) -> result => ..`";
        return Err(Error::new(span, text));
    };
    parse_case(keyword, handle, Some(message), input)
}

fn parse_case(keyword: &Ident, handle: Expr, message: Option<Expr>, input: ParseStream<'_>) -> Result<Case> {
    if !input.peek(Token![->]) {
        let text = format!(
            "expected `->` and a pattern for the result, as in `{keyword}(..) -> result => ..`{}",
            found(input)
        );
        return Err(Error::new(input.span(), text));
    }
    input.parse::<Token![->]>()?;
    let pattern = parse_pattern(input)?;
    let body = parse_body(keyword, input)?;
    Ok(Case { handle, message, pattern, body })
}

fn parse_default(input: ParseStream<'_>) -> Result<Default> {
    let keyword = Ident::new("default", Span::call_site());
    let mut timeout = None;
    if input.peek(token::Paren) {
        let (span, arguments) = parse_arguments(&keyword, input)?;
        let mut arguments = arguments.into_iter();
        timeout = arguments.next();
        if arguments.next().is_some() {
            return Err(Error::new(span, "`default` takes at most one argument, a `Duration`"));
        }
    }
    if !input.peek(Token![=>]) {
        let text = format!("expected `=>` or an argument list after `default`{}", found(input));
        return Err(Error::new(input.span(), text));
    }
    let body = parse_body(&keyword, input)?;
    Ok(Default { timeout, body })
}

/// The expressions in parentheses, and the span of the parentheses.
fn parse_arguments(keyword: &Ident, input: ParseStream<'_>) -> Result<(Span, Vec<Expr>)> {
    if !input.peek(token::Paren) {
        let text = format!("expected an argument list after `{keyword}`{}", found(input));
        return Err(Error::new(if input.is_empty() { keyword.span() } else { input.span() }, text));
    }
    let content;
    let parens = syn::parenthesized!(content in input);
    let arguments = Punctuated::<Expr, Token![,]>::parse_terminated(&content)?;
    Ok((parens.span.join(), arguments.into_iter().collect()))
}

/// The tokens up to `=>`. The compiler checks whether they are a pattern.
fn parse_pattern(input: ParseStream<'_>) -> Result<TokenStream> {
    let mut pattern = TokenStream::new();
    let mut alternatives = false;
    while !input.peek(Token![=>]) {
        if input.is_empty() {
            return Err(input.error("expected `=>` after the pattern of the result"));
        }
        if input.peek(Token![->]) {
            return Err(input.error("expected `=>`, found `->`"));
        }
        let token: TokenTree = input.parse()?;
        alternatives |= matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '|');
        pattern.extend([token]);
    }
    if pattern.is_empty() {
        return Err(input.error("expected a pattern for the result after `->`"));
    }
    Ok(if alternatives { quote!((#pattern)) } else { pattern })
}

/// Parses `=>`, an expression or a block, and the comma after it.
fn parse_body(keyword: &Ident, input: ParseStream<'_>) -> Result<TokenStream> {
    input.parse::<Token![=>]>()?;
    if input.is_empty() || input.peek(Token![,]) {
        return Err(input.error(format!("expected an expression after `=>` of the `{keyword}` case")));
    }
    if let Some(block) = parse_block(input)? {
        input.parse::<Option<Token![,]>>()?;
        return Ok(block);
    }
    let may_be_cut = starts_like_a_statement(input);
    let body: Expr = input.parse()?;
    let ends_here = input.is_empty() || input.peek(Token![,]) || (is_block_like(&body) && at_case(input));
    if !ends_here {
        let text = if input.peek(Token![;]) {
            "expected `,` between the cases of a `select!`, found `;`".to_string()
        } else {
            format!("expected `,` after this case{}", found(input))
        };
        return Err(Error::new(input.span(), text));
    }
    input.parse::<Option<Token![,]>>()?;
    // Without parentheses, rustc would read `{ a } + b` at the end of a block as two statements.
    Ok(if may_be_cut && !is_block_like(&body) { quote!((#body)) } else { quote!(#body) })
}

/// Parses a block in braces, if it is the whole body and not the beginning of an expression like `{ a } + b`.
fn parse_block(input: ParseStream<'_>) -> Result<Option<TokenStream>> {
    let ahead = input.fork();
    // Not `peek`, which also looks into the invisible groups around fragments of other macros.
    let block = match ahead.parse::<TokenTree>()? {
        TokenTree::Group(block) if block.delimiter() == Delimiter::Brace => block,
        _ => return Ok(None),
    };
    if ahead.peek(Token![;]) {
        return Err(ahead.error("expected `,` or nothing between the cases of a `select!`, found `;`"));
    }
    if ahead.is_empty() || ahead.peek(Token![,]) || at_case(&ahead) {
        input.parse::<Group>()?;
        return Ok(Some(quote!(#block)));
    }
    Ok(None)
}

/// Whether the next token begins an expression that can be a statement without a semicolon.
fn starts_like_a_statement(input: ParseStream<'_>) -> bool {
    input.peek(token::Brace)
        || input.peek(Token![if])
        || input.peek(Token![match])
        || input.peek(Token![loop])
        || input.peek(Token![while])
        || input.peek(Token![for])
        || input.peek(Token![unsafe])
}

/// Whether the next token is the keyword of a case.
fn at_case(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    let Ok(ident) = Ident::parse_any(&ahead) else { return false };
    ["recv", "send", "default"].iter().any(|keyword| ident == keyword)
        && (ahead.peek(token::Paren) || ahead.peek(Token![=>]))
}

fn is_block_like(body: &Expr) -> bool {
    matches!(
        body,
        Expr::Block(_)
            | Expr::Unsafe(_)
            | Expr::If(_)
            | Expr::Match(_)
            | Expr::Loop(_)
            | Expr::While(_)
            | Expr::ForLoop(_)
    )
}

/// Names the next token, for error messages.
fn found(input: ParseStream<'_>) -> String {
    let Ok(token) = input.fork().parse::<TokenTree>() else { return ", found the end".to_string() };
    // Show both characters of a two-character operator.
    match &token {
        TokenTree::Punct(first) if first.spacing() == Spacing::Joint => {
            let ahead = input.fork();
            let second = ahead.parse::<TokenTree>().and_then(|_| ahead.parse::<TokenTree>());
            format!(", found `{first}{}`", second.map(|t| t.to_string()).unwrap_or_default())
        }
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => ", found `{`".to_string(),
        token => format!(", found `{token}`"),
    }
}

impl Input {
    fn expand(&self) -> TokenStream {
        let krate = &self.krate;
        let chan = quote!(#krate::chan);
        let Input { cases, default, .. } = self;
        let inner = match (cases.as_slice(), default) {
            ([case @ Case { message: None, .. }], default) => one_receive(&chan, case, default.as_ref()),
            (cases, default) => self.general(&chan, cases, default.as_ref()),
        };
        // Handles are evaluated in order, so the first one is the outermost.
        self.cases.iter().enumerate().rev().fold(inner, |inner, (index, case)| {
            let name = name('h', index);
            let handle = &case.handle;
            let kind = if case.message.is_some() { quote!(Sender) } else { quote!(Receiver) };
            // The span makes rustc point to the handle if it has the wrong type.
            let span = Span::mixed_site().located_at(handle.span());
            let checked = quote_spanned!(span=> let #name: &#chan::#kind<_> = #name;);
            quote!(match &(#handle) { #name => { #checked #inner } })
        })
    }

    fn general(&self, chan: &TokenStream, cases: &[Case], default: Option<&Default>) -> TokenStream {
        let chosen = Ident::new("chosen", Span::mixed_site());
        let biased = &self.biased;
        let mut setup = TokenStream::new();
        let mut list = TokenStream::new();
        let mut arms = TokenStream::new();
        for (index, case) in cases.iter().enumerate() {
            let (handle, this) = (name('h', index), name('c', index));
            let kind = if case.message.is_some() { quote!(SendCase) } else { quote!(RecvCase) };
            setup.extend(quote!(let #this = #chan::internal::#kind::new(#handle);));
            list.extend(quote!(#this.case(#index),));
            let finish = match &case.message {
                Some(message) => quote!(#this.finish(#chosen).send(#message)),
                None => quote!(#this.finish(#chosen)),
            };
            let body = bind(&case.pattern, &finish, &case.body);
            // The last case matches `_`, so the arms are exhaustive without a panicking one.
            let test = if index + 1 == cases.len() { quote!(_) } else { quote!(#index) };
            arms.extend(quote!(#test => #body,));
        }
        let run = quote!(match #chosen.index() { #arms });
        let (select, extra) = match default {
            None => (quote!(select), quote!()),
            Some(Default { timeout: None, .. }) => (quote!(try_select), quote!()),
            Some(Default { timeout: Some(timeout), .. }) => (quote!(select_timeout), quote!(, #timeout)),
        };
        let call = quote!(#chan::internal::#select([#list], #biased #extra));
        match default {
            None => quote!({ #setup let #chosen = #call; #run }),
            Some(Default { body, .. }) if cases.is_empty() => quote!({ let _ = #call; #body }),
            Some(Default { body, .. }) => quote!({
                #setup
                match #call {
                    ::core::option::Option::Some(#chosen) => #run,
                    ::core::option::Option::None => #body,
                }
            }),
        }
    }
}

/// A single receive, with or without a default, needs no select.
fn one_receive(chan: &TokenStream, case: &Case, default: Option<&Default>) -> TokenStream {
    let handle = name('h', 0);
    let Case { pattern, body, .. } = case;
    let result = Ident::new("result", Span::mixed_site());
    let (receive, error, default) = match default {
        None => return bind(pattern, &quote!(#handle.recv()), body),
        Some(Default { timeout: None, body }) => (quote!(try_recv()), quote!(TryRecvError::Empty), body),
        Some(Default { timeout: Some(timeout), body }) => {
            (quote!(recv_timeout(#timeout)), quote!(RecvTimeoutError::Timeout), body)
        }
    };
    let other = quote!(#result.map_err(|_| #chan::RecvError));
    let body = bind(pattern, &other, body);
    quote!(match #handle.#receive {
        ::core::result::Result::Err(#chan::#error) => #default,
        #result => #body,
    })
}

/// Evaluates `result`, drops its temporaries, and runs the body with the pattern bound.
fn bind(pattern: &TokenStream, result: &TokenStream, body: &TokenStream) -> TokenStream {
    let value = Ident::new("value", Span::mixed_site());
    quote!({
        let #value = #result;
        let #pattern = #value;
        #body
    })
}

fn name(prefix: char, index: usize) -> Ident {
    format_ident!("{prefix}{index}", span = Span::mixed_site())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(cases: &str) -> String {
        let input = format!("gort false {cases}").parse().expect("tokens");
        match expand(input) {
            Ok(output) => panic!("{cases} was accepted: {output}"),
            Err(err) => err.to_string(),
        }
    }

    fn accept(cases: &str) {
        let input = format!("gort false {cases}").parse().expect("tokens");
        let output = expand(input).unwrap_or_else(|err| panic!("{cases}: {err}"));
        syn::parse2::<Expr>(output).unwrap_or_else(|err| panic!("{cases}: {err}"));
    }

    #[test]
    fn mistakes_are_explained() {
        let mistakes = [
            ("", "empty `select!` block"),
            ("42 => {}", "expected one of `recv`, `send`, or `default`"),
            ("receive(r) -> m => {}", "expected one of `recv`, `send`, or `default`, found `receive`"),
            ("recv", "expected an argument list after `recv`, found the end"),
            ("recv -> m => {}", "expected an argument list after `recv`, found `->`"),
            ("recv { r } -> m => {}", "expected an argument list after `recv`, found `{`"),
            ("recv() -> m => {}", "`recv` takes one argument, the receiver: `recv(r) -> result => ..`"),
            ("recv(a, b) -> m => {}", "`recv` takes one argument, the receiver: `recv(r) -> result => ..`"),
            (
                "send(s) -> m => {}",
                "`send` takes two arguments, the sender and the message: `send(s, message) -> result => ..`",
            ),
            (
                "recv(r) => {}",
                "expected `->` and a pattern for the result, as in `recv(..) -> result => ..`, found `=>`",
            ),
            (
                "send(s, 1)",
                "expected `->` and a pattern for the result, as in `send(..) -> result => ..`, found the end",
            ),
            ("recv(r) -> => {}", "expected a pattern for the result after `->`"),
            ("recv(r) -> a -> b => {}", "expected `=>`, found `->`"),
            ("recv(r) -> m", "unexpected end of input, expected `=>` after the pattern of the result"),
            (
                "recv(r) -> m =>",
                "unexpected end of input, expected an expression after `=>` of the `recv` case",
            ),
            ("recv(r) -> m => ,", "expected an expression after `=>` of the `recv` case"),
            (
                "recv(r) -> m => {}; default => {}",
                "expected `,` or nothing between the cases of a `select!`, found `;`",
            ),
            (
                "recv(r) -> m => f(); default => {}",
                "expected `,` between the cases of a `select!`, found `;`",
            ),
            ("recv(r) -> m => f() default => {}", "expected `,` after this case, found `default`"),
            ("default -> m => {}", "expected `=>` or an argument list after `default`, found `->`"),
            ("default(a, b) => {}", "`default` takes at most one argument, a `Duration`"),
            ("default => {} default => {}", "there can be only one `default` case in a `select!` block"),
        ];
        for (cases, expected) in mistakes {
            assert_eq!(error(cases), expected, "{cases}");
        }
    }

    #[test]
    fn the_grammar_is_crossbeams() {
        for cases in [
            "default => {}",
            "default() => 1",
            "default(t,) => f(),",
            "recv(r) -> _ => {}",
            "recv(r,) -> Ok(x) | Err(x) => x, default => y",
            "recv(a.b[0]) -> mut m => if m { 1 } else { 2 }, recv(&&r) -> _ => loop {},",
            "recv(r) -> m => {} recv(r) -> m => {} send(s, 1 + 2) -> _ => {} default(t) => {}",
            "send(s, (1, 2),) -> res => res.unwrap(), send(S { f }.f, x) -> _ => return",
            "recv(r) -> _ => { a }.b(), recv(r) -> _ => { a } + 1, recv(r) -> _ => match x {} + 1",
        ] {
            accept(cases);
        }
    }
}
