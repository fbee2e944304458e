//! Stories of dispatching: a real database, a clock that is moved by hand, an adapter that does as told. Those of one
//! node are told on SQLite and on PostgreSQL, those of several on PostgreSQL.

#![allow(missing_docs, reason = "a test binary has no public interface")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation must end the test")]

mod bounds;
mod cluster;
mod crashes;
mod heartbeat;
mod held_up;
mod home;
mod lists;
mod outcomes;
mod support;

/// Tells each story on a fresh database of each kind.
macro_rules! on_both_databases {
    ($($module:ident :: $case:ident),* $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $case() {
                    crate::$module::$case(crate::home::On::Sqlite).await;
                }
            )*
        }

        mod postgres {
            $(
                #[tokio::test]
                async fn $case() {
                    crate::$module::$case(crate::home::On::Postgres).await;
                }
            )*
        }
    };
}

on_both_databases! {
    outcomes::new_work_wakes_the_dispatcher,
    outcomes::work_is_found_without_a_wake_up,
    outcomes::transient_failures_are_retried_and_then_parked,
    outcomes::permanent_failures_park_at_once,
    outcomes::an_operator_retry_starts_afresh,
    outcomes::an_unknown_list_is_parked,
    outcomes::adapters_by_kind,
    outcomes::a_disabled_channel_parks,
    outcomes::a_panic_is_our_own_failure,
    outcomes::c035_each_receiver_is_retried_on_its_own,
    outcomes::c043_a_rate_limit_slows_its_receiver_alone,
    outcomes::c043_a_rate_limit_costs_no_budget,
    outcomes::c114_an_opt_out_ends_an_address,
    outcomes::c051_a_wait_follows_a_clock_that_is_set_back,
    lists::one_fine_one_refused_one_busy,
    lists::a_list_that_nobody_accepts_is_parked,
    lists::cancel_stops_a_list_on_its_way,
    lists::a_list_that_was_not_known_when_it_was_written_to,
    lists::a_database_that_takes_no_outcome_stops_a_list,
    lists::a_rate_limited_member_holds_up_no_other,
    lists::a_member_that_hangs_holds_up_no_other,
    lists::members_that_work_come_first,
    lists::a_dead_member_slows_no_later_notification,
    lists::a_dead_receiver_is_probed_for_one_member,
    lists::a_probe_that_fails_speaks_for_its_neighbours,
    lists::addresses_that_fail_do_not_speak_for_those_that_work,
    lists::a_member_that_stays_dead_is_given_up,
    lists::later_attempts_stand_in_nobodys_way,
    lists::many_dead_members_hold_up_one_notification,
    lists::trouble_of_the_channel_is_nobodys,
    lists::c093_the_busy_one_is_sent_to_alone,
    lists::one_exchange_carries_members_that_fail_too,
    lists::one_exchange_keeps_the_order_of_the_list,
    lists::a_wait_of_the_whole_channel_is_written_once,
    lists::c107_a_list_whose_members_all_opted_out_is_parked,
    bounds::a_receiver_that_hangs_holds_up_nobody_else,
    bounds::dead_receivers_together_take_a_quarter_at_most,
    bounds::newcomers_that_hang_leave_room,
    crashes::what_was_in_flight_is_sent_again,
    crashes::what_may_have_been_sent_is_parked_where_that_is_asked_for,
    crashes::a_crash_in_a_list_repeats_what_was_in_flight,
    crashes::a_soft_stop_finishes_what_is_in_flight,
    crashes::a_stop_does_not_wait_for_ever,
    crashes::c126_a_slow_delivery_keeps_its_lease,
    crashes::a_paused_process_does_not_send_under_a_lost_lease,
    crashes::c127_a_channel_that_is_gone_gets_nothing_more,
    crashes::c047_a_wait_longer_than_the_lease,
    heartbeat::a_node_is_listed_until_it_leaves,
    heartbeat::a_node_that_was_struck_off_signs_in_again,
    heartbeat::missing_audit_entries_are_made_up_for,
    heartbeat::a_node_whose_clock_is_wrong_claims_nothing,
    heartbeat::c051_waits_are_moved_as_soon_as_they_can_be,
}
