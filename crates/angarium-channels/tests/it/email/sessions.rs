//! Sessions serve many messages, and one that was ended meanwhile costs nothing.

use std::time::Duration;

use angarium_channels::email::EmailChannel;
use angarium_domain::adapter::Adapter;
use angarium_domain::outcome::FailureClass;
use angarium_receivers::mail::{self, Phase, Reply};

use super::{delivered, fail_one, send_one, without, without_sin, world, world_with};

#[tokio::test]
async fn a_session_serves_again() {
    let (receiver, adapter) = world().await;
    for _ in 0..5 {
        delivered(send_one(&adapter).await);
    }
    assert_eq!(receiver.sessions().len(), 1);
    assert_eq!(receiver.mails().len(), 5);
    without_sin(&receiver);
}

/// A message that was broken off is forgotten before the next begins.
#[tokio::test]
async fn a_refused_message_leaves_no_trace() {
    for options in [mail::Options::default(), without(&["PIPELINING"])] {
        let (receiver, adapter) = world_with(options).await;
        receiver.script(Phase::Rcpt, [Reply::text("550 5.1.1 unknown")]);
        fail_one(&adapter).await;
        delivered(send_one(&adapter).await);
        let sessions = receiver.sessions();
        assert_eq!(sessions.len(), 1);
        assert!(sessions[0].commands.iter().any(|command| command == "RSET"), "{:?}", sessions[0].commands);
        without_sin(&receiver);
    }
}

/// C097: 421 on a session that served before is no failure: a fresh one serves, at once and uncounted; other
/// sessions stay as they are.
#[tokio::test]
async fn c097_421_in_the_middle_of_a_reused_session() {
    for phase in [Phase::Mail, Phase::Rcpt, Phase::Data] {
        let (receiver, adapter) = world().await;
        delivered(send_one(&adapter).await);
        receiver.script(phase, [Reply::text("421 4.7.0 session limit reached")]);
        delivered(send_one(&adapter).await);
        assert_eq!(receiver.sessions().len(), 2, "{phase:?}");
        assert_eq!(receiver.mails().len(), 2, "{phase:?}");
        delivered(send_one(&adapter).await);
        assert_eq!(receiver.sessions().len(), 2, "the dead session did not come back");
    }
    let (receiver, adapter) = world().await;
    receiver.script(Phase::Rset, [Reply::text("421 4.7.0 session limit reached")]);
    receiver.script(Phase::Rcpt, [Reply::text("550 5.1.1 unknown")]);
    fail_one(&adapter).await;
    delivered(send_one(&adapter).await);
}

/// C097: a relay that takes so many mails over one session, whatever code it has for that, gets the next ones over
/// another one.
#[tokio::test]
async fn c097_more_mails_than_a_session_takes() {
    let (receiver, adapter) = world().await;
    let answers = [
        "452 4.5.3 Too many recipients: Too many messages sent",
        "450 4.7.1 enough",
        "554 5.7.0 too many messages",
    ];
    for answer in answers {
        delivered(send_one(&adapter).await);
        receiver.script(Phase::Mail, [Reply::text(answer)]);
        delivered(send_one(&adapter).await);
    }
    assert_eq!(receiver.mails().len(), 6);
    without_sin(&receiver);
}

/// C098: a session that the server ended while it was idle is replaced without a word.
#[tokio::test]
async fn c098_an_idle_session_closed_by_the_server() {
    let (receiver, adapter) = world().await;
    receiver.script(Phase::Final, [Reply::raw("250 2.0.0 ok\r\n221 2.0.0 idle timeout\r\n").then_hang_up()]);
    delivered(send_one(&adapter).await);
    receiver.wait_until(|sessions| sessions.iter().all(|session| session.over)).await;
    delivered(send_one(&adapter).await);
    assert_eq!((receiver.sessions().len(), receiver.mails().len()), (2, 2));
}

/// An answer too many would be taken for the answer to the next mail: such a session is not used again.
#[tokio::test]
async fn an_answer_too_many_is_nobody_elses() {
    for second in ["550 5.1.1 unknown\r\n", "250 2.0.0 Ok\r\n"] {
        let (receiver, adapter) = world().await;
        let first = format!("250 2.0.0 Ok: queued as 1\r\n{second}");
        receiver.script(Phase::Final, [Reply::raw(first)]);
        delivered(send_one(&adapter).await);
        receiver.script(Phase::Rcpt, [Reply::text("550 5.1.1 unknown")]);
        fail_one(&adapter).await;
        delivered(send_one(&adapter).await);
        assert_eq!(receiver.mails().len(), 2, "{second}");
        assert!(receiver.sessions().len() >= 2, "{second}");
    }
}

/// An answer that was there before the message cannot be the answer to it.
#[tokio::test]
async fn an_answer_before_the_message_is_none() {
    let (receiver, adapter) = world().await;
    receiver.script(Phase::Data, [Reply::raw("354 go on\r\n250 2.0.0 early\r\n")]);
    receiver.script(Phase::Final, [Reply::text("554 5.7.1 spam")]);
    let failure = fail_one(&adapter).await;
    assert_eq!((failure.class, failure.duplicate_risk), (FailureClass::Transient, false));
    assert!(receiver.mails().is_empty());
}

