//! Delivery reports as mail servers send them, and such as nobody should.

use angarium_channels::email::bounce::{Report, Unreadable, read};
use angarium_domain::bounce::{Bounce, BounceAction};
use angarium_domain::chance::{Chance, SeededChance};

const ID: &str = "01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59";
const OTHER_ID: &str = "01976e5c-0000-7000-8000-000000000001";

/// A report with these groups in its delivery status, as one server or other would wrap it.
fn report(groups: &str) -> String {
    format!(
        "From: MAILER-DAEMON@relay.example\r\nTo: alarms@example.com\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=delivery-status; boundary=\"=_b1\"\r\n\r\n\
         --=_b1\r\n\r\nSorry.\r\n--=_b1\r\nContent-Type: message/delivery-status\r\n\r\n{groups}\r\n--=_b1--\r\n"
    )
}

fn the_one(report: &Report) -> &Bounce {
    assert_eq!(report.bounces.len(), 1, "{report:?}");
    &report.bounces[0]
}

fn told(recipient: &Bounce) -> (&str, BounceAction, &str, &str) {
    let diagnostic = recipient.diagnostic.as_deref().unwrap_or_default();
    (recipient.address.as_str(), recipient.action, &recipient.status, diagnostic)
}

fn id_of(report: &Report) -> String {
    report.notification.map(|id| id.to_string()).unwrap_or_default()
}

/// Postfix: the original recipient as we encoded it, the envelope id, and the header of what came back.
#[test]
fn a_report_of_postfix() {
    let mail = format!(
        "Return-Path: <>\nReceived: by relay.example (Postfix)\n\tid 4F1C2A0; Tue,  7 Jul 2026 11:00:02 +0000 (UTC)\n\
Date: Tue,  7 Jul 2026 11:00:02 +0000 (UTC)\nFrom: MAILER-DAEMON@relay.example (Mail Delivery System)\n\
Subject: Undelivered Mail Returned to Sender\nTo: alarms@example.com\nAuto-Submitted: auto-replied\nMIME-Version: 1.0\n\
Content-Type: multipart/report; report-type=delivery-status;\n\tboundary=\"4D9E61F.1783422002/relay.example\"\n\
Message-Id: <20260707110002.4F1C2A0@relay.example>\n\nThis is a MIME-encapsulated message.\n\n\
--4D9E61F.1783422002/relay.example\nContent-Description: Notification\nContent-Type: text/plain; charset=us-ascii\n\n\
Your message could not be delivered to one address.\n\n--4D9E61F.1783422002/relay.example\n\
Content-Description: Delivery report\nContent-Type: message/delivery-status\n\n\
Reporting-MTA: dns; relay.example\nOriginal-Envelope-Id: {ID}\nX-Postfix-Queue-ID: 4D9E61F\n\
X-Postfix-Sender: rfc822; alarms@example.com\nArrival-Date: Tue,  7 Jul 2026 11:00:01 +0000 (UTC)\n\n\
Final-Recipient: rfc822; night@plant.example\nOriginal-Recipient: rfc822;ops+2Bnight@example.net\nAction: failed\n\
Status: 5.1.1\nRemote-MTA: dns; mx.plant.example\nDiagnostic-Code: smtp; 550 5.1.1 <night@plant.example>: Recipient\n    \
address rejected: no such person here\n\n--4D9E61F.1783422002/relay.example\n\
Content-Description: Undelivered Message Headers\nContent-Type: text/rfc822-headers\n\n\
Return-Path: <alarms@example.com>\nSubject: pressure\nMessage-ID: <{OTHER_ID}@alarms.example.com>\n\n\
--4D9E61F.1783422002/relay.example--\n"
    );
    let report = read(mail.as_bytes()).unwrap();
    assert_eq!(id_of(&report), ID);
    let why = "550 5.1.1 <night@plant.example>: Recipient address rejected: no such person here";
    assert_eq!(told(the_one(&report)), ("ops+night@example.net", BounceAction::Failed, "5.1.1", why));
    let with_crlf = read(mail.replace('\n', "\r\n").as_bytes()).unwrap();
    assert_eq!(with_crlf, report, "either kind of line end says the same");
}

