//! E-mail from end to end: the binary, and a mail server that follows a script.

use angarium_receivers::mail::{self, Auth, Gate, Options, Phase, Receiver, Reply};
use http::Method;
use serde_json::{Value, json};

use crate::support::{Database, Installation, id_of, within};

/// A channel that leads to this server, with quick retries, and lists on it.
fn configuration(receiver: &Receiver, channel: &str) -> String {
    let address = receiver.address();
    format!(
        r#"
[channels.mail]
kind = "email"
url = "smtp://{address}?starttls=never"
from = "Alerts <alerts@example.com>"
retry = {{ policy = "fixed", interval = "100ms", max_retries = 5 }}
{channel}
[lists.two]
channel = "mail"
members = ["ann@example.com", "Bob <bob@example.org>"]
[lists.three]
channel = "mail"
members = ["fine@example.com", "gone@example.com", {{ address = "busy@example.com", name = "Busy" }}]
"#
    )
}

async fn world(on: &Database, channel: &str) -> (Receiver, Installation) {
    world_with(on, Options::default(), channel).await
}

async fn world_with(on: &Database, options: Options, channel: &str) -> (Receiver, Installation) {
    let receiver = Receiver::start(options).await.unwrap();
    let installation = on.started(&configuration(&receiver, channel)).await;
    (receiver, installation)
}

fn to_list(list: &str, subject: &str) -> Value {
    json!({"id": id_of(subject), "list": list, "subject": subject, "body": "It happened."})
}

fn to_address(address: &str, subject: &str) -> Value {
    let to = json!({"channel": "mail", "address": address});
    json!({"id": id_of(subject), "to": to, "subject": subject, "body": "It happened."})
}

fn result_of<'a>(row: &'a Value, address: &str) -> &'a str {
    let targets = row["resolved_targets"].as_array().unwrap();
    let target = targets.iter().find(|target| target["address"] == address);
    target.unwrap_or_else(|| panic!("{address} in {row}"))["result"].as_str().unwrap()
}

/// OB-11: a list of two is one mail, both in the envelope, neither in the headers.
pub(crate) async fn a_list_of_two_is_one_mail(on: Database) {
    let (receiver, angarium) = world(&on, "").await;
    angarium.hand_in(&to_list("two", "Pump 3")).await;
    let row = angarium.until(&id_of("Pump 3"), "delivered").await;
    let mails = receiver.mails();
    assert_eq!(mails.len(), 1);
    assert_eq!(mails[0].to(), ["ann@example.com", "bob@example.org"]);
    let text = mails[0].text();
    assert!(!text.contains("ann@") && !text.contains("bob@") && !text.contains("Bob"), "{text}");
    assert!(text.contains("\r\nSubject: Pump 3\r\n") && text.contains("It happened."), "{text}");
    assert_eq!((row["kind"].as_str(), row["channel"].as_str()), (Some("email"), Some("mail")));
    let queue_id = mails[0].queue_id.unwrap().to_string();
    assert_eq!(row["provider_message_id"].as_str(), Some(queue_id.as_str()));
}

/// OB-07, OB-11, OB-12: one refused, one busy, one fine: delivered, the refused one named, the busy one asked again
/// alone.
pub(crate) async fn c093_one_refused_one_busy_one_fine(on: Database) {
    let (receiver, angarium) = world(&on, "").await;
    receiver.refuse_rcpt("gone@example.com", "550 5.1.1 no such user");
    receiver.script_rcpt("busy@example.com", [Reply::text("450 4.2.1 busy"), Reply::text("450 4.2.1 busy")]);
    angarium.hand_in(&to_list("three", "Pump 3")).await;
    let row = angarium.until(&id_of("Pump 3"), "delivered").await;
    let told: Vec<Vec<String>> =
        receiver.mails().iter().map(|mail| mail.to().into_iter().map(str::to_owned).collect()).collect();
    assert_eq!(told, [["fine@example.com"], ["busy@example.com"]]);
    let error = row["last_error"]["detail"].as_str().unwrap();
    assert!(error.contains("gone@example.com") && error.contains("550 5.1.1"), "{error}");
    assert!(!error.contains("busy@") && !error.contains("fine@"), "{error}");
    assert_eq!(result_of(&row, "gone@example.com"), "refused");
    assert_eq!(result_of(&row, "busy@example.com"), "accepted");
    assert_eq!(result_of(&row, "fine@example.com"), "accepted");
    let attempts = angarium.get(&format!("/v1/notifications/{}/attempts", id_of("Pump 3"))).await;
    let first = attempts["items"][0]["detail"].as_str().unwrap();
    assert!(first.starts_with("1 of 3 took it; "), "{first}");
    let asked = |address: &str| {
        let commands = receiver.sessions().into_iter().flat_map(|session| session.commands);
        commands.filter(|command| command.starts_with(&format!("RCPT TO:<{address}>"))).count()
    };
    assert_eq!((asked("fine@example.com"), asked("gone@example.com"), asked("busy@example.com")), (1, 1, 3));
}

