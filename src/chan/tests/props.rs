//! Property tests: channels behave like a model, a queue with a limit.

use std::collections::VecDeque;

use proptest::prelude::*;

use crate::chan::{
    Receiver, RecvError, Select, SelectedOperation, SendError, Sender, TryRecvError, TrySendError, bounded,
    unbounded,
};

#[derive(Clone, Copy, Debug)]
enum Step {
    TrySend,
    TryRecv,
    SelectRecv,
    /// Chooses a send. A later step completes or abandons it.
    Choose,
    Complete,
    Abandon,
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => Just(Step::TrySend),
        6 => Just(Step::TryRecv),
        3 => Just(Step::SelectRecv),
        4 => Just(Step::Choose),
        3 => Just(Step::Complete),
        1 => Just(Step::Abandon),
        1 => Just(Step::Close),
    ];
    prop::collection::vec(step, 1..200)
}

struct Model {
    queue: VecDeque<Box<usize>>,
    limit: usize,
    closed: bool,
}

fn check(s: &Sender<Box<usize>>, r: &Receiver<Box<usize>>, limit: usize, steps: &[Step]) {
    let mut model = Model { queue: VecDeque::new(), limit, closed: false };
    let mut chosen: Vec<SelectedOperation<'_>> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let room = model.queue.len() + chosen.len() < model.limit;
        match step {
            Step::TrySend => {
                let expected = if model.closed {
                    Err(TrySendError::Disconnected(Box::new(i)))
                } else if room {
                    model.queue.push_back(Box::new(i));
                    Ok(())
                } else {
                    Err(TrySendError::Full(Box::new(i)))
                };
                assert_eq!(s.try_send(Box::new(i)), expected);
            }
            Step::TryRecv => {
                let expected = model.queue.pop_front().ok_or(if model.closed {
                    TryRecvError::Disconnected
                } else {
                    TryRecvError::Empty
                });
                assert_eq!(r.try_recv(), expected);
            }
            Step::SelectRecv => {
                let mut sel = Select::new();
                sel.recv(r);
                let ready = !model.queue.is_empty() || model.closed;
                assert_eq!(sel.try_ready().is_ok(), ready);
                match sel.try_select() {
                    Ok(oper) => assert_eq!(oper.recv(r), model.queue.pop_front().ok_or(RecvError)),
                    Err(_) => assert!(!ready),
                }
            }
            Step::Choose => {
                let mut sel = Select::new();
                sel.send(s);
                assert_eq!(sel.try_ready().is_ok(), room || model.closed);
                match sel.try_select() {
                    Ok(oper) if model.closed => {
                        assert_eq!(oper.send(s, Box::new(i)), Err(SendError(Box::new(i))));
                    }
                    Ok(oper) => {
                        assert!(room);
                        chosen.push(oper);
                    }
                    Err(_) => assert!(!room && !model.closed),
                }
            }
            Step::Complete => {
                if let Some(oper) = chosen.pop() {
                    let result = oper.send(s, Box::new(i));
                    if model.closed {
                        assert_eq!(result, Err(SendError(Box::new(i))));
                    } else {
                        assert_eq!(result, Ok(()));
                        model.queue.push_back(Box::new(i));
                    }
                }
            }
            Step::Abandon => {
                if let Some(oper) = chosen.pop() {
                    // Dropping the operation normally would panic and fill the log. So drop it during another
                    // unwinding, where it does not panic.
                    let unwinding = std::panic::AssertUnwindSafe(|| {
                        let _oper = oper;
                        std::panic::resume_unwind(Box::new(()));
                    });
                    assert!(std::panic::catch_unwind(unwinding).is_err());
                }
            }
            Step::Close => {
                assert_eq!(s.close(), !model.closed);
                model.closed = true;
            }
        }
        assert_eq!((s.len(), r.len()), (model.queue.len(), model.queue.len()));
        assert_eq!(s.is_empty(), model.queue.is_empty());
        assert_eq!(s.is_full(), s.capacity() == Some(model.queue.len()));
    }
    for oper in chosen {
        let _ = oper.send(s, Box::new(0));
    }
}

proptest! {
    #[test]
    fn rings_are_queues_with_a_limit(cap in 1_usize..9, steps in steps()) {
        let (s, r) = bounded(cap);
        check(&s, &r, cap, &steps);
    }

    #[test]
    fn lists_are_queues(steps in steps()) {
        let (s, r) = unbounded();
        check(&s, &r, usize::MAX, &steps);
    }

    #[test]
    fn lists_with_a_limit_are_queues_with_a_limit(limit in 1_usize..9, steps in steps()) {
        let (s, r) = crate::chan::limited_list(limit);
        check(&s, &r, limit, &steps);
    }
}
