//! Channels: the library's own files. Giving way, dice and slots are replaced.

#[path = "../../../src/chan/array.rs"]
pub(crate) mod array;
#[path = "../../../src/chan/array_select.rs"]
mod array_select;
#[path = "../../../src/chan/block.rs"]
pub(crate) mod block;
#[path = "../../../src/chan/counter.rs"]
pub(crate) mod counter;
#[path = "../../../src/chan/engine.rs"]
pub(crate) mod engine;
#[path = "../../../src/chan/errors.rs"]
pub(crate) mod errors;
#[path = "../../../src/chan/handle.rs"]
pub(crate) mod handle;
#[path = "../../../src/chan/list.rs"]
pub(crate) mod list;
#[path = "../../../src/chan/list_select.rs"]
mod list_select;
#[path = "../../../src/chan/pad.rs"]
pub(crate) mod pad;
#[path = "../../../src/chan/ring.rs"]
pub(crate) mod ring;
#[path = "../../../src/chan/waitq.rs"]
pub(crate) mod waitq;
#[path = "../../../src/chan/zero.rs"]
pub(crate) mod zero;
#[path = "../../../src/chan/zero_select.rs"]
mod zero_select;

pub(crate) mod relax;
pub(crate) mod rng;
pub(crate) mod slot;
