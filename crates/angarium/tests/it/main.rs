//! Stories of the shipped binary: started, spoken to over real sockets, killed, restarted.
//!
//! What does not rest on the one database or the other is told on both.

#![allow(missing_docs, reason = "a test binary has no public interface")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a failed expectation must end the test"
)]

mod command_line;
mod crashes;
mod durability;
mod events;
mod fairness;
mod fates;
mod mail;
mod nodes;
mod operators;
mod support;
mod trouble;

/// Tells each story on a fresh database of each kind.
macro_rules! stories {
    ($($module:ident :: $story:ident),* $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $story() {
                    crate::$module::$story(crate::support::Database::sqlite()).await;
                }
            )*
        }

        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $story() {
                    crate::$module::$story(crate::support::Database::postgres()).await;
                }
            )*
        }
    };
}

stories! {
    command_line::a_key_is_no_argument,
    command_line::a_send_can_be_repeated,
    command_line::an_operators_day,
    command_line::c198_output_piped_into_head,
    command_line::exit_codes,
    crashes::a_second_signal_stops_at_once,
    crashes::a_soft_stop_finishes_what_is_in_flight,
    crashes::c046_killed_with_forty_in_flight,
    crashes::killed_in_the_middle_of_a_list_of_five_hundred,
    fairness::a_dead_receiver_with_ten_thousand_rows_delays_nobody,
    fates::a_hiccup_is_retried,
    fates::a_list_of_three,
    fates::a_resend_is_acknowledged_and_sends_nothing,
    fates::a_reused_id_is_refused,
    fates::an_unknown_list_is_parked,
    fates::c123_a_private_address_is_parked,
    fates::c129_only_two_hundreds_are_success,
    fates::retries_come_to_an_end,
    mail::a_channel_can_be_tried,
    mail::a_list_of_two_is_one_mail,
    mail::a_relay_that_is_down_uses_up_few_retries,
    mail::c093_one_refused_one_busy_one_fine,
    mail::c105_an_operator_reopens_the_channel,
    mail::c105_wrong_password_with_a_full_queue,
    mail::c107_a_list_of_which_nobody_is_left,
    mail::in_doubt_is_parked_where_that_is_wanted,
    mail::killed_before_the_answer_to_the_message,
    mail::nobody_accepted,
    mail::retries_come_from_the_channel,
    mail::what_a_producer_may_say_about_the_mail,
    operators::cancel_stops_what_has_not_been_sent,
    operators::discard_keeps_the_row,
    operators::retry_starts_a_fresh_budget,
    operators::wrong_states_and_missing_rows,
    trouble::c062_bad_bytes_in_an_answer,
    trouble::c200_a_receiver_that_comes_late,
    trouble::figures_count_what_waits,
    trouble::secrets_stay_secret,
}

/// The stories of events, with that word in their names.
mod of_events {
    stories! {
        events::a_channel_that_vanished_tells_nobody,
        events::a_cooldown_keeps_further_events_back,
        events::a_daily_cap_is_kept,
        events::a_feed_is_managed,
        events::a_notification_that_nobody_wants_any_more_is_skipped,
        events::a_repeated_signal_is_told_once,
        events::a_retry_takes_its_place_again,
        events::a_subscription_is_managed,
        events::a_test_reaches_the_test_subscription_alone,
        events::a_thousand_are_told,
        events::a_trial_leaves_no_trace,
        events::a_wrong_subscription_is_refused,
        events::a_wrong_template_is_refused_and_the_old_one_stays,
        events::after_an_attempt_in_doubt_the_same_bytes_go_out,
        events::an_announcement_takes_the_ordinary_path,
        events::an_event_is_told,
        events::an_event_sent_twice_is_told_once,
        events::an_event_that_nobody_wants_is_kept,
        events::an_older_file_takes_nothing_back,
        events::at_most_once_is_one_try,
        events::cloudevents_are_told_in_every_mode,
        events::events_at_the_command_line,
        events::every_reason_is_told,
        events::killed_in_the_middle_of_planning,
        events::many_events_in_one_request,
        events::one_address_is_told_once,
        events::one_bad_line_harms_no_other,
        events::reasons_of_the_event_are_told,
        events::what_has_ended_is_not_told,
        events::what_is_gone_is_not_told,
        events::what_later_news_made_untrue_is_skipped,
        events::what_the_catalogue_does_not_know_is_refused,
        events::what_the_file_declares_is_only_read,
        events::what_vanished_from_the_file_no_longer_counts,
        events::c073_what_waits_tells_the_newest,
        events::what_was_given_up_frees_its_place,
        events::what_was_not_told_uses_up_no_cooldown,
    }
}
