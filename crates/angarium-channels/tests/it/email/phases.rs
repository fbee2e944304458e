//! Every row of the table in `verdict.rs`, and a connection that is lost at every step.

use std::time::Duration;

use angarium_channels::email::{EmailAdapter, EmailChannel, Relay, Security};
use angarium_domain::outcome::{Failure, FailureClass, Outcome};
use angarium_receivers::mail::{self, Gate, Phase, Receiver, Reply};
use tokio::net::TcpListener;
use url::Host;

use super::{
    ID, adapter, adapter_with, channel, delivered, fail_one, options, send, send_one, without, without_sin,
    world, world_with,
};

const HOUR: Option<Duration> = Some(Duration::from_secs(3600));
const GREYLIST: Option<Duration> = Some(Duration::from_secs(300));
const SOON: Option<Duration> = Some(Duration::from_secs(5));

/// What an answer in a phase leads to: class, whether for the whole channel, and the least wait.
type Row = (Phase, &'static str, FailureClass, bool, Option<Duration>);

/// Sends one mail past a server that gives this answer in this phase.
async fn answered(phase: Phase, answer: &str, options: mail::Options) -> (Failure, Receiver) {
    let (receiver, adapter) = world_with(options).await;
    receiver.script(phase, [Reply::text(answer), Reply::text(answer)]);
    let failure = fail_one(&adapter).await;
    assert!(!failure.duplicate_risk, "{answer}: an answer leaves no doubt");
    (failure, receiver)
}

async fn check(rows: &[Row]) {
    for &(phase, answer, class, whole_channel, wait) in rows {
        for options in [mail::Options::default(), without(&["PIPELINING", "SIZE", "DSN"])] {
            let (failure, receiver) = answered(phase, answer, options).await;
            let told = (failure.class, failure.whole_channel, failure.retry_after);
            assert_eq!(told, (class, whole_channel, wait), "{phase:?} {answer}: {failure:?}");
            assert_eq!(failure.status_code, answer[..3].parse().ok(), "{answer}");
            assert!(failure.detail.contains(&answer[..3]), "{}", failure.detail);
            assert_eq!(receiver.mails().len(), 0, "{answer}");
            without_sin(&receiver);
        }
    }
}

#[tokio::test]
async fn what_the_greeting_and_ehlo_mean() {
    use FailureClass::{PermanentConfig, RateLimited, Transient};
    check(&[
        (Phase::Greeting, "421 4.3.2 closing", Transient, true, None),
        (Phase::Greeting, "450 4.3.2 busy", Transient, true, None),
        (Phase::Greeting, "554 5.7.1 your address is blocked", PermanentConfig, false, None),
        (Phase::Ehlo, "451 4.3.0 later", Transient, true, None),
        (Phase::Ehlo, "421 4.3.2 closing", Transient, true, None),
        (Phase::Ehlo, "550 5.7.1 not you", PermanentConfig, false, None),
        (Phase::Ehlo, "501 5.5.2 what a name", PermanentConfig, false, None),
        (Phase::Ehlo, "504 5.5.2 what a name", PermanentConfig, false, None),
        (
            Phase::Greeting,
            "421 4.7.0 mx Error: too many connections from 192.0.2.1",
            RateLimited,
            false,
            SOON,
        ),
        (Phase::Ehlo, "432 4.3.2 Concurrent connections limit exceeded", RateLimited, false, SOON),
    ])
    .await;
}

#[tokio::test]
async fn what_the_answer_to_mail_means() {
    use FailureClass::{PermanentConfig, PermanentMessage, RateLimited, Transient};
    check(&[
        (Phase::Mail, "421 4.7.0 closing", Transient, true, None),
        (Phase::Mail, "450 4.1.8 later", Transient, true, None),
        (Phase::Mail, "451 4.3.0 later", Transient, true, None),
        (Phase::Mail, "452 4.3.1 no room", Transient, true, None),
        (Phase::Mail, "550 5.1.7 bad sender", PermanentConfig, false, None),
        (Phase::Mail, "550 5.1.8 bad domain", PermanentConfig, false, None),
        (Phase::Mail, "553 5.7.1 not your address", PermanentConfig, false, None),
        (Phase::Mail, "550 5.7.60 send as denied", PermanentConfig, false, None),
        (Phase::Mail, "530 5.7.0 log in first", PermanentConfig, false, None),
        (Phase::Mail, "552 5.3.4 too large", PermanentMessage, false, None),
        (Phase::Mail, "554 5.3.4 too large", PermanentMessage, false, None),
        (Phase::Mail, "501 5.5.4 what parameter", PermanentConfig, false, None),
        (Phase::Mail, "555 5.5.4 what parameter", PermanentConfig, false, None),
        (Phase::Mail, "552 Message size limit exceeded", PermanentMessage, false, None),
        (Phase::Mail, "552 5.2.3 message size limit exceeded", PermanentMessage, false, None),
        (Phase::Mail, "550 5.7.1 sender blocked", PermanentMessage, false, None),
        (Phase::Mail, "503 5.5.1 out of step", Transient, true, None),
        (Phase::Mail, "450 4.7.1 greylisted", Transient, false, GREYLIST),
        (Phase::Mail, "550 5.4.5 daily sending quota exceeded", RateLimited, true, HOUR),
        (Phase::Mail, "550 5.7.1 daily sending quota exceeded", RateLimited, true, HOUR),
    ])
    .await;
}

#[tokio::test]
async fn what_the_answer_to_rcpt_means() {
    use FailureClass::{PermanentRecipient, Transient};
    let mut rows = vec![
        (Phase::Rcpt, "450 4.2.1 busy", Transient, false, None),
        (Phase::Rcpt, "451 4.3.0 later", Transient, false, None),
        (Phase::Rcpt, "450 4.7.1 not yet", Transient, false, GREYLIST),
        (Phase::Rcpt, "451 4.7.1 not yet", Transient, false, GREYLIST),
        (Phase::Rcpt, "450 4.2.0 Greylisted, try in 300 s", Transient, false, GREYLIST),
        (Phase::Rcpt, "451 greylisting in action", Transient, false, GREYLIST),
        (Phase::Rcpt, "452 4.2.2 full", Transient, false, HOUR),
        (Phase::Rcpt, "552 5.2.2 full", Transient, false, HOUR),
        (Phase::Rcpt, "552 mailbox full", Transient, false, HOUR),
        (Phase::Rcpt, "452 4.5.3 too many recipients", Transient, false, None),
        (Phase::Rcpt, "421 4.3.2 closing", Transient, true, None),
        (Phase::Rcpt, "503 5.5.1 out of step", Transient, false, None),
        (Phase::Rcpt, "554 5.7.1 relay access denied", PermanentRecipient, false, None),
        (Phase::Rcpt, "550 5.7.1 we do not want it", PermanentRecipient, false, None),
        (Phase::Rcpt, "550 5.6.7 no such characters", PermanentRecipient, false, None),
        (Phase::Rcpt, "553 no such characters", PermanentRecipient, false, None),
    ];
    for answer in [
        "550 5.1.1 unknown",
        "551 5.1.6 moved",
        "553 5.1.3 what address",
        "550 5.1.2 what domain",
        "550 5.1.10 unknown",
        "550 5.2.1 disabled",
        "550 5.4.1 refused",
        "550 5.7.13 disabled",
        "550 5.7.17 x",
        "550 5.7.18 x",
    ] {
        rows.push((Phase::Rcpt, answer, PermanentRecipient, false, None));
    }
    check(&rows).await;
}

#[tokio::test]
async fn what_the_answers_to_data_and_the_message_mean() {
    use FailureClass::{PermanentMessage, RateLimited, Transient};
    check(&[
        (Phase::Data, "451 4.3.0 later", Transient, false, None),
        (Phase::Data, "421 4.3.2 closing", Transient, false, None),
        (Phase::Data, "554 5.5.1 no valid recipients", PermanentMessage, false, None),
        (Phase::Data, "503 5.5.1 out of step", Transient, false, None),
        (Phase::Final, "451 4.3.0 later", Transient, false, None),
        (Phase::Final, "421 4.3.2 closing", Transient, false, None),
        (Phase::Final, "452 4.3.1 no room", Transient, false, None),
        (Phase::Final, "550 5.7.1 spam", PermanentMessage, false, None),
        (Phase::Final, "550 5.7.26 DMARC", PermanentMessage, false, None),
        (Phase::Final, "554 5.6.0 what a message", PermanentMessage, false, None),
        (Phase::Final, "552 5.3.4 too large", PermanentMessage, false, None),
        (Phase::Final, "451 4.7.1 greylisted, come back", Transient, false, GREYLIST),
        (Phase::Final, "552 5.2.3 message size limit exceeded", PermanentMessage, false, None),
        (Phase::Final, "552 user bob: mailbox quota exceeded", PermanentMessage, false, None),
        (Phase::Final, "554 5.4.6 hop count limit exceeded", PermanentMessage, false, None),
        (Phase::Final, "550 5.4.5 daily sending quota exceeded", RateLimited, true, HOUR),
        (Phase::Final, "421 4.7.0 rate limit", RateLimited, true, HOUR),
        (Phase::Final, "550 5.7.232 tenant external recipient rate exceeded", RateLimited, true, HOUR),
        (Phase::Final, "432 4.3.2 sender thread limit exceeded", RateLimited, false, SOON),
    ])
    .await;
}

/// C096: a refusal is a refusal, with its codes for all to see; the first digit decides, and not the words.
#[tokio::test]
async fn c096_a_permanent_refusal_is_no_outage() {
    for (phase, answer) in [
        (Phase::Mail, "550 5.7.1 sender blocked"),
        (Phase::Final, "554 5.7.1 spam"),
        (Phase::Final, "554 5.7.1 temporary failure, please try again later"),
    ] {
        let (failure, _) = answered(phase, answer, mail::Options::default()).await;
        assert_eq!(failure.class, FailureClass::PermanentMessage, "{answer}");
        assert_eq!(failure.status_code, answer[..3].parse().ok());
        assert!(failure.response_excerpt.unwrap().starts_with(&answer[..9]), "the enhanced code too");
    }
}

/// A server that knows an extension by name only gets the commands without it.
#[tokio::test]
async fn refused_parameters_are_left_out_once() {
    for answer in ["555 5.5.4 what parameter", "501 5.5.4 what parameter", "504 5.5.4 what parameter"] {
        let (receiver, adapter) = world().await;
        receiver.script(Phase::Mail, [Reply::text(answer)]);
        delivered(send_one(&adapter).await);
        without_sin(&receiver);
        // A lax server that wants a message although it refused the sender gets none.
        receiver.script(Phase::Mail, [Reply::text(answer)]);
        receiver.script(Phase::Data, [Reply::text("354 go on")]);
        delivered(send_one(&adapter).await);
        let with_text = |mail: &&std::sync::Arc<mail::Mail>| !mail.raw.is_empty();
        assert_eq!(receiver.mails().iter().filter(with_text).count(), 2);
        let mail = receiver.mails().remove(0);
        assert_eq!(mail.sender.parameters.len(), 0, "{:?}", mail.sender);
        assert_eq!(mail.recipients[0].parameters.len(), 0);
    }
}

/// A relay that refuses a parameter, wants a message all the same, and goes at its dot: an outage, and no fault of the
/// channel.
#[tokio::test]
async fn a_lax_relay_that_goes() {
    let (receiver, adapter) = world().await;
    receiver.script(Phase::Mail, [Reply::text("501 5.5.4 what parameter")]);
    receiver.script(Phase::Data, [Reply::text("354 go on")]);
    receiver.script(Phase::Final, [Reply::hang_up()]);
    let failure = fail_one(&adapter).await;
    assert_eq!(failure.class, FailureClass::Transient, "{failure:?}");
    assert!(receiver.mails().is_empty());
    delivered(send_one(&adapter).await);
}

/// Words that the relay quotes of the message say nothing about the relay.
#[tokio::test]
async fn what_is_quoted_of_the_message_decides_nothing() {
    let (receiver, adapter) = world().await;
    let mut delivery = super::delivery(&["a@example.com"]);
    let subject = "daily sending quota exceeded, greylisted, relay access denied".to_owned();
    delivery.message =
        angarium_domain::adapter::Message { subject: subject.clone(), ..super::message() }.into();
    for (phase, code) in [(Phase::Final, "554 5.7.1"), (Phase::Rcpt, "550 5.7.1")] {
        receiver.script(phase, [Reply::text(&format!("{code} rejected: '{subject}'"))]);
        let outcome = angarium_domain::adapter::Adapter::send(&adapter, &delivery).await.remove(0);
        let failure = super::failed(outcome);
        let permanent = [FailureClass::PermanentMessage, FailureClass::PermanentRecipient];
        assert!(permanent.contains(&failure.class), "{failure:?}");
        assert!(failure.detail.contains("'[message]'"), "{}", failure.detail);
    }
}

/// What is neither yes nor no after the final dot leaves a doubt, and the session is not used again.
#[tokio::test]
async fn an_answer_to_the_message_that_is_none() {
    for answer in ["354 go on", "221 2.0.0 bye", "150 wait", "999 what"] {
        let (receiver, adapter) = world().await;
        receiver.script(Phase::Final, [Reply::raw(format!("{answer}\r\n250 2.0.0 Ok: queued as 1\r\n"))]);
        let failure = fail_one(&adapter).await;
        let told = (failure.class, failure.duplicate_risk);
        assert_eq!(told, (FailureClass::Transient, true), "{answer}: {failure:?}");
        delivered(send_one(&adapter).await);
        assert_eq!(receiver.sessions().len(), 2, "{answer}");
    }
}

/// C095: greylisting is waited out; it is no refusal, and not asked about every second.
#[tokio::test]
async fn c095_greylisting() {
    let (receiver, adapter) = world().await;
    let greylisted = || Reply::text("450 4.2.0 greylisted, try in 300 s");
    receiver.script(Phase::Rcpt, [greylisted(), greylisted()]);
    for _ in 0..2 {
        let failure = fail_one(&adapter).await;
        assert_eq!(failure.class, FailureClass::Transient);
        assert_eq!(failure.retry_after, Some(Duration::from_secs(300)));
    }
    delivered(send_one(&adapter).await);
    assert_eq!(receiver.mails().len(), 1);
}

/// A lost connection leaves a doubt if and only if the final dot had left: in every phase, closed and reset.
#[tokio::test]
async fn a_connection_lost_at_every_step() {
    for (phase, whole_channel) in [
        (Phase::Greeting, true),
        (Phase::Ehlo, true),
        (Phase::Mail, true),
        (Phase::Rcpt, false),
        (Phase::Data, false),
        (Phase::Final, false),
    ] {
        for end in [Reply::hang_up(), Reply::reset()] {
            for options in [mail::Options::default(), without(&["PIPELINING"])] {
                let (receiver, adapter) = world_with(options).await;
                receiver.script(phase, [end.clone()]);
                let failure = fail_one(&adapter).await;
                assert_eq!(failure.class, FailureClass::Transient, "{phase:?}: {failure:?}");
                assert_eq!(failure.duplicate_risk, phase == Phase::Final, "{phase:?}");
                assert_eq!(failure.whole_channel, whole_channel, "{phase:?}");
                assert_eq!(receiver.sessions().len(), 1, "{phase:?}: one attempt is one attempt");
                delivered(send_one(&adapter).await);
            }
        }
    }
}

/// the server took the message and was gone before it said so: in doubt, and the repeat is the same message.
#[tokio::test]
async fn the_answer_to_the_message_is_lost() {
    let (receiver, adapter) = world().await;
    receiver.script(Phase::Final, [Reply::hang_up().taking()]);
    assert!(fail_one(&adapter).await.duplicate_risk);
    delivered(send_one(&adapter).await);
    let mails = receiver.mails();
    assert_eq!(mails.len(), 2);
    assert_eq!(mails[0].raw, mails[1].raw, "byte for byte, so that it can be told for a repeat");
    assert!(mails[0].text().contains(&format!("\r\nMessage-ID: <{ID}@example.com>\r\n")));
}

/// No answer in time is a doubt after the final dot, and none before.
#[tokio::test]
async fn a_server_that_falls_silent() {
    for phase in [Phase::Greeting, Phase::Ehlo, Phase::Mail, Phase::Rcpt, Phase::Data, Phase::Final] {
        let receiver = Receiver::start(mail::Options::default()).await.unwrap();
        let never = Gate::closed();
        receiver.script(phase, [Reply::normal().gate(&never)]);
        let impatient = Duration::from_millis(50);
        let limits = match phase {
            Phase::Final => EmailChannel { final_timeout: impatient, ..channel(receiver.address()) },
            _ => EmailChannel { timeout: impatient, ..channel(receiver.address()) },
        };
        let failure = fail_one(&adapter(limits)).await;
        assert_eq!(failure.class, FailureClass::Transient, "{phase:?}");
        assert_eq!(failure.duplicate_risk, phase == Phase::Final, "{phase:?}: {failure:?}");
    }
}

/// C102: odd answers are judged by their codes; endless and meaningless ones end the conversation.
#[tokio::test]
async fn c102_multi_line_bare_and_split_replies() {
    let (receiver, adapter) = world().await;
    receiver.script(Phase::Greeting, [Reply::raw("220-mx.example.com\r\n220-no spam\r\n220\r\n").drip()]);
    receiver.script(Phase::Rcpt, [Reply::raw(b"250-a \xe9\xff\r\n250\r\n")]);
    let long = format!("250 2.0.0 {}\r\n", "x".repeat(3000));
    receiver.script(Phase::Final, [Reply::raw(b"250 2.0.0 t\xe9 \xff\r\n"), Reply::raw(long)]);
    assert_eq!(delivered(send_one(&adapter).await).provider_message_id.unwrap(), "t\u{FFFD} \u{FFFD}");
    delivered(send_one(&adapter).await);

    for (phase, reply) in [
        (Phase::Greeting, Reply::endless("220-still here\r\n")),
        (Phase::Ehlo, Reply::endless("x")),
        (Phase::Mail, Reply::raw("HTTP/1.1 400 Bad Request\r\n")),
        (Phase::Final, Reply::endless("250-and\r\n")),
    ] {
        let (receiver, adapter) = world().await;
        receiver.script(phase, [reply]);
        let failure = fail_one(&adapter).await;
        assert_eq!(failure.class, FailureClass::Transient, "{phase:?}");
        assert_eq!(failure.duplicate_risk, phase == Phase::Final, "{phase:?}");
    }
}

#[tokio::test]
async fn a_server_without_ehlo() {
    let (receiver, adapter) = world().await;
    receiver.script(Phase::Ehlo, [Reply::text("502 5.5.1 what"), Reply::text("250 hello")]);
    delivered(send_one(&adapter).await);
    let session = receiver.sessions().remove(0);
    assert_eq!(session.commands[..2], ["EHLO node.example.com", "HELO node.example.com"]);
    assert_eq!(session.commands[2], "MAIL FROM:<alerts@example.com>", "nothing is used that was not offered");
}

/// What keeps every message from getting out is the channel's failure.
#[tokio::test]
async fn a_relay_that_cannot_be_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    let failure = fail_one(&adapter(channel(nobody))).await;
    assert_eq!((failure.class, failure.whole_channel), (FailureClass::Transient, true));

    let elsewhere = |host: &str| {
        let relay = Relay { host: Host::parse(host).unwrap(), port: 25, security: Security::Offered };
        EmailChannel { relay, ..channel(nobody) }
    };
    let mut known = options();
    known.hosts.insert("gone.example".to_owned(), Vec::new());
    known.hosts.insert("metadata.example".to_owned(), vec!["169.254.169.254".parse().unwrap()]);
    // Metadata addresses never, whoever wrote them.
    for host in ["gone.example", "metadata.example", "169.254.169.254", "metadata.google.internal"] {
        let adapter: EmailAdapter = adapter_with(elsewhere(host), known.clone());
        let failure = fail_one(&adapter).await;
        assert_eq!((failure.class, failure.whole_channel), (FailureClass::PermanentConfig, false), "{host}");
    }
}

