//! Models of the idle protocol: no goroutine waits while a P is idle and no M is on the way. The actors are
//! those in `src/sched/README.md`; they call the real code of finding, waking and stealing.

use super::check;
use super::world::{Actor, Setup, World};

/// Checks that `actors` keep the promise Q, in executions with at most that many preemptions.
fn model<const N: usize>(
    preemptions: Option<usize>,
    setup: Setup,
    goroutines: usize,
    actors: [fn(&mut Actor); N],
) {
    check(preemptions, move || World::play(&World::new(setup.clone()), goroutines, &actors));
}

/// The plain case: a goroutine that never ends starts another while the only spinner gives up.
pub fn a_spinner_that_gives_up_sees_new_work() {
    let setup = Setup { spinners: 1, ..Setup::default() };
    model(None, setup, 1, [|a| a.spawn(0, 1), |a| a.spin(1)]);
}

/// The plain case with a spinner that does not look again: the model must fail.
pub fn a_spinner_that_does_not_look_again_loses_work() {
    let setup = Setup { spinners: 1, ..Setup::default() };
    model(None, setup, 1, [|a| a.spawn(0, 1), |a| a.spin_without_recheck(1)]);
}

/// A spinner gives up while a foreign thread starts two goroutines.
pub fn a_spinner_that_gives_up_sees_the_global_queue() {
    let setup = Setup { idle: &[0], spinners: 1, ..Setup::default() };
    let outside: fn(&mut Actor) = |a| {
        a.push_global(1);
        a.push_global(2);
    };
    model(Some(4), setup, 2, [outside, |a| a.spin(1)]);
}

/// Two spinners, one of which finds work, and an M that may not spin because of them and gives its P up.
pub fn an_m_that_may_not_spin_sees_what_the_spinner_leaves() {
    let setup = Setup { ps: 3, spinners: 1, ..Setup::default() };
    let starts_two: fn(&mut Actor) = |a| {
        a.spawn(0, 1);
        a.spawn(0, 2);
    };
    model(Some(3), setup, 2, [starts_two, |a| a.spin(1), |a| a.look(2)]);
}

/// A waker takes the token and finds that the idle P is gone. Threads that saw the token meanwhile relied on
/// it.
pub fn a_waker_without_a_p_looks_before_it_gives_the_token_up() {
    let setup = Setup { idle: &[1], ..Setup::default() };
    model(Some(3), setup, 3, [|a| a.spawn(0, 1), |a| a.push_global(2), |a| a.need_p(3)]);
}

/// No M is idle, so a thread has to be started; when it runs, its P may be gone.
pub fn a_thread_start_counts_as_a_spinner() {
    let setup = Setup { idle: &[1], idle_ms: 0, ..Setup::default() };
    model(Some(3), setup, 3, [|a| a.spawn(0, 1), |a| a.push_global(2), |a| a.need_p(3)]);
}

/// An M that blocks gives its P away, with nothing in its queue, while another P's goroutine starts one.
pub fn a_p_that_is_handed_off_sees_new_work() {
    model(None, Setup::default(), 1, [|a| a.spawn(0, 1), |a| a.hand_off(1)]);
}

/// An M that blocks gives its P away with a goroutine in its queue.
pub fn a_p_that_is_handed_off_leaves_its_work_to_others() {
    let hand_off: fn(&mut Actor) = |a| {
        a.spawn(1, 1);
        a.hand_off(1);
    };
    model(None, Setup::default(), 2, [|a| a.spawn(0, 2), hand_off]);
}

/// A goroutine moves from the global queue to a P's own queue while a spinner looks at both.
pub fn work_on_its_way_from_the_global_queue_is_seen() {
    let setup = Setup { spinners: 1, ..Setup::default() };
    let outside: fn(&mut Actor) = |a| {
        a.push_global(1);
        a.push_global(2);
    };
    model(Some(3), setup, 2, [outside, |a| a.look(0), |a| a.spin(1)]);
}

/// A preempted goroutine goes to the global queue, and its M goes on with another one from its own queue,
/// while a spinner has looked at the former and not yet at the latter.
pub fn a_preempted_goroutine_is_seen() {
    let setup = Setup { spinners: 1, ..Setup::default() };
    let preempted: fn(&mut Actor) = |a| {
        a.spawn(0, 1);
        a.preempt(0, 2);
    };
    model(Some(4), setup, 2, [preempted, |a| a.spin(1)]);
}

/// A goroutine yields to another and is in no queue for a moment, while a spinner gives up.
pub fn a_yielding_goroutine_is_seen() {
    let setup = Setup { spinners: 1, ..Setup::default() };
    let yields: fn(&mut Actor) = |a| {
        a.spawn(0, 1);
        a.yield_now(0, 2);
    };
    model(Some(4), setup, 2, [yields, |a| a.spin(1)]);
}

/// A goroutine on a brisk P starts another and never ends, while sysmon finds that it is no longer brisk.
pub fn what_a_brisk_p_keeps_is_seen_when_it_is_slow() {
    let setup = Setup { idle: &[1], brisk: &[0], ..Setup::default() };
    model(None, setup, 1, [|a| a.spawn(0, 1), |a| a.find_slow(0)]);
}

/// Two goroutines wait on a brisk P, and a spinner gives up while sysmon finds that the P is no longer brisk.
pub fn what_a_brisk_p_keeps_is_seen_although_a_spinner_left_it() {
    let setup = Setup { brisk: &[0], spinners: 1, ..Setup::default() };
    let starts_two: fn(&mut Actor) = |a| {
        a.spawn(0, 1);
        a.spawn(0, 2);
    };
    model(Some(3), setup, 2, [starts_two, |a| a.find_slow(0), |a| a.spin(1)]);
}

/// A brisk P becomes slow, and sysmon wakes no M: the model must fail.
pub fn what_a_brisk_p_keeps_is_lost_without_sysmon() {
    let setup = Setup { idle: &[1], brisk: &[0], ..Setup::default() };
    let slow: fn(&mut Actor) = |a| a.forget_to_wake(0);
    model(None, setup, 1, [|a| a.spawn(0, 1), slow]);
}

/// Goroutines that end at once: in the end all have run, and all Ps are idle.
pub fn everything_runs() {
    let setup = Setup { idle: &[1], hogs: false, ..Setup::default() };
    let main: fn(&mut Actor) = |a| {
        a.spawn(0, 1);
        a.spawn(0, 2);
        a.look(0);
    };
    model(Some(4), setup, 3, [|a| a.push_global(3), main]);
}

/// A goroutine that never ends pushes a fork while the only spinner, or an M without a token, gives up. A
/// helper is idle.
pub fn a_pending_fork_is_seen() {
    let setup = Setup { spinners: 1, ..Setup::default() };
    let pushes: fn(&mut Actor) = |a| {
        a.rest(NOWHERE, 1);
        a.push_fork();
    };
    model(Some(4), setup, 1, [pushes, |a| a.spin(1)]);
    model(Some(4), Setup::default(), 1, [pushes, |a| a.look(1)]);
}

/// A fork is pending when no helper is idle. Then one becomes idle, and its M has other work, while another M
/// gives its P up.
pub fn a_fork_is_seen_when_a_helper_rests() {
    let setup = Setup { ps: 3, ..Setup::default() };
    let rests: fn(&mut Actor) = |a| a.rest(NOWHERE, 1);
    model(Some(3), setup, 1, [|a| a.push_fork(), rests, |a| a.look(2)]);
}

/// No P: the M of a helper that rests has other work.
const NOWHERE: usize = usize::MAX;