/// OpenSMTPD: no envelope id, no diagnostic; the message that came back tells which one it was.
#[test]
fn a_report_of_opensmtpd() {
    let mail = format!(
        "Subject: Delivery status notification: error\nFrom: Mailer Daemon <MAILER-DAEMON@host.example>\n\
To: alarms@example.com\nDate: Tue, 7 Jul 2026 13:00:02 +0200 (CEST)\nMIME-Version: 1.0\n\
Content-Type: multipart/mixed;boundary=\"13107425611824301133/host.example\"\n\nThis is a MIME-encapsulated message.\n\n\
--13107425611824301133/host.example\nContent-Description: Notification\nContent-Type: text/plain; charset=us-ascii\n\n\
    Hi!\n\n    An error has occurred.\n\n\
--13107425611824301133/host.example\nContent-Description: Delivery Report\nContent-Type: message/delivery-status\n\n\
Reporting-MTA: dns; host.example\n\nFinal-Recipient: rfc822; ops@Example.NET\nAction: failed\nStatus: 5.1.2\n\n\
Final-Recipient: rfc822; day@example.net\nAction: failed\nStatus: 5.0.0\n\n\n\
--13107425611824301133/host.example\nContent-Description: Message headers\nContent-Type: text/rfc822-headers\n\n\
From: alarms@example.com\nMessage-ID: <{ID}@alarms.example.com>\n\n--13107425611824301133/host.example--\n"
    );
    let report = read(mail.as_bytes()).unwrap();
    assert_eq!(id_of(&report), ID);
    let all: Vec<_> = report.bounces.iter().map(told).collect();
    assert_eq!(
        all,
        [
            ("ops@example.net", BounceAction::Failed, "5.1.2", ""),
            ("day@example.net", BounceAction::Failed, "5.0.0", "")
        ]
    );
}

/// Exchange Online: HTML beside the text, a status with a long last part, the whole message back.
#[test]
fn a_report_of_exchange_online() {
    let mail = format!(
        "From: <postmaster@contoso.example>\r\nTo: <alarms@example.com>\r\nSubject: Undeliverable: pressure\r\n\
Date: Tue, 7 Jul 2026 11:00:05 +0000\r\nX-MS-Exchange-Message-Is-Ndr:\r\nContent-Language: en-US\r\n\
Message-ID: <7c1a9d02-4a75-47a1-8f4a-5b1d44d4a111@AM0PR01.contoso.example>\r\n\
In-Reply-To: <{OTHER_ID}@alarms.example.com>\r\nReferences: <{OTHER_ID}@alarms.example.com>\r\n\
Content-Type: multipart/report; report-type=delivery-status;\r\n\tboundary=\"8f2f_dsn\"\r\nMIME-Version: 1.0\r\n\r\n\
--8f2f_dsn\r\nContent-Type: multipart/alternative; differences=Content-Type;\r\n\tboundary=\"8f2f_alt\"\r\n\r\n\
--8f2f_alt\r\nContent-Type: text/plain; charset=\"us-ascii\"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
Your message to ghost@contoso.example could not be delivered.=\r\n\r\n--8f2f_alt\r\n\
Content-Type: text/html; charset=\"us-ascii\"\r\n\r\n<html><body>no</body></html>\r\n--8f2f_alt--\r\n\r\n\
--8f2f_dsn\r\nContent-Type: message/delivery-status\r\n\r\n\
Reporting-MTA: dns;AM0PR01MB0001.contoso.example\r\nReceived-From-MTA: dns;relay.example\r\n\
Arrival-Date: Tue, 7 Jul 2026 11:00:04 +0000\r\n\r\n\
Final-Recipient: rfc822;ghost@contoso.example\r\nAction: failed\r\nStatus: 5.1.10\r\n\
Diagnostic-Code: smtp;550 5.1.10 RESOLVER.ADR.RecipientNotFound; no recipient with this SMTP address\r\n\r\n\
--8f2f_dsn\r\nContent-Type: message/rfc822\r\n\r\nReceived: from relay.example\r\nFrom: alarms@example.com\r\n\
Message-ID:\r\n <{ID}@alarms.example.com>\r\nContent-Type: text/plain\r\n\r\nthe message\r\n--8f2f_dsn--\r\n"
    );
    let report = read(mail.as_bytes()).unwrap();
    assert_eq!(id_of(&report), ID, "what came back says more than what the report answers to");
    let why = "550 5.1.10 RESOLVER.ADR.RecipientNotFound; no recipient with this SMTP address";
    assert_eq!(told(the_one(&report)), ("ghost@contoso.example", BounceAction::Failed, "5.1.10", why));
}

