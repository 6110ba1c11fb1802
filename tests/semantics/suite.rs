//! The list of cases.

/// A module with one test per case, each on a fresh fabric from `$with`, a
/// function that takes a mode and what to run.
macro_rules! suite {
    ($name:ident, $with:path, $mode:expr) => {
        suite!(@ $name, $with, $mode;
            writes {
                every_byte_order_arrives_as_named
                the_source_may_change_before_the_doorbell
                a_chain_of_a_whole_commit_takes_one_doorbell
                unaligned_bytes_are_written_and_read_back
                a_buffer_request_leaves_no_trace_in_its_slot
                empty_writes_and_reads_complete
                a_ring_may_move_between_staging_and_doorbell
                a_reader_never_sees_a_torn_word
                whoever_sees_the_tail_sees_the_flushed_record
                completions_name_the_operation_that_the_device_has
            }
            order {
                a_chain_of_writes_alone_carries_no_fence
                an_atomic_write_is_fenced_behind_an_outstanding_emulated_flush
                a_fence_is_dropped_once_the_flush_is_confirmed
                a_fence_outlives_the_doorbell_between
            }
            slots {
                on_error_writes_in_a_row_never_use_up_the_queue
                full_names_the_remedy_that_makes_room
                slots_are_freed_by_own_completions_not_by_what_the_peer_sees
                a_partly_refused_chain_is_posted_once
                a_chain_refused_again_and_again_is_posted_once
                a_refusal_with_nothing_in_flight_keeps_everything_staged
                waiting_with_staged_work_rings_first
                draining_with_staged_work_rings_first
                waiting_for_a_silent_write_in_flight_ends
                counters_return_to_balance
            }
            outcomes {
                contexts_may_repeat_be_zero_and_be_pointers
                one_completion_confirms_eight
                a_poll_without_room_fails_when_any_other_would
                confirms_counts_what_the_caller_staged_and_nothing_else
                each_retired_request_confirms_itself
                the_third_of_eight_fails
                a_failure_gives_each_context_back_once_through_poll
                a_failure_gives_each_context_back_once_through_poll_retired
                a_failure_gives_each_context_back_once_through_drain
                staged_and_never_posted_is_reported_so
                an_always_completion_means_that_all_before_it_succeeded
                a_stale_completion_of_an_earlier_ring_is_dropped
            }
            refusals {
                an_aligned_offset_on_an_unaligned_base_is_refused
                a_completion_queue_smaller_than_the_ring_is_refused
                a_ring_deeper_than_the_send_queue_is_refused
                missing_usage_bits_are_refused_before_posting
                unequal_lengths_are_refused
                an_empty_flush_is_refused
                a_persistent_flush_needs_a_persistent_peer
                a_persistent_peer_takes_a_persistent_flush
            }
            failures {
                a_wrong_rkey_fails_and_flushes_what_follows
                a_write_past_the_region_fails_whole
                a_region_without_write_rights_refuses_the_write
                a_deregistered_region_refuses_and_keeps_its_words
                a_wrong_lkey_is_a_local_error
                a_dead_ring_refuses_work_and_says_why
                an_abandoned_ring_gives_everything_back
                a_post_of_unknown_extent_fails_the_ring_and_ends
                a_post_of_unknown_extent_gives_each_context_back_once
                a_device_fault_gives_back_what_was_pending
            }
        );
    };
    (@ $name:ident, $with:path, $mode:expr; $($group:ident { $($case:ident)+ })+) => {
        mod $name {
            $(mod $group {
                $(
                    #[test]
                    fn $case() {
                        $with($mode, |fabric| $crate::$group::$case(fabric));
                    }
                )+
            })+
        }
    };
}
