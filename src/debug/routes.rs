//! What the server has answers for.

use std::time::Duration;

use super::http::{Answer, Refusal, Request};
use super::look::query::Query;
use super::look::{goroutine, history, table};
use super::{page, profiles, streams};
use crate::metrics;

/// The answer to a request of a client that may ask.
pub(super) fn route(request: &Request) -> Result<Answer, Refusal> {
    match request.path.as_str() {
        "/" => Ok(page::page()),
        "/metrics" => {
            Ok(Answer::new("text/plain; version=0.0.4; charset=utf-8", metrics::prometheus().into_bytes()))
        }
        "/debug" | "/debug/" => Ok(Answer::redirect(308, "/")),
        "/debug/live" => live(request),
        "/debug/goroutines" => goroutines(request),
        "/debug/trace" | "/debug/pprof/trace" => streams::trace(request),
        "/debug/flight" => streams::flight(),
        "/debug/pprof" => Ok(Answer::redirect(308, "/debug/pprof/")),
        path => match path.strip_prefix("/debug/pprof/") {
            Some(name) => profiles::route(name, request),
            None => Err(Refusal::not_found(format!(
                "{path:?}: this server has / /metrics /debug/goroutines /debug/trace /debug/flight \
                 /debug/pprof/"
            ))),
        },
    }
}

/// What happened since a sample: `page/data.js` asks for this.
fn live(request: &Request) -> Result<Answer, Refusal> {
    let since = request.number("since", 0.0, 0.0, 1e15)? as u64;
    let json = history::since(since);
    json.map(Answer::json)
        .map_err(|error| Refusal::unavailable(format!("no thread could be started: {error}")))
}

/// The goroutines, or one of them.
fn goroutines(request: &Request) -> Result<Answer, Refusal> {
    // The thread that is started here also gives the table's memory back, so without it there is none.
    let looks = history::look();
    looks.map_err(|error| Refusal::unavailable(format!("no thread could be started: {error}")))?;
    if let Some(id) = request.parameter("id") {
        let number = id.parse::<u64>();
        let number = number.map_err(|_| Refusal::bad_request(format!("id={id:?}: it must be a number")))?;
        return one(number, request);
    }
    let query = Query::of(request)?;
    let table = table::latest();
    Ok(if request.wants_text() { Answer::text(query.text(&table)) } else { Answer::json(query.json(&table)) })
}

fn one(id: u64, request: &Request) -> Result<Answer, Refusal> {
    let table = table::latest();
    let ended = || Refusal::not_found(format!("there is no goroutine {id}, or it has ended"));
    let row = table.rows.iter().find(|row| row.id == id).ok_or_else(ended)?;
    if request.wants_text() {
        return goroutine::text(row).map(Answer::text).ok_or_else(ended);
    }
    goroutine::describe(row, &table).map(Answer::json).ok_or_else(ended)
}

/// The parameter `seconds`.
pub(super) fn seconds(request: &Request, default: f64) -> Result<Duration, Refusal> {
    const MOST: f64 = 3600.0;
    request.number("seconds", default, 0.001, MOST).map(Duration::from_secs_f64)
}