/// Gmail: pictures related to the text before the report, comments in fields, and a delay that is no failure.
#[test]
fn a_report_of_gmail() {
    let mail = format!(
        "To: alarms@example.com\r\nAuto-Submitted: auto-replied\r\n\
From: Mail Delivery Subsystem <mailer-daemon@googlemail.example>\r\n\
References: <{OTHER_ID}@x> <{ID}@alarms.example.com>\r\nIn-Reply-To: <not-one-of-ours@x>\r\n\
Subject: Delivery Status Notification (Delay)\r\n\
Content-Type: multipart/report; boundary=\"000000000000c7e8\"; report-type=delivery-status\r\n\r\n\
--000000000000c7e8\r\nContent-Type: multipart/related; boundary=\"000000000000c7ea\"\r\n\r\n\
--000000000000c7ea\r\nContent-Type: text/plain; charset=\"UTF-8\"\r\n\r\n** not yet **\r\n\
--000000000000c7ea\r\nContent-Type: image/png; name=\"icon.png\"\r\nContent-Transfer-Encoding: base64\r\n\r\n\
iVBORw0KGgo=\r\n--000000000000c7ea--\r\n--000000000000c7e8\r\nContent-Type: message/delivery-status\r\n\r\n\
Reporting-MTA: dns; googlemail.example\r\nX-Original-Message-ID: <{OTHER_ID}@x>\r\n\r\n\
Final-Recipient: rfc822; ops@example.net\r\nAction: delayed\r\nStatus: 4.4.1 (no answer)\r\n\
Remote-MTA: dns; mx.example.net. (192.0.2.7, the server for the domain.)\r\n\
Diagnostic-Code: smtp; The recipient server did not accept our requests to connect.\r\n \
[mx.example.net 192.0.2.7:\ttimed out]\r\nWill-Retry-Until: Fri, 10 Jul 2026 04:00:05 -0700 (PDT)\r\n\
--000000000000c7e8--\r\n"
    );
    let report = read(mail.as_bytes()).unwrap();
    assert_eq!(id_of(&report), ID);
    let why =
        "The recipient server did not accept our requests to connect. [mx.example.net 192.0.2.7: timed out]";
    assert_eq!(told(the_one(&report)), ("ops@example.net", BounceAction::Delayed, "4.4.1", why));
}

