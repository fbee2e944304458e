//! Who takes part: four receivers, each with its own mood, and a mail server; and what each of them must have
//! seen at the end.
//!
//! Every message to a receiver has a path of its own there, and with it a script of its own, so that what
//! must come out does not depend on which of them arrives first.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use angarium_channels::webhook::SigningSecret;
use angarium_receivers::http::{Received, Receiver, Reply};

use super::api::Row;
use super::mail::{self, MAIL, MailServer};
use super::outage::{self, EVENTS};
use super::picture::{Counts, Group, Snapshot};
use super::traffic::Letter;
use super::verdict::{Line, Tally};

/// A receiver's part.
pub(super) struct Role {
    /// Its name.
    pub(super) name: &'static str,
    /// Its mood, in a sentence without a subject.
    does: &'static str,
    /// How many messages are for it alone.
    pub(super) messages: usize,
    /// The status codes with which it answers on one path, the last one for ever. Its paths take these in turn.
    scripts: &'static [&'static [u16]],
    /// How long it thinks before each answer.
    thinks: Duration,
    /// What must come out.
    must: Tally,
}

/// The receivers, in the order in which they are shown.
pub(super) const ROLES: [Role; 4] = [
    Role {
        name: "steady",
        does: "takes everything at once",
        messages: 14,
        scripts: &[&[204]],
        thinks: Duration::ZERO,
        must: Tally { requests: 14, ids: 14, effects: 14, delivered: 14, ..Tally::NOTHING },
    },
    Role {
        name: "flaky",
        does: "answers 503 one to three times before it takes a message",
        messages: 9,
        scripts: &[&[503, 204], &[503, 503, 204], &[503, 503, 503, 204]],
        thinks: Duration::ZERO,
        must: Tally { requests: 27, ids: 9, effects: 9, delivered: 9, ..Tally::NOTHING },
    },
    Role {
        name: "refuses",
        does: "answers 400 until it is repaired",
        messages: 4,
        scripts: &[&[400]],
        thinks: Duration::ZERO,
        must: Tally {
            requests: 5,
            ids: 4,
            effects: 1,
            delivered: 1,
            parked: 2,
            discarded: 1,
            ..Tally::NOTHING
        },
    },
    Role {
        name: "slow",
        does: "takes everything, after one and a half seconds each",
        messages: 7,
        scripts: &[&[204]],
        thinks: Duration::from_millis(1500),
        must: Tally { requests: 7, ids: 7, effects: 7, delivered: 7, ..Tally::NOTHING },
    },
];

/// What a receiver does on a path that several of them have.
pub(super) struct Part {
    /// The receiver's place in [`ROLES`].
    pub(super) place: usize,
    pub(super) script: &'static [u16],
}

/// The list's two members.
const MEMBERS: [Part; 2] = [Part { place: 0, script: &[204] }, Part { place: 1, script: &[503, 204] }];
/// The path of the list's members at their receivers.
const LIST_PATH: &str = "/ops";
/// What must come out for the lists `ops` and `nobody`: one message with an effect at each member of the one, and one that
/// is parked because the other does not exist.
const LISTS_MUST: Tally =
    Tally { requests: 3, ids: 1, effects: 2, delivered: 1, parked: 1, ..Tally::NOTHING };
/// The name under which these two are shown.
const LISTS: &str = "lists";

/// Everybody who takes part.
pub(super) struct Cast {
    /// In the order of [`ROLES`].
    receivers: Vec<Receiver>,
    pub(super) mail: MailServer,
}

impl Cast {
    /// Opens a port for each and gives them their scripts.
    pub(super) async fn assemble() -> io::Result<Cast> {
        let mut receivers = Vec::new();
        for role in &ROLES {
            let receiver = Receiver::start().await?;
            for (message, script) in (0..role.messages).zip(role.scripts.iter().cycle()) {
                receiver.script(&path(message), replies(script, role.thinks));
            }
            receivers.push(receiver);
        }
        for (path, parts) in [(LIST_PATH, MEMBERS), (outage::PATH, outage::SUBSCRIBERS)] {
            for Part { place, script } in parts {
                if let Some(receiver) = receivers.get(place) {
                    receiver.script(path, replies(script, Duration::ZERO));
                }
            }
        }
        Ok(Cast { receivers, mail: MailServer::start().await? })
    }

    /// The addresses of the members of the list `ops`.
    pub(super) fn members(&self) -> Vec<String> {
        self.urls(&MEMBERS, LIST_PATH)
    }

    /// The addresses of those who subscribe to outages.
    pub(super) fn subscribers(&self) -> Vec<String> {
        self.urls(&outage::SUBSCRIBERS, outage::PATH)
    }

    fn urls(&self, parts: &[Part], path: &str) -> Vec<String> {
        parts.iter().filter_map(|part| Some(self.receivers.get(part.place)?.url(path))).collect()
    }

