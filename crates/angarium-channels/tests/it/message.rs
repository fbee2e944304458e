//! Mails as receivers read them: by a parser of others (lenient, as most are), and by a strict one.

mod dkim;
mod reading;

use angarium_channels::email::mailbox::Mailbox;
use angarium_channels::email::message::{Composed, Letterhead, compose};
use angarium_domain::adapter::Message;
use angarium_domain::outcome::FailureClass;
use mail_parser::MessageParser;
use proptest::prelude::*;

use reading::{Mail, decode};

pub(crate) fn letterhead() -> Letterhead {
    Letterhead {
        from: "Alerts <alerts@example.com>".parse().unwrap(),
        id_domain: "example.com".to_owned(),
        reply_to: None,
        unsubscribe: None,
        signer: None,
    }
}

fn message() -> Message {
    Message {
        id: "01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59".parse().unwrap(),
        subject: "Pump 3".to_owned(),
        body: "Größe 12 °C\n.\nFrom here".to_owned(),
        data: None,
        list: Some("ops".to_owned()),
        presentation: None,
        at: "2031-03-04T09:59:58.5Z".parse().unwrap(),
    }
}

fn mail_on(letterhead: &Letterhead, message: &Message) -> Mail {
    let Composed { bytes, needs_smtputf8 } = compose(letterhead, message).unwrap();
    assert!(!needs_smtputf8);
    Mail::read(bytes)
}

fn mail(message: &Message) -> Mail {
    mail_on(&letterhead(), message)
}

fn mail_about(subject: &str) -> Mail {
    mail(&Message { subject: subject.to_owned(), ..message() })
}

fn mail_from(from: Mailbox) -> Mail {
    mail_on(&Letterhead { from, ..letterhead() }, &message())
}

