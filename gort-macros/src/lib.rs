//! Procedural macros of gort. Use them through the `gort` crate, which re-exports them.
