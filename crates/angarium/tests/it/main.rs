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
