//! The conformance suite: it is the definition of the store. One list of cases, run on each database.

#![allow(missing_docs, reason = "a test binary has no public interface")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation must end the test")]

mod accept;
mod actions;
mod audit;
mod bounces;
mod channels;
mod claim;
mod declared;
mod events;
mod ledger;
mod listing;
mod nodes;
mod objects;
mod opening;
mod planning;
mod settle;
mod signal;
mod subscriptions;
mod support;

/// Runs each case on a fresh database of each kind.
macro_rules! conformance {
    ($($module:ident :: $case:ident),* $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $case() {
                    crate::$module::$case(crate::support::Database::sqlite().await).await;
                }
            )*
        }

        mod postgres {
            $(
                #[tokio::test]
                async fn $case() {
                    crate::$module::$case(crate::support::Database::postgres().await).await;
                }
            )*
        }
    };
}

conformance! {
    accept::a_resend_gets_the_same_answer_and_stores_nothing,
    accept::a_reused_id_is_refused_and_harms_no_neighbour,
    accept::what_is_accepted_is_there_after_a_restart,
    accept::concurrent_producers_of_one_id_make_one_row,
    accept::keys_rise_even_when_the_clock_goes_back,
    claim::only_due_rows_are_claimed_the_oldest_first,
    claim::a_claimed_row_is_claimed_by_nobody_else,
    claim::a_lane_that_waits_is_left_alone,
    claim::every_waiting_lane_is_found_with_its_first_row,
    claim::a_lease_that_ended_is_found,
    claim::a_renewed_lease_goes_on_and_a_lost_one_is_named,
    claim::a_list_is_resolved_once,
    claim::a_suppressed_address_is_told_when_loading,
    claim::what_is_about_to_be_sent_is_on_record,
    claim::a_claim_given_back_may_be_put_off,
    claim::a_list_takes_the_channel_it_has_when_it_is_resolved,
    claim::a_list_that_was_tried_has_another_lane,
    claim::a_receiver_that_waits_is_spared_in_lists_too,
    claim::a_wait_from_a_clock_that_ran_ahead_does_not_count,
    claim::a_channel_that_waits_is_left_alone,
    claim::a_damaged_row_holds_up_nobody,
    settle::a_delivery_writes_attempt_and_state_together,
    settle::a_failure_is_due_again_and_keeps_its_error,
    settle::a_late_failure_changes_nothing,
    settle::a_late_success_delivers_a_row_that_is_still_live,
    settle::a_late_success_never_revives_a_terminal_row,
    settle::a_lost_claim_is_taken_back_once,
    settle::an_outcome_for_a_row_that_is_gone_is_no_error,
    settle::one_bad_outcome_harms_no_other,
    settle::a_success_counts_though_its_answer_cannot_be_stored,
    settle::a_late_success_counts_though_its_answer_cannot_be_stored,
    settle::c062_bad_bytes_are_kept_as_replacement_characters,
    settle::an_accepted_address_is_never_sent_to_again,
    settle::a_suspended_channel_is_shown_and_reopened_by_a_success,
    actions::every_action_on_every_status,
    actions::retry_starts_afresh,
    actions::retry_of_a_list_spares_those_who_took_it,
    actions::cancel_fences_the_attempt_under_way,
    audit::the_trail_tells_the_whole_story,
    audit::a_failed_audit_write_changes_no_outcome_and_is_made_up_for,
    bounces::a_hard_bounce_marks_and_suppresses,
    bounces::the_same_report_again_changes_nothing,
    bounces::a_stranger_is_never_written_down,
    bounces::an_attempt_that_reached_nobody_makes_no_acquaintance,
    bounces::whoever_was_not_sent_to_is_a_stranger,
    bounces::whoever_may_have_been_sent_to_is_none,
    bounces::a_soft_bounce_marks_and_suppresses_nobody,
    bounces::a_failure_for_good_is_news_after_one_that_may_pass,
    bounces::what_is_no_failure_is_recorded_alone,
    bounces::a_member_of_a_list_is_named,
    bounces::a_later_attempt_hides_no_bounce,
    bounces::a_report_about_nothing_is_told,
    bounces::the_case_of_a_local_part_is_no_stranger,
    bounces::a_bounce_that_could_not_be_audited_is_made_up_for,
    channels::what_stands_in_the_way_of_a_channel_is_shown,
    channels::a_reopened_channel_sends_again,
    channels::c105_a_reopened_channel_lets_go_of_what_it_held,
    channels::c051_waits_follow_a_clock_that_is_set_back,
    channels::c105_however_much_was_held_it_is_let_go_of,
    channels::c105_a_row_that_is_due_may_have_members_that_are_held,
    listing::each_filter,
    listing::a_subject_is_found_in_either_case_of_ascii_letters_alone,
    listing::pages_cover_everything_once,
    listing::a_page_of_long_texts_is_short,
    listing::a_page_of_long_lists_is_short,
    listing::figures_by_site_and_node,
    listing::keys_and_suppressions,
    nodes::each_node_has_a_seat_of_its_own,
    nodes::seats_of_the_lost_are_given_up_when_all_are_taken,
    nodes::a_seat_that_is_in_use_is_given_to_nobody,
    nodes::a_job_is_one_nodes_until_its_time_is_over,
    nodes::whoever_lost_a_job_changes_nothing_any_more,
    nodes::what_was_claimed_at_one_moment_is_found,
    nodes::the_last_key_that_may_administer_stays,
    nodes::claims_of_two_nodes_are_never_the_same,
    objects::an_object_is_made_changed_and_deleted,
    objects::what_is_so_already_takes_no_number,
    objects::a_change_is_made_only_to_what_was_expected,
    objects::of_two_who_expect_the_same_one_is_refused,
    objects::kinds_have_names_of_their_own_and_are_listed_by_them,
    objects::a_feed_stays_while_somebody_subscribes_to_it,
    objects::a_list_stays_while_it_is_to_be_told,
    objects::a_template_stays_while_something_is_to_be_rendered_with_it,
    objects::what_was_is_kept_between_its_two_changes,
    subscriptions::a_subscription_comes_back_as_it_was_put,
    subscriptions::what_is_put_again_takes_no_number,
    subscriptions::a_subscription_is_changed_only_as_expected,
    subscriptions::a_subscription_needs_a_feed_that_counts_and_stays_on_it,
    subscriptions::a_filter_that_makes_no_sense_is_refused,
    subscriptions::of_a_deleted_subscription_nothing_personal_is_left,
    subscriptions::a_subscription_made_again_is_the_same_to_the_ledger,
    subscriptions::what_it_was_is_kept_between_its_two_changes,
    subscriptions::when_it_was_last_told_is_known,
    subscriptions::each_filter_of_a_listing,
    subscriptions::pages_cover_every_subscription_once,
    subscriptions::each_of_an_import_has_its_own_answer_and_all_one_number,
    subscriptions::an_import_of_what_is_so_takes_no_number,
    subscriptions::numbers_rise_in_the_order_of_commits,
    declared::what_a_file_declares_is_made_once,
    declared::what_a_file_declares_is_read_only_elsewhere,
    declared::what_vanishes_from_the_file_no_longer_counts_until_it_is_back,
    declared::what_vanishes_is_deleted_if_the_operator_wants_that,
    declared::what_is_still_needed_is_only_switched_off,
    declared::what_the_api_made_keeps_its_name,
    declared::a_deleted_name_is_free_for_the_file,
    declared::an_older_file_takes_nothing_back,
    declared::of_a_name_that_stands_twice_the_first_counts,
    declared::nodes_that_start_together_apply_a_file_once,
    events::a_resent_event_is_told_how_it_stands,
    events::an_id_that_meant_another_event_is_refused,
    events::an_event_of_no_feed_or_type_is_not_stored,
    events::an_event_that_nobody_is_told_of_is_kept,
    events::one_bad_event_harms_no_neighbour,
    events::c022_two_at_once_with_one_id_make_one_event,
    events::c004_what_was_planned_is_there_after_reopening,
    events::events_are_listed_by_what_they_say,
    events::an_event_comes_back_as_it_was_handed_in,
    planning::who_subscribed_on_one_node_is_told_by_the_other,
    planning::who_does_not_count_is_not_told,
    planning::who_went_over_to_another_feed_is_told_of_that_alone,
    planning::of_250_each_is_planned_once,
    planning::of_1000_each_is_planned_once,
    planning::a_hundred_are_planned_at_once,
    planning::a_plan_is_as_of_its_event_to_the_end,
    planning::a_plan_reads_its_feed_as_it_was,
    planning::two_nodes_plan_each_once,
    planning::who_is_tied_to_what_was_delivered_is_told,
    planning::a_trial_answers_like_the_event_and_leaves_nothing,
    planning::evidence_is_as_of_the_plan,
    ledger::the_same_is_told_once,
    ledger::what_was_told_long_ago_is_forgotten,
    ledger::c024_what_was_given_up_frees_its_place,
    ledger::c024_a_cooldown_counts_from_the_delivery,
    ledger::c025_what_is_held_back_names_what_did,
    ledger::c021_a_daily_cap_counts_recipients,
    ledger::reasons_come_in_a_fixed_order,
    ledger::one_message_tells_all_with_the_same_target,
    ledger::who_is_tied_is_told_when_another_no_longer_wants_to_be,
    ledger::a_retry_takes_its_place_anew,
    ledger::a_cancelled_notification_makes_room,
    ledger::what_is_told_at_most_once_keeps_its_place,
    ledger::a_test_tells_tests_and_takes_no_place,
    ledger::of_two_at_once_a_cooldown_lets_one_through,
    ledger::of_two_at_once_about_the_same_one_is_told,
    ledger::c028_without_its_ledger_nothing_is_accepted,
    signal::a_text_is_made_from_the_newest_row,
    signal::a_row_that_is_gone_may_come_back,
    signal::a_later_type_supersedes,
    signal::a_later_event_with_the_same_supersede_key_supersedes,
    signal::who_no_longer_wants_it_is_found_out,
    signal::a_signal_belongs_to_a_claim_that_stands,
    signal::a_text_is_kept_before_it_is_sent,
    signal::two_nodes_share_a_text,
    signal::only_a_delivery_counts_as_told,
    signal::a_late_delivery_counts_as_told,
    ledger::what_waited_is_not_told_while_its_feed_is_off,
    planning::a_later_step_ties_to_what_an_earlier_one_planned,
}
