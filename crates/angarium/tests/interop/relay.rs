//! The mail servers as the tests see them: ports, mailboxes, logs.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Installation, id_of, within};

/// Postfix, where STARTTLS is demanded.
pub(crate) fn postfix() -> Relay {
    let port = variable("INTEROP_POSTFIX");
    Relay::of("INTEROP_POSTFIX_TREE", format!("smtp://localhost:{port}?starttls=required"))
}

/// Postfix, with TLS from the first byte. It ends sessions that are silent for two seconds.
pub(crate) fn postfix_tls() -> Relay {
    Relay::of("INTEROP_POSTFIX_TREE", format!("smtps://localhost:{}", variable("INTEROP_POSTFIX_TLS")))
}

/// Postfix without TLS, where a client may have two sessions at a time.
pub(crate) fn postfix_narrow() -> Relay {
    let port = variable("INTEROP_POSTFIX_NARROW");
    Relay::of("INTEROP_POSTFIX_TREE", format!("smtp://localhost:{port}?starttls=never"))
}

/// OpenSMTPD, without TLS.
pub(crate) fn opensmtpd() -> Relay {
    Relay::of("INTEROP_OPENSMTPD_TREE", format!("{}?starttls=never", opensmtpd_url()))
}

/// OpenSMTPD, with the TLS that it offers.
pub(crate) fn opensmtpd_tls() -> Relay {
    Relay::of("INTEROP_OPENSMTPD_TREE", opensmtpd_url())
}

fn opensmtpd_url() -> String {
    format!("smtp://localhost:{}", variable("INTEROP_OPENSMTPD"))
}

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run `cargo xtask interop`"))
}

/// One way to a server.
pub(crate) struct Relay {
    tree: PathBuf,
    url: String,
}

impl Relay {
    fn of(tree: &str, url: String) -> Self {
        Relay { tree: variable(tree).into(), url }
    }

    /// A channel `mail` to this relay with `more` keys, and a list `all` of `members`.
    pub(crate) fn channel(&self, more: &str, members: &[&str]) -> String {
        let trust = format!("[security]\nca_file = \"{}\"\n", variable("INTEROP_CA"));
        trust + &self.untrusted_channel(more, members)
    }

    /// The same, but that the certificate's authority is not known.
    pub(crate) fn untrusted_channel(&self, more: &str, members: &[&str]) -> String {
        let members: Vec<String> = members.iter().map(|name| address(name)).collect();
        let list = if members.is_empty() {
            String::new()
        } else {
            format!("[lists.all]\nchannel = \"mail\"\nmembers = {members:?}\n")
        };
        format!(
            "[channels.mail]\nkind = \"email\"\nurl = \"{}\"\nfrom = \"Wächter <alerts@example.com>\"\n\
             retry = {{ policy = \"fixed\", interval = \"1s\", max_retries = 5 }}\n{more}\n{list}",
            self.url
        )
    }

    /// A server of our own with such a channel.
    pub(crate) async fn client(&self, more: &str, members: &[&str]) -> Installation {
        Installation::started(&self.channel(more, members)).await
    }

    /// The mails about `subject` in a mailbox.
    pub(crate) fn mails(&self, mailbox: &str, subject: &str) -> Vec<String> {
        let message_id = format!("Message-ID: <{}@example.com>", id_of(subject));
        self.mails_with(mailbox, &message_id)
    }

    /// The mails in a mailbox that hold `text`.
    pub(crate) fn mails_with(&self, mailbox: &str, text: &str) -> Vec<String> {
        let Ok(files) = std::fs::read_dir(self.tree.join("var/mail").join(mailbox).join("new")) else {
            return Vec::new();
        };
        let mails = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        mails.filter(|mail| mail.contains(text)).collect()
    }

    /// The mail about `subject`, once it is in the mailbox.
    pub(crate) async fn mail(&self, mailbox: &str, subject: &str) -> String {
        until(|| self.mails(mailbox, subject).pop()).await
    }

    /// A mail that holds `text`, once it is in the mailbox.
    pub(crate) async fn mail_with(&self, mailbox: &str, text: &str) -> String {
        until(|| self.mails_with(mailbox, text).pop()).await
    }

    /// Postfix's log, line by line, once a line that `wanted` finds stands in it.
    pub(crate) async fn log_line(&self, wanted: impl Fn(&str) -> bool) -> String {
        until(|| self.log().lines().find(|line| wanted(line)).map(str::to_owned)).await
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.tree.join("var/log/mail.log")).unwrap_or_default()
    }

    /// What Postfix answers to RCPT for `name` from now on.
    pub(crate) fn answer(&self, name: &str, answer: &str) {
        std::fs::write(self.answer_file(name), format!("{answer}\n")).unwrap();
    }

    pub(crate) fn answer_as_usual(&self, name: &str) {
        std::fs::remove_file(self.answer_file(name)).unwrap();
    }

    fn answer_file(&self, name: &str) -> PathBuf {
        self.tree.join("var/answers").join(address(name))
    }
}

pub(crate) fn address(name: &str) -> String {
    if name.contains('@') { name.to_owned() } else { format!("{name}@example.com") }
}

/// A notification to one mailbox, with an id that follows from its subject.
pub(crate) fn to(name: &str, subject: &str) -> Value {
    let to = json!({"channel": "mail", "address": address(name)});
    json!({"id": id_of(subject), "to": to, "subject": subject, "body": "it happened"})
}

/// A notification to the list.
pub(crate) fn to_all(subject: &str) -> Value {
    json!({"id": id_of(subject), "list": "all", "subject": subject, "body": "it happened"})
}

/// The id that the server which delivered a mail had for it.
pub(crate) fn queue_id(mail: &str) -> &str {
    let (_, rest) = mail.split_once("\tby localhost (").unwrap();
    let (_, rest) = rest.split_once(" id ").unwrap();
    rest.split([';', '\n']).next().unwrap()
}

/// How each address fared.
pub(crate) fn results(row: &Value) -> Vec<&str> {
    let targets = row["resolved_targets"].as_array().unwrap();
    targets.iter().map(|target| target["result"].as_str().unwrap()).collect()
}

pub(crate) fn last_error(row: &Value) -> (&str, &str) {
    let error = &row["last_error"];
    (error["class"].as_str().unwrap_or_default(), error["detail"].as_str().unwrap_or_default())
}

/// Why the channel is suspended, once it is.
pub(crate) async fn suspension(server: &Installation) -> String {
    within(async {
        loop {
            let channels = server.get("/v1/channels").await;
            if let Some(reason) = channels["items"][0]["suspended"]["reason"].as_str() {
                return reason.to_owned();
            }
            pause().await;
        }
    })
    .await
}

/// What `look` finds, once it finds something.
async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    within(async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            pause().await;
        }
    })
    .await
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep between two looks at foreign servers
}