/// OB-10: all members refused is parked; a refused address alone is parked.
pub(crate) async fn nobody_accepted(on: Database) {
    let (receiver, angarium) = world(&on, "").await;
    receiver.refuse_rcpt("ann@example.com", "550 5.1.1 no such user");
    receiver.refuse_rcpt("bob@example.org", "553 5.1.3 what address");
    angarium.hand_in(&to_list("two", "Pump 3")).await;
    let row = angarium.until(&id_of("Pump 3"), "parked").await;
    let error = row["last_error"]["detail"].as_str().unwrap();
    assert!(error.contains("ann@example.com") && error.contains("bob@example.org"), "{error}");
    angarium.hand_in(&to_address("ann@example.com", "Pump 4")).await;
    let row = angarium.until(&id_of("Pump 4"), "parked").await;
    assert_eq!(row["last_error"]["class"], "permanent_recipient");
    assert_eq!(row["retry_count"], 0);
    assert!(receiver.mails().is_empty());
}

/// OB-11, OB-13: the channel's own count and interval decide; then the row is parked.
pub(crate) async fn retries_come_from_the_channel(on: Database) {
    let (receiver, angarium) = world(&on, "").await;
    receiver.refuse_rcpt("ann@example.com", "451 4.3.0 not now");
    angarium.hand_in(&to_address("ann@example.com", "Pump 3")).await;
    let row = angarium.until(&id_of("Pump 3"), "parked").await;
    assert_eq!(row["retry_count"], 5);
    assert_eq!(row["last_error"]["class"], "transient");
    let attempts = angarium.get(&format!("/v1/notifications/{}/attempts", id_of("Pump 3"))).await;
    let attempts = attempts["items"].as_array().unwrap();
    assert_eq!(attempts.len(), 6);
    assert_eq!(attempts[0]["status_code"], 451);
}

/// C105: a refused login is the channel's fault: a full queue waits, costs a login or a few, uses up no retries, and
/// goes out whole once the configuration was mended and the server started with it.
pub(crate) async fn c105_wrong_password_with_a_full_queue(on: Database) {
    let auth = Auth { before_tls: true, ..Auth::password("noc", "right") };
    let options = || Options { auth: Some(auth.clone()), ..Options::default() };
    let (receiver, mut angarium) =
        world_with(&on, options(), "username = \"noc\"\npassword = \"wrong\"").await;
    let all = (0..200).map(|n| to_address(&format!("u{n}@example.com"), &format!("m{n}"))).collect();
    angarium.hand_in_all(all).await;
    let suspended = within(async {
        loop {
            let channels = angarium.get("/v1/channels").await;
            let channel = channels["items"][0].clone();
            let held = angarium.get("/v1/kpis").await;
            if !channel["suspended"].is_null() && held["global"]["in_flight"] == 0 {
                return channel;
            }
        }
    })
    .await;
    assert!(suspended["suspended"]["reason"].as_str().unwrap().contains("535"), "{suspended}");
    let logins = receiver.sessions().len();
    assert!(logins <= 4, "{logins} logins: no more than were side by side");
    assert_eq!(angarium.count("parked").await, 0);
    assert_eq!(angarium.count("pending").await, 200);

    angarium.signal("TERM");
    assert!(angarium.ended().await.success());
    angarium.configure(&configuration(&receiver, "username = \"noc\"\npassword = \"right\""));
    angarium.start().await;
    receiver.mail_count_reaches(200).await;
    angarium.drained().await;
    assert_eq!(angarium.count("delivered").await, 200);
    assert_eq!(receiver.mails().len(), 200);
}

