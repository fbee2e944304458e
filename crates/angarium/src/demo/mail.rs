//! The mail server: whose mailboxes it has, how it answers for each, and what must have come of it at the end.
//!
//! Its answers follow the address alone. Whoever is not simply taken therefore gets one message only, so that what
//! must come out does not depend on which of several arrives first.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use angarium_receivers::mail::{Mail, Options, Receiver, Reply};

use super::picture::Counts;
use super::verdict::{Check, Tally};

/// The channel that leads there, and the name under which its messages are shown.
pub(super) const MAIL: &str = "mail";
/// The list whose members are mailboxes.
pub(super) const DUTY: &str = "duty";
/// The members of that list: two that are simply taken, one that does not exist, one that is busy at first.
pub(super) const MEMBERS: [&str; 4] = [ADA, GONE, BUSY, BEN];
/// Mailboxes that get a message of their own.
pub(super) const DIRECT: [&str; 3] = [ADA, BEN, "cleo@example.com"];

/// One who is simply taken.
pub(super) const ADA: &str = "ada@example.com";
const BEN: &str = "ben@example.com";
const GONE: &str = "gone@example.com";
const BUSY: &str = "busy@example.com";
/// How often the busy mailbox is refused before it is taken.
const BUSY_FOR: usize = 2;

/// What must come out: an envelope for each message, two more for the busy mailbox alone, and everybody served
/// but the one who does not exist.
pub(super) const MUST: Tally = Tally { requests: 6, ids: 4, effects: 6, delivered: 4, ..Tally::NOTHING };

/// A mail server with these mailboxes.
pub(super) struct MailServer {
    receiver: Receiver,
}

impl MailServer {
    /// Opens a port and gives the mailboxes their scripts.
    pub(super) async fn start() -> io::Result<MailServer> {
        let receiver = Receiver::start(Options::default()).await?;
        receiver.refuse_rcpt(GONE, "550 5.1.1 no such user");
        receiver.script_rcpt(BUSY, vec![Reply::text("450 4.2.1 mailbox is busy"); BUSY_FOR]);
        Ok(MailServer { receiver })
    }

    /// Where mail is handed to.
    pub(super) fn url(&self) -> String {
        format!("smtp://{}", self.receiver.address())
    }

    /// What has reached it so far.
    pub(super) fn seen(&self) -> Seen {
        let sessions = self.receiver.sessions();
        let envelopes = sessions.iter().flat_map(|session| envelopes(&session.commands)).collect();
        Seen { mails: self.receiver.mails(), envelopes }
    }
}

/// What reached a mail server.
pub(super) struct Seen {
    /// The mails that it took.
    pub(super) mails: Vec<Arc<Mail>>,
    /// The recipients that each transaction asked for, whatever the answers were.
    pub(super) envelopes: Vec<Vec<String>>,
}

impl Seen {
    /// As a line of the closing table: a request is an envelope, an effect is a mail that was taken for one
    /// recipient.
    pub(super) fn tally(&self, counts: &Counts) -> Tally {
        let pairs = self.pairs();
        let different: BTreeSet<_> = pairs.iter().collect();
        let ids: BTreeSet<_> = pairs.iter().map(|(id, _)| id).collect();
        Tally {
            requests: self.envelopes.len(),
            ids: ids.len(),
            effects: pairs.len(),
            duplicates: pairs.len() - different.len(),
            delivered: counts.delivered,
            parked: counts.parked,
            discarded: counts.discarded,
        }
    }

    /// What the table does not show. The message to the list has the id `duty`, and `error` is what the server
    /// says about it.
    pub(super) fn checks(&self, duty: &str, error: &str) -> Vec<Check> {
        let taken: Vec<Vec<&str>> =
            self.mails.iter().filter(|mail| id(mail) == duty).map(|mail| mail.to()).collect();
        let times = |to: &[&str]| taken.iter().filter(|recipients| recipients.as_slice() == to).count();
        let at_once = taken.iter().filter(|to| to.iter().any(|to| [ADA, BEN].contains(to))).count();
        let shown: Vec<String> = taken.iter().map(|recipients| names(recipients)).collect();
        let (alone, together): (Vec<_>, Vec<_>) = self.asked_for(BUSY).partition(|&others| others == 0);
        let gone = self.asked_for(GONE).count();
        let named: Vec<&str> = MEMBERS.into_iter().filter(|member| error.contains(member)).collect();
        let (pairs, telling) = (self.pairs(), self.telling());
        let different = pairs.iter().collect::<BTreeSet<_>>().len();
        vec![
            Check::new(
                "one envelope served all of the list who could be served at once",
                times(&[ADA, BEN]) == 1 && at_once == 1,
                shown.join(", then "),
            ),
            Check::new(
                "the busy mailbox was tried again alone until it took the mail",
                together.len() == 1 && alone.len() == BUSY_FOR && times(&[BUSY]) == 1,
                format_args!("{} times alone, {} taken", alone.len(), times(&[BUSY])),
            ),
            Check::new(
                "the mailbox that does not exist was tried once and is named, no other is",
                gone == 1 && named == [GONE],
                names(&named),
            ),
            Check::new(
                "no mail came twice for anybody",
                different == pairs.len() && !pairs.is_empty(),
                format_args!("{} pairs of mail and recipient, {different} different", pairs.len()),
            ),
            Check::new(
                "no header tells who else gets the mail",
                telling == 0 && !self.mails.is_empty(),
                format_args!("{telling} of {} name a recipient", self.mails.len()),
            ),
        ]
    }

