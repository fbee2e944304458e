//! What is sent: each notification under an id that the sender made, so that sending it again does no harm.

use angarium_domain::chance::Chance;
use angarium_domain::id::NotificationId;
use angarium_domain::time::Clock;

use super::cast::Cast;
use super::mail::{DIRECT, DUTY, MAIL};
use super::stage::{HOOKS, OPS};
use crate::http::dto::{NewNotification, To};

/// A list that nobody configured.
const NOBODY: &str = "nobody";

/// A notification and the id under which it is found again.
#[derive(Clone)]
pub(super) struct Letter {
    pub(super) id: String,
    pub(super) notification: NewNotification,
}

/// Everything that is sent.
pub(super) struct Traffic {
    /// Sent at once.
    pub(super) batch: Vec<Letter>,
    /// Sent one after the other, the first of them twice.
    pub(super) singles: Vec<Letter>,
    /// One to the list of mailboxes; also among the singles.
    pub(super) duty: Letter,
    /// One to a list that does not exist; also among the singles.
    pub(super) nobody: Letter,
    /// One that is refused and that an operator retries; also among the singles.
    pub(super) retried: Letter,
    /// One that is refused and that an operator discards; also among the singles.
    pub(super) discarded: Letter,
}

impl Traffic {
    /// One message for each address of the cast, some mails, and one for each list and for a list that does not
    /// exist. What takes longest goes first, as the batch; the rest are the singles.
    pub(super) fn plan(cast: &Cast, clock: &dyn Clock, chance: &dyn Chance) -> Traffic {
        let letter = |notification| Letter::new(notification, NotificationId::generate(clock, chance));
        let mut batch = Vec::new();
        let (mut steady, mut refused) = (Vec::new(), Vec::new());
        for (role, addresses) in cast.addresses() {
            let letters = addresses.iter().zip(1..).map(|(address, n)| {
                let subject = format!("For {}, {n} of {}", role.name, role.messages);
                letter(Letter::to(HOOKS, address, subject))
            });
            match role.name {
                "steady" => steady.extend(letters),
                "refuses" => refused.extend(letters),
                _ => batch.extend(letters),
            }
        }
        let mails = DIRECT.iter().zip(1..).map(|(address, n)| {
            letter(Letter::to(MAIL, address, format!("For {MAIL}, {n} of {}", DIRECT.len())))
        });
        let [duty, ops, nobody] = [DUTY, OPS, NOBODY].map(|list| letter(Letter::to_list(list)));
        let [retried, discarded] =
            [0, 1].map(|place| refused.get(place).cloned().unwrap_or_else(|| ops.clone()));
        let lists = [duty.clone(), ops, nobody.clone()];
        let singles = steady.into_iter().chain(refused).chain(mails).chain(lists).collect();
        Traffic { batch, singles, duty, nobody, retried, discarded }
    }

    /// How many there are.
    pub(super) fn total(&self) -> usize {
        self.batch.len() + self.singles.len()
    }

    /// What is sent, for whoever looks on.
    pub(super) fn introduction(&self) -> Vec<String> {
        let (batch, singles) = (self.batch.len(), self.singles.len());
        let total = self.total();
        vec![
            String::new(),
            format!(
                "{total} notifications: {batch} in one batch, {singles} one by one, the first of these twice;"
            ),
            "three are to lists. And two events about one outage, which two subscriptions want.".to_owned(),
            String::new(),
        ]
    }
}

impl Letter {
    fn new(notification: NewNotification, id: NotificationId) -> Self {
        let id = id.to_string();
        Letter { notification: NewNotification { id: Some(id.clone()), ..notification }, id }
    }

    /// The address that it goes to; empty for a list.
    pub(super) fn address(&self) -> &str {
        self.notification.to.as_ref().map_or("", |to| &to.address)
    }

    fn to(channel: &str, address: &str, subject: String) -> NewNotification {
        let to = To { channel: channel.to_owned(), address: address.to_owned() };
        NewNotification { to: Some(to), ..worded(subject) }
    }

    fn to_list(list: &str) -> NewNotification {
        NewNotification { list: Some(list.to_owned()), ..worded(format!("For the list {list}")) }
    }
}

fn worded(subject: String) -> NewNotification {
    NewNotification { subject, body: "Sent by angarium demo.".to_owned(), ..NewNotification::default() }
}