/// Exim: fields of its own, no type before the diagnostic, the envelope id of the sender.
#[test]
fn a_report_of_exim() {
    let mail = format!(
        "Return-path: <>\nEnvelope-to: alarms@example.com\nX-Failed-Recipients: ops@example.net\n\
Auto-Submitted: auto-replied\nFrom: Mail Delivery System <Mailer-Daemon@exim.example>\nTo: alarms@example.com\n\
References: <{OTHER_ID}@alarms.example.com>\n\
Content-Type: multipart/report; report-type=delivery-status; boundary=1783422002-eximdsn-98321\nMIME-Version: 1.0\n\
Subject: Mail delivery failed: returning message to sender\n\n--1783422002-eximdsn-98321\n\
Content-type: text/plain; charset=us-ascii\n\nThis message was created automatically.\n\n\
--1783422002-eximdsn-98321\nContent-type: message/delivery-status\n\n\
Reporting-MTA: dns; exim.example\nOriginal-Envelope-ID: {}\n\n\
Action: failed\nFinal-Recipient: rfc822;ops@example.net\nStatus: 5.0.0\nRemote-MTA: dns; mx.example.net\n\
Diagnostic-Code: 552 mailbox full\n\n--1783422002-eximdsn-98321\nContent-type: message/rfc822\n\n\
Message-Id: <{OTHER_ID}@alarms.example.com>\n\nbody\n\n--1783422002-eximdsn-98321--\n",
        ID.to_uppercase()
    );
    let report = read(mail.as_bytes()).unwrap();
    assert_eq!(id_of(&report), ID);
    assert_eq!(
        told(the_one(&report)),
        ("ops@example.net", BounceAction::Failed, "5.0.0", "552 mailbox full")
    );
}

/// Somebody forwards a report as an attachment, in a mail with ids of its own.
#[test]
fn a_report_inside_another_mail() {
    let inner = report(
        "Reporting-MTA: dns; r\r\n\r\nFinal-Recipient: rfc822; a@b.example\r\nAction: failed\r\nStatus: 5.7.1",
    );
    let inner = format!("In-Reply-To: <{ID}@alarms.example.com>\r\n{inner}");
    let mail = format!(
        "From ops Tue Jul  7 11:00:00 2026\nFrom: ops@example.com\nIn-Reply-To: <{OTHER_ID}@x>\n\
Content-Type: multipart/mixed; boundary=outer\n\n--outer\n\nsee below\n--outer\nContent-Type: message/rfc822\n\n{inner}\n--outer--\n"
    );
    let read = read(mail.as_bytes()).unwrap();
    assert_eq!(id_of(&read), ID);
    assert_eq!(told(the_one(&read)), ("a@b.example", BounceAction::Failed, "5.7.1", ""));
}

#[test]
fn every_action_in_whatever_spelling() {
    for action in BounceAction::ALL {
        let word = action.as_str().to_uppercase();
        let groups =
            format!("FINAL-RECIPIENT : RFC822;a@b.example\r\nAcTiOn:{word} (so be it)\r\nstatus: 2.0.0");
        assert_eq!(the_one(&read(report(&groups).as_bytes()).unwrap()).action, action);
    }
}

/// Which address was sent to, by what the report says of it.
#[test]
fn the_address_that_was_sent_to() {
    for (original, last, expected) in [
        ("rfc822;ops+2Bnight@example.net", "rfc822;ops+night@example.net", "ops+night@example.net"),
        ("rfc822; ops+2Bnight@example.net", "rfc822; ops+2Bnight@example.net", "ops+2Bnight@example.net"),
        ("RFC822 ; first@Example.NET", "rfc822; second@example.net", "first@example.net"),
        ("utf-8; j\\x{F6}rg@example.net", "rfc822; x@y.example", "jörg@example.net"),
        ("rfc822; j+C3+B6rg@example.net", "utf-8; jörg@example.net", "jörg@example.net"),
        ("utf-8; jörg@bücher.example", "rfc822; x@y.example", "jörg@xn--bcher-kva.example"),
        ("rfc822; <ops@example.net>", "", "ops@example.net"),
        ("rfc822; unknown", "rfc822; ops@example.net", "ops@example.net"),
        ("x400; /C=de/", "rfc822; ops@example.net (somebody)", "ops@example.net"),
        ("rfc822; a+FFb@example.net", "rfc822; x@y.example", "a+FFb@example.net"),
        ("rfc822; a+zz@example.net", "rfc822; x@y.example", "a+zz@example.net"),
        ("rfc822; a+2", "rfc822; x@y.example", "x@y.example"),
    ] {
        let groups = format!("Original-Recipient: {original}\r\nFinal-Recipient: {last}\r\nAction: failed");
        let report = read(report(&groups).as_bytes()).unwrap();
        assert_eq!(the_one(&report).address.as_str(), expected, "{original} and {last}");
    }
}

