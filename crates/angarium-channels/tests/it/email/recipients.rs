//! One message, many recipients, each with a fate of its own.

use angarium_domain::outcome::{FailureClass, Outcome};
use angarium_receivers::mail::{self, Phase, Reply};

use super::{ID, channel, delivered, failed, send, send_one, without, without_sin, world, world_with};

fn class(outcome: &Outcome) -> Option<FailureClass> {
    match outcome {
        Outcome::Delivered(_) => None,
        Outcome::Failed(failure) => Some(failure.class),
    }
}

/// OB-11, C091: a list of two is one mail; both stand in the envelope, neither in the headers.
#[tokio::test]
async fn c091_hidden_recipients_stay_hidden() {
    let (receiver, adapter) = world().await;
    let outcomes = send(&adapter, &["ann@example.com", "bob@example.org"]).await;
    assert!(outcomes.iter().all(|outcome| class(outcome).is_none()));
    let mails = receiver.mails();
    assert_eq!(mails.len(), 1);
    assert_eq!(mails[0].to(), ["ann@example.com", "bob@example.org"]);
    let text = mails[0].text().to_lowercase();
    for hidden in ["ann@", "bob@", "\nbcc", "\ncc"] {
        assert!(!text.contains(hidden), "{hidden:?} in {text}");
    }
    without_sin(&receiver);
}

/// OB-11, OB-12: each recipient's answer is kept on its own, and the message goes out if any was accepted; the busy
/// one is asked again alone (C093).
#[tokio::test]
async fn c093_one_refused_one_busy_one_fine() {
    for options in [mail::Options::default(), without(&["PIPELINING"])] {
        let (receiver, adapter) = world_with(options).await;
        receiver.refuse_rcpt("b@example.com", "550 5.1.1 unknown");
        receiver.script_rcpt("c@example.com", [Reply::text("450 4.2.1 busy")]);
        let outcomes = send(&adapter, &["a@example.com", "b@example.com", "c@example.com"]).await;
        let expected = [None, Some(FailureClass::PermanentRecipient), Some(FailureClass::Transient)];
        assert_eq!(outcomes.iter().map(class).collect::<Vec<_>>(), expected);
        delivered(send(&adapter, &["c@example.com"]).await.remove(0));
        let mails = receiver.mails();
        assert_eq!(mails[0].to(), ["a@example.com"]);
        assert_eq!(mails[1].to(), ["c@example.com"]);
        assert_eq!(mails[0].raw, mails[1].raw);
        without_sin(&receiver);
    }
}

/// C101: a server that takes so many at a time gets the others in further transactions, even if it calls that
/// permanent.
#[tokio::test]
async fn c101_more_recipients_than_the_server_takes_at_once() {
    for answer in ["452 4.5.3 too many recipients", "552 5.5.3 enough", "452 Too many recipients"] {
        for options in [mail::Options::default(), without(&["PIPELINING"])] {
            let (receiver, adapter) = world_with(options).await;
            receiver.limit_rcpt(100, answer);
            let addresses: Vec<String> = (0..150).map(|n| format!("u{n}@example.com")).collect();
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            let outcomes = send(&adapter, &addresses).await;
            assert!(outcomes.iter().all(|outcome| class(outcome).is_none()), "{answer}");
            let sent: Vec<usize> = receiver.mails().iter().map(|mail| mail.recipients.len()).collect();
            assert_eq!(sent, [100, 50], "{answer}");
            let mails = receiver.mails();
            let mut told: Vec<&str> = mails.iter().flat_map(|mail| mail.to()).collect();
            told.sort_unstable();
            told.dedup();
            assert_eq!(told.len(), 150, "each once");
            without_sin(&receiver);
        }
    }
}

/// C090: an international domain is translated; a local part beyond ASCII needs SMTPUTF8 or fails alone, before
/// anything is said.
#[tokio::test]
async fn c090_non_ascii_local_part_or_domain() {
    let addresses = ["jörg@example.com", "ops@bücher.example", "ok@example.com"];
    let (receiver, adapter) = world_with(without(&["SMTPUTF8"])).await;
    let outcomes = send(&adapter, &addresses).await;
    let expected = [Some(FailureClass::PermanentRecipient), None, None];
    assert_eq!(outcomes.iter().map(class).collect::<Vec<_>>(), expected);
    assert!(failed(outcomes[0].clone()).detail.contains("smtputf8-required"));
    let mail = receiver.mails().remove(0);
    assert_eq!(mail.to(), ["ops@xn--bcher-kva.example", "ok@example.com"]);
    assert!(!mail.sender.parameters.iter().any(|parameter| parameter.contains("UTF8")));

    let (receiver, adapter) = world().await;
    let outcomes = send(&adapter, &addresses).await;
    assert!(outcomes.iter().all(|outcome| class(outcome).is_none()));
    let mail = receiver.mails().remove(0);
    assert_eq!(mail.to(), ["jörg@example.com", "ops@xn--bcher-kva.example", "ok@example.com"]);
    assert!(mail.sender.parameters.iter().any(|parameter| parameter == "SMTPUTF8"));
    without_sin(&receiver);
}

