//! Logging in at Postfix, which checks by way of Cyrus SASL.

use serde_json::json;

use crate::relay::{self, address, suspension, to, variable};
use crate::support::id_of;

fn credentials(password: &str, more: &str) -> String {
    let user = variable("INTEROP_USER");
    format!("username = {user:?}\npassword = {password:?}\n{more}")
}

/// Either way to log in works, over either kind of TLS.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn plain_and_login() {
    let password = variable("INTEROP_PASSWORD");
    for relay in [relay::postfix(), relay::postfix_tls()] {
        for mechanism in ["plain", "login"] {
            let more = format!("auth = {mechanism:?}");
            let server = relay.client(&credentials(&password, &more), &[]).await;
            let subject = &format!("{mechanism} {}", server.address.unwrap());
            server.hand_in(&to("dora", subject)).await;
            server.until(&id_of(subject), "delivered").await;
            let mail = relay.mail("dora", subject).await;
            assert!(mail.contains("with ESMTPSA id"), "{mail}");
        }
    }
}

/// C105: a wrong password suspends the channel and loses nothing; a test with the right one lets it send again.
/// No password shows in what the server says.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn c105_a_wrong_password() {
    let relay = relay::postfix();
    let mut server = relay.client(&credentials("canary-wrong-8813", ""), &[]).await;
    server.hand_in(&to("anna", "locked out")).await;
    let reason = suspension(&server).await;
    assert!(reason.contains("535 5.7.8"), "{reason}");
    server.hand_in(&to("anna", "waits behind it")).await;
    for subject in ["locked out", "waits behind it"] {
        assert_eq!(server.view(&id_of(subject)).await["status"], "pending", "{subject}");
    }
    server.signal("TERM");
    server.ended().await;

    let password = variable("INTEROP_PASSWORD");
    server.configure(&relay.channel(&credentials(&password, ""), &[]));
    server.start().await;
    let body = Some(json!({"address": address("anna")}));
    let (status, test) = server.call(http::Method::POST, "/v1/channels/mail/test", body).await;
    assert_eq!((status, &test["outcome"]), (200, &json!("delivered")), "{test}");
    for subject in ["locked out", "waits behind it"] {
        server.until(&id_of(subject), "delivered").await;
        relay.mail("anna", subject).await;
        assert_eq!(relay.mails("anna", subject).len(), 1);
    }

    let conversation = test["transcript"].to_string();
    assert!(conversation.contains("AUTH PLAIN [masked]") && conversation.contains("235 2.7.0"), "{test}");
    for secret in [&password, "canary-wrong-8813"] {
        for text in [&conversation, &server.log()] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}
