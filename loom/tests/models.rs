//! Runs the models. `cargo test -p gort-loom --release`: without optimisation they take minutes.

macro_rules! run {
    ($($part:ident: $($model:ident)*;)*) => {
        $(mod $part {
            $(#[test]
            fn $model() {
                gort_loom::models::$part::$model();
            })*
        })*
    };
}

run! {
    join:
        a_finished_goroutine_needs_no_wait
        exactly_one_side_sees_the_other;
    park:
        a_holder_delays_the_wake_up_but_does_not_lose_it
        each_wait_has_its_own_notification
        exactly_one_side_runs_it
        two_holders_take_turns;
    runq:
        a_queue_that_is_never_empty_never_looks_empty
        a_stolen_goroutine_is_complete
        every_operation_against_one_thief
        overflow_against_two_thieves
        put_and_take_against_two_thieves
        runnext_against_two_thieves
        slots_are_reused_under_a_thief;
    sleep:
        a_p_that_is_handed_off_leaves_its_work_to_others
        a_p_that_is_handed_off_sees_new_work
        a_preempted_goroutine_is_seen
        a_spinner_that_gives_up_sees_new_work
        a_spinner_that_gives_up_sees_the_global_queue
        a_thread_start_counts_as_a_spinner
        a_waker_without_a_p_looks_before_it_gives_the_token_up
        a_yielding_goroutine_is_seen
        an_m_that_may_not_spin_sees_what_the_spinner_leaves
        everything_runs
        what_a_brisk_p_keeps_is_seen_although_a_spinner_left_it
        what_a_brisk_p_keeps_is_seen_when_it_is_slow
        work_on_its_way_from_the_global_queue_is_seen;
    task:
        a_late_call_does_no_harm
        every_call_is_followed_by_a_poll;
}

#[test]
#[should_panic(expected = "a goroutine waits while a P is idle")]
fn the_sleep_model_finds_a_lost_wake_up() {
    gort_loom::models::sleep::a_spinner_that_does_not_look_again_loses_work();
}

#[test]
#[should_panic(expected = "a goroutine waits while a P is idle")]
fn the_sleep_model_finds_a_kept_goroutine_that_nobody_looks_after() {
    gort_loom::models::sleep::what_a_brisk_p_keeps_is_lost_without_sysmon();
}
