//! Logging in, with passwords and with tokens.

use std::sync::Arc;

use angarium_channels::email::token::{Grant, TokenSource};
use angarium_channels::email::{Credential, EmailAdapter, EmailChannel, Login, Mechanism, Security};
use angarium_domain::adapter::{Adapter, Delivery};
use angarium_domain::outcome::{Failure, FailureClass};
use angarium_domain::transcript::{Speaker, Transcript};
use angarium_receivers::http;
use angarium_receivers::mail::{self, Phase, Receiver, Reply};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use url::Url;

use super::{adapter, channel, delivered, fail_one, send_one, without_sin};

const PASSWORD: &str = "s3cret-passphrase";

fn by_password(mechanism: Option<Mechanism>) -> Login {
    let credential = Credential::Password(PASSWORD.to_owned());
    Login { user: "user@example.com".to_owned(), credential, mechanism }
}

/// A server on this machine that lets in who knows the secret, and an adapter that does.
async fn server(auth: mail::Auth, login: Login) -> (Receiver, EmailAdapter) {
    let auth = Some(mail::Auth { before_tls: true, ..auth });
    let receiver = Receiver::start(mail::Options { auth, ..mail::Options::default() }).await.unwrap();
    let adapter = adapter(logging_in(&receiver, login));
    (receiver, adapter)
}

fn logging_in(receiver: &Receiver, login: Login) -> EmailChannel {
    let mut channel = channel(receiver.address());
    channel.relay.security = Security::Never;
    channel.login = Some(login);
    channel
}

fn password_server() -> mail::Auth {
    mail::Auth::password("user@example.com", PASSWORD)
}

#[tokio::test]
async fn plain_and_login() {
    let plain = STANDARD.encode(format!("\0user@example.com\0{PASSWORD}"));
    let (receiver, adapter) = server(password_server(), by_password(None)).await;
    delivered(send_one(&adapter).await);
    delivered(send_one(&adapter).await);
    let session = receiver.sessions().remove(0);
    assert_eq!(session.commands[1], format!("AUTH PLAIN {plain}"));
    assert_eq!(session.commands.iter().filter(|command| command.starts_with("AUTH")).count(), 1);

    let (receiver, adapter) = server(password_server(), by_password(Some(Mechanism::Login))).await;
    delivered(send_one(&adapter).await);
    let session = receiver.sessions().remove(0);
    let said = ["AUTH LOGIN".to_owned(), STANDARD.encode("user@example.com"), STANDARD.encode(PASSWORD)];
    assert_eq!(session.commands[1..4], said);
    without_sin(&receiver);

    let only_login = mail::Auth { mechanisms: vec![mail::Mechanism::Login], ..password_server() };
    let (receiver, adapter) = server(only_login, by_password(None)).await;
    receiver.script(Phase::Auth, [Reply::text("334 who?"), Reply::raw("334\r\n")]);
    delivered(send_one(&adapter).await);
}

/// C105: what a refused login means for the channel, and what a busy server means.
#[tokio::test]
async fn c105_a_refused_login_is_the_channels_fault() {
    use FailureClass::{PermanentConfig, Transient};
    for (answer, class) in [
        ("535 5.7.8 wrong", PermanentConfig),
        ("535 5.7.3 wrong", PermanentConfig),
        ("535 5.7.139 switched off", PermanentConfig),
        ("534 5.7.9 not that way", PermanentConfig),
        ("530 5.7.0 TLS first", PermanentConfig),
        ("538 5.7.11 not in clear", PermanentConfig),
        ("504 5.5.4 what", PermanentConfig),
        ("550 5.7.30 basic authentication is not supported", PermanentConfig),
        ("454 4.7.0 later", Transient),
        ("432 4.7.12 change it", Transient),
        ("421 4.7.0 too many logins", Transient),
    ] {
        let (receiver, adapter) = server(password_server(), by_password(None)).await;
        receiver.script(Phase::Auth, [Reply::text(answer)]);
        let failure = fail_one(&adapter).await;
        assert_eq!((failure.class, failure.whole_channel), (class, class == Transient), "{answer}");
        assert!(receiver.mails().is_empty());
    }
}

