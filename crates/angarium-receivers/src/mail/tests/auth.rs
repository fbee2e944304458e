//! Logging in, with vectors that were worked out elsewhere.

use super::*;

const PLAIN: &str = "AHVzZXJAZXhhbXBsZS5jb20AczNjcmV0";
const XOAUTH2: &str = "dXNlcj11c2VyQGV4YW1wbGUuY29tAWF1dGg9QmVhcmVyIHlhMjkudG9rZW4BAQ==";
const OAUTHBEARER: &str = "bixhPXVzZXJAZXhhbXBsZS5jb20sAWhvc3Q9c210cC5leGFtcGxlLmNvbQFwb3J0PTU4NwFhdXRoPUJlYXJlciB5YTI5LnRva2VuAQE=";
/// The user and the password of the vectors.
const USER: &str = "dXNlckBleGFtcGxlLmNvbQ==";
const PASSWORD: &str = "czNjcmV0";

const ACCEPTED: &str = "235 2.7.0 Authentication successful";
const WRONG: &str = "535 5.7.8 Authentication credentials invalid";

/// A receiver that takes the vectors, in clear.
async fn with_auth(mechanisms: &[Mechanism]) -> Receiver {
    let auth = Auth {
        mechanisms: mechanisms.to_vec(),
        token: "ya29.token".to_owned(),
        before_tls: true,
        ..Auth::password("user@example.com", "s3cret")
    };
    Receiver::start(Options { auth: Some(auth), ..Options::default() }).await.unwrap()
}

#[tokio::test]
async fn offers_its_mechanisms_and_wants_a_login_before_mail() {
    let receiver = with_auth(&[Mechanism::XOAuth2, Mechanism::Plain]).await;
    let mut client = Client::dial(receiver.address()).await;
    client.reply().await;
    assert!(client.say("EHLO x").await.ends_with("\n250 AUTH XOAUTH2 PLAIN"));
    client.expect("MAIL FROM:<a@b>", "530 5.7.0").await;
    client.expect("AUTH LOGIN", "504 5.5.4").await;
    assert_eq!(client.say(&format!("AUTH plain {PLAIN}")).await, ACCEPTED);
    client.expect(&format!("AUTH PLAIN {PLAIN}"), "503 5.5.1").await;
    assert!(client.deliver("x\r\n").await.starts_with("250"));
    assert_eq!(receiver.sessions()[0].commands[3], format!("AUTH plain {PLAIN}"));
}

#[tokio::test]
async fn each_mechanism_takes_its_vector_at_once_or_when_asked() {
    for (mechanism, name, response) in [
        (Mechanism::Plain, "PLAIN", PLAIN),
        (Mechanism::XOAuth2, "XOAUTH2", XOAUTH2),
        (Mechanism::OAuthBearer, "OAUTHBEARER", OAUTHBEARER),
    ] {
        let receiver = with_auth(&[mechanism]).await;
        let mut at_once = Client::greet(&receiver).await;
        assert_eq!(at_once.say(&format!("AUTH {name} {response}")).await, ACCEPTED);
        let mut asked = Client::greet(&receiver).await;
        assert_eq!(asked.say(&format!("AUTH {name}")).await, "334 ");
        assert_eq!(asked.say(response).await, ACCEPTED);
        assert!(receiver.sessions().iter().all(|session| session.sins.is_empty()));
        assert_eq!(receiver.sessions()[1].commands[1..], [format!("AUTH {name}"), response.to_owned()]);
    }
}

#[tokio::test]
async fn login_asks_for_name_and_password() {
    let receiver = with_auth(&[Mechanism::Login]).await;
    let mut client = Client::greet(&receiver).await;
    assert_eq!(client.say("AUTH LOGIN").await, "334 VXNlcm5hbWU6");
    assert_eq!(client.say(USER).await, "334 UGFzc3dvcmQ6");
    assert_eq!(client.say(PASSWORD).await, ACCEPTED);
    let mut client = Client::greet(&receiver).await;
    assert_eq!(client.say(&format!("AUTH LOGIN {USER}")).await, "334 UGFzc3dvcmQ6");
    assert_eq!(client.say(USER).await, WRONG);
}

