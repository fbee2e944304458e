//! Lines of a file in chunks, each line with its number.

use std::io::{BufRead, BufReader, Read};

/// Lines of one request, at most. A server takes more; so few that progress is seen and little is unknown when it ends.
const CHUNK_LINES: u64 = 2000;
/// Bytes of one request, at most, and one line more.
const CHUNK_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of one line, at most.
pub(super) const LINE_BYTES: usize = 1024 * 1024;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// More lines.
    Lines(Chunk),
    /// No more lines.
    End,
    /// The file cannot be read any further, and why.
    Fault(String),
    /// Whoever waits is asked to end.
    Interrupted,
}

/// Lines that are sent together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    /// The lines that hold something, each with its end.
    pub(super) lines: Vec<u8>,
    /// Their numbers in the file, from 1.
    pub(super) numbers: Vec<u64>,
    /// The numbers of lines that are left out because they are too long.
    pub(super) too_long: Vec<u64>,
    /// The number of the last line that was looked at, empty ones among them.
    pub(super) last: u64,
    /// Bytes of the file up to there.
    pub(super) read: u64,
}

/// Reads to the end, and hands each chunk on as long as that is wanted.
pub(super) fn read(reader: impl Read, hand_on: &mut dyn FnMut(Next) -> bool) {
    let mut reader = BufReader::with_capacity(64 * 1024, reader);
    let mut chunk = Chunk::default();
    let mut sent = 0;
    loop {
        let more = match read_line(&mut reader, &mut chunk) {
            Ok(more) => more,
            Err(error) => {
                let _ = hand_on(Next::Lines(chunk)) && hand_on(Next::Fault(error.to_string()));
                return;
            }
        };
        let full = chunk.last - sent >= CHUNK_LINES || chunk.lines.len() >= CHUNK_BYTES;
        if full || !more {
            sent = chunk.last;
            let begun = Chunk { last: chunk.last, read: chunk.read, ..Chunk::default() };
            let wanted = hand_on(Next::Lines(std::mem::replace(&mut chunk, begun)));
            if !wanted || !more {
                break;
            }
        }
    }
    // Whoever no longer waits needs no end.
    let _ = hand_on(Next::End);
}

/// Reads one line into the chunk; false at the end of the file.
fn read_line(reader: &mut impl BufRead, chunk: &mut Chunk) -> std::io::Result<bool> {
    let start = chunk.lines.len();
    let most = LINE_BYTES as u64 + 1;
    let length = reader.by_ref().take(most).read_until(b'\n', &mut chunk.lines)?;
    if length == 0 {
        return Ok(false);
    }
    chunk.last += 1;
    chunk.read += length as u64;
    let line = chunk.lines.get(start..).unwrap_or_default();
    if line.ends_with(b"\n") || length <= LINE_BYTES {
        if line.trim_ascii().is_empty() {
            chunk.lines.truncate(start);
        } else {
            if !line.ends_with(b"\n") {
                chunk.lines.push(b'\n');
            }
            chunk.numbers.push(chunk.last);
        }
    } else {
        chunk.lines.truncate(start);
        chunk.too_long.push(chunk.last);
        chunk.read += reader.skip_until(b'\n')? as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(text: &[u8]) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        let mut ended = false;
        read(text, &mut |next| {
            match next {
                Next::Lines(chunk) => chunks.push(chunk),
                Next::End => ended = true,
                other => panic!("{other:?}"),
            }
            true
        });
        assert!(ended);
        chunks
    }

    #[test]
    fn lines_keep_their_numbers() {
        let text = b"{\"a\":1}\n\n \t\r\n{\"b\":2}\r\n\xff\n{\"c\":3}";
        let [chunk] = &chunks(text)[..] else { panic!("one chunk") };
        assert_eq!(chunk.lines, b"{\"a\":1}\n{\"b\":2}\r\n\xff\n{\"c\":3}\n");
        assert_eq!(chunk.numbers, [1, 4, 5, 6]);
        assert_eq!((chunk.last, chunk.read), (6, text.len() as u64));
    }

    #[test]
    fn a_line_has_a_bound() {
        let fits = [&vec![b'x'; LINE_BYTES - 1][..], b"\n"].concat();
        let whole = vec![b'x'; LINE_BYTES];
        let over = [&vec![b'x'; LINE_BYTES * 3][..], b"\n"].concat();
        let text = [&fits[..], &over, b"{}\n", &whole].concat();
        let [chunk] = &chunks(&text)[..] else { panic!("one chunk") };
        assert_eq!((&chunk.numbers[..], &chunk.too_long[..]), (&[1, 3, 4][..], &[2][..]));
        assert_eq!((chunk.last, chunk.read), (4, text.len() as u64));
        assert_eq!(chunk.lines, [&fits[..], b"{}\n", &whole, b"\n"].concat());
    }

    #[test]
    fn a_chunk_has_a_bound_in_lines_and_in_bytes() {
        let many = b"{}\n".repeat(4001);
        let sizes: Vec<usize> = chunks(&many).iter().map(|chunk| chunk.numbers.len()).collect();
        assert_eq!(sizes, [2000, 2000, 1]);
        assert_eq!(chunks(&many)[1].numbers[0], CHUNK_LINES + 1);
        let empty = chunks(&b"\n".repeat(4000));
        assert!(empty.len() >= 2 && empty.iter().all(|chunk| chunk.numbers.is_empty()), "they count too");

        let large = [&vec![b'x'; LINE_BYTES - 1][..], b"\n"].concat().repeat(20);
        let bytes: Vec<usize> = chunks(&large).iter().map(|chunk| chunk.lines.len()).collect();
        assert!(bytes.iter().all(|bytes| *bytes < CHUNK_BYTES + LINE_BYTES), "{bytes:?}");
        assert_eq!(bytes.iter().sum::<usize>(), large.len());
    }

    #[test]
    fn nobody_reads_what_is_not_wanted() {
        let mut handed = 0;
        read(std::io::repeat(b'\n'), &mut |_| {
            handed += 1;
            false
        });
        assert!(handed <= 2, "it ends: {handed}");
    }

    #[test]
    fn what_cannot_be_read_is_told_after_what_could() {
        struct Broken;

        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("broken"))
            }
        }

        let mut told = Vec::new();
        read((&b"{}\n"[..]).chain(Broken), &mut |next| {
            told.push(next);
            true
        });
        assert_eq!(told.len(), 2);
        assert!(matches!(&told[0], Next::Lines(chunk) if chunk.numbers == [1]));
        assert_eq!(told[1], Next::Fault("broken".into()));
    }
}