#[tokio::test]
async fn no_common_way_to_log_in() {
    let tokens_only = mail::Auth { mechanisms: vec![mail::Mechanism::XOAuth2], ..password_server() };
    let (receiver, adapter) = server(tokens_only, by_password(None)).await;
    let failure = fail_one(&adapter).await;
    assert_eq!(failure.class, FailureClass::PermanentConfig);
    assert!(failure.detail.contains("XOAUTH2"), "{}", failure.detail);
    assert_eq!(receiver.sessions()[0].commands.len(), 1);
}

/// The secret shows neither in what is kept nor in a transcript, in no spelling, even if the server echoes it.
#[tokio::test]
async fn secrets_do_not_show() {
    let plain = STANDARD.encode(format!("\0user@example.com\0{PASSWORD}"));
    let encoded = STANDARD.encode(PASSWORD);
    let secrets = [PASSWORD, plain.as_str(), encoded.as_str()];
    for (mechanism, echoed) in [
        (Mechanism::Plain, PASSWORD),
        (Mechanism::Plain, plain.as_str()),
        (Mechanism::Login, PASSWORD),
        (Mechanism::Login, encoded.as_str()),
    ] {
        let (receiver, adapter) = server(password_server(), by_password(Some(mechanism))).await;
        let echo = Reply::text(&format!("500 5.5.1 Command unrecognized: \"AUTH PLAIN {echoed}\""));
        let script = match mechanism {
            Mechanism::Plain => vec![echo],
            _ => vec![Reply::text("334 VXNlcm5hbWU6"), Reply::text("334 UGFzc3dvcmQ6"), echo],
        };
        receiver.script(Phase::Auth, script);
        let transcript = Arc::new(Transcript::default());
        let delivery =
            Delivery { transcript: Some(transcript.clone()), ..super::delivery(&["a@example.com"]) };
        let failure = super::failed(adapter.send(&delivery).await.remove(0));
        let said: Vec<String> = transcript.turns().into_iter().map(|turn| turn.text).collect();
        assert!(failure.detail.contains("Command unrecognized"), "{}", failure.detail);
        for text in said.iter().chain([&failure.detail]).chain(&failure.response_excerpt) {
            assert!(!secrets.iter().any(|secret| text.contains(secret)), "{text}");
        }
        assert!(said.iter().any(|line| line.contains("[masked]")), "{said:?}");
    }
}

/// A token does not show either, in none of the ways in which it goes over the wire.
#[tokio::test]
async fn tokens_do_not_show() {
    let response = STANDARD.encode("user=user@example.com\x01auth=Bearer ya29.canary\x01\x01");
    for echoed in ["ya29.canary".to_owned(), STANDARD.encode("ya29.canary"), response] {
        let tokens = token_server().await;
        tokens.script("/token", [token("ya29.canary", 3600), token("ya29.canary", 3600)]);
        let auth = mail::Auth::token("user@example.com", "another");
        let (receiver, adapter) = server(auth, by_token(grant(&tokens), Mechanism::Xoauth2)).await;
        receiver.script(Phase::Auth, [Reply::text(&format!("535 5.7.8 not {echoed}"))]);
        let failure = fail_one(&adapter).await;
        assert!(failure.detail.contains("535 5.7.8 not [masked]"), "{}", failure.detail);
    }
}

/// A token is as secret after the login as during it, and before it is sent.
#[tokio::test]
async fn a_token_does_not_show_later_either() {
    for phase in [Phase::Mail, Phase::Rcpt, Phase::Data, Phase::Final] {
        let tokens = token_server().await;
        tokens.script("/token", [token("ya29.canary", 3600)]);
        let auth = mail::Auth::token("user@example.com", "ya29.canary");
        let (receiver, adapter) = server(auth, by_token(grant(&tokens), Mechanism::Xoauth2)).await;
        receiver.script(phase, [Reply::text("554 5.7.1 ya29.canary, is it?")]);
        let failure = fail_one(&adapter).await;
        assert!(failure.detail.contains("[masked], is it?"), "{phase:?}: {}", failure.detail);
        assert!(!failure.response_excerpt.unwrap().contains("canary"));
        receiver.script(Phase::Final, [Reply::text("250 2.0.0 Ok: queued as ya29.canary")]);
        let receipt = delivered(send_one(&adapter).await);
        assert_eq!(receipt.provider_message_id.as_deref(), Some("[masked]"));
    }
}