#[tokio::test]
async fn wrong_responses_are_refused_and_can_be_mended() {
    let receiver = with_auth(&[Mechanism::Plain]).await;
    let mut client = Client::greet(&receiver).await;
    // Another password, another authorization, no NUL at all, nothing.
    for response in ["AHVzZXJAZXhhbXBsZS5jb20AeA==", "eAB1c2VyQGV4YW1wbGUuY29tAHMzY3JldA==", USER, "="] {
        assert_eq!(client.say(&format!("AUTH PLAIN {response}")).await, WRONG, "{response}");
    }
    client.expect("AUTH PLAIN ???", "501 5.5.2").await;
    client.expect("AUTH PLAIN", "334").await;
    client.expect("*", "501 5.7.0").await;
    client.expect("MAIL FROM:<a@b>", "530").await;
    assert_eq!(client.say(&format!("AUTH PLAIN {PLAIN}")).await, ACCEPTED);
}

#[tokio::test]
async fn a_refused_token_is_explained_and_must_be_acknowledged() {
    let explained = "334 eyJzdGF0dXMiOiI0MDAiLCJzY2hlbWVzIjoiQmVhcmVyIiwic2NvcGUiOiJodHRwczovL21haWwuZXhhbXBsZS5jb20vIn0=";
    for (mechanism, name, right, other) in
        [(Mechanism::XOAuth2, "XOAUTH2", "", "AQ=="), (Mechanism::OAuthBearer, "OAUTHBEARER", "AQ==", "")]
    {
        let receiver = with_auth(&[mechanism]).await;
        for (acknowledgement, sins) in [(right, 0), (other, 1)] {
            let mut client = Client::greet(&receiver).await;
            assert_eq!(client.say(&format!("AUTH {name} {PLAIN}")).await, explained);
            assert_eq!(client.say(acknowledgement).await, WRONG);
            assert_eq!(receiver.sessions().last().unwrap().sins.len(), sins, "{name} {acknowledgement:?}");
        }
    }
}

#[tokio::test]
async fn a_bearer_response_needs_the_token_and_nothing_unknown() {
    let receiver = with_auth(&[Mechanism::OAuthBearer]).await;
    // The header alone with a host; the token and a pair `x=y`.
    for response in [
        "bixhPXVzZXJAZXhhbXBsZS5jb20sAWhvc3Q9aAEB",
        "bixhPXVzZXJAZXhhbXBsZS5jb20sAXg9eQFhdXRoPUJlYXJlciB5YTI5LnRva2VuAQE=",
    ] {
        let mut client = Client::greet(&receiver).await;
        client.expect(&format!("AUTH OAUTHBEARER {response}"), "334 ").await;
        assert_eq!(client.say("AQ==").await, WRONG);
    }
}

#[tokio::test]
async fn every_answer_of_an_exchange_is_a_step_of_the_script() {
    let receiver = with_auth(&[Mechanism::Login]).await;
    let odd = [Reply::text("334 dXNlcg=="), Reply::text("334 cGFzcw=="), Reply::text("454 4.7.0 not now")];
    receiver.script(Phase::Auth, odd);
    let mut client = Client::greet(&receiver).await;
    assert_eq!(client.say("AUTH LOGIN").await, "334 dXNlcg==");
    assert_eq!(client.say(USER).await, "334 cGFzcw==");
    assert_eq!(client.say(PASSWORD).await, "454 4.7.0 not now");
    client.expect("MAIL FROM:<a@b>", "530").await;
    receiver.script(Phase::Auth, [Reply::text("235 2.7.0 whatever")]);
    client.expect("AUTH LOGIN", "235").await;
    client.expect("MAIL FROM:<a@b>", "250").await;
}

#[tokio::test]
async fn auth_is_neither_offered_nor_taken_in_clear_unless_so_set() {
    let auth = Some(Auth::password("user@example.com", "s3cret"));
    let receiver = Receiver::start(Options { auth, ..Options::default() }).await.unwrap();
    let mut client = Client::dial(receiver.address()).await;
    client.reply().await;
    assert!(!client.say("EHLO x").await.contains("AUTH"));
    client.expect(&format!("AUTH PLAIN {PLAIN}"), "538 5.7.11").await;
    let none = started().await;
    Client::greet(&none).await.expect(&format!("AUTH PLAIN {PLAIN}"), "502 5.5.1").await;
    assert_eq!(none.sessions()[0].sins.len(), 1);
}
