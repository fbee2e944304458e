//! From `MAIL` to the final dot.

use std::sync::{Arc, PoisonError};

use super::{Over, Session, is_positive};
use crate::mail::body::{Body, LINE_LIMIT};
use crate::mail::envelope::{self, Mailbox};
use crate::mail::journal::Mail;
use crate::mail::script::Phase;
use crate::mail::wire::Wire;

/// What stands between `MAIL` and the mail.
#[derive(Default)]
pub(super) struct Transaction {
    sender: Mailbox,
    recipients: Vec<Mailbox>,
}

impl Session {
    pub(super) async fn mail(&mut self, wire: &mut Wire, argument: &str) -> Result<(), Over> {
        let sender = self.judge_mail(argument);
        let normal = self.usual(&sender, "MAIL", "250 2.1.0 Ok");
        let code = self.answer(wire, Phase::Mail, "MAIL", &normal).await?;
        if is_positive(code)
            && let Ok(sender) = sender
        {
            self.transaction = Some(Transaction { sender, recipients: Vec::new() });
        }
        Ok(())
    }

    fn judge_mail(&self, argument: &str) -> Result<Mailbox, String> {
        let options = &self.shared.options;
        if !self.greeted || self.transaction.is_some() {
            return Err("503 5.5.1 MAIL is not in order here".to_owned());
        }
        if options.auth.as_ref().is_some_and(|auth| auth.required) && !self.authenticated {
            return Err("530 5.7.0 Authentication required".to_owned());
        }
        let sender = Mailbox::parse(argument, "FROM:")?;
        sender.allowed(envelope::OF_MAIL, &self.offered)?;
        if !sender.address.is_ascii() && !sender.has("SMTPUTF8") {
            return Err("553 5.6.7 SMTPUTF8 is needed for this address".to_owned());
        }
        if sender.declared_size().is_some_and(|size| size > options.mail_limit()) {
            return Err("552 5.3.4 Message too big".to_owned());
        }
        Ok(sender)
    }

    pub(super) async fn rcpt(&mut self, wire: &mut Wire, argument: &str) -> Result<(), Over> {
        let recipient = self.judge_rcpt(argument);
        let normal = self.usual(&recipient, "RCPT", "250 2.1.5 Ok");
        let address = recipient.as_ref().map_or("", |recipient| &recipient.address);
        let accepted = self.transaction.as_ref().map_or(0, |transaction| transaction.recipients.len());
        let reply = {
            let mut script = self.shared.script.lock().unwrap_or_else(PoisonError::into_inner);
            script.next_rcpt(address, accepted)
        };
        let code = reply.code(&normal);
        self.give(wire, reply, "RCPT", &normal).await?;
        if is_positive(code)
            && let (Ok(recipient), Some(transaction)) = (recipient, &mut self.transaction)
        {
            transaction.recipients.push(recipient);
        }
        Ok(())
    }

    fn judge_rcpt(&self, argument: &str) -> Result<Mailbox, String> {
        let Some(transaction) = &self.transaction else {
            return Err("503 5.5.1 RCPT is not in order here".to_owned());
        };
        let recipient = Mailbox::parse(argument, "TO:")?;
        recipient.allowed(envelope::OF_RCPT, &self.offered)?;
        if recipient.address.is_empty() {
            return Err("501 5.1.3 Bad address syntax".to_owned());
        }
        if !recipient.address.is_ascii() && !transaction.sender.has("SMTPUTF8") {
            return Err("553 5.6.7 SMTPUTF8 is needed for this address".to_owned());
        }
        Ok(recipient)
    }

    /// The usual answer to a command that was judged. That it must be refused is a sin, unless nobody could know.
    fn usual(&self, judged: &Result<Mailbox, String>, what: &str, accepted: &str) -> String {
        let Err(refusal) = judged else { return accepted.to_owned() };
        let unforeseen = refusal.starts_with("552") || refusal.starts_with("530");
        let consequence = what == "RCPT" && self.may_follow_a_refusal();
        if !unforeseen && !consequence {
            self.sin(format!("{what} out of place: {refusal}"));
        }
        refusal.clone()
    }

    /// Whether what comes now may have been sent together with a `MAIL` that was refused.
    fn may_follow_a_refusal(&self) -> bool {
        self.transaction.is_none() && envelope::offers(&self.offered, "PIPELINING")
    }

    pub(super) async fn data(&mut self, wire: &mut Wire) -> Result<(), Over> {
        let normal = match &self.transaction {
            None => {
                if !self.may_follow_a_refusal() {
                    self.sin("DATA out of place".to_owned());
                }
                "503 5.5.1 DATA is not in order here"
            }
            Some(transaction) if transaction.recipients.is_empty() => "554 5.5.1 No valid recipients",
            Some(_) => "354 End data with <CR><LF>.<CR><LF>",
        };
        if self.answer(wire, Phase::Data, "DATA", normal).await? != 354 {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let mut body = Body::new(shared.options.mail_limit(), &shared.journal.room);
        while !body.take(&wire.chunk().await?) {}

        let transaction = self.transaction.take().unwrap_or_default();
        self.judge_body(&transaction.sender, &body);
        let refusal = body.given_up.or_else(|| {
            let refused = body.bare_line_ends && shared.options.refuse_bare_line_ends;
            refused.then_some("550 5.6.11 Bare CR or LF in the message")
        });
        let reply = self.step(Phase::Final);
        let taken = reply.taking || is_positive(reply.code(refusal.unwrap_or("250")));
        let queue_id = match body.given_up {
            None => shared.journal.file(self.as_mail(transaction, body), taken),
            Some(_) => None,
        };
        let queued = format!("250 2.0.0 Ok: queued as {}", queue_id.unwrap_or_default());
        self.give(wire, reply, "the final dot", refusal.unwrap_or(&queued)).await
    }

    fn judge_body(&self, sender: &Mailbox, body: &Body<'_>) {
        if body.bare_line_ends {
            self.sin("a bare CR or LF in the mail".to_owned());
        }
        if body.longest_line > LINE_LIMIT {
            self.sin(format!("a line of {} octets in the mail", body.longest_line));
        }
        // RFC 6531: SMTPUTF8 allows them in the header.
        if body.eight_bit && !sender.has("BODY=8BITMIME") && !sender.has("SMTPUTF8") {
            self.sin("8-bit octets in the mail without BODY=8BITMIME".to_owned());
        }
    }

    fn as_mail(&self, transaction: Transaction, body: Body<'_>) -> Mail {
        Mail {
            session: self.number,
            queue_id: None,
            sender: transaction.sender,
            recipients: transaction.recipients,
            bare_line_ends: body.bare_line_ends,
            longest_line: body.longest_line,
            eight_bit: body.eight_bit,
            raw: body.into_raw(),
        }
    }
}
