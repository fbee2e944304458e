//! What came back by mail.

use serde_json::{Value, json};

use super::{Ask, Server, add_key};

const BOUNCES: &str = "/v1/bounces";
const STRANGER: &str = "01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59";

/// A report about a notification, with a line for each address: `failed 5.1.1 a@example.com`.
fn report(notification: Option<&str>, lines: &[&str]) -> String {
    let envelope = notification.map(|id| format!("Original-Envelope-Id: {id}\r\n")).unwrap_or_default();
    let groups = lines.iter().map(|line| {
        let [action, status, address] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        format!(
            "Final-Recipient: rfc822; {address}\r\nAction: {action}\r\nStatus: {status}\r\n\
             Diagnostic-Code: smtp; 550 no such mailbox\r\n\r\n"
        )
    });
    format!(
        "From: MAILER-DAEMON@relay.example\r\nTo: alarms@example.com\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=delivery-status; boundary=b1\r\n\r\n\
         --b1\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; relay.example\r\n{envelope}\r\n\
         {}\r\n--b1--\r\n",
        groups.collect::<String>()
    )
}

fn mail(ask: Ask, content_type: &str, mail: &str) -> Ask {
    Ask { body: mail.as_bytes().to_vec(), ..ask.header("content-type", content_type) }
}

impl Server {
    fn bounce(&self, text: &str) -> Ask {
        mail(self.ask("POST", BOUNCES), "message/rfc822", text)
    }
}

async fn delivered(server: &Server) -> String {
    let to = json!({"to": {"channel": "mail", "address": "a@example.com"}, "subject": "s", "body": "b"});
    let id = server.accept(&to).await;
    server.attempt(None).await;
    id
}

/// A hard bounce shows with its notification, under the name of who handed it in, and its address gets no more mail;
/// the same report again changes nothing.
#[tokio::test]
async fn a_hard_bounce() {
    let server = Server::start().await;
    let id = delivered(&server).await;
    let gate = add_key(&server.app, "mail-gate", "operate").await;
    let text = report(Some(&id), &["failed 5.1.1 a@example.com", "failed 5.1.1 else@example.com"]);
    let hand_in = || server.bounce(&text).key(&gate).await_reply();
    let told = |recorded: u32, known: u32, suppressed: u32| json!({"notification": id, "recorded": recorded, "known": known, "strangers": 1, "suppressed": suppressed});
    let first = hand_in().await;
    assert_eq!((first.status, first.json()), (200, told(1, 0, 1)));
    assert_eq!(hand_in().await.json(), told(0, 1, 0));

    let shown = server.get(&format!("/v1/notifications/{id}")).await.json();
    let why = "5.1.1 550 no such mailbox";
    let target = json!({"address": "a@example.com", "result": "bounced", "detail": why});
    assert_eq!((&shown["status"], &shown["resolved_targets"]), (&json!("delivered"), &json!([target])));
    assert_eq!(shown["last_error"]["class"], "permanent_recipient");
    let trail = server.get(&format!("/v1/notifications/{id}/audit")).await.json();
    let bounced: Vec<&Value> =
        trail["items"].as_array().unwrap().iter().filter(|entry| entry["kind"] == "bounced").collect();
    assert_eq!((bounced.len(), &bounced[0]["actor"]), (1, &json!("key:mail-gate")), "{trail}");
    let suppressions = server.get("/v1/suppressions").await.json();
    assert_eq!(suppressions["items"].as_array().unwrap().len(), 1, "{suppressions}");
    assert_eq!(
        (&suppressions["items"][0]["channel"], &suppressions["items"][0]["address"]),
        (&json!("mail"), &json!("a@example.com"))
    );
}

/// What has an end in sight is written down and suppresses nobody.
#[tokio::test]
async fn a_soft_bounce_and_a_delay() {
    let server = Server::start().await;
    let id = delivered(&server).await;
    for (line, result) in
        [("delayed 4.4.1 a@example.com", "accepted"), ("failed 4.2.2 a@example.com", "bounced")]
    {
        let told = server.bounce(&report(Some(&id), &[line])).await_reply().await.json();
        assert_eq!((&told["recorded"], &told["suppressed"]), (&json!(1), &json!(0)), "{line}");
        let shown = server.get(&format!("/v1/notifications/{id}")).await.json();
        assert_eq!(shown["resolved_targets"][0]["result"], result, "{line}");
    }
    assert_eq!(server.get("/v1/suppressions").await.json()["items"], json!([]));
}