    /// Whom each mail was taken for: the message's id with each of its recipients.
    fn pairs(&self) -> Vec<(String, &str)> {
        self.mails.iter().flat_map(|mail| mail.to().into_iter().map(move |to| (id(mail), to))).collect()
    }

    /// How many others stood in each envelope that asked for `address`.
    fn asked_for(&self, address: &str) -> impl Iterator<Item = usize> {
        let its = self.envelopes.iter().filter(move |envelope| envelope.iter().any(|to| to == address));
        its.map(|envelope| envelope.len() - 1)
    }

    /// How many mails name any recipient in their header.
    fn telling(&self) -> usize {
        let names_one = |mail: &&Arc<Mail>| {
            let header = header(mail).to_lowercase();
            MEMBERS.into_iter().chain(DIRECT).any(|address| header.contains(address))
        };
        self.mails.iter().filter(names_one).count()
    }
}

/// The recipients of each transaction, from the commands of a session.
fn envelopes(commands: &[String]) -> Vec<Vec<String>> {
    let mut envelopes: Vec<Vec<String>> = Vec::new();
    for command in commands {
        if command.starts_with("MAIL FROM:") {
            envelopes.push(Vec::new());
        }
        let address = command.strip_prefix("RCPT TO:<").and_then(|rest| rest.split('>').next());
        if let (Some(address), Some(envelope)) = (address, envelopes.last_mut()) {
            envelope.push(address.to_owned());
        }
    }
    envelopes
}

/// The part of a mail above its first empty line.
fn header(mail: &Mail) -> String {
    let text = mail.text();
    text.split_once("\r\n\r\n").map_or(text.as_str(), |(header, _)| header).to_owned()
}

/// The notification's id, which stands before the `@` of the Message-ID; empty if there is none.
fn id(mail: &Mail) -> String {
    let header = header(mail);
    let field = header.lines().find_map(|line| line.strip_prefix("Message-ID: <"));
    field.and_then(|field| field.split('@').next()).unwrap_or_default().to_owned()
}

/// Addresses without their domains, which are all the same.
fn names(addresses: &[&str]) -> String {
    let local = |address: &&str| address.split('@').next().unwrap_or_default().to_owned();
    addresses.iter().map(local).collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
pub(super) mod tests {
    use angarium_receivers::mail::Mailbox;

    use super::*;

    /// The id of the message to the list.
    pub(in crate::demo) const DUTY_ID: &str = "d";
    /// What the server says about it.
    pub(in crate::demo) const ERROR: &str =
        "gone@example.com: 127.0.0.1:25 answered RCPT with 550 5.1.1 no such user";

    /// A mail that was taken for these recipients.
    pub(in crate::demo) fn mail(id: &str, to: &[&str]) -> Arc<Mail> {
        let text = format!(
            "From: a@example.com\r\nTo: undisclosed-recipients:;\r\nMessage-ID: <{id}@example.com>\r\n\r\nFor {to:?}\r\n"
        );
        let mailbox = |address: &&str| Mailbox { address: (*address).to_owned(), parameters: Vec::new() };
        Arc::new(Mail {
            session: 1,
            queue_id: Some(1),
            sender: Mailbox::default(),
            recipients: to.iter().map(mailbox).collect(),
            raw: text.into_bytes(),
            bare_line_ends: false,
            longest_line: 0,
            eight_bit: false,
        })
    }

    /// What is seen when everything comes out as it must.
    pub(in crate::demo) fn fine() -> Seen {
        let direct = ["1", "2", "3"].into_iter().zip(DIRECT);
        let mut mails: Vec<_> = direct.map(|(id, to)| mail(id, &[to])).collect();
        mails.extend([mail(DUTY_ID, &[ADA, BEN]), mail(DUTY_ID, &[BUSY])]);
        let alone = |to: &&str| vec![(*to).to_owned()];
        let mut envelopes: Vec<Vec<String>> = DIRECT.iter().chain(&[BUSY; BUSY_FOR]).map(alone).collect();
        envelopes.push(MEMBERS.map(str::to_owned).to_vec());
        Seen { mails, envelopes }
    }

    #[test]
    fn a_session_is_read_envelope_by_envelope() {
        let commands = [
            "EHLO a",
            "MAIL FROM:<a@example.com> SIZE=9",
            "RCPT TO:<ada@example.com> NOTIFY=FAILURE",
            "RCPT TO:<ben@example.com>",
            "DATA",
            "MAIL FROM:<>",
            "RCPT TO:<busy@example.com>",
            "RSET",
        ];
        assert_eq!(envelopes(&commands.map(str::to_owned)), [vec![ADA, BEN], vec![BUSY]]);
        assert_eq!(envelopes(&["RCPT TO:<stray@example.com>".to_owned()]), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_mail_is_known_by_its_message_id() {
        assert_eq!(id(&mail("abc", &[ADA])), "abc");
        let nameless =
            Mail { raw: b"Subject: x\r\n\r\nMessage-ID: <body@x>\r\n".to_vec(), ..(*mail("", &[])).clone() };
        assert_eq!(id(&nameless), "");
    }
}
