//! gort's `chan`: the library's own files, with stand-ins for spinning, random numbers and slots.

#[path = "../../../src/chan/counter.rs"]
pub(crate) mod counter;
#[path = "../../../src/chan/errors.rs"]
pub(crate) mod errors;
#[path = "../../../src/chan/waitq.rs"]
pub(crate) mod waitq;

#[path = "."]
pub(crate) mod flavors {
    #[path = "../../../src/chan/flavors/array/mod.rs"]
    pub(crate) mod array;
    #[path = "../../../src/chan/flavors/discard.rs"]
    mod discard;
    #[path = "../../../src/chan/flavors/list/mod.rs"]
    pub(crate) mod list;
    #[path = "../../../src/chan/flavors/pad.rs"]
    pub(crate) mod pad;
    #[path = "../../../src/chan/flavors/zero/mod.rs"]
    pub(crate) mod zero;

    pub(crate) mod relax;
    pub(crate) mod slot;
}

#[path = "."]
pub(crate) mod select {
    #[path = "../../../src/chan/select/engine.rs"]
    pub(crate) mod engine;
    #[path = "../../../src/chan/select/handle.rs"]
    pub(crate) mod handle;

    pub(crate) mod rng;
}