#[tokio::test]
async fn a_transcript_has_the_whole_conversation() {
    let (_receiver, adapter) = server(password_server(), by_password(None)).await;
    delivered(send_one(&adapter).await);
    let transcript = Arc::new(Transcript::default());
    let delivery = Delivery { transcript: Some(transcript.clone()), ..super::delivery(&["a@example.com"]) };
    delivered(adapter.send(&delivery).await.remove(0));
    let turns = transcript.turns();
    let said = |speaker, start: &str| {
        turns.iter().any(|turn| turn.speaker == speaker && turn.text.starts_with(start))
    };
    for start in
        ["EHLO ", "AUTH PLAIN [masked]", "MAIL FROM:", "RCPT TO:<a@example.com>", "DATA", "Subject: "]
    {
        assert!(said(Speaker::Us, start), "{start}: {turns:?}");
    }
    for start in ["220 ", "235 ", "250 ", "354 "] {
        assert!(said(Speaker::Them, start), "{start}: {turns:?}");
    }
    assert!(said(Speaker::Remark, "connected to 127.0.0.1"));
}

/// A place that hands out tokens.
async fn token_server() -> http::Receiver {
    http::Receiver::start().await.unwrap()
}

fn token(text: &str, seconds: u64) -> http::Reply {
    http::Reply::status(200).body(format!(r#"{{"access_token":"{text}","expires_in":{seconds}}}"#))
}

fn grant(tokens: &http::Receiver) -> Grant {
    Grant {
        url: Url::parse(&tokens.url("/token")).unwrap(),
        client_id: "angarium".to_owned(),
        client_secret: Some("cl1ent-s3cret".to_owned()),
        scope: Some("https://outlook.office365.com/.default".to_owned()),
        refresh_token: None,
    }
}

fn by_token(grant: Grant, mechanism: Mechanism) -> Login {
    let credential = Credential::Token(Arc::new(TokenSource::new(grant)));
    Login { user: "user@example.com".to_owned(), credential, mechanism: Some(mechanism) }
}

/// The token is fetched once and serves all deliveries; both ways of showing it are spelt as they must be.
#[tokio::test]
async fn a_token_is_fetched_once() {
    for (mechanism, response) in [
        (Mechanism::Xoauth2, "user=user@example.com\x01auth=Bearer ya29.token\x01\x01".to_owned()),
        (
            Mechanism::OauthBearer,
            "n,a=user@example.com,\x01host=127.0.0.1\x01port=PORT\x01auth=Bearer ya29.token\x01\x01"
                .to_owned(),
        ),
    ] {
        let tokens = token_server().await;
        tokens.script("/token", [token("ya29.token", 3600)]);
        let auth = mail::Auth::token("user@example.com", "ya29.token");
        let (receiver, adapter) = server(auth, by_token(grant(&tokens), mechanism)).await;
        delivered(send_one(&adapter).await);
        receiver.script(Phase::Mail, [Reply::text("421 4.3.2 again")]);
        delivered(send_one(&adapter).await);
        let response = response.replace("PORT", &receiver.address().port().to_string());
        let expected = format!("AUTH {} {}", mechanism.as_str(), STANDARD.encode(response));
        for session in receiver.sessions() {
            assert_eq!(session.commands[1], expected);
        }
        assert_eq!(receiver.sessions().len(), 2);
        let requests = tokens.requests();
        assert_eq!(requests.len(), 1, "{mechanism:?}");
        let form = String::from_utf8_lossy(&requests[0].body).into_owned();
        assert_eq!(
            form,
            "grant_type=client_credentials&client_id=angarium&client_secret=cl1ent-s3cret\
             &scope=https%3A%2F%2Foutlook.office365.com%2F.default"
        );
        without_sin(&receiver);
    }
}

/// A token that the relay refuses is fetched afresh once; after that the channel is to blame.
#[tokio::test]
async fn a_refused_token_is_fetched_afresh_once() {
    for mechanism in [Mechanism::Xoauth2, Mechanism::OauthBearer] {
        let tokens = token_server().await;
        tokens.script("/token", [token("stale", 3600), token("fresh", 3600)]);
        let auth = mail::Auth::token("user@example.com", "fresh");
        let (receiver, adapter) = server(auth, by_token(grant(&tokens), mechanism)).await;
        delivered(send_one(&adapter).await);
        assert_eq!(tokens.requests().len(), 2);
        without_sin(&receiver);

        let auth = mail::Auth::token("user@example.com", "right");
        tokens.script("/token", [token("wrong", 3600), token("wrong-too", 3600)]);
        let (_receiver, adapter) = server(auth, by_token(grant(&tokens), mechanism)).await;
        let failure = fail_one(&adapter).await;
        assert_eq!(failure.class, FailureClass::PermanentConfig, "{failure:?}");
        assert_eq!(failure.status_code, Some(535));
        assert!(!failure.detail.contains("wrong-too"), "{}", failure.detail);
    }
}

/// A token of short life is fetched again when its end is near, with the newest refresh token.
#[tokio::test]
async fn a_token_near_its_end_is_fetched_again() {
    let tokens = token_server().await;
    let renewing = r#"{"access_token":"ya29.token","expires_in":"30","refresh_token":"second"}"#;
    tokens.script("/token", [http::Reply::status(200).body(renewing), token("ya29.token", 3600)]);
    let grant = Grant { refresh_token: Some("first".to_owned()), scope: None, ..grant(&tokens) };
    let auth = mail::Auth::token("user@example.com", "ya29.token");
    let (receiver, adapter) = server(auth, by_token(grant, Mechanism::Xoauth2)).await;
    delivered(send_one(&adapter).await);
    receiver.script(Phase::Mail, [Reply::text("421 4.3.2 again")]);
    delivered(send_one(&adapter).await);
    let forms: Vec<String> =
        tokens.requests().iter().map(|request| String::from_utf8_lossy(&request.body).into_owned()).collect();
    assert_eq!(forms.len(), 2);
    assert!(forms[0].starts_with("grant_type=refresh_token&refresh_token=first&"), "{}", forms[0]);
    assert!(forms[1].starts_with("grant_type=refresh_token&refresh_token=second&"), "{}", forms[1]);
}

/// A refresh token that the server handed out is as secret as the one in the configuration.
#[tokio::test]
async fn a_refresh_token_that_was_handed_out_does_not_show() {
    let tokens = token_server().await;
    let first = r#"{"access_token":"ya29.token","expires_in":1,"refresh_token":"rotated-s3cret"}"#;
    let refused = r#"{"error":"invalid_grant","error_description":"rotated-s3cret is revoked"}"#;
    let replies = [http::Reply::status(200).body(first), http::Reply::status(400).body(refused)];
    tokens.script("/token", replies);
    let auth = mail::Auth::token("user@example.com", "ya29.token");
    let (receiver, adapter) = server(auth, by_token(grant(&tokens), Mechanism::Xoauth2)).await;
    delivered(send_one(&adapter).await);
    receiver.script(Phase::Mail, [Reply::text("421 4.3.2 again")]);
    let failure = fail_one(&adapter).await;
    assert!(failure.detail.contains("[masked] is revoked"), "{}", failure.detail);
}

/// What the place that hands out tokens answers when it hands out none.
#[tokio::test]
async fn no_token() {
    use FailureClass::{PermanentConfig, RateLimited, Transient};
    let refused = r#"{"error":"invalid_client","error_description":"cl1ent-s3cret is wrong"}"#;
    for (reply, class) in [
        (http::Reply::status(400).body(refused), PermanentConfig),
        (http::Reply::status(401).body(refused), PermanentConfig),
        (http::Reply::status(302), PermanentConfig),
        (http::Reply::status(429), RateLimited),
        (http::Reply::status(503), Transient),
        (http::Reply::status(200).body("<html>"), Transient),
        (http::Reply::status(200).body(r#"{"access_token":"a b\r\nQUIT"}"#), Transient),
    ] {
        let tokens = token_server().await;
        tokens.script("/token", [reply]);
        let auth = mail::Auth::token("user@example.com", "x");
        let (receiver, adapter) = server(auth, by_token(grant(&tokens), Mechanism::Xoauth2)).await;
        let Failure { class: told, whole_channel, detail, .. } = fail_one(&adapter).await;
        assert_eq!((told, whole_channel), (class, class != PermanentConfig), "{detail}");
        assert!(!detail.contains("cl1ent-s3cret"), "{detail}");
        assert!(receiver.mails().is_empty());
    }
}