/// C089: without 8BITMIME nothing beyond ASCII goes over the wire, and nothing is claimed.
#[tokio::test]
async fn c089_a_server_without_8bitmime() {
    for options in [mail::Options::default(), without(&["8BITMIME", "SMTPUTF8"])] {
        let (receiver, adapter) = world_with(options).await;
        let mut delivery = super::delivery(&["a@example.com"]);
        let mut message = super::message();
        message.body = "Größe 12 °C".to_owned();
        message.subject = "Größe".to_owned();
        delivery.message = message.into();
        let outcome = angarium_domain::adapter::Adapter::send(&adapter, &delivery).await.remove(0);
        delivered(outcome);
        let mail = receiver.mails().remove(0);
        assert!(!mail.eight_bit);
        assert!(!mail.sender.parameters.iter().any(|parameter| parameter.starts_with("BODY=")));
        without_sin(&receiver);
    }
}

/// Nobody relayed for is a fault of the channel when it shows for several domains, and of the recipient else: one
/// odd address must not stop a channel.
#[tokio::test]
async fn a_relay_that_relays_for_nobody() {
    let denied = "554 5.7.1 relay access denied";
    let (receiver, adapter) = world().await;
    for address in ["a@example.com", "b@example.org"] {
        receiver.refuse_rcpt(address, denied);
    }
    let of = |outcomes: Vec<Outcome>| outcomes.iter().map(class).collect::<Vec<_>>();
    let everybody = of(send(&adapter, &["a@example.com", "b@example.org"]).await);
    assert_eq!(everybody, [Some(FailureClass::PermanentConfig); 2]);
    let alone = of(send(&adapter, &["a@example.com"]).await);
    assert_eq!(alone, [Some(FailureClass::PermanentRecipient)]);
    let some = of(send(&adapter, &["a@example.com", "c@example.net"]).await);
    assert_eq!(some, [Some(FailureClass::PermanentRecipient), None]);
}

/// Addresses with the word in them, and codes that say something about the address, are no refusal to relay.
#[tokio::test]
async fn the_word_relay_alone_says_nothing() {
    let (receiver, adapter) = world().await;
    let addresses = ["a@relay.example", "b@relay.example.org"];
    for address in addresses {
        receiver.refuse_rcpt(address, &format!("550 5.1.1 <{address}>: User unknown (relay3.corp)"));
    }
    let outcomes = send(&adapter, &addresses).await;
    let unknown = [Some(FailureClass::PermanentRecipient); 2];
    assert_eq!(outcomes.iter().map(class).collect::<Vec<_>>(), unknown);
}

/// A relay that offers DSN and does not know it at RCPT gets the recipients again without; those who are refused
/// even so are refused.
#[tokio::test]
async fn parameters_of_a_recipient_that_the_relay_does_not_know() {
    for answer in ["555 5.5.4 RCPT TO parameters not recognized", "501 5.5.4 Unsupported option: ORCPT"] {
        for options in [mail::Options::default(), without(&["PIPELINING"])] {
            let (receiver, adapter) = world_with(options).await;
            receiver.script_rcpt("a@example.com", [Reply::text(answer)]);
            receiver.script_rcpt("b@example.com", [Reply::text(answer), Reply::text("550 5.1.1 unknown")]);
            let outcomes = send(&adapter, &["a@example.com", "b@example.com"]).await;
            let expected = [None, Some(FailureClass::PermanentRecipient)];
            assert_eq!(outcomes.iter().map(class).collect::<Vec<_>>(), expected, "{answer}");
            let mails = receiver.mails();
            assert_eq!(mails.len(), 1);
            assert!(mails[0].recipients[0].parameters.is_empty());
            without_sin(&receiver);
        }
    }
}

/// An address for answers that the relay cannot carry is the message's fault, not the channel's: nobody else waits.
#[tokio::test]
async fn a_reply_to_that_needs_smtputf8() {
    let (receiver, adapter) = world_with(without(&["SMTPUTF8"])).await;
    let mut delivery = super::delivery(&["a@example.com"]);
    let data = r#"{"email": {"reply_to": "jörg@example.com"}}"#.to_owned();
    delivery.message = angarium_domain::adapter::Message { data: Some(data), ..super::message() }.into();
    let outcome = angarium_domain::adapter::Adapter::send(&adapter, &delivery).await.remove(0);
    assert_eq!(class(&outcome), Some(FailureClass::PermanentMessage));
    delivered(send_one(&adapter).await);
    assert_eq!(receiver.sessions().len(), 1, "and the session serves on");
}

