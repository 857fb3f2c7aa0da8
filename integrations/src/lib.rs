//! Nothing here: see the examples, which the tests run.
