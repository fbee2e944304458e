//! A mail on its way in, between the 354 and the final dot.

use super::journal::Room;

/// The most octets in a line of text, without its CRLF (RFC 5321, 4.5.3.1.6).
pub(super) const LINE_LIMIT: usize = 998;

/// What has come of a mail. Dropped before its end, it gives its room in the journal back.
pub(super) struct Body<'a> {
    /// Why the mail cannot be taken. It is read to its end all the same, but no longer kept.
    pub(super) given_up: Option<&'static str>,
    /// Octets without CRLF and without the dot that was stuffed in.
    pub(super) longest_line: usize,
    pub(super) bare_line_ends: bool,
    pub(super) eight_bit: bool,
    raw: Vec<u8>,
    limit: usize,
    room: &'a Room,
    /// Whether the last octets were CRLF; only then can a dot be the final one.
    at_line_start: bool,
    line: usize,
}

impl Body<'_> {
    /// An empty one that takes `limit` octets, and no more than there is room for.
    pub(super) fn new(limit: usize, room: &Room) -> Body<'_> {
        Body {
            given_up: None,
            longest_line: 0,
            bare_line_ends: false,
            eight_bit: false,
            raw: Vec::new(),
            limit,
            room,
            at_line_start: true,
            line: 0,
        }
    }

    /// Takes the octets up to the next LF, or fewer, but never with a CR at the end that may yet become a CRLF.
    /// True at the final dot.
    pub(super) fn take(&mut self, chunk: &[u8]) -> bool {
        if self.at_line_start && chunk == b".\r\n" {
            return true;
        }
        let stuffed = self.at_line_start && chunk.starts_with(b".");
        let line = chunk.strip_suffix(b"\r\n");
        self.at_line_start = line.is_some();

        let content = line.unwrap_or(chunk);
        self.bare_line_ends |= content.iter().any(|octet| matches!(octet, b'\r' | b'\n'));
        self.eight_bit |= !content.is_ascii();
        self.line += content.len() - usize::from(stuffed);
        self.longest_line = self.longest_line.max(self.line);
        if self.at_line_start {
            self.line = 0;
        }
        self.keep(chunk);
        false
    }

    /// The mail as on the wire, without the final dot; its room in the journal goes with it.
    pub(super) fn into_raw(mut self) -> Vec<u8> {
        std::mem::take(&mut self.raw)
    }

    fn keep(&mut self, chunk: &[u8]) {
        if self.given_up.is_some() {
            return;
        }
        if self.raw.len() + chunk.len() > self.limit {
            self.give_up("552 5.3.4 Message too big");
        } else if !self.room.take(chunk.len()) {
            self.give_up("452 4.3.1 The journal is full");
        } else {
            self.raw.extend_from_slice(chunk);
        }
    }

    fn give_up(&mut self, refusal: &'static str) {
        self.given_up = Some(refusal);
        self.room.give_back(self.raw.len());
        self.raw = Vec::new();
    }
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        self.room.give_back(self.raw.len());
    }
}

/// The mail that `raw` stands for: the dots stuffed in at the start of lines are gone.
pub(super) fn unstuffed(raw: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(raw.len());
    let mut at_line_start = true;
    for chunk in raw.split_inclusive(|octet| *octet == b'\n') {
        let stuffed = at_line_start && chunk.starts_with(b".");
        data.extend_from_slice(&chunk[usize::from(stuffed)..]);
        at_line_start = chunk.ends_with(b"\r\n");
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body that was given these chunks, none of which ends it.
    fn fed<'a>(limit: usize, room: &'a Room, chunks: &[&[u8]]) -> Body<'a> {
        let mut body = Body::new(limit, room);
        for chunk in chunks {
            assert!(!body.take(chunk), "{}", String::from_utf8_lossy(chunk));
        }
        body
    }

    #[test]
    fn only_a_lone_dot_between_two_crlf_ends_it() {
        let room = Room::of(100);
        assert!(fed(100, &room, &[]).take(b".\r\n"));
        assert!(fed(100, &room, &[b"a\r\n"]).take(b".\r\n"));
        for before in [b"a\n".as_slice(), b"a\r\r", b"a"] {
            assert!(!fed(100, &room, &[before]).take(b".\r\n"));
        }
        for chunk in [b".\n".as_slice(), b"..\r\n", b".\r\r\n"] {
            assert!(!fed(100, &room, &[b"a\r\n"]).take(chunk));
        }
    }

    #[test]
    fn sees_bare_line_ends_and_eight_bit_octets() {
        let room = Room::of(100);
        for (chunk, bare, eight_bit) in [
            (b"a\r\n".as_slice(), false, false),
            (b"a\n", true, false),
            (b"a\rb\r\n", true, false),
            (b"a\r\r\n", true, false),
            (b"\xe9\r\n", false, true),
        ] {
            let body = fed(100, &room, &[chunk]);
            assert_eq!((body.bare_line_ends, body.eight_bit), (bare, eight_bit), "{chunk:?}");
        }
    }

    #[test]
    fn measures_lines_across_chunks_and_without_the_stuffed_dot() {
        let room = Room::of(5000);
        let body = fed(5000, &room, &[b"abc\r\n", &[b'x'; 2000], b"yz\r\n", b"..\r\n"]);
        assert_eq!(body.longest_line, 2002);
        assert_eq!(fed(5000, &room, &[b".....\r\n"]).longest_line, 4);
    }

    #[test]
    fn gives_up_beyond_its_limit_or_the_room_and_then_holds_nothing() {
        let room = Room::of(10);
        let exact = fed(8, &room, &[b"123456\r\n"]);
        assert_eq!(exact.given_up, None);
        let mut squeezed = fed(8, &room, &[b"\r\n"]);
        squeezed.take(b"a\r\n");
        assert_eq!(squeezed.given_up, Some("452 4.3.1 The journal is full"));
        drop(exact);
        let long = fed(8, &room, &[b"123456\r\n", b"\r\n", b"a\r\n"]);
        assert_eq!(long.given_up, Some("552 5.3.4 Message too big"));
        let kept = fed(8, &room, &[b"123456\r\n"]).into_raw();
        assert_eq!(kept, b"123456\r\n");
        assert!(room.take(2) && !room.take(1));
    }

    #[test]
    fn unstuffs_one_dot_at_the_start_of_each_line() {
        for (raw, data) in [
            ("", ""),
            ("..\r\n", ".\r\n"),
            ("...a\r\n..b.\r\n.c\r\n", "..a\r\n.b.\r\nc\r\n"),
            ("a\n..b\r\n", "a\n..b\r\n"),
        ] {
            assert_eq!(unstuffed(raw.as_bytes()), data.as_bytes(), "{raw}");
        }
    }
}
