//! Request handlers ([`Handler`]) and what they may return ([`IntoResponse`]).

use std::fmt;
use std::io::{self, Write};

use super::{Body, Bytes, Request, Response, StatusCode};

/// Answers requests. Every function or closure that takes a [`Request`] and returns something that
/// [converts to a response](IntoResponse) is a handler.
///
/// ```
/// use gort::http::{Handler, Request, Response, StatusCode};
/// fn handler(request: Request) -> Result<Response, (StatusCode, &'static str)> {
///     match request.uri().path() {
///         "/" => Ok(Response::new("welcome".into())),
///         _ => Err((StatusCode::NOT_FOUND, "there is nothing here")),
///     }
/// }
/// let answer = handler.handle(gort::http::Request::default());
/// assert_eq!(answer.status(), StatusCode::OK);
/// ```
pub trait Handler: Send + Sync + 'static {
    /// Answers one request. The handler may block. If it panics, the client gets a 500.
    ///
    /// The client also gets a 500 if the handler sets a `content-length` that is no number or not the length
    /// of its body; the reason is printed to standard error. A body that is read or written while it is sent
    /// is cut at the length that the handler set. If it ends earlier, the server prints the reason and cuts
    /// the connection off.
    fn handle(&self, request: Request) -> Response;
}

impl<F, R> Handler for F
where
    F: Fn(Request) -> R + Send + Sync + 'static,
    R: IntoResponse,
{
    fn handle(&self, request: Request) -> Response {
        self(request).into_response()
    }
}

/// What a handler may return: a [`Response`], text or bytes (200), a [`StatusCode`], a pair of status and
/// body, or a `Result` of two of these. An [`io::Error`] becomes a 500 that does not reveal the error to the
/// client; the error is printed to standard error.
///
/// ```
/// use gort::http::{IntoResponse, StatusCode};
/// assert_eq!((StatusCode::CREATED, "done").into_response().status(), 201);
/// ```
pub trait IntoResponse {
    /// Converts `self` to a response.
    fn into_response(self) -> Response;
}

impl IntoResponse for Response {
    fn into_response(self) -> Response {
        self
    }
}

impl IntoResponse for StatusCode {
    fn into_response(self) -> Response {
        (self, Body::empty()).into_response()
    }
}

impl<B: Into<Body>> IntoResponse for (StatusCode, B) {
    fn into_response(self) -> Response {
        let mut response = Response::new(self.1.into());
        *response.status_mut() = self.0;
        response
    }
}

impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self) -> Response {
        match self {
            Ok(answer) => answer.into_response(),
            Err(answer) => answer.into_response(),
        }
    }
}

impl IntoResponse for io::Error {
    fn into_response(self) -> Response {
        report(&self);
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

/// Says on standard error what a handler did wrong.
pub(super) fn report(error: &dyn fmt::Display) {
    let _nobody_listens = writeln!(io::stderr(), "gort: an HTTP handler failed: {error}");
}

macro_rules! bodies {
    ($($type:ty),*) => {
        $(impl IntoResponse for $type {
            fn into_response(self) -> Response {
                Response::new(self.into())
            }
        })*
    };
}

bodies!(Body, Bytes, Vec<u8>, String, &'static str, &'static [u8]);

impl IntoResponse for () {
    fn into_response(self) -> Response {
        Response::default()
    }
}
