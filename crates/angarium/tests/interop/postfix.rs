//! Postfix as the relay: TLS, what arrives, refusals, limits.

use mail_parser::MessageParser;
use serde_json::json;

use crate::relay::{self, last_error, queue_id, results, suspension, to, to_all};
use crate::support::{Installation, id_of};

/// What tends to be changed on the way.
pub(crate) fn delicate_body() -> String {
    let long = "x".repeat(3000);
    format!(
        ".\n..\n.hidden\nblanks at the end   \na tab\t\nFrom here on\n--\n{long}\n12 °C = \"warm\" <&>\n\n\nno end of line"
    )
}

pub(crate) const SUBJECT: &str =
    "Pumpe №3 – Überlauf in Zürich: Füllstand über 95 %  seit zwölf Minuten, =?x?= bitte sofort prüfen 🚨";

const HTML: &str = "<p>Füllstand <b>95&nbsp;%</b></p>\n.\n<p>Ende</p>";

/// OB-12: a mail over STARTTLS arrives word for word, and the relay's own id for it is kept.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn what_is_sent_arrives_word_for_word() {
    let relay = relay::postfix();
    let server = relay.client("", &[]).await;
    let mut notification = to("anna", SUBJECT);
    notification["body"] = json!(delicate_body());
    notification["data"] = json!({"email": {"html": HTML}});
    server.hand_in(&notification).await;
    let row = server.until(&id_of(SUBJECT), "delivered").await;
    let mail = relay.mail("anna", SUBJECT).await;
    assert_eq!(row["provider_message_id"], queue_id(&mail), "{row}");
    assert!(mail.contains("with ESMTPS id") && mail.contains("using TLSv1.3"), "{mail}");
    let parsed = MessageParser::default().parse(mail.as_bytes()).unwrap();
    assert_eq!(parsed.subject(), Some(SUBJECT));
    assert_eq!(parsed.body_text(0).unwrap(), delicate_body());
    assert_eq!(parsed.body_html(0).unwrap(), HTML);
    assert_eq!(parsed.from().unwrap().first().unwrap().name(), Some("Wächter"));
    assert!(mail.starts_with("Return-Path: <alerts@example.com>\n"), "{mail}");
    assert_eq!(relay.mails("anna", SUBJECT).len(), 1);
}

/// C103: no mail goes to a relay whose certificate nobody vouches for, and none is lost.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn c103_a_certificate_must_be_vouched_for() {
    for relay in [relay::postfix(), relay::postfix_tls()] {
        let mut server = Installation::started(&relay.untrusted_channel("", &[])).await;
        let subject = |what: &str| format!("{what} {}", server.folder.path().display());
        let (first, second) = (subject("first"), subject("second"));
        server.hand_in(&to("bert", &first)).await;
        let reason = suspension(&server).await;
        assert!(reason.contains("certificate"), "{reason}");
        server.hand_in(&to("bert", &second)).await;
        server.signal("TERM");
        server.ended().await;
        server.configure(&relay.channel("", &[]));
        server.start().await;
        for subject in [&first, &second] {
            server.until(&id_of(subject), "delivered").await;
            relay.mail("bert", subject).await;
            assert_eq!(relay.mails("bert", subject).len(), 1);
        }
    }
}

/// OB-12: one of three is unknown; the others have the mail, and the unknown one is named.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn an_unknown_recipient_costs_the_others_nothing() {
    let relay = relay::postfix();
    let server = relay.client("", &["anna", "nobody", "bert"]).await;
    server.hand_in(&to_all("one is unknown")).await;
    let row = server.until(&id_of("one is unknown"), "delivered").await;
    assert_eq!(results(&row), ["accepted", "refused", "accepted"]);
    let (class, detail) = last_error(&row);
    assert_eq!(class, "permanent_recipient");
    assert!(detail.contains("nobody@example.com") && detail.contains("550 5.1.1"), "{detail}");
    assert_eq!(row["retry_count"], 0);
    for mailbox in ["anna", "bert"] {
        let mail = relay.mail(mailbox, "one is unknown").await;
        assert_eq!(row["provider_message_id"], queue_id(&mail));
        assert!(!mail.contains("nobody@"), "{mail}");
    }
}

/// C093, OB-12: one of two is busy; only that one is tried again, and both have one mail.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn c093_a_busy_mailbox_is_tried_again_alone() {
    let relay = relay::postfix();
    relay.answer("busy", "450 4.2.1 the mailbox is busy");
    let server = relay.client("", &["anna", "busy"]).await;
    server.hand_in(&to_all("one is busy")).await;
    let row = server.until(&id_of("one is busy"), "retrying").await;
    assert_eq!(results(&row), ["accepted", "waiting"]);
    let (class, detail) = last_error(&row);
    assert_eq!(class, "transient");
    assert!(detail.contains("450 4.2.1") && detail.contains("the mailbox is busy"), "{detail}");
    let first = relay.mail("anna", "one is busy").await;
    relay.answer_as_usual("busy");
    let row = server.until(&id_of("one is busy"), "delivered").await;
    assert_eq!(results(&row), ["accepted", "accepted"]);
    let second = relay.mail("busy", "one is busy").await;
    assert_ne!(queue_id(&first), queue_id(&second));
    let alone = format!("{}: from=<alerts@example.com>", queue_id(&second));
    let line = relay.log_line(|line| line.contains(&alone)).await;
    assert!(line.contains("nrcpt=1 "), "{line}");
    assert_eq!(relay.mails("anna", "one is busy").len(), 1);
}

