//! Contexts: the tree, their ends and values, and waits that a context limits. By behaviour from Go's context
//! tests: TestBackground, TestWithCancel, XTestParentFinishesChild, XTestChildFinishesFirst, TestDeadline,
//! TestTimeout, TestCanceledTimeout, TestValues, TestSimultaneousCancels, TestInterlockedCancels,
//! TestLayersCancel, TestLayersTimeout, XTestCancelRemoves (a unit test), TestWithCancelCanceledParent,
//! TestWithCancelSimultaneouslyCanceledParent, TestCause, TestCauseRace, TestWithoutCancel and the
//! TestAfterFunc family.

#[path = "../common/mod.rs"]
mod common;

mod ends;
mod tree;
mod waits;

use std::time::Duration;

use gort::chan::TryRecvError;
use gort::context::{Context, Key};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3600);

/// Whether the context has ended. Its three ways to say so must agree.
fn is_done(ctx: &Context) -> bool {
    let done = ctx.done().try_recv() == Err(TryRecvError::Disconnected);
    assert_eq!(done, ctx.err().is_some());
    assert_eq!(done, ctx.cause().is_some());
    done
}

struct First;
struct Second;
impl Key for First {
    type Value = i32;
}
impl Key for Second {
    type Value = String;
}
