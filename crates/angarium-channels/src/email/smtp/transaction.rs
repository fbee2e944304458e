//! One message handed over: MAIL, a RCPT for each recipient, DATA, the message, the final dot.
//!
//! Where the relay offers PIPELINING the commands go out together and the replies are read in order; otherwise one
//! at a time. Either way each recipient's answer is kept on its own, and the message goes out if any was accepted.

use std::ops::Range;
use std::time::Duration;

use angarium_domain::address::Address;
use angarium_domain::id::NotificationId;
use angarium_domain::outcome::{Failure, FailureClass, Outcome};
use tokio::time::{Instant, timeout};

use super::Phase;
use super::reply::Reply;
use super::session::{Offers, Session};
use super::verdict::{Answer, Judge, is_crowd};
use super::wire::Broken;

/// Commands that are sent before an answer is read; as many replies fit into what a connection holds unread.
const WINDOW: usize = 8;

/// After so many times the limit of one command no more recipients are named: those accepted by then get the
/// message, the others are for another transaction.
const NAMING: u32 = 10;

/// All commands of one transaction together may take so many times the limit of one, and so may its message.
const COMMANDS: u32 = 20;

/// All of a transaction may take so many times the limit of one command, and the last reply besides: RSET, naming
/// everybody twice with a dot in between, the message.
pub(crate) const LONGEST: u32 = 1 + COMMANDS + 2 + COMMANDS + COMMANDS;

/// What is handed over, and to whom.
pub(crate) struct Envelope<'a> {
    pub(crate) id: NotificationId,
    /// Where bounces go; none for the null sender.
    pub(crate) sender: Option<&'a Address>,
    pub(crate) recipients: Vec<&'a Address>,
    /// The message ready to be sent: lines that begin with a dot have one more, and the final dot stands at the end.
    pub(crate) message: &'a [u8],
    /// Bytes of the message as it is.
    pub(crate) size: usize,
    /// The message itself has characters beyond ASCII in its headers.
    pub(crate) utf8_headers: bool,
    /// The relay does not know the parameters that it offers: only what cannot be done without is sent.
    pub(crate) plain: bool,
}

/// The time limits of a channel.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) command: Duration,
    pub(crate) last_reply: Duration,
}

/// What became of one recipient.
#[derive(Debug)]
pub(crate) enum Fate {
    Is(Outcome),
    /// Another transaction is for this one, and without optional parameters if so told.
    Later {
        plain: bool,
    },
}

/// How a transaction ended.
pub(crate) enum Ended {
    /// The fate of each recipient, in order. The session can serve again if it says so.
    Done { fates: Vec<Fate>, reusable: bool },
    /// This session had served before and is used up; nothing of the message left.
    Stale,
    /// The relay has enough sessions for now, and this is one too many; nothing of the message left.
    Crowded(Failure),
}

/// The replies to the commands of an envelope, as far as they came.
#[derive(Default)]
struct Replies {
    mail: Option<Reply>,
    recipients: Vec<Option<Reply>>,
    data: Option<Reply>,
    broken: Option<Broken>,
    /// Whether something stood behind the recipients' addresses.
    with_parameters: bool,
}

impl Session {
    /// Hands over a message.
    pub(crate) async fn hand_over(
        &mut self,
        envelope: &Envelope<'_>,
        limits: Limits,
        judge: &Judge<'_>,
    ) -> Ended {
        // What was said unasked would be taken for the answer to the next command, and the next mail's for this one's.
        let quiet = self.wire.is_quiet().await;
        if self.reused && !quiet {
            return Ended::Stale;
        }
        let judge = &Judge { mask: self.wire.hidden(), ..*judge };
        if !quiet {
            let failure = judge.broken(Phase::Hello, &Broken::Protocol);
            let fate = |_| Fate::Is(Outcome::Failed(failure.clone()));
            return Ended::Done { fates: envelope.recipients.iter().map(fate).collect(), reusable: false };
        }
        if self.dirty {
            match self.wire.ask("RSET", limits.command).await {
                Ok(reply) if reply.is_positive() => self.dirty = false,
                _ => return Ended::Stale,
            }
        }
        let parameters = Parameters::of(envelope, &self.offers);
        let mut replies = self.introduce(envelope, &parameters, limits).await;
        let refused_parameters =
            replies.mail.as_ref().is_some_and(|reply| matches!(reply.code, 501 | 504 | 555));
        if refused_parameters && replies.broken.is_none() && parameters.are_optional() {
            // Some want a message even so; they get nothing but the dot.
            let waits = replies.data.as_ref().is_some_and(|reply| reply.code == 354);
            if waits && !self.finish(envelope, false, limits, judge).await.1 {
                replies = Replies::none(envelope.recipients.len());
                replies.broken = Some(Broken::Closed);
            } else {
                replies = self.introduce(envelope, &Parameters::needed(envelope), limits).await;
            }
        }
        // Some relays count mails, and have one code for that and for trouble or refusal: a fresh session tells.
        if self.reused && (replies.session_ended() || replies.refusal().is_some()) {
            return Ended::Stale;
        }
        if let Some(refused) = replies.refusal() {
            let failure = judge.refused(Phase::Mail, refused);
            if is_crowd(&failure) {
                return Ended::Crowded(failure);
            }
        }
        let fates = introduced(&replies, envelope, judge);
        let ready = replies.data.as_ref().is_some_and(|reply| reply.code == 354);
        let (outcome, reusable) = if ready && !replies.session_ended() {
            let anybody = fates.iter().any(Option::is_none);
            self.finish(envelope, anybody, limits, judge).await
        } else {
            self.dirty = true;
            (Outcome::Failed(not_ready(&replies, judge)), !replies.session_ended())
        };
        let fates = fates.into_iter().map(|fate| fate.unwrap_or_else(|| Fate::Is(outcome.clone())));
        Ended::Done { fates: fates.collect(), reusable }
    }

