//! Runs the models. `cargo test -p gort-loom --release`: without optimisation they take minutes.

macro_rules! run {
    ($($part:ident = $path:path: $($model:ident)*;)*) => {
        $(mod $part {
            use $path as models;
            $(#[test]
            fn $model() {
                models::$model();
            })*
        })*
    };
}

run! {
    chan_exchange = gort_loom::models::chan::exchange:
        a_chosen_send_of_a_limited_list
        a_chosen_send_of_a_meeting
        a_chosen_send_of_a_ring
        blocks_are_linked_left_and_used_again
        the_last_one_frees_the_channel;
    chan_ring = gort_loom::models::chan::ring:
        a_flag_and_a_pop_do_not_miss_each_other
        a_flag_and_a_push_do_not_miss_each_other
        an_exchange_keeps_the_order_and_the_slot
        nothing_is_pushed_after_a_close
        one_sender_and_one_receiver_go_around
        two_receivers_get_different_messages
        two_senders_get_different_slots;
    chan_select = gort_loom::models::chan::select:
        a_close_ends_a_select
        a_select_gets_one_of_two_messages_and_leaves_the_other
        a_select_meets_one_of_two_senders
        a_select_that_waits_for_room_gets_it
        a_timeout_of_a_select_and_a_receiver_agree
        two_selects_meet_each_other;
    event_log = gort_loom::models::event_log:
        a_loss_is_known_before_what_follows_it_and_does_not_last
        logs_that_compete_for_memory_have_different_chunks
        what_is_written_is_read_once_and_in_order
        who_has_seen_a_consequence_finds_its_cause;
    fork = gort_loom::models::fork:
        a_frame_stays_until_its_fork_has_ended
        nested_forks_against_a_thief
        nested_forks_against_two_thieves
        one_fork_against_two_thieves
        places_are_used_again_under_a_thief;
    futex = gort_loom::models::futex:
        a_wake_up_after_the_change_finds_the_waiter
        one_in_the_table_and_one_in_the_kernel_are_both_woken
        one_of_two_that_gives_up_takes_no_wake_up_with_it
        one_that_is_moved_is_woken_at_the_other_word_or_gives_up
        two_requeues_in_opposite_directions_do_not_block_each_other;
    idle = gort_loom::models::idle:
        a_fork_is_seen_when_a_helper_rests
        a_p_that_is_handed_off_leaves_its_work_to_others
        a_p_that_is_handed_off_sees_new_work
        a_pending_fork_is_seen
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
    join = gort_loom::models::join:
        a_finished_goroutine_needs_no_wait
        exactly_one_side_sees_the_other;
    known = gort_loom::models::known:
        a_change_of_flags_makes_all_answers_before_it_old
        two_that_ask_do_not_hide_each_other
        what_was_found_before_a_number_was_reused_is_not_noted;
    netpoll = gort_loom::models::netpoll:
        a_changed_deadline_is_seen
        a_deadline_and_an_edge_never_both_end_a_wait
        a_reader_gets_what_comes_at_any_moment
        close_wakes_all_readers
        edges_that_two_polls_deliver_in_any_order_are_both_seen
        two_datagrams_of_one_edge_reach_two_readers;
    park = gort_loom::models::park:
        a_holder_delays_the_wake_up_but_does_not_lose_it
        each_wait_has_its_own_notification
        exactly_one_side_runs_it
        two_holders_take_turns;
    runq = gort_loom::models::runq:
        a_queue_that_is_never_empty_never_looks_empty
        a_stolen_goroutine_is_complete
        every_operation_against_one_thief
        overflow_against_two_thieves
        put_and_take_against_two_thieves
        runnext_against_two_thieves
        slots_are_reused_under_a_thief;
    sync_condvar = gort_loom::models::sync::condvar:
        a_broadcast_finds_all
        a_notification_finds_the_waiter
        one_that_gives_up_takes_no_notification_with_it;
    sync_mutex = gort_loom::models::sync::mutex:
        a_fair_unlock_hands_over
        a_spinner_takes_the_wake_up_of_a_waiter_and_loses_nothing
        a_waiter_that_gives_up_takes_nobody_s_wake_up_with_it
        three_impatient_threads_hand_over
        three_threads_exclude_each_other
        two_impatient_threads_hand_over
        two_threads_exclude_each_other;
    sync_rwlock = gort_loom::models::sync::rwlock:
        a_fair_unlock
        a_reader_that_gives_up
        a_writer_and_readers
        a_writer_that_gives_up_lets_readers_in
        an_upgradable_reader_leaves
        an_upgrade_that_gives_up
        an_upgrader_a_writer_and_a_reader
        downgrades
        recursive_reads_pass_a_queued_writer
        spinning_changes_nothing
        the_only_one_queued_gives_up
        two_upgraders_and_a_reader
        writers_alone
        writers_and_a_reader;
    sync_semaphore = gort_loom::models::sync::semaphore:
        a_large_request_that_gives_up_lets_small_ones_go
        large_and_small_requests
        permits_that_go_and_come
        small_requests_that_give_up;
    sync_wait_group = gort_loom::models::sync::wait_group:
        a_group_is_used_again_after_a_wait
        a_waiter_sees_everything_that_was_done
        two_waiters_and_one_that_gives_up;
    task = gort_loom::models::task:
        a_late_call_does_no_harm
        every_call_is_followed_by_a_poll;
}

#[test]
#[should_panic(expected = "a goroutine waits while a P is idle")]
fn the_idle_model_finds_a_lost_wake_up() {
    gort_loom::models::idle::a_spinner_that_does_not_look_again_loses_work();
}

#[test]
#[should_panic(expected = "a goroutine waits while a P is idle")]
fn the_idle_model_finds_a_kept_goroutine_that_nobody_looks_after() {
    gort_loom::models::idle::what_a_brisk_p_keeps_is_lost_without_sysmon();
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_futex_model_finds_a_missing_fence() {
    gort_loom::models::futex::a_waker_that_does_not_fence_loses_the_waiter();
}

#[test]
#[should_panic(expected = "an answer of before the change is trusted")]
fn the_known_model_finds_a_caller_that_is_asking() {
    gort_loom::models::known::a_change_that_looks_for_answers_only_leaves_an_old_one();
}
