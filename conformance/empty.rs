//! Only the tests of this package matter.
