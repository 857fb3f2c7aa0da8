//! `gort::http`: the server as its clients see it.

#[path = "../common/mod.rs"]
mod common;

mod answers;
mod bodies;
mod client;
mod delivery;
mod length;
mod limits;
mod quiet;
mod reports;
mod server;
mod shutdown;