    /// Sends the commands up to DATA and reads their replies.
    async fn introduce(
        &mut self,
        envelope: &Envelope<'_>,
        parameters: &Parameters,
        limits: Limits,
    ) -> Replies {
        let sender = envelope.sender.map_or("", Address::as_str);
        let mut commands = vec![format!("MAIL FROM:<{sender}>{}\r\n", parameters.mail)];
        for recipient in &envelope.recipients {
            commands.push(format!("RCPT TO:<{recipient}>{}\r\n", parameters.recipient(recipient)));
        }
        commands.push("DATA\r\n".to_owned());
        let window = if self.offers.pipelining { WINDOW } else { 1 };
        let mut replies =
            Replies { with_parameters: parameters.dsn, ..Replies::none(envelope.recipients.len()) };
        let begun = Instant::now();
        let mut named = 0;
        while !replies.is_over() {
            let in_time = begun.elapsed() <= limits.command * NAMING;
            let Some(next) = next_commands(named, commands.len(), window, replies.has_recipients(), in_time)
            else {
                break;
            };
            named = next.end;
            let group = commands.get(next.clone()).unwrap_or_default().concat();
            if let Err(broken) = self.exchange(&group, next, begun, limits, &mut replies).await {
                replies.broken = Some(broken);
            }
        }
        replies
    }

    /// Sends commands together and reads the answer to each.
    async fn exchange(
        &mut self,
        commands: &str,
        places: Range<usize>,
        begun: Instant,
        limits: Limits,
        replies: &mut Replies,
    ) -> Result<(), Broken> {
        let deadline = begun + limits.command * COMMANDS;
        let limit = || limits.command.min(deadline.saturating_duration_since(Instant::now()));
        self.wire.say(commands, limit()).await?;
        for place in places {
            replies.note(place, self.wire.hear(limit()).await?);
        }
        Ok(())
    }

    /// The message and the answer to it. If nobody was accepted and the relay waits all the same, it gets nothing
    /// but the dot.
    async fn finish(
        &mut self,
        envelope: &Envelope<'_>,
        anybody: bool,
        limits: Limits,
        judge: &Judge<'_>,
    ) -> (Outcome, bool) {
        if !self.wire.is_quiet().await {
            return (Outcome::Failed(judge.broken(Phase::Data, &Broken::Protocol)), false);
        }
        let (message, patience) = match anybody {
            true => (envelope.message, limits.last_reply),
            false => (&b".\r\n"[..], limits.command),
        };
        let handed_over = self.wire.say_message(message, limits.command);
        let handed_over = timeout(limits.command * COMMANDS, handed_over).await;
        if let Err(broken) = handed_over.unwrap_or(Err(Broken::Timeout)) {
            // The final dot did not leave. The relay may have said why before it closed.
            let failure = match self.wire.hear(Duration::from_secs(1)).await {
                Ok(reply) if matches!(reply.code, 400..=599) => judge.refused(Phase::Data, &reply),
                _ => judge.broken(Phase::Data, &broken),
            };
            return (Outcome::Failed(failure), false);
        }
        match self.wire.hear(patience).await {
            Ok(reply) if reply.is_positive() => (Outcome::Delivered(judge.receipt(&reply)), true),
            Ok(reply) if matches!(reply.code, 400..=599) => {
                (Outcome::Failed(judge.refused(Phase::Final, &reply)), !reply.is_closing())
            }
            // What is neither yes nor no leaves the doubt that it is.
            Ok(_) => (Outcome::Failed(judge.broken(Phase::Final, &Broken::Protocol)), false),
            Err(broken) => (Outcome::Failed(judge.broken(Phase::Final, &broken)), false),
        }
    }
}

