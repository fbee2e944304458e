//! A subscription as it is handed in, and what is judged of it by what this server knows: its channels, whom the guard lets
//! it reach, and where its list leads. Whether its filter suits its feed the store judges, in the transaction that writes it.

use std::collections::HashMap;

use angarium_channels::email::options::{OptionError, Options};
use angarium_domain::channel::ChannelKind;
use angarium_domain::subscription::{Subscription, Target};
use angarium_domain::text::{ChannelName, ListName, SubscriptionId};

use super::super::App;
use super::super::dto::FieldError;
use super::super::events::invalid;
use super::super::problem::Problem;
use super::json::{self, ADDED};
use crate::config::blocked;

/// A subscription that is as it must be, as far as its own members tell.
pub(super) struct Draft {
    /// Its id, if it names one.
    pub(super) id: Option<SubscriptionId>,
    pub(super) subscription: Subscription,
    /// What is wrong with its options if its list leads to mail.
    as_mail: Option<OptionError>,
}

impl Draft {
    /// Reads one, or says everything that is wrong with it.
    pub(super) fn read(app: &App, text: &str) -> Result<Draft, Problem> {
        let mut object = json::object(text)?;
        for added in ADDED.iter().chain(["last_sent_at"].iter()) {
            object.remove(*added);
        }
        let id = json::name(&mut object, "id")?;
        let id = id.map(|id| SubscriptionId::parse(&id)).transpose();
        let id = id.map_err(|error| Problem::invalid_field("id", error))?;
        let kind_of = |channel: &ChannelName| app.channels.get(channel).map(|facts| facts.kind);
        let subscription = Subscription::parse(&json::text(&object), &kind_of).map_err(invalid)?;
        let as_mail = Options::of(subscription.options.as_deref()).err();
        let Target::Address { channel, address } = &subscription.target else {
            return Ok(Draft { id, subscription, as_mail });
        };
        let Some(kind) = kind_of(channel) else {
            return Err(Problem::invalid_field("target.channel", "is not the name of a configured channel"));
        };
        if let Some(why) = blocked(address, kind, &app.guard) {
            return Err(Problem::invalid_field("target.address", why));
        }
        match as_mail {
            Some(error) if kind == ChannelKind::Email => Err(refused(error)),
            _ => Ok(Draft { id, subscription, as_mail: None }),
        }
    }

    /// The same, judged by where its list leads; and whether it leads anywhere.
    pub(super) async fn judged(self, app: &App, lists: &mut Lists) -> Result<(Subscription, bool), Problem> {
        let Target::List(list) = &self.subscription.target else { return Ok((self.subscription, true)) };
        let kind = lists.kind(app, list).await?;
        match self.as_mail {
            Some(error) if kind == Some(ChannelKind::Email) => Err(refused(error)),
            _ => Ok((self.subscription, kind.is_some())),
        }
    }
}

/// What the options of a subscription are to a notification is a member of its data.
fn refused(OptionError { field, message }: OptionError) -> Problem {
    let field = match field.strip_prefix("data") {
        Some(below) => format!("options{below}"),
        None => field,
    };
    Problem::invalid(vec![FieldError { field, message }])
}

/// The kinds of channel that lists lead to, as they were found for one request.
#[derive(Default)]
pub(super) struct Lists(HashMap<ListName, Option<ChannelKind>>);

impl Lists {
    /// The kind that a list leads to; none if there is no such list.
    async fn kind(&mut self, app: &App, name: &ListName) -> Result<Option<ChannelKind>, Problem> {
        if let Some(kind) = self.0.get(name) {
            return Ok(*kind);
        }
        let found = match app.store.known_list(name, false).await? {
            None => app.store.known_list(name, true).await?,
            known => known,
        };
        let kind = found.and_then(|list| app.channels.get(&list.channel)).map(|facts| facts.kind);
        self.0.insert(name.clone(), kind);
        Ok(kind)
    }
}