/// a message over the size that the server names is not begun.
#[tokio::test]
async fn a_message_that_is_too_large() {
    let mut options = without(&["SIZE"]);
    options.keywords.push("SIZE 300".to_owned());
    let (receiver, adapter) = world_with(options).await;
    let failure = fail_one(&adapter).await;
    assert_eq!(failure.class, FailureClass::PermanentMessage);
    assert!(failure.detail.contains("too_large"), "{}", failure.detail);
    assert_eq!(receiver.sessions()[0].commands, ["EHLO node.example.com"]);
}

/// A server that refuses everybody and asks for the message all the same gets nothing but the dot.
#[tokio::test]
async fn nobody_accepted_and_yet_a_354() {
    let (receiver, adapter) = world().await;
    receiver.script(Phase::Data, [Reply::text("354 go on"), Reply::text("354 go on")]);
    receiver.refuse_rcpt("a@example.com", "550 5.1.1 unknown");
    let outcomes = send(&adapter, &["a@example.com"]).await;
    assert!(
        matches!(&outcomes[0], Outcome::Failed(failure) if failure.class == FailureClass::PermanentRecipient)
    );
    let taken = receiver.mails().into_iter().chain(receiver.refused());
    assert!(taken.into_iter().all(|mail| mail.raw.is_empty()), "nothing was said that nobody was to hear");

    let receiver = Receiver::start(mail::Options::default()).await.unwrap();
    let timeout = Duration::from_millis(50);
    let adapter = adapter_with(EmailChannel { timeout, ..channel(receiver.address()) }, options());
    receiver.script(Phase::Data, [Reply::text("354 go on")]);
    receiver.script(Phase::Final, [Reply::normal().gate(&Gate::closed())]);
    receiver.refuse_rcpt("a@example.com", "550 5.1.1 unknown");
    let failure = fail_one(&adapter).await;
    assert_eq!(failure.class, FailureClass::PermanentRecipient, "for that nobody waits ten minutes");
}