/// C105: what is mended on the relay's side needs no restart: an operator reopens the channel.
pub(crate) async fn c105_an_operator_reopens_the_channel(on: Database) {
    let (receiver, angarium) = world(&on, "").await;
    receiver.script(Phase::Greeting, [Reply::text("554 5.7.1 your address is blocked")]);
    angarium.hand_in(&to_address("ann@example.com", "Pump 3")).await;
    within(async { while angarium.get("/v1/channels").await["items"][0]["suspended"].is_null() {} }).await;
    let row = angarium.until(&id_of("Pump 3"), "pending").await;
    assert_eq!(
        (row["retry_count"].as_i64(), row["last_error"]["class"].as_str()),
        (Some(0), Some("permanent_config"))
    );
    let reopened = angarium.angarium(&["channel", "reopen", "mail"]);
    assert!(reopened.status.success(), "{reopened:?}");
    angarium.until(&id_of("Pump 3"), "delivered").await;
    assert_eq!(receiver.mails().len(), 1);
    assert_eq!(angarium.angarium(&["channel", "reopen", "mail"]).status.code(), Some(3));
}

/// What a relay that is down costs: a few tries now and then, and not a retry of everything that is due.
pub(crate) async fn a_relay_that_is_down_uses_up_few_retries(on: Database) {
    const ALL: usize = 400;
    let receiver = Receiver::start(Options::default()).await.unwrap();
    let address = receiver.address();
    let slow = configuration(&receiver, "").replace("\"100ms\"", "\"2s\"");
    drop(receiver);
    let angarium = on.started(&slow).await;
    let all = (0..ALL).map(|n| to_address(&format!("u@d{n}.example"), &format!("m{n}"))).collect();
    angarium.hand_in_all(all).await;
    // The first few are tried side by side; to come to eight, the channel must have been tried again twice.
    let tried = within(async {
        loop {
            let tried = angarium.count("retrying").await;
            if tried >= 8 {
                return tried;
            }
        }
    })
    .await;
    assert!(tried <= ALL / 2, "{tried} of {ALL} used up a retry");
    let receiver = Receiver::start_on(address, Options::default()).await.unwrap();
    receiver.mail_count_reaches(ALL).await;
    angarium.drained().await;
    assert_eq!(angarium.count("delivered").await, ALL);
}

/// The process is killed while the relay has the whole message and has not answered: the repeat is the same message,
/// byte for byte, and nothing else is repeated.
pub(crate) async fn killed_before_the_answer_to_the_message(on: Database) {
    let receiver = Receiver::start(Options::default()).await.unwrap();
    let soon = format!("{}{}", configuration(&receiver, ""), on.lease("2s"));
    let mut angarium = on.started(&soon).await;
    angarium.hand_in(&to_list("two", "before")).await;
    angarium.until(&id_of("before"), "delivered").await;
    let never = Gate::closed();
    receiver.script(Phase::Final, [Reply::normal().gate(&never).taking()]);
    angarium.hand_in(&to_list("two", "Pump 3")).await;
    receiver.mail_count_reaches(2).await;
    angarium.kill().await;
    receiver.script(Phase::Final, []);
    angarium.start().await;
    let row = angarium.until(&id_of("Pump 3"), "delivered").await;
    let mails = receiver.mails();
    assert_eq!(mails.len(), 3);
    assert_eq!(mails[1].raw, mails[2].raw);
    let attempts = angarium.get(&format!("/v1/notifications/{}/attempts", id_of("Pump 3"))).await;
    assert_eq!(attempts["items"][0]["duplicate_risk"], true, "{attempts}");
    assert_eq!(row["status"], "delivered");
}

/// A doubt is not tried again by itself where the operator says that twice is worse than never.
pub(crate) async fn in_doubt_is_parked_where_that_is_wanted(on: Database) {
    let (receiver, angarium) = world(&on, "on_ambiguous = \"park\"").await;
    receiver.script(Phase::Final, [Reply::hang_up().taking()]);
    angarium.hand_in(&to_address("ann@example.com", "Pump 3")).await;
    let row = angarium.until(&id_of("Pump 3"), "parked").await;
    assert_eq!(receiver.mails().len(), 1);
    assert!(row["last_error"]["detail"].as_str().unwrap().contains("the message"), "{row}");
}