/// The commands that are sent next, by their places: the first is MAIL, the last DATA. None when all are sent, or when
/// DATA is all that is left and nobody is there to have the message.
fn next_commands(
    sent: usize,
    commands: usize,
    window: usize,
    anybody: bool,
    in_time: bool,
) -> Option<Range<usize>> {
    let data = commands.checked_sub(1)?;
    let next = if anybody && !in_time { data.max(sent) } else { sent };
    let nobody = next == data && !anybody;
    (next < commands && !nobody).then(|| next..commands.min(next + window))
}

impl Replies {
    fn none(recipients: usize) -> Self {
        Replies { recipients: vec![None; recipients], ..Replies::default() }
    }

    fn note(&mut self, place: usize, reply: Reply) {
        let recipients = self.recipients.len();
        match place {
            0 => self.mail = Some(reply),
            place if place <= recipients => {
                if let Some(slot) = self.recipients.get_mut(place - 1) {
                    *slot = Some(reply);
                }
            }
            _ => self.data = Some(reply),
        }
    }

    fn has_recipients(&self) -> bool {
        self.recipients.iter().flatten().any(Reply::is_positive)
    }

    /// The connection broke, or the relay closes it.
    fn session_ended(&self) -> bool {
        let mut all = self.recipients.iter().chain([&self.mail, &self.data]).flatten();
        self.broken.is_some() || all.any(Reply::is_closing)
    }

    /// The reply to MAIL, if it refuses.
    fn refusal(&self) -> Option<&Reply> {
        self.mail.as_ref().filter(|reply| !reply.is_positive())
    }

    /// Nothing more needs to be asked: the sender was refused, or the relay is closing.
    fn is_over(&self) -> bool {
        self.session_ended() || self.refusal().is_some()
    }
}

/// The fate of each recipient so far; none for those that were accepted.
fn introduced(replies: &Replies, envelope: &Envelope<'_>, judge: &Judge<'_>) -> Vec<Option<Fate>> {
    let failed = |failure: Failure| Some(Fate::Is(Outcome::Failed(failure)));
    if let Some(mail) = replies.refusal() {
        let failure = judge.refused(Phase::Mail, mail);
        return envelope.recipients.iter().map(|_| failed(failure.clone())).collect();
    }
    let anybody = replies.has_recipients();
    let judged = |reply: &Reply| judge.of_recipient(reply, replies.with_parameters);
    let said: Vec<Option<Answer>> =
        replies.recipients.iter().map(|reply| reply.as_ref().map(judged)).collect();
    let unknown_here = !anybody && is_unknown_to_the_relay(&said, envelope);
    // Those who were not named for lack of time.
    let left_out = anybody && replies.data.is_some();
    said.into_iter()
        .map(|answer| match answer {
            Some(Answer::Accepted) => None,
            Some(Answer::UnknownParameters) => Some(Fate::Later { plain: true }),
            Some(Answer::TooMany(_)) if anybody => Some(Fate::Later { plain: envelope.plain }),
            None if left_out => Some(Fate::Later { plain: envelope.plain }),
            Some(Answer::NoRelaying(failure)) if unknown_here => {
                failed(Failure { class: FailureClass::PermanentConfig, ..failure })
            }
            Some(Answer::NoRelaying(failure) | Answer::Refused(failure) | Answer::TooMany(failure)) => {
                failed(failure)
            }
            None => failed(not_ready(replies, judge)),
        })
        .collect()
}

/// Whether the relay relays for us to nobody at all, as far as this transaction shows: it refused several domains.
/// One alone says nothing about the channel.
fn is_unknown_to_the_relay(said: &[Option<Answer>], envelope: &Envelope<'_>) -> bool {
    let mut domains: Vec<&str> = envelope.recipients.iter().map(|address| address.receiver()).collect();
    domains.sort_unstable();
    domains.dedup();
    domains.len() > 1 && said.iter().all(|answer| matches!(answer, Some(Answer::NoRelaying(_))))
}

/// Why a message was not handed over to those who would have had it.
fn not_ready(replies: &Replies, judge: &Judge<'_>) -> Failure {
    let phase = match (&replies.mail, replies.recipients.iter().all(Option::is_some)) {
        (None, _) => Phase::Mail,
        (Some(_), false) => Phase::Rcpt,
        (Some(_), true) => Phase::Data,
    };
    if let Some(reply) = replies.recipients.iter().flatten().find(|reply| reply.is_closing()) {
        return Failure { class: FailureClass::Transient, ..judge.refused(Phase::Rcpt, reply) };
    }
    match (&replies.data, &replies.broken) {
        (Some(reply), _) => judge.refused(Phase::Data, reply),
        (None, Some(broken)) => judge.broken(phase, broken),
        (None, None) => judge.broken(phase, &Broken::Protocol),
    }
}