/// Members of a list that are still to be sent to wait, though a mail came back; the others show what came of them.
#[tokio::test]
async fn members_of_a_list() {
    let server = Server::start().await;
    let id = server.accept(&json!({"list": "ops", "subject": "s", "body": "b"})).await;
    let claim = server.claim().await.remove(0);
    let list = server.app.catalog.list("ops").unwrap().0;
    let kind = angarium_domain::channel::ChannelKind::Email;
    let resolved =
        server.app.store.resolve(&claim, kind, &list.channel, list.members.clone(), server.app.clock.now());
    assert!(resolved.await.unwrap());
    let results = vec![angarium_store::TargetResult {
        ordinal: 0,
        provider_message_id: None,
        state: angarium_domain::targets::TargetState::Accepted,
        progress: claim.progress,
    }];
    server.app.store.settle_targets(&claim, results).await.unwrap();
    let text = report(Some(&id), &["failed 5.1.1 a@example.com", "failed 5.1.1 b@example.com"]);
    assert_eq!(server.bounce(&text).await_reply().await.json()["recorded"], 2);
    let shown = server.get(&format!("/v1/notifications/{id}")).await.json();
    let result = |place: usize| &shown["resolved_targets"][place]["result"];
    assert_eq!((result(0), result(1)), (&json!("bounced"), &json!("waiting")));
}

#[tokio::test]
async fn what_is_no_report_is_refused() {
    let server = Server::start().await;
    let line = ["failed 5.1.1 a@example.com"];
    for (text, part) in [
        (String::new(), "holds no delivery status report"),
        ("Subject: out of office\r\n\r\nBack on Monday.\r\n".to_owned(), "holds no delivery status report"),
        (report(Some(STRANGER), &[]), "says of no e-mail address"),
        (report(None, &line), "does not say which notification"),
        (report(Some("42"), &line), "does not say which notification"),
    ] {
        let reply = server.bounce(&text).await_reply().await;
        assert_eq!((reply.status, reply.code().as_str()), (422, "not_a_bounce"), "{text}");
        assert!(reply.json()["detail"].as_str().unwrap().contains(part), "{}", reply.body);
    }
    let unknown = server.bounce(&report(Some(STRANGER), &line)).await_reply().await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "notification_not_found"));
    assert!(unknown.body.contains(STRANGER), "{}", unknown.body);
}

/// A mail is taken as the bytes it is, whatever the program that hands it in calls them, and within bounds.
#[tokio::test]
async fn how_a_mail_is_handed_in() {
    let server = Server::start_with(|app| app.limits.batch_bytes = 2 * 1024 * 1024).await;
    let id = delivered(&server).await;
    let text = report(Some(&id), &["failed 5.1.1 a@example.com"]);
    let handed_in =
        |content_type: &str, text: &str| mail(server.ask("POST", BOUNCES), content_type, text).await_reply();
    for content_type in [
        "message/rfc822",
        "Text/Plain; charset=iso-8859-1",
        "application/octet-stream",
        "message/rfc822 ; x=y",
    ] {
        assert_eq!(handed_in(content_type, &text).await.status, 200, "{content_type}");
    }
    for content_type in ["application/json", "message/partial", "text", ""] {
        let reply = handed_in(content_type, &text).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (415, "content_type_unsupported"),
            "{content_type}"
        );
    }
    // What came back is longer than any other request may be.
    let returned = format!("{text}\r\n{}", "x".repeat(1024 * 1024 + 1));
    assert_eq!(handed_in("message/rfc822", &returned).await.status, 200);
    let too_large = handed_in("message/rfc822", &"x".repeat(2 * 1024 * 1024 + 1)).await;
    assert_eq!((too_large.status, too_large.code().as_str()), (413, "body_too_large"));
    let reader = add_key(&server.app, "reader", "read").await;
    assert_eq!(server.bounce(&text).key(&reader).await_reply().await.code(), "scope_denied");
}