/// C107: nobody left to send to is not delivered, and says so.
pub(crate) async fn c107_a_list_of_which_nobody_is_left(on: Database) {
    let (receiver, angarium) = world(&on, "").await;
    for (address, subject) in [("ann@example.com", "first"), ("bob@example.org", "second")] {
        angarium.hand_in(&to_address(address, subject)).await;
        angarium.until(&id_of(subject), "delivered").await;
        let report = bounce(&id_of(subject), address);
        let path = angarium.folder.path().join("bounce.eml");
        std::fs::write(&path, report).unwrap();
        let told = angarium.angarium(&["bounce", path.to_str().unwrap()]);
        assert!(told.status.success(), "{told:?}");
        let row = angarium.view(&id_of(subject)).await;
        assert_eq!(row["status"], "delivered");
        assert!(row["last_error"]["detail"].as_str().unwrap().contains("5.1.1"), "{row}");
    }
    let suppressed = angarium.get("/v1/suppressions").await;
    assert_eq!(suppressed["items"].as_array().unwrap().len(), 2, "{suppressed}");
    angarium.hand_in(&to_list("two", "Pump 3")).await;
    let row = angarium.until(&id_of("Pump 3"), "parked").await;
    assert!(row["last_error"]["detail"].as_str().unwrap().contains("suppressed"), "{row}");
    assert_eq!(receiver.mails().len(), 2);
    let trail = angarium.get(&format!("/v1/notifications/{}/audit", id_of("Pump 3"))).await;
    assert!(trail["items"].as_array().unwrap().iter().any(|entry| entry["kind"] == "terminal"), "{trail}");
}

/// A report that a mail could not be delivered, as a relay sends it to the return path.
fn bounce(id: &str, address: &str) -> String {
    format!(
        "From: MAILER-DAEMON@relay.example.com\r\nTo: alerts@example.com\r\nSubject: Undelivered\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=delivery-status; boundary=\"b\"\r\n\r\n\
         --b\r\n\r\nIt could not be delivered.\r\n\
         --b\r\nContent-Type: message/delivery-status\r\n\r\n\
         Reporting-MTA: dns; relay.example.com\r\nOriginal-Envelope-Id: {id}\r\n\r\n\
         Final-Recipient: rfc822; {address}\r\nAction: failed\r\nStatus: 5.1.1\r\n\
         Diagnostic-Code: smtp; 550 5.1.1 no such user\r\n\r\n--b--\r\n"
    )
}

/// `data.email` is held against what a mail can hold when the notification is handed in.
pub(crate) async fn what_a_producer_may_say_about_the_mail(on: Database) {
    let (receiver, angarium) = world(&on, "unsubscribe = \"https://example.com/leave\"").await;
    let mut bad = to_address("ann@example.com", "bad");
    bad["data"] = json!({"email": {"reply_to": "a\r\nBcc: spy@example.net"}});
    let (status, problem) = angarium.call(Method::POST, "/v1/notifications", Some(bad)).await;
    assert_eq!(status, 422, "{problem}");
    let mut good = to_address("ann@example.com", "good");
    good["data"] = json!({"email": {"html": "<p>It happened.</p>", "reply_to": "noc@example.com"}, "n": 1});
    angarium.hand_in(&good).await;
    angarium.until(&id_of("good"), "delivered").await;
    let text = receiver.mails()[0].text();
    for line in [
        "Reply-To: noc@example.com",
        "List-Unsubscribe: <https://example.com/leave>",
        "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
        "Auto-Submitted: auto-generated",
        "<p>It happened.</p>",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// The conversation, for whoever sets a channel up, secrets masked.
pub(crate) async fn a_channel_can_be_tried(on: Database) {
    let auth = Auth { before_tls: true, ..Auth::password("noc", "canary-password") };
    let options = Options { auth: Some(auth), ..mail::Options::default() };
    let (receiver, angarium) =
        world_with(&on, options, "username = \"noc\"\npassword = \"canary-password\"").await;
    let tried = angarium.angarium(&["channel", "test", "mail", "ann@example.com"]);
    let said = crate::support::text(&tried.stdout);
    assert!(tried.status.success(), "{tried:?}");
    for line in
        ["> EHLO ", "> AUTH PLAIN [masked]", "< 235 ", "> MAIL FROM:<alerts@example.com>", "< 354 ", "> ."]
    {
        assert!(said.contains(line), "{line} in {said}");
    }
    assert!(!said.contains("canary-password"), "{said}");
    assert_eq!(receiver.mails().len(), 1);
    receiver.script(Phase::Auth, [Reply::text("535 5.7.8 canary-password is wrong")]);
    let tried = angarium.angarium(&["channel", "test", "mail", "ann@example.com"]);
    assert_eq!(tried.status.code(), Some(1));
    let said = crate::support::text(&tried.stdout) + &crate::support::text(&tried.stderr);
    assert!(said.contains("535 5.7.8") && !said.contains("canary-password"), "{said}");
}
