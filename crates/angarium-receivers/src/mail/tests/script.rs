//! Each kind of reply at each phase.

use std::io::ErrorKind;

use super::*;

/// What brings a session to each phase, and whether it goes on after the answer.
const PHASES: [(Phase, &[&str]); 10] = [
    (Phase::Greeting, &[]),
    (Phase::Ehlo, &["EHLO x"]),
    (Phase::Auth, &["EHLO x", "AUTH PLAIN AHUAcA=="]),
    (Phase::Mail, &["EHLO x", "MAIL FROM:<a@b>"]),
    (Phase::Rcpt, &["EHLO x", "MAIL FROM:<a@b>", "RCPT TO:<c@d>"]),
    (Phase::Data, &["EHLO x", "MAIL FROM:<a@b>", "RCPT TO:<c@d>", "DATA"]),
    (Phase::Final, &["EHLO x", "MAIL FROM:<a@b>", "RCPT TO:<c@d>", "DATA", "x\r\n."]),
    (Phase::Rset, &["EHLO x", "RSET"]),
    (Phase::Noop, &["EHLO x", "NOOP"]),
    (Phase::Quit, &["EHLO x", "QUIT"]),
];

/// A receiver on which every phase can be reached, and that answers once with `reply` at `phase`.
async fn scripted(phase: Phase, reply: Reply) -> Receiver {
    let auth = Auth { required: false, before_tls: true, ..Auth::password("u", "p") };
    let receiver = Receiver::start(Options { auth: Some(auth), ..Options::default() }).await.unwrap();
    receiver.script(phase, [reply]);
    receiver
}

/// Goes to the phase that these lines lead to; its answer is not read yet.
async fn led_to(receiver: &Receiver, lines: &[&str]) -> Client<TcpStream> {
    let mut client = Client::dial(receiver.address()).await;
    for line in lines {
        let before = client.reply().await;
        assert!(before.starts_with('2') || before.starts_with('3'), "{before}");
        client.send(format!("{line}\r\n")).await;
    }
    client
}

#[tokio::test]
async fn a_text_is_said_once_and_then_all_is_normal() {
    for (phase, lines) in PHASES {
        let receiver = scripted(phase, Reply::text("450 4.2.1 busy")).await;
        assert_eq!(led_to(&receiver, lines).await.reply().await, "450 4.2.1 busy", "{phase:?}");
        assert!(receiver.mails().is_empty());
        let reply = led_to(&receiver, lines).await.reply().await;
        assert!(reply.starts_with('2') || reply.starts_with("354"), "{phase:?}: {reply}");
    }
}

#[tokio::test]
async fn bytes_dripped_or_not_arrive_as_they_are() {
    for (phase, lines) in PHASES {
        for reply in [Reply::raw(b"4\0\xff\n\r"), Reply::raw(b"4\0\xff\n\r").drip()] {
            let receiver = scripted(phase, reply.then_hang_up()).await;
            let mut bytes = Vec::new();
            led_to(&receiver, lines).await.stream.read_to_end(&mut bytes).await.unwrap();
            assert_eq!(bytes, b"4\0\xff\n\r", "{phase:?}");
        }
    }
}

#[tokio::test]
async fn several_lines_share_one_code() {
    let receiver = scripted(Phase::Mail, Reply::lines(550, ["5.1.8 no", "5.1.8 never"])).await;
    let mut client = Client::greet(&receiver).await;
    assert_eq!(client.say("MAIL FROM:<a@b>").await, "550-5.1.8 no\n550 5.1.8 never");
    client.expect("NOOP", "250").await;
}

#[tokio::test]
async fn hanging_up_is_a_proper_close_and_no_answer() {
    for (phase, lines) in PHASES {
        let receiver = scripted(phase, Reply::hang_up()).await;
        assert!(led_to(&receiver, lines).await.is_closed().await, "{phase:?}");
        assert!(receiver.mails().is_empty());
    }
}

#[tokio::test]
async fn a_reset_is_an_error_to_the_client() {
    for (phase, lines) in PHASES {
        let receiver = scripted(phase, Reply::reset()).await;
        let outcome = led_to(&receiver, lines).await.stream.read(&mut [0]).await;
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ConnectionReset, "{phase:?}");
    }
}

