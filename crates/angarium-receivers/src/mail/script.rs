//! What the server answers when it does not answer as usual.

use std::collections::{HashMap, VecDeque};

use crate::gate::Gate;

/// A point of a session at which the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The first line of a session; with implicit TLS, after the handshake.
    Greeting,
    /// The answer to `EHLO` or `HELO`.
    Ehlo,
    /// The answer to `STARTTLS`; one that begins with 220 is followed by the handshake.
    StartTls,
    /// Every answer within an AUTH exchange, one step each: one that begins with 334 makes the server read a
    /// further line, one that begins with 2 logs the client in.
    Auth,
    /// The answer to `MAIL`.
    Mail,
    /// The answer to `RCPT`, of any address.
    Rcpt,
    /// The answer to `DATA`; one that begins with 354 is followed by the mail.
    Data,
    /// The answer to the dot at the end of the mail.
    Final,
    /// The answer to `RSET`.
    Rset,
    /// The answer to `NOOP`.
    Noop,
    /// The answer to `QUIT`; the connection is closed after it.
    Quit,
}

/// One answer, or one of the ways in which servers fail to give one.
///
/// Its first three bytes decide what becomes of the command, exactly as the client reads them: a mail with a 250
/// at the end is taken, one with a 450 is not.
#[derive(Clone, Debug)]
pub struct Reply {
    /// What is sent; `None` stands for the normal answer.
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) pace: Pace,
    pub(super) gate: Option<Gate>,
    pub(super) end: Option<End>,
    pub(super) taking: bool,
}

/// How the bytes of an answer leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// All in one write.
    AtOnce,
    /// Each in a packet of its own.
    Drip,
    /// All in one write, again and again until the client has had enough.
    Forever,
}

/// How the server ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    HangUp,
    Reset,
}

impl Reply {
    /// The answer that there would be without a script.
    pub fn normal() -> Reply {
        Reply { bytes: None, pace: Pace::AtOnce, gate: None, end: None, taking: false }
    }

    /// This line and CRLF. After a 421 the connection is closed, as the standard has it.
    pub fn text(line: &str) -> Reply {
        let end = line.starts_with("421").then_some(End::HangUp);
        Reply { end, ..Reply::raw(format!("{line}\r\n")) }
    }

    /// An answer of several lines under one code, such as 550, the lines given without it.
    pub fn lines<'a>(code: u16, lines: impl IntoIterator<Item = &'a str>) -> Reply {
        Reply::raw(under_code(code, lines) + "\r\n")
    }

    /// Exactly these bytes, with or without line end.
    pub fn raw(bytes: impl AsRef<[u8]>) -> Reply {
        Reply { bytes: Some(bytes.as_ref().to_vec()), ..Reply::normal() }
    }

    /// These bytes again and again until the client has had enough.
    pub fn endless(unit: impl AsRef<[u8]>) -> Reply {
        Reply { pace: Pace::Forever, ..Reply::raw(unit) }
    }

    /// Closes the connection instead of an answer.
    pub fn hang_up() -> Reply {
        Reply::raw("").then_hang_up()
    }

    /// Resets the connection (RST) instead of an answer.
    pub fn reset() -> Reply {
        Reply { end: Some(End::Reset), ..Reply::raw("") }
    }

    /// Closes the connection after the answer.
    pub fn then_hang_up(self) -> Reply {
        Reply { end: Some(End::HangUp), ..self }
    }

    /// Sends the answer byte by byte, each in a packet of its own.
    pub fn drip(self) -> Reply {
        Reply { pace: Pace::Drip, ..self }
    }

    /// Keeps the answer back until `gate` is open.
    pub fn gate(self, gate: &Gate) -> Reply {
        Reply { gate: Some(gate.clone()), ..self }
    }

    /// At [`Phase::Final`]: the mail is taken, whatever the answer says and whether or not there is one.
    pub fn taking(self) -> Reply {
        Reply { taking: true, ..self }
    }

    /// The code that the client reads at the start of the answer; 0 when there is none.
    pub(super) fn code(&self, normal: &str) -> u16 {
        let bytes = self.bytes.as_deref().unwrap_or(normal.as_bytes());
        let digits = bytes.get(..3).and_then(|digits| str::from_utf8(digits).ok());
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }
}

/// The lines of an answer, all but the last with a hyphen after the code; without the CRLF at the end.
pub(super) fn under_code<'a>(code: u16, lines: impl IntoIterator<Item = &'a str>) -> String {
    let lines: Vec<&str> = lines.into_iter().collect();
    let marked = lines.iter().enumerate().map(|(position, line)| {
        let mark = if position + 1 < lines.len() { '-' } else { ' ' };
        format!("{code}{mark}{line}")
    });
    marked.collect::<Vec<String>>().join("\r\n")
}

/// The answers that are to come.
#[derive(Debug, Default)]
pub(super) struct Script {
    steps: HashMap<Phase, VecDeque<Reply>>,
    rcpt_steps: HashMap<String, VecDeque<Reply>>,
    rcpt_refusals: HashMap<String, String>,
    rcpt_limit: Option<(usize, String)>,
}

impl Script {
    pub(super) fn set(&mut self, phase: Phase, steps: VecDeque<Reply>) {
        self.steps.insert(phase, steps);
    }

    pub(super) fn set_rcpt(&mut self, address: &str, steps: VecDeque<Reply>) {
        self.rcpt_steps.insert(address.to_owned(), steps);
    }

    pub(super) fn refuse_rcpt(&mut self, address: &str, text: &str) {
        self.rcpt_refusals.insert(address.to_owned(), text.to_owned());
    }

    pub(super) fn limit_rcpt(&mut self, count: usize, text: &str) {
        self.rcpt_limit = Some((count, text.to_owned()));
    }

    pub(super) fn next(&mut self, phase: Phase) -> Reply {
        self.steps.get_mut(&phase).and_then(VecDeque::pop_front).unwrap_or_else(Reply::normal)
    }

    /// The answer to `RCPT` of `address` when the transaction has `accepted` recipients already. What is said of
    /// this address goes before what is said of all, and a script before what holds for ever.
    pub(super) fn next_rcpt(&mut self, address: &str, accepted: usize) -> Reply {
        let step = self.rcpt_steps.get_mut(address).and_then(VecDeque::pop_front);
        let step = step.or_else(|| self.steps.get_mut(&Phase::Rcpt).and_then(VecDeque::pop_front));
        if let Some(step) = step {
            return step;
        }
        let over = self.rcpt_limit.as_ref().filter(|(count, _)| accepted >= *count).map(|(_, text)| text);
        match self.rcpt_refusals.get(address).or(over) {
            Some(text) => Reply::text(text),
            None => Reply::normal(),
        }
    }
}
