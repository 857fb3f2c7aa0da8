//! The data that `plain.rs` and `connection.rs` hand to each other, and how both call the handler.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use hyper::body::Bytes;

use super::handler::{Handler, IntoResponse};
use super::{Method, Request, Response, StatusCode, length};
use crate::hyper::Stream;
use crate::net::TcpStream;

/// What a plain connection hands to hyper.
pub(super) struct Start {
    pub(super) stream: Stream<TcpStream>,
    /// When the last request was answered, or the connection began.
    pub(super) since: Instant,
    /// The bytes that were read and not yet processed: a part of the next request, all of it, or more.
    pub(super) unread: Bytes,
    /// The answer to that request, if the handler has already been called.
    pub(super) answer: Option<Response>,
}

/// A connection that hyper hands back because its client has been quiet for a while: it becomes a plain one.
pub(super) struct Quiet {
    pub(super) stream: Stream<TcpStream>,
    /// When the last request was answered.
    pub(super) since: Instant,
}

/// Calls the handler. A panic becomes a response with status 500, and so does a wrong `content-length`.
pub(super) fn call<H: Handler>(handler: &H, request: Request) -> Response {
    let to_head = request.method() == Method::HEAD;
    catch_unwind(AssertUnwindSafe(|| length::checked(handler.handle(request), to_head)))
        .unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}