#[test]
fn what_is_no_status_code_is_none() {
    for (text, expected) in [
        ("5.1.1", "5.1.1"),
        ("4.12.345 x", "4.12.345"),
        ("550", ""),
        ("9.1.1", ""),
        ("5.1", ""),
        ("5.1.1.1", ""),
        ("5.1.1234", ""),
        ("5..1", ""),
    ] {
        let groups = format!("Final-Recipient: rfc822; a@b.example\r\nAction: failed\r\nStatus: {text}");
        assert_eq!(the_one(&read(report(&groups).as_bytes()).unwrap()).status, expected, "{text}");
    }
}

/// C062: what a stranger wrote is one clean line of bounded length.
#[test]
fn c062_a_diagnostic_is_one_clean_line() {
    let groups = format!(
        "Final-Recipient: rfc822; a@b.example\r\nAction: failed\r\nDiagnostic-Code: smtp; 550 \x1b[2J\u{202E}no\r\n {}",
        "é ".repeat(5000)
    );
    let report = read(report(&groups).as_bytes()).unwrap();
    let line = the_one(&report).diagnostic.as_deref().unwrap();
    assert!(line.starts_with("550 \u{FFFD}[2J\u{FFFD}no é"), "{line}");
    assert_eq!(line.chars().count(), 1001, "a thousand, and the sign that more was there");
}

/// A delivery status is 7-bit by its standard, and encoded all the same by some.
#[test]
fn an_encoded_delivery_status() {
    let plain = "Final-Recipient: rfc822; a@b.example\nAction: failed\nStatus: 5.1.1\n";
    let encoded =
        "RmluYWwtUmVjaXBpZW50OiByZmM4MjI7IGFAYi5leGFtcGxlCkFjdGlvbjogZmFpbGVk\r\nClN0YXR1czogNS4xLjEK";
    let quoted = plain.replace("a@b", "a=40b").replace("Action", "=41ction");
    let bodies = [("base64", encoded), ("QUOTED-PRINTABLE", &quoted), ("7bit", plain), ("base64", plain)];
    for (encoding, body) in bodies {
        let mail = format!(
            "Content-Transfer-Encoding: {encoding}\r\nContent-Type: message/delivery-status\r\n\r\n{body}"
        );
        let report = read(mail.as_bytes()).unwrap();
        assert_eq!(
            told(the_one(&report)),
            ("a@b.example", BounceAction::Failed, "5.1.1", ""),
            "{encoding} {body}"
        );
    }
}

#[test]
fn what_is_no_report_is_refused() {
    let no_boundary = report("").replace("boundary", "border");
    let disposition =
        report("Final-Recipient: rfc822; a@b.example\r\nDisposition: automatic-action; deleted")
            .replace("delivery-status", "disposition-notification");
    for mail in
        ["", "\r\n\r\n", "hello", "Subject: out of office\r\n\r\nback on Monday", &no_boundary, &disposition]
    {
        assert_eq!(read(mail.as_bytes()), Err(Unreadable::NoReport), "{mail}");
    }
    for groups in [
        "",
        "Reporting-MTA: dns; relay.example",
        "Final-Recipient: rfc822; nobody\r\nAction: failed",
        "Final-Recipient: rfc822; a@b.example\r\nAction: vanished",
        "Final-Recipient: rfc822; a@b.example\r\nStatus: 5.1.1",
    ] {
        assert_eq!(read(report(groups).as_bytes()), Err(Unreadable::NoRecipient), "{groups}");
    }
}