fn with_email(json: &str) -> Message {
    Message { data: Some(format!(r#"{{"email": {json}}}"#)), ..message() }
}

/// The subject as the parser of others reads it.
fn parsed_subject(mail: &Mail) -> String {
    MessageParser::default().parse(&mail.bytes).unwrap().subject().unwrap_or_default().to_owned()
}

/// Name and address of `From`, likewise.
fn parsed_from(mail: &Mail) -> (Option<String>, Option<String>) {
    let parsed = MessageParser::default().parse(&mail.bytes).unwrap();
    let from = parsed.from().unwrap();
    assert_eq!(from.iter().count(), 1, "{from:?}");
    let first = from.first().unwrap();
    (first.name().map(str::to_owned), first.address().map(str::to_owned))
}

/// Text and HTML, likewise.
fn parsed_bodies(mail: &Mail) -> (String, String) {
    let parsed = MessageParser::default().parse(&mail.bytes).unwrap();
    let body = |body: Option<std::borrow::Cow<'_, str>>| body.unwrap_or_default().into_owned();
    (body(parsed.body_text(0)), body(parsed.body_html(0)))
}

#[test]
fn a_whole_mail() {
    let mail = mail(&message());
    let expected = "\
Date: Tue, 04 Mar 2031 09:59:58 +0000
From: Alerts <alerts@example.com>
To: undisclosed-recipients:;
Subject: Pump 3
Message-ID: <01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59@example.com>
Auto-Submitted: auto-generated
X-Auto-Response-Suppress: All
Precedence: bulk
List-Id: <ops.example.com>
MIME-Version: 1.0
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

Gr=C3=B6=C3=9Fe 12 =C2=B0C
.
=46rom here
";
    assert_eq!(String::from_utf8(mail.bytes).unwrap(), expected.replace('\n', "\r\n"));
}

#[test]
fn a_whole_mail_with_html() {
    let message = with_email(
        r#"{"html": "<p>é</p>\n", "reply_to": "Süd <o@example.com>", "unsubscribe": "https://x.example/u"}"#,
    );
    let mail = mail(&Message { list: None, ..message });
    let expected = "\
Date: Tue, 04 Mar 2031 09:59:58 +0000
From: Alerts <alerts@example.com>
To: undisclosed-recipients:;
Subject: Pump 3
Message-ID: <01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59@example.com>
Reply-To: =?UTF-8?Q?S=C3=BCd?= <o@example.com>
Auto-Submitted: auto-generated
X-Auto-Response-Suppress: All
List-Unsubscribe: <https://x.example/u>
List-Unsubscribe-Post: List-Unsubscribe=One-Click
MIME-Version: 1.0
Content-Type: multipart/alternative;
 boundary=\"=_01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59\"

--=_01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

Gr=C3=B6=C3=9Fe 12 =C2=B0C
.
=46rom here
--=_01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: quoted-printable

<p>=C3=A9</p>

--=_01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59--
";
    assert_eq!(String::from_utf8(mail.bytes).unwrap(), expected.replace('\n', "\r\n"));
}

/// C074: long subjects are folded, and nothing is lost.
#[test]
fn c074_a_long_subject_is_folded() {
    let text =
        "Störung Pumpwerk Süd – Füllstand über Grenzwert, bitte prüfen; nächste Meldung in fünf Minuten";
    for subject in [text.to_owned(), text.repeat(8), format!("{text} ").repeat(8)] {
        let mail = mail_about(&subject);
        assert_eq!(mail.subject(), subject);
        assert_eq!(parsed_subject(&mail), subject);
        let lines: Vec<&str> = std::str::from_utf8(&mail.bytes).unwrap().split("\r\n").collect();
        let at = lines.iter().position(|line| line.starts_with("Subject: ")).unwrap();
        let folds = lines[at + 1..].iter().take_while(|line| line.starts_with(" =?")).count();
        assert!(folds >= 1 && lines[at..=at + folds].iter().all(|line| line.len() <= 76), "{lines:?}");
    }
}

/// C075: words are encoded whole, and no space is added.
#[test]
fn c075_no_half_words() {
    for subject in ["Administratör meldet Überlast in Zürich", "a ö b", "ö b", "a ö", "ö ö", "aö bc öd"]
    {
        let mail = mail_about(subject);
        assert_eq!(mail.subject(), subject);
        assert_eq!(parsed_subject(&mail), subject);
    }
}

/// C076: every encoded word is whole characters.
#[test]
fn c076_no_character_is_split() {
    let mut subjects = vec!["🚨".repeat(40), "ė".repeat(200), format!("a{}", "🚨".repeat(40))];
    subjects.extend((30..=60).map(|n| format!("{}ė{}", "a".repeat(n), "b".repeat(40))));
    for subject in subjects {
        let mail = mail_about(&subject);
        assert_eq!(mail.subject(), subject);
        assert_eq!(parsed_subject(&mail), subject);
    }
}

/// C078: what looks like an encoded word is text.
#[test]
fn c078_a_look_alike_is_encoded() {
    for text in ["=?utf-8?q?Pump_4=0D=0ABcc:_spy@example.net?=", "a =? b", "x=?utf-8?b?eA==?=y"] {
        let mail = mail_about(text);
        assert_eq!(mail.subject(), text);
        assert_eq!(parsed_subject(&mail), text);
        assert!(mail.all("Bcc").is_empty());
        for name in [text.to_owned(), format!("{text}, x"), format!("{text} ü")] {
            let address = letterhead().from.address;
            let mail = mail_from(Mailbox { name: Some(name.clone()), address });
            assert_eq!(decode(mail.one("From")), format!("{name} <alerts@example.com>"));
            assert_eq!(parsed_from(&mail).0, Some(name));
        }
    }
}

/// C081: the name is encoded, the address never.
#[test]
fn c081_the_address_stays_in_the_clear() {
    let long = "Zürich ".repeat(28).trim().to_owned();
    let atoms = "Control Room ".repeat(15).trim().to_owned();
    let quoted = format!("\"{}\"", "Room, ".repeat(30).trim());
    for name in ["Leitstelle Süd", "Jansen, Piet", "say \"hi\" \\ <x@y.z>", "J. Doe", &long, &atoms, &quoted]
    {
        let address = "NOC@example.com".parse::<Mailbox>().unwrap().address;
        let mail = mail_from(Mailbox { name: Some(name.to_owned()), address });
        assert!(mail.one("From").ends_with(" <NOC@example.com>"), "{}", mail.one("From"));
        assert_eq!(parsed_from(&mail), (Some(name.to_owned()), Some("NOC@example.com".to_owned())));
    }
    let mail = mail_from("a@example.com".parse().unwrap());
    assert_eq!(mail.one("From"), "a@example.com");
}

/// C083: a name with an encoded comma is one sender on the way out as well.
#[test]
fn c083_an_encoded_comma_is_no_separator() {
    let mail = mail_from("=?utf-8?q?Jansen=2C_Piet?= <piet@example.com>".parse().unwrap());
    assert_eq!(parsed_from(&mail), (Some("Jansen, Piet".to_owned()), Some("piet@example.com".to_owned())));
}

/// C088: no relay has a reason to break a long line of HTML.
#[test]
fn c088_a_long_link_arrives_whole() {
    let html = format!(r#"<a href="https://status.example.com/?q={}">x</a>"#, "a".repeat(1463));
    let mail = mail(&with_email(&serde_json::json!({ "html": html }).to_string()));
    assert!(mail.body().split("\r\n").all(|line| line.len() <= 76));
    assert_eq!(parsed_bodies(&mail).1, html);
}

/// C089: seven bits always do, whatever the server offers ([`Mail::read`] takes no others).
#[test]
fn c089_the_body_is_seven_bits() {
    for (body, transfer) in [
        ("Größe 12 °C", "quoted-printable"),
        ("plain", "quoted-printable"),
        ("", "quoted-printable"),
        ("Насос №3 не отвечает", "base64"),
    ] {
        let mail = mail(&Message { body: body.to_owned(), ..message() });
        assert_eq!(mail.one("Content-Transfer-Encoding"), transfer);
        assert_eq!(parsed_bodies(&mail).0.trim_end(), body);
    }
}

/// C090: a domain is translated; a local part beyond ASCII makes the mail need SMTPUTF8, a name does not.
#[test]
fn c090_international_senders() {
    let mail = mail_from("Bücher <ops@bücher.example>".parse().unwrap());
    assert!(mail.one("From").ends_with(" <ops@xn--bcher-kva.example>"));
    let from = "Jörg <jörg@example.com>".parse().unwrap();
    let composed = compose(&Letterhead { from, ..letterhead() }, &message()).unwrap();
    assert!(composed.needs_smtputf8);
    assert!(String::from_utf8(composed.bytes).unwrap().contains("= <jörg@example.com>\r\n"));
    let composed = compose(&letterhead(), &with_email(r#"{"reply_to": "jörg@example.com"}"#)).unwrap();
    assert!(composed.needs_smtputf8);
}

/// C091: no field names a recipient, whatever the message says.
#[test]
fn c091_nobody_is_named() {
    let data = Some(r#"{"to": "a@example.com", "bcc": ["b@example.com"]}"#.to_owned());
    let mail = mail(&Message { data, ..message() });
    assert_eq!(mail.one("To"), "undisclosed-recipients:;");
    for name in ["Cc", "Bcc", "Resent-To", "Resent-Cc", "Resent-Bcc"] {
        assert!(mail.all(name).is_empty(), "{name}");
    }
}

/// C109: what cannot be folded is encoded.
#[test]
fn c109_a_subject_without_spaces() {
    for subject in ["x".repeat(1500), format!("see {}", "x".repeat(76)), "=".repeat(68)] {
        let mail = mail_about(&subject);
        assert_eq!(mail.subject(), subject);
        assert_eq!(parsed_subject(&mail), subject);
        assert!(mail.one("Subject").starts_with("=?"));
    }
    for subject in ["x".repeat(67), format!("see {}", "x".repeat(75))] {
        let mail = mail_about(&subject);
        assert_eq!((mail.one("Subject"), mail.subject()), (subject.as_str(), subject.clone()));
    }
}

/// Text with ends of lines in it, should any arrive here, makes neither lines nor fields.
#[test]
fn control_characters_do_not_reach_a_header() {
    let hostile = "a\r\nBcc: spy@example.net\r\n\r\nb\0\x7f\u{85}c";
    let cleaned = "a  Bcc: spy@example.net    b   c";
    let address = letterhead().from.address;
    let names = mail(&message()).names().join(" ");
    for mail in [mail_about(hostile), mail_from(Mailbox { name: Some(hostile.to_owned()), address })] {
        assert_eq!(mail.names().join(" "), names);
    }
    assert_eq!(mail_about(hostile).subject(), cleaned);
}

/// Dots, bare ends of lines and commands in a body are text, and no part ends before its time.
#[test]
fn a_body_cannot_end_itself() {
    let boundary = format!("--=_{}--", message().id);
    let body = format!("a\n.\nb\r.\rMAIL FROM:<x@y.z>\r\n.\r\n{boundary}\nend");
    let html = serde_json::json!({ "html": body }).to_string();
    let mail = mail(&Message { body: body.clone(), ..with_email(&html) });
    let lines = body.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n");
    assert_eq!(parsed_bodies(&mail), (lines.clone(), lines));
}

#[test]
fn an_empty_subject_is_an_empty_field() {
    let mail = mail_about("");
    assert_eq!((mail.one("Subject"), parsed_subject(&mail).as_str()), ("", ""));
}

/// Lists with different names are told apart; the id is a domain whatever the name.
#[test]
fn a_list_has_an_id_of_its_own() {
    let id = |list: &str| {
        let mail = mail(&Message { list: Some(list.to_owned()), ..message() });
        assert_eq!(mail.one("Precedence"), "bulk");
        mail.one("List-Id").to_owned()
    };
    assert_eq!(id("ops-2"), "<ops-2.example.com>");
    assert_eq!(id("Ops team (night)"), "<ops-team--night--9fee5492.example.com>");
    let long = "x".repeat(41);
    let names = ["ops", "Ops", "ops.", "日本", "中国", "é", &long, &long[1..], "a\u{2028}b", "<>"];
    let ids: std::collections::BTreeSet<String> = names.into_iter().map(id).collect();
    assert_eq!(ids.len(), names.len(), "{ids:?}");
    for name in ["List-Id", "Precedence", "List-Unsubscribe", "List-Unsubscribe-Post"] {
        assert!(mail(&Message { list: None, ..message() }).all(name).is_empty());
    }
}

#[test]
fn the_message_goes_before_its_channel() {
    let letterhead = Letterhead {
        reply_to: Some("desk@example.com".parse().unwrap()),
        unsubscribe: Some("https://example.com/channel".parse().unwrap()),
        ..letterhead()
    };
    let answers = |message: &Message| {
        let mail = mail_on(&letterhead, message);
        assert_eq!(mail.one("List-Unsubscribe-Post"), "List-Unsubscribe=One-Click");
        [mail.one("Reply-To"), mail.one("List-Unsubscribe")].map(str::to_owned)
    };
    assert_eq!(answers(&message()), ["desk@example.com", "<https://example.com/channel>"]);
    let own = with_email(r#"{"reply_to": "me@example.com", "unsubscribe": "https://example.com/me"}"#);
    assert_eq!(answers(&own), ["me@example.com", "<https://example.com/me>"]);
    let long = format!("https://example.com/{}", "u".repeat(880));
    let own = with_email(&format!(r#"{{"unsubscribe": "{long}"}}"#));
    assert_eq!(answers(&own)[1], format!("<{long}>"));
}

#[test]
fn what_cannot_be_written_fails_for_good() {
    let failure = compose(&letterhead(), &with_email(r#"{"html": 1}"#)).unwrap_err();
    assert_eq!(failure.class, FailureClass::PermanentMessage);
    assert_eq!(failure.detail, "data.email.html must be a string");
    for id_domain in ["", "exa mple.com", "a>\r\nBcc: x", "bücher.example"] {
        let letterhead = Letterhead { id_domain: id_domain.to_owned(), ..letterhead() };
        let failure = compose(&letterhead, &message()).unwrap_err();
        assert_eq!(failure.class, FailureClass::PermanentConfig, "{id_domain}");
    }
    let unsubscribe = Some("http://example.com/".parse().unwrap());
    let failure = compose(&Letterhead { unsubscribe, ..letterhead() }, &message()).unwrap_err();
    assert_eq!(failure.class, FailureClass::PermanentConfig);
}

/// Texts with much of what is hard in them.
fn text() -> impl Strategy<Value = String> {
    let hard = || {
        prop::sample::select("  ==??__.,<>\"\\\t\r\n\0\u{85}\u{2028}éė🚨aFrom".chars().collect::<Vec<_>>())
    };
    let piece = prop_oneof![
        4 => hard().prop_map(String::from),
        2 => any::<char>().prop_map(String::from),
        1 => (hard(), 1_usize..90).prop_map(|(c, n)| String::from(c).repeat(n)),
        1 => prop::sample::select(vec!["From ", "=?utf-8?q?x?=", "\r\n.\r\n", "word word "]).prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_subject_arrives(subject in text()) {
        let mail = mail_about(&subject);
        let line: String = subject.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        prop_assert_eq!(mail.subject(), line);
    }

    #[test]
    fn any_name_arrives(name in text()) {
        let line: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
        let mailbox = Mailbox { name: Some(line.clone()), address: letterhead().from.address };
        let mail = mail_from(mailbox);
        prop_assert!(mail.one("From").ends_with(" <alerts@example.com>"));
        prop_assert_eq!(parsed_from(&mail).1, Some("alerts@example.com".to_owned()));
        let read: Mailbox = mail.one("From").parse().unwrap();
        prop_assert_eq!(read.name.unwrap_or_default(), line.trim());
    }

    #[test]
    fn any_body_arrives(body in text(), html in text()) {
        let lines = |text: &str| text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n");
        let plain = mail(&Message { body: body.clone(), ..message() });
        let arrived = parsed_bodies(&plain).0;
        let body_lines = lines(&body);
        let ended = format!("{body_lines}\r\n");
        prop_assert!(arrived == body_lines || (!body_lines.ends_with('\n') && arrived == ended));
        let html: String = html.chars().filter(|c| !c.is_control() || "\t\r\n".contains(*c)).collect();
        let html = format!("<p>{html}");
        let both = Message { body: body.clone(), ..with_email(&serde_json::json!({ "html": html }).to_string()) };
        prop_assert_eq!(parsed_bodies(&mail(&both)), (body_lines, lines(&html)));
    }

    #[test]
    fn the_same_bytes_every_time(subject in text(), body in text()) {
        let message = Message { subject, body, ..message() };
        prop_assert_eq!(mail(&message).bytes, mail(&message).bytes);
    }
}
