//! Databases that have no place for every character.

use angarium_store::*;
use angarium_testbed::postgres::{self, Fresh};

use crate::support::*;

fn encoded_as(encoding: &str) -> Fresh {
    let database = postgres::fresh_database();
    let name = &database.name;
    let made_again = format!(
        "DROP DATABASE {name};
         CREATE DATABASE {name} OWNER angarium ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    );
    postgres::shared().sql("postgres", &made_again);
    database
}

/// A database in which some texts could not be stored, or not be told from others, is refused before anything is
/// written, and its encoding is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_a_place_for_every_character_is_refused() {
    for encoding in ["LATIN1", "SQL_ASCII", "EUC_JP"] {
        let database = encoded_as(encoding);
        let migrating = in_time(Store::migrate(&options(&database.url))).await;
        for told in [refusal(&database.url).await, migrating.unwrap_err()] {
            let StoreError::Refused(why) = &told else { panic!("{encoding}: {told:?}") };
            assert!(why.contains(&format!("encoding {encoding}")) && why.contains("needs UTF8"), "{why}");
        }
        assert_eq!(database.sql("SELECT to_regnamespace('angarium') IS NULL"), "t", "{encoding}");
    }
    assert_eq!(accept(&opened(&encoded_as("UTF8").url).await, "alarm").await, taken("alarm", false));
}
