//! OpenSMTPD as the relay: one command at a time, other words, and a TLS that is broken.

use mail_parser::MessageParser;
use serde_json::json;

use crate::postfix::{SUBJECT, delicate_body};
use crate::relay::{self, last_error, queue_id, results, to, to_all};
use crate::support::id_of;

/// OB-12: without PIPELINING too, what is sent arrives word for word, and the relay's own id for it is kept.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn what_is_sent_arrives_word_for_word() {
    let relay = relay::opensmtpd();
    let server = relay.client("", &[]).await;
    let mut notification = to("anna", SUBJECT);
    notification["body"] = json!(delicate_body());
    server.hand_in(&notification).await;
    let row = server.until(&id_of(SUBJECT), "delivered").await;
    let mail = relay.mail("anna", SUBJECT).await;
    assert_eq!(row["provider_message_id"], queue_id(&mail), "{row}");
    let parsed = MessageParser::default().parse(mail.as_bytes()).unwrap();
    assert_eq!(parsed.subject(), Some(SUBJECT));
    assert_eq!(parsed.body_text(0).unwrap(), delicate_body() + "\n", "the last line of a mail has an end");
}

/// OB-12, C090: one is unknown, one needs what the relay does not have; the third has the mail.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn c090_refusals_cost_the_others_nothing() {
    let relay = relay::opensmtpd();
    let server = relay.client("", &["nobody", "anna", "jürgen"]).await;
    server.hand_in(&to_all("two are refused")).await;
    let row = server.until(&id_of("two are refused"), "delivered").await;
    assert_eq!(results(&row), ["refused", "accepted", "refused"]);
    let (class, detail) = last_error(&row);
    assert_eq!(class, "permanent_recipient");
    assert!(detail.contains("nobody@example.com") && detail.contains("smtputf8-required"), "{detail}");
    let mail = relay.mail("anna", "two are refused").await;
    assert_eq!(row["provider_message_id"], queue_id(&mail));
}

/// C096: nobody there, and nothing that says for which of the two reasons: parked.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn c096_a_domain_that_is_not_its_own() {
    let server = relay::opensmtpd().client("", &[]).await;
    server.hand_in(&to("x@other.example", "not taken")).await;
    let row = server.until(&id_of("not taken"), "parked").await;
    let (class, detail) = last_error(&row);
    assert_eq!(class, "permanent_recipient");
    assert!(detail.contains("550 Invalid recipient"), "{detail}");
}

/// C103: a relay that offers STARTTLS and breaks it off gets no mail in the clear, and is tried again.
///
/// This fails once Debian's OpenSMTPD can do TLS; then it can prove more than this.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn c103_broken_tls_is_not_replaced_by_none() {
    let relay = relay::opensmtpd_tls();
    let server = relay.client("", &[]).await;
    server.hand_in(&to("bert", "broken TLS")).await;
    let row = server.until(&id_of("broken TLS"), "retrying").await;
    let (class, detail) = last_error(&row);
    assert_eq!(class, "transient");
    assert!(detail.contains("tls: "), "{detail}");
    assert!(relay.mails("bert", "broken TLS").is_empty());
}

/// C097: the relay takes a hundred mails in a session and refuses the next; a new session is all that costs.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn c097_more_mails_than_a_session_takes() {
    let relay = relay::opensmtpd();
    let server = relay.client("max_parallel = 1", &[]).await;
    let subjects: Vec<String> = (0..250).map(|number| format!("one of many {number}")).collect();
    server.hand_in_all(subjects.iter().map(|subject| to("dora", subject)).collect()).await;
    for subject in &subjects {
        let row = server.until(&id_of(subject), "delivered").await;
        assert_eq!(row["retry_count"], 0, "{row}");
        relay.mail("dora", subject).await;
        assert_eq!(relay.mails("dora", subject).len(), 1);
    }
}
