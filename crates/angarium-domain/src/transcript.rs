//! The conversation of one delivery, for whoever tests a channel and wants to see what was said. What is written
//! down here has had its secrets masked by the adapter that wrote it.

use crate::text::is_invisible;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Turns that are kept; what is said after that is left out.
const TURNS: usize = 2000;

/// Bytes of one turn that are kept.
const TURN_BYTES: usize = 4096;

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// This server.
    Us,
    /// The other side.
    Them,
    /// Nobody: a remark on what happened, such as that TLS was begun.
    Remark,
}

/// One thing that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// By whom.
    pub speaker: Speaker,
    /// One line, without its line end.
    pub text: String,
}

/// What was said so far, in order. To be shared between whoever speaks and whoever reads.
#[derive(Debug, Default)]
pub struct Transcript(Mutex<Vec<Turn>>);

impl Transcript {
    /// Writes down `text`, a turn for each of its lines. Control characters, and those that are invisible or turn the
    /// direction of what follows, show as U+FFFD.
    pub fn note(&self, speaker: Speaker, text: &str) {
        let mut turns = self.lock();
        for line in text.lines() {
            if turns.len() == TURNS {
                turns.push(Turn { speaker: Speaker::Remark, text: "the rest is left out".to_owned() });
            }
            if turns.len() > TURNS {
                return;
            }
            let kept = line.get(..line.floor_char_boundary(TURN_BYTES)).unwrap_or(line);
            let harmful = |c: char| c != '\t' && (c.is_control() || is_invisible(c));
            let clean = |c| if harmful(c) { char::REPLACEMENT_CHARACTER } else { c };
            turns.push(Turn { speaker, text: kept.chars().map(clean).collect() });
        }
    }

    /// What was said.
    pub fn turns(&self) -> Vec<Turn> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Turn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_is_clean_and_bounded() {
        let transcript = Transcript::default();
        transcript.note(Speaker::Them, "250-a\r\n250 b\x1b[2J\u{202E}");
        let turns = transcript.turns();
        assert_eq!(turns[0], Turn { speaker: Speaker::Them, text: "250-a".into() });
        assert_eq!(turns[1].text, "250 b\u{FFFD}[2J\u{FFFD}");
        transcript.note(Speaker::Us, &"é\n".repeat(10_000));
        transcript.note(Speaker::Us, &"é".repeat(10_000));
        assert_eq!(transcript.turns().len(), TURNS + 1);
        assert_eq!(transcript.turns().last().unwrap().text, "the rest is left out");
    }
}