    /// Each role with the addresses of its messages.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&'static Role, Vec<String>)> {
        let urls = |role: &Role, receiver: &Receiver| {
            (0..role.messages).map(|message| receiver.url(&path(message))).collect()
        };
        ROLES.iter().zip(&self.receivers).map(move |(role, receiver)| (role, urls(role, receiver)))
    }

    /// Who is there, for whoever looks on.
    pub(super) fn introduction(&self) -> Vec<String> {
        let shown = |name: &str, url: &str, does: &str| format!("  {name:<8}  {url:<23}  {does}");
        let of_receiver =
            |(role, receiver): (&Role, &Receiver)| shown(role.name, &receiver.url("/"), role.does);
        let mut lines = vec![String::new(), "Four receivers and a mail server:".to_owned(), String::new()];
        lines.extend(ROLES.iter().zip(&self.receivers).map(of_receiver));
        lines.push(shown(MAIL, &self.mail.url(), "has no mailbox \"gone\", and \"busy\" is busy twice"));
        lines
    }

    /// From now on the address of `letter` takes what comes.
    pub(super) fn repair(&self, letter: &Letter) {
        for receiver in &self.receivers {
            if let Some(path) = letter.address().strip_prefix(&receiver.url("")) {
                receiver.script(path, [Reply::status(204)]);
            }
        }
    }

    /// The rows by receiver, those to lists of receivers, those that events led to, and those that are mail.
    pub(super) fn grouped(&self, rows: &[Row]) -> Vec<Group> {
        let (told, sent): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.event_id.is_some());
        let of_receiver = |(role, receiver): (&Role, &Receiver)| {
            let base = receiver.url("/");
            let its = |row: &&&Row| row.to.as_ref().is_some_and(|to| to.address.starts_with(&base));
            Group { name: role.name, counts: Counts::of(sent.iter().filter(its).map(|row| row.status)) }
        };
        let mut groups: Vec<Group> = ROLES.iter().zip(&self.receivers).map(of_receiver).collect();
        let (mails, others): (Vec<&Row>, Vec<&Row>) =
            sent.iter().partition(|row| row.channel.as_deref() == Some(MAIL));
        let listed = others.iter().filter(|row| row.to.is_none()).map(|row| row.status);
        groups.push(Group { name: LISTS, counts: Counts::of(listed) });
        groups.push(Group { name: EVENTS, counts: Counts::of(told.iter().map(|row| row.status)) });
        groups.push(Group { name: MAIL, counts: Counts::of(mails.iter().map(|row| row.status)) });
        groups
    }

    /// What was seen, by the receivers and by the server, beside what must be.
    pub(super) fn reckoned(&self, now: &Snapshot) -> Vec<Line> {
        let requests: Vec<(usize, Received)> = self.requests().collect();
        let musts = ROLES.iter().map(|role| role.must).chain([LISTS_MUST, outage::MUST]);
        let line = |(place, (group, must)): (usize, (&Group, Tally))| {
            let its = requests.iter().filter(|(at, request)| match &*request.path {
                LIST_PATH => place == ROLES.len(),
                outage::PATH => place == ROLES.len() + 1,
                _ => place == *at,
            });
            Line { name: group.name, must, seen: tally(its, &group.counts) }
        };
        let mut lines: Vec<Line> = now.groups.iter().zip(musts).enumerate().map(line).collect();
        let mails = now.groups.iter().filter(|group| group.name == MAIL);
        let seen = self.mail.seen();
        lines.extend(mails.map(|group| Line {
            name: MAIL,
            must: mail::MUST,
            seen: seen.tally(&group.counts),
        }));
        lines
    }

    /// How many requests carry a signature that `secret` makes, and how many requests there are.
    pub(super) fn signed(&self, secret: &SigningSecret) -> (usize, usize) {
        let is_signed = |request: &Received| {
            let id = request.header("webhook-id")?;
            let at: i64 = request.header("webhook-timestamp")?.parse().ok()?;
            let signature = secret.sign(id, at, &request.body);
            request.header("webhook-signature")?.split(' ').find(|item| *item == signature).map(drop)
        };
        let signed = self.requests().filter(|(_, request)| is_signed(request).is_some()).count();
        (signed, self.requests().count())
    }

    /// How many requests to those who subscribe to outages tell what they must, and how many requests there are.
    pub(super) fn told_of_the_outage(&self) -> (usize, usize) {
        let its = || self.requests().filter(|(_, request)| request.path == outage::PATH);
        (its().filter(|(_, request)| outage::tells(&request.body)).count(), its().count())
    }

    /// Every request so far, each with the place of its receiver.
    fn requests(&self) -> impl Iterator<Item = (usize, Received)> {
        let each = self.receivers.iter().enumerate();
        each.flat_map(|(place, receiver)| {
            receiver.requests().into_iter().map(move |request| (place, request))
        })
    }
}

fn path(message: usize) -> String {
    format!("/{}", message + 1)
}

fn replies(script: &[u16], thinks: Duration) -> Vec<Reply> {
    script.iter().map(|status| Reply::status(*status).after(thinks)).collect()
}

/// An effect is a duplicate if the same receiver has acted upon the same id before, whatever the path.
fn tally<'r>(requests: impl Iterator<Item = &'r (usize, Received)>, counts: &Counts) -> Tally {
    let (mut seen, mut ids, mut effects) = (0, BTreeSet::new(), BTreeMap::new());
    for (receiver, request) in requests {
        let id = request.header("webhook-id").unwrap_or_default();
        seen += 1;
        ids.insert(id);
        if request.effect {
            *effects.entry((receiver, id)).or_insert(0) += 1;
        }
    }
    let acted: usize = effects.values().sum();
    Tally {
        requests: seen,
        ids: ids.len(),
        effects: acted,
        duplicates: acted - effects.len(),
        delivered: counts.delivered,
        parked: counts.parked,
        discarded: counts.discarded,
    }
}