/// C098: so is one that the relay closed without a word; nothing is said over it any more.
#[tokio::test]
async fn c098_an_idle_session_closed_without_a_word() {
    let (receiver, adapter) = world().await;
    receiver.script(Phase::Final, [Reply::text("250 2.0.0 ok").then_hang_up()]);
    delivered(send_one(&adapter).await);
    receiver.wait_until(|sessions| sessions[0].over).await;
    let said = receiver.sessions()[0].commands.len();
    delivered(send_one(&adapter).await);
    let sessions = receiver.sessions();
    assert_eq!((sessions.len(), sessions[0].commands.len()), (2, said));
}

/// A doubt is a doubt on a session that served before, too: the message is not sent again by itself.
#[tokio::test]
async fn a_lost_answer_on_a_reused_session_is_in_doubt() {
    let (receiver, adapter) = world().await;
    delivered(send_one(&adapter).await);
    receiver.script(Phase::Final, [Reply::hang_up().taking()]);
    let failure = fail_one(&adapter).await;
    assert_eq!((failure.class, failure.duplicate_risk), (FailureClass::Transient, true));
    assert_eq!(receiver.mails().len(), 2);
}

/// Messages side by side have sessions of their own; as many as the channel keeps stay open, the others are ended
/// politely.
#[tokio::test]
async fn messages_side_by_side() {
    let receiver = mail::Receiver::start(mail::Options::default()).await.unwrap();
    let adapter = super::adapter(EmailChannel { max_idle: 1, ..super::channel(receiver.address()) });
    let delivery = super::delivery(&["a@example.com"]);
    let gate = mail::Gate::closed();
    receiver.script(Phase::Final, (0..3).map(|_| Reply::normal().gate(&gate)));
    let all =
        async { tokio::join!(adapter.send(&delivery), adapter.send(&delivery), adapter.send(&delivery)) };
    let opened = async {
        receiver.mail_count_reaches(3).await;
        gate.open();
    };
    let ((a, b, c), ()) = tokio::join!(all, opened);
    for mut outcomes in [a, b, c] {
        delivered(outcomes.remove(0));
    }
    assert_eq!(receiver.sessions().len(), 3);
    let said_goodbye = |session: &&mail::Session| session.commands.last().is_some_and(|last| last == "QUIT");
    receiver.wait_until(|sessions| sessions.iter().filter(said_goodbye).count() == 2).await;
    delivered(send_one(&adapter).await);
    assert_eq!(receiver.sessions().len(), 3, "the one that was kept serves");
    without_sin(&receiver);
}

/// Where the relay takes no more sessions, however and whenever it says so, a message waits for one of those that
/// there are.
#[tokio::test]
async fn more_messages_than_the_relay_takes_sessions() {
    for (phase, answer) in [
        (Phase::Greeting, Reply::text("421 4.7.0 too many connections from you")),
        (Phase::Greeting, Reply::text("421 4.3.2 service not available")),
        (Phase::Greeting, Reply::hang_up()),
        (Phase::Greeting, Reply::reset()),
        (Phase::Ehlo, Reply::text("432 4.3.2 Concurrent connections limit exceeded")),
        (Phase::Mail, Reply::text("451 4.7.0 too many sessions")),
        (Phase::Mail, Reply::text("421 4.7.0 too many concurrent sessions")),
    ] {
        let (receiver, adapter) = world().await;
        let delivery = super::delivery(&["a@example.com"]);
        let gate = mail::Gate::closed();
        receiver.script(Phase::Final, [Reply::normal().gate(&gate)]);
        let first = adapter.send(&delivery);
        let second = async {
            receiver.mail_count_reaches(1).await;
            receiver.script(phase, [answer.clone()]);
            let refused = async {
                receiver.wait_until(|sessions| sessions.get(1).is_some_and(|session| session.over)).await;
                gate.open();
            };
            tokio::join!(adapter.send(&delivery), refused).0
        };
        let (first, second) = tokio::join!(first, second);
        for mut outcomes in [first, second] {
            delivered(outcomes.remove(0));
        }
        let mails: Vec<u64> = receiver.mails().iter().map(|mail| mail.session).collect();
        assert_eq!(mails, [1, 1], "{phase:?}: over the one session that the relay takes");
    }
}

/// A line too many before the first message would be taken for an answer: such a session is not begun with.
#[tokio::test]
async fn a_stray_line_on_a_fresh_session() {
    let (receiver, adapter) = world().await;
    receiver.script(Phase::Ehlo, [Reply::raw("250-mx\r\n250 SIZE\r\n550 5.1.1 stray\r\n")]);
    let failure = fail_one(&adapter).await;
    assert_eq!((failure.class, failure.duplicate_risk), (FailureClass::Transient, false), "{failure:?}");
    delivered(send_one(&adapter).await);
}

/// A session that waits too long for its next message is ended politely.
#[tokio::test]
async fn an_idle_session_is_ended() {
    let (receiver, adapter) = world().await;
    delivered(send_one(&adapter).await);
    // Whoever looks after idle sessions begins to wait.
    tokio::task::yield_now().await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    receiver.wait_until(|sessions| sessions[0].commands.last().is_some_and(|last| last == "QUIT")).await;
    delivered(send_one(&adapter).await);
    assert_eq!(receiver.sessions().len(), 2);
}