#[test]
fn a_report_without_an_id_is_still_read() {
    let groups =
        "Original-Envelope-Id: not-a-uuid\r\n\r\nFinal-Recipient: rfc822; a@b.example\r\nAction: failed";
    assert_eq!(read(report(groups).as_bytes()).unwrap().notification, None);
}

#[test]
fn no_more_than_a_thousand_recipients() {
    let one = "Final-Recipient: rfc822; a@b.example\r\nAction: failed\r\n\r\n";
    assert_eq!(read(report(&one.repeat(5000)).as_bytes()).unwrap().bounces.len(), 1000);
}

/// Ten megabytes of whatever could make a reader dig, copy or wait: each is read to its end, on a small stack.
#[test]
fn hostile_mail_costs_no_more_than_its_length() {
    const BYTES: usize = 10 * 1024 * 1024;
    let fill = |text: &str| text.repeat(BYTES / text.len());
    let multipart = |n: usize| format!("Content-Type: multipart/mixed; boundary=b{n}\r\n\r\n--b{n}\r\n");
    let mails = [
        fill("Content-Type: message/rfc822\r\n\r\n"),
        fill("Content-Type: multipart/digest; boundary=b\r\n\r\n--b\r\n"),
        (0..BYTES / 60).map(multipart).collect(),
        format!(
            "Content-Type: multipart/mixed; boundary=b\r\n\r\n{}",
            fill("--b\r\nContent-Type: multipart/x; boundary=absent\r\n\r\n")
        ),
        format!("Content-Type: multipart/report; boundary=b\r\n\r\n{}", fill("--b")),
        fill("\r\n"),
        fill("--\r\n"),
        fill("\0\u{FFFD}"),
        format!("Content-Type: multipart/report; {}", fill("a*1*=utf-8'x'%41; ")),
        format!("Content-Type: {}", fill("(")),
        format!("References: {}", fill("<a@b> ")),
        format!("Content-Type: message/delivery-status\r\n\r\nAction: {}", fill("\r\n x")),
        format!("Content-Type: message/delivery-status\r\n\r\n{}", fill("Action: failed\r\n")),
        format!("Content-Type: message/delivery-status\r\n\r\nFinal-Recipient: rfc822; {}", fill("+41")),
    ];
    let small_stack = std::thread::Builder::new().stack_size(512 * 1024);
    let all_read =
        small_stack.spawn(move || mails.iter().all(|mail| read(mail.as_bytes()).is_err())).unwrap();
    assert!(all_read.join().unwrap(), "none of them is a report");
}

/// Bytes changed, lost and doubled at random: whatever comes, there is an answer.
#[test]
fn damaged_mail_is_read_or_refused() {
    let sound = report(&format!(
        "Original-Envelope-Id: {ID}\r\n\r\nOriginal-Recipient: rfc822; j+C3+B6rg@b.example\r\nAction: failed\r\n\
         Status: 5.1.1\r\nDiagnostic-Code: smtp; 550\r\n no \\x{{41}}\r\n"
    ));
    let sound = sound.replace("boundary=", "x*0*=utf-8'en'%41; x*1=\"b\\\"\"; (a (c)) boundary*=");
    assert_eq!(id_of(&read(sound.as_bytes()).unwrap()), ID);
    let chance = SeededChance::new(20_260_707);
    let below = |most: usize| (chance.unit() * most as f64) as usize;
    let mut read_well = 0;
    for _ in 0..20_000 {
        let mut mail = sound.clone().into_bytes();
        for _ in 0..1 + below(6) {
            let at = below(mail.len());
            let sign = b"\r\n \t:;=\"'()<>@\\*%-+\0\xff"[below(20)];
            match below(4) {
                0 => mail[at] = sign,
                1 => mail.insert(at, sign),
                2 => drop(mail.remove(at)),
                _ => mail.extend_from_within(at..),
            }
        }
        read_well += usize::from(read(&mail).is_ok());
    }
    assert!(read_well > 0);
}