/// What stands behind the addresses in MAIL and RCPT.
struct Parameters {
    mail: String,
    dsn: bool,
    needed: bool,
}

impl Parameters {
    /// Everything useful that the relay offers.
    fn of(envelope: &Envelope<'_>, offers: &Offers) -> Self {
        let needed = Parameters::needed(envelope);
        if envelope.plain {
            return needed;
        }
        let mut mail = needed.mail;
        if offers.size.is_some() {
            mail.push_str(&format!(" SIZE={}", envelope.size));
        }
        let dsn = offers.dsn && envelope.sender.is_some();
        if dsn {
            mail.push_str(&format!(" RET=HDRS ENVID={}", envelope.id));
        }
        Parameters { mail, dsn, needed: false }
    }

    /// What the message cannot do without.
    fn needed(envelope: &Envelope<'_>) -> Self {
        let international = |address: &&Address| !address.as_str().is_ascii();
        let utf8 = envelope.utf8_headers
            || envelope.recipients.iter().any(international)
            || envelope.sender.is_some_and(|sender| international(&sender));
        let mail = match (utf8, envelope.utf8_headers) {
            (true, true) => " BODY=8BITMIME SMTPUTF8",
            (true, false) => " SMTPUTF8",
            (false, _) => "",
        };
        Parameters { mail: mail.to_owned(), dsn: false, needed: true }
    }

    fn are_optional(&self) -> bool {
        !self.needed && (self.dsn || self.mail.contains(" SIZE="))
    }

    fn recipient(&self, address: &Address) -> String {
        match (self.dsn, address.as_str().is_ascii()) {
            (false, _) => String::new(),
            (true, true) => format!(" NOTIFY=FAILURE,DELAY ORCPT=rfc822;{}", xtext(address.as_str())),
            (true, false) => " NOTIFY=FAILURE,DELAY".to_owned(),
        }
    }
}

/// Text as it stands in a parameter (RFC 3461, 4).
fn xtext(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'!'..=b'~' if !matches!(byte, b'+' | b'=') => char::from(byte).to_string(),
        _ => format!("+{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// The message as it goes over the wire: a dot more before a dot that begins a line, and the final dot.
pub(crate) fn dot_stuffed(message: &[u8]) -> Vec<u8> {
    let mut stuffed = Vec::with_capacity(message.len() + message.len() / 64 + 5);
    for line in message.split_inclusive(|&byte| byte == b'\n') {
        if line.first() == Some(&b'.') {
            stuffed.push(b'.');
        }
        stuffed.extend_from_slice(line);
    }
    if !stuffed.ends_with(b"\r\n") {
        stuffed.extend_from_slice(b"\r\n");
    }
    stuffed.extend_from_slice(b".\r\n");
    stuffed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_at_the_start_of_a_line_is_doubled() {
        assert_eq!(dot_stuffed(b".a\r\n..\r\nb.\r\n"), b"..a\r\n...\r\nb.\r\n.\r\n");
        assert_eq!(dot_stuffed(b"a"), b"a\r\n.\r\n");
        assert_eq!(dot_stuffed(b""), b"\r\n.\r\n");
    }

    /// MAIL, four recipients, DATA: as many at once as fit, DATA only for somebody, and those who cannot be named in
    /// time left out.
    #[test]
    fn what_is_sent_next() {
        let next = |sent, window, anybody, in_time| next_commands(sent, 6, window, anybody, in_time);
        assert_eq!(next(0, 32, false, true), Some(0..6));
        assert_eq!(next(0, 1, false, true), Some(0..1));
        assert_eq!(next(3, 2, true, true), Some(3..5));
        assert_eq!(next(5, 2, true, true), Some(5..6));
        assert_eq!(next(5, 2, false, true), None, "nobody was accepted");
        assert_eq!(next(2, 2, true, false), Some(5..6), "no time for the others");
        assert_eq!(next(2, 2, false, false), Some(2..4), "nobody yet: go on");
        assert_eq!(next(6, 2, true, true), None);
        assert_eq!(next(6, 2, true, false), None);
    }

    #[test]
    fn xtext_of_an_address() {
        assert_eq!(xtext("a+b=c@example.com"), "a+2Bb+3Dc@example.com");
        assert_eq!(xtext("é "), "+C3+A9+20");
    }
}