/// The envelope asks for reports that name the notification, where the server knows how to.
#[tokio::test]
async fn reports_are_asked_for_where_they_are_offered() {
    let (receiver, adapter) = world().await;
    delivered(send(&adapter, &["a+b=c@example.com"]).await.remove(0));
    let mail = receiver.mails().remove(0);
    let size = format!("SIZE={}", mail.data().len());
    assert_eq!(mail.sender.parameters, [size, "RET=HDRS".into(), format!("ENVID={ID}")]);
    let expected = ["NOTIFY=FAILURE,DELAY", "ORCPT=rfc822;a+2Bb+3Dc@example.com"];
    assert_eq!(mail.recipients[0].parameters, expected);

    let receiver = mail::Receiver::start(mail::Options::default()).await.unwrap();
    let mut null = channel(receiver.address());
    null.return_path = None;
    delivered(send_one(&super::adapter(null)).await);
    let mail = receiver.mails().remove(0);
    assert_eq!(mail.sender.address, "");
    assert!(!mail.sender.parameters.iter().any(|parameter| parameter.starts_with("RET=")), "to whom?");
}

/// DD-07: the relay's own id for the message is kept, and its answer without what it quotes.
#[tokio::test]
async fn the_queue_id_is_kept() {
    let (receiver, adapter) = world().await;
    let quoting = "250 2.0.0 \"Pump 3 has stopped\" Ok: queued as 4F1B2C3D";
    receiver.script(Phase::Final, [Reply::text(quoting)]);
    let receipt = delivered(send_one(&adapter).await);
    assert_eq!(receipt.provider_message_id.as_deref(), Some("4F1B2C3D"));
    assert_eq!(receipt.status_code, Some(250));
    let kept = "250 2.0.0 \"[message]\" Ok: queued as 4F1B2C3D";
    assert_eq!(receipt.response_excerpt.as_deref(), Some(kept));
    receiver.script(Phase::Final, [Reply::raw(b"250 2.0.0 \x1b[2J\0 took \"Pump 3 has stopped\"\r\n")]);
    let id = delivered(send_one(&adapter).await).provider_message_id.unwrap();
    assert_eq!(id, "\u{FFFD}[2J\u{FFFD} took \"[message]\"", "fit to be kept, whatever it is");
}

/// A 421 in the middle of the recipients: those refused before are refused, the others are asked again.
#[tokio::test]
async fn a_server_that_closes_among_the_recipients() {
    for options in [mail::Options::default(), without(&["PIPELINING"])] {
        let (receiver, adapter) = world_with(options).await;
        receiver.refuse_rcpt("b@example.com", "550 5.1.1 unknown");
        receiver.script_rcpt("c@example.com", [Reply::text("421 4.3.2 closing")]);
        let addresses = ["a@example.com", "b@example.com", "c@example.com", "d@example.com"];
        let outcomes = send(&adapter, &addresses).await;
        let busy = Some(FailureClass::Transient);
        let expected = [busy, Some(FailureClass::PermanentRecipient), busy, busy];
        assert_eq!(outcomes.iter().map(class).collect::<Vec<_>>(), expected);
        assert!(outcomes.iter().all(|outcome| !failed(outcome.clone()).duplicate_risk));
        assert!(receiver.mails().is_empty());
    }
}

/// C109, C088: whatever a message holds, no line is too long, none ends in a bare CR or LF, and no dot of its
/// own ends it.
#[tokio::test]
async fn the_wire_is_clean_whatever_the_message_holds() {
    let (receiver, adapter) = world().await;
    for (subject, body) in [
        ("x".repeat(1500), "y".repeat(5000)),
        (
            "=?utf-8?q?a=0D=0ABcc:_spy@example.net?=".to_owned(),
            "\n.\nMAIL FROM:<x@y>\n.\r\nQUIT\r\n".to_owned(),
        ),
        ("a".to_owned(), "\r.\rb\n\n.\n..\n\u{0}\u{1b}[2J".to_owned()),
        ("ä".repeat(900), "日本語\u{2028}🚨".repeat(300)),
    ] {
        let mut delivery = super::delivery(&["a@example.com"]);
        let mut message = super::message();
        (message.subject, message.body) = (subject, body);
        delivery.message = message.into();
        delivered(angarium_domain::adapter::Adapter::send(&adapter, &delivery).await.remove(0));
    }
    let mails = receiver.mails();
    assert_eq!(mails.len(), 4, "each is one mail and no more");
    for mail in mails {
        assert!(!mail.bare_line_ends && !mail.eight_bit && mail.longest_line <= 76, "{}", mail.text());
        let header = mail.text().split("\r\n\r\n").next().unwrap().to_lowercase();
        assert!(!header.contains("\nbcc"), "{header}");
        assert_eq!(header.matches("\nsubject:").count(), 1);
    }
    without_sin(&receiver);
}