#[tokio::test]
async fn a_gate_holds_its_answer_and_no_other() {
    for (phase, lines) in PHASES {
        let gate = Gate::closed();
        let receiver = scripted(phase, Reply::normal().gate(&gate)).await;
        let mut client = led_to(&receiver, lines).await;
        let commands = lines.len() - usize::from(phase == Phase::Final);
        receiver
            .wait_until(|all| all.first().is_some_and(|session| session.commands.len() == commands))
            .await;
        // A whole exchange elsewhere: the held one has had its chance to answer.
        assert!(Client::greet(&receiver).await.say("NOOP").await.starts_with("250"));
        let silent =
            tokio::time::timeout(std::time::Duration::ZERO, client.stream.get_ref().readable()).await;
        assert!(silent.is_err(), "{phase:?}");
        gate.open();
        let reply = client.reply().await;
        assert!(reply.starts_with('2') || reply.starts_with("354"), "{phase:?}: {reply}");
    }
}

#[tokio::test]
async fn an_endless_answer_goes_on_until_the_client_leaves() {
    let receiver = scripted(Phase::Greeting, Reply::endless("220-more\r\n")).await;
    let mut client = Client::dial(receiver.address()).await;
    let mut megabyte = vec![0; 1 << 20];
    client.stream.read_exact(&mut megabyte).await.unwrap();
    assert!(megabyte.starts_with(b"220-more\r\n220-more"));
    drop(client);
    receiver.wait_until(|sessions| sessions[0].over).await;
}

#[tokio::test]
async fn a_421_closes_the_connection() {
    let receiver = scripted(Phase::Noop, Reply::text("421 4.7.0 session limit")).await;
    let mut client = Client::greet(&receiver).await;
    assert_eq!(client.say("NOOP").await, "421 4.7.0 session limit");
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_mail_can_be_taken_although_the_answer_gets_lost() {
    for reply in [Reply::hang_up(), Reply::reset(), Reply::text("451 4.3.0 try again")] {
        let receiver = scripted(Phase::Final, reply.clone().taking()).await;
        led_to(&receiver, PHASES[6].1).await.reply().await;
        let [mail] = receiver.mail_count_reaches(1).await.try_into().unwrap();
        assert_eq!((mail.text().as_str(), mail.queue_id), ("x\r\n", Some(1)), "{reply:?}");
    }
}

#[tokio::test]
async fn a_mail_is_taken_before_its_answer_passes_the_gate() {
    let gate = Gate::closed();
    let receiver = scripted(Phase::Final, Reply::normal().gate(&gate)).await;
    let mut client = led_to(&receiver, PHASES[6].1).await;
    receiver.mail_count_reaches(1).await;
    gate.open();
    assert_eq!(client.reply().await, "250 2.0.0 Ok: queued as 1");
}

#[tokio::test]
async fn a_mail_refused_at_its_end_is_kept_apart() {
    let receiver = scripted(Phase::Final, Reply::text("554 5.7.1 spam")).await;
    let mut client = Client::greet(&receiver).await;
    assert_eq!(client.deliver("first\r\n").await, "554 5.7.1 spam");
    assert_eq!(client.deliver("second\r\n").await, "250 2.0.0 Ok: queued as 1");
    let [refused] = receiver.refused().try_into().unwrap();
    assert_eq!((refused.text().as_str(), refused.queue_id), ("first\r\n", None));
    assert_eq!(receiver.mails()[0].text(), "second\r\n");
}

#[tokio::test]
async fn rcpt_of_one_address_goes_before_rcpt_of_any() {
    let receiver = started().await;
    receiver.refuse_rcpt("b@c", "550 5.1.1 never");
    receiver.script(Phase::Rcpt, [Reply::text("451 4.7.1 greylisted")]);
    receiver.script_rcpt("b@c", [Reply::normal(), Reply::text("450 4.2.1 busy")]);
    let mut client = Client::greet(&receiver).await;
    client.expect("MAIL FROM:<a@b>", "250").await;
    for start in ["250 2.1.5", "450 4.2.1", "451 4.7.1", "550 5.1.1", "550 5.1.1"] {
        client.expect("RCPT TO:<b@c>", start).await;
    }
    client.expect("RCPT TO:<B@c>", "250").await;
    assert!(client.body("x\r\n").await.starts_with("250"));
    assert_eq!(receiver.mails()[0].to(), ["b@c", "B@c"]);
}

#[tokio::test]
async fn what_a_script_accepts_is_accepted() {
    let receiver = started().await;
    receiver.script(Phase::Rcpt, [Reply::text("251 2.1.5 forwarded"), Reply::text("550 5.1.1 no")]);
    receiver.script(Phase::Data, [Reply::text("354")]);
    receiver.script(Phase::Final, [Reply::text("250 thanks")]);
    let mut client = Client::greet(&receiver).await;
    client.expect("MAIL FROM:<a@b>", "250").await;
    client.expect("RCPT TO:<1@b>", "251").await;
    client.expect("RCPT TO:<2@b>", "550").await;
    assert_eq!(client.body("x\r\n").await, "250 thanks");
    assert_eq!(receiver.mails()[0].to(), ["1@b"]);
}