/// C095: greylisting is waited out for as long as the channel says, not as the retry policy says, and ends in one
/// delivery.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn c095_greylisting_is_waited_out() {
    let relay = relay::postfix();
    relay.answer("grey", "DEFER_IF_PERMIT Greylisted, come back later");
    let server = relay.client("greylist_wait = \"3s\"", &[]).await;
    server.hand_in(&to("grey", "greylisted")).await;
    let row = server.until(&id_of("greylisted"), "retrying").await;
    assert!(last_error(&row).1.contains("Greylisted"), "{row}");
    relay.answer_as_usual("grey");
    server.until(&id_of("greylisted"), "delivered").await;
    let attempts = server.get(&format!("/v1/notifications/{}/attempts", id_of("greylisted"))).await;
    let attempts = attempts["items"].as_array().unwrap();
    assert_eq!((attempts.len(), &attempts[0]["retry_after_s"]), (2, &json!(3)), "{attempts:?}");
    relay.mail("grey", "greylisted").await;
    assert_eq!(relay.mails("grey", "greylisted").len(), 1);
}

/// C101: the relay takes three recipients at a time; the others follow at once, and each has one mail.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn c101_more_recipients_than_the_relay_takes() {
    let relay = relay::postfix_tls();
    let members = ["anna", "bert", "carla", "dora", "alerts"];
    let server = relay.client("", &members).await;
    server.hand_in(&to_all("many recipients")).await;
    let row = server.until(&id_of("many recipients"), "delivered").await;
    assert_eq!((results(&row), &row["retry_count"]), (vec!["accepted"; 5], &json!(0)));
    let mut ids = Vec::new();
    for mailbox in members {
        ids.push(queue_id(&relay.mail(mailbox, "many recipients").await).to_owned());
        assert_eq!(relay.mails(mailbox, "many recipients").len(), 1);
    }
    assert!(ids.iter().any(|id| row["provider_message_id"] == **id), "{ids:?} {row}");
    ids.dedup();
    assert_eq!(ids.len(), 2, "two transactions, in order: {ids:?}");
}

/// C098: the relay ended a session that waited too long; the next mail does not suffer.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn c098_a_session_that_the_relay_ended() {
    let relay = relay::postfix_tls();
    let server = relay.client("", &[]).await;
    server.hand_in(&to("carla", "before the silence")).await;
    let row = server.until(&id_of("before the silence"), "delivered").await;
    let begins = format!("]: {}: client=", row["provider_message_id"].as_str().unwrap());
    let line = relay.log_line(|line| line.contains(&begins)).await;
    let process = line.split("smtpd[").nth(1).unwrap().split(']').next().unwrap();
    let timeout = format!("smtpd[{process}]: timeout after");
    relay.log_line(|line| line.contains(&timeout)).await;
    server.hand_in(&to("carla", "after the silence")).await;
    let row = server.until(&id_of("after the silence"), "delivered").await;
    assert_eq!((&row["retry_count"], &row["last_error"]), (&json!(0), &json!(null)));
    relay.mail("carla", "after the silence").await;
}

/// OB-10: a mail that is larger than the relay takes is parked before a byte of it is sent; the next one goes.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn a_mail_that_is_too_large() {
    let relay = relay::postfix();
    let server = relay.client("", &[]).await;
    let mut large = to("dora", "too large");
    large["body"] = json!("ö".repeat(100_000));
    server.hand_in(&large).await;
    let row = server.until(&id_of("too large"), "parked").await;
    assert_eq!(last_error(&row).0, "permanent_message");
    assert!(last_error(&row).1.contains("the relay takes 200000"), "{row}");
    server.hand_in(&to("dora", "not too large")).await;
    server.until(&id_of("not too large"), "delivered").await;
    relay.mail("dora", "not too large").await;
}

/// C090: an address beyond ASCII goes where the relay offers SMTPUTF8.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn c090_an_address_beyond_ascii() {
    let relay = relay::postfix();
    let server = relay.client("", &["jürgen", "anna"]).await;
    server.hand_in(&to_all("beyond ASCII")).await;
    let row = server.until(&id_of("beyond ASCII"), "delivered").await;
    assert_eq!(results(&row), ["accepted", "accepted"]);
    let mail = relay.mail("jürgen", "beyond ASCII").await;
    assert!(mail.contains("with UTF8SMTPS id"), "{mail}");
}

/// C096: no relaying for one domain is that address's end; for several it is the channel's.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn c096_no_relaying() {
    let relay = relay::postfix();
    let server = relay.client("", &["x@one.example", "y@other.example"]).await;
    server.hand_in(&to("x@one.example", "not relayed")).await;
    let row = server.until(&id_of("not relayed"), "parked").await;
    let (class, detail) = last_error(&row);
    assert_eq!(class, "permanent_recipient");
    assert!(detail.contains("554 5.7.1"), "{detail}");
    server.hand_in(&to_all("relayed for nobody")).await;
    let reason = suspension(&server).await;
    assert!(reason.contains("Relay access denied"), "{reason}");
}

/// The relay takes two sessions at a time: a channel that is told so has no more of them and uses them again; one
/// that wants more gives nothing up for it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn a_relay_that_takes_two_sessions_at_a_time() {
    let relay = relay::postfix_narrow();
    for wanted in [2, 8] {
        let server = relay.client(&format!("max_parallel = {wanted}"), &[]).await;
        let subjects: Vec<String> = (0..40).map(|number| format!("narrow {wanted} {number}")).collect();
        server.hand_in_all(subjects.iter().map(|subject| to("carla", subject)).collect()).await;
        for subject in &subjects {
            let row = server.until(&id_of(subject), "delivered").await;
            assert_eq!(row["retry_count"], 0, "{row}");
            relay.mail("carla", subject).await;
            assert_eq!(relay.mails("carla", subject).len(), 1);
        }
        let crowded = relay.log().contains("Connection concurrency limit exceeded");
        assert_eq!(crowded, wanted > 2);
    }
}
