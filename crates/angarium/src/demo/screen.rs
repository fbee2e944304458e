//! Stdout, as a place for lines and for one picture that changes: redrawn where it stands on a terminal, one
//! line for each change anywhere else.
//!
//! When nobody reads any more, what is still written is dropped without a word; that a disk is full is told at
//! the end. Deliberately absent: colours,
//! and any look at how large the terminal is; a line that is too long for it is cut by the terminal itself.

use std::io::{self, IsTerminal, Write};

use super::picture::{self, Snapshot};

/// Lines for changes of the picture, where it cannot be redrawn.
const MOST_CHANGES: usize = 100;

/// Where everything is shown.
pub(super) struct Screen {
    to: Box<dyn Write>,
    in_place: bool,
    closed: bool,
    fault: Option<io::Error>,
    /// The lines of the picture at the end of what is shown.
    drawn: usize,
    /// The picture in one line, as it was shown last.
    last: String,
    changes: usize,
}

impl Screen {
    /// Stdout; the picture is redrawn if that is a terminal that can move its cursor.
    pub(super) fn stdout() -> Screen {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let in_place = io::stdout().is_terminal() && !dumb;
        Screen::to(Box::new(io::stdout()), in_place)
    }

    pub(super) fn to(to: Box<dyn Write>, in_place: bool) -> Screen {
        Screen { to, in_place, closed: false, fault: None, drawn: 0, last: String::new(), changes: 0 }
    }

    /// Writes lines below everything else.
    pub(super) fn lines(&mut self, lines: &[String]) {
        for line in lines {
            self.line(line);
        }
    }

    /// Writes a line below everything else.
    pub(super) fn line(&mut self, line: &str) {
        self.drawn = 0;
        self.write(&format!("{line}\n"));
    }

    /// Shows how things stand, in place of the picture before if nothing was written since.
    pub(super) fn show(&mut self, now: &Snapshot) {
        if self.in_place {
            let lines = picture::lines(now);
            let text = redrawn(self.drawn, &lines);
            self.write(&text);
            self.drawn = lines.len();
            return;
        }
        let line = picture::line(now);
        if line.is_empty() || line == self.last || self.changes > MOST_CHANGES {
            return;
        }
        self.changes += 1;
        let shown = if self.changes > MOST_CHANGES { "  and so on" } else { &line };
        self.write(&format!("{shown}\n"));
        self.last = line;
    }

    /// Whether nothing that is still written will be read.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether everything was written that somebody wanted to read.
    pub(super) fn finish(self) -> io::Result<()> {
        self.fault.map_or(Ok(()), Err)
    }

    fn write(&mut self, text: &str) {
        if !self.closed {
            let written = self.to.write_all(text.as_bytes()).and_then(|()| self.to.flush());
            self.closed = written.is_err();
            self.fault = written.err().filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        }
    }
}

/// What moves the cursor up over `before` lines and writes `lines` there. Lines are not wrapped meanwhile,
/// so that each takes one line of the terminal however narrow it is.
fn redrawn(before: usize, lines: &[String]) -> String {
    let mut text = String::from("\x1b[?7l");
    if before > 0 {
        text.push_str(&format!("\x1b[{before}A\r"));
    }
    for line in lines {
        text.push_str(line);
        text.push_str("\x1b[K\n");
    }
    text.push_str("\x1b[?7h");
    text
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::demo::picture::tests::snapshot;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Captured {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn with(delivered: usize) -> Snapshot {
        snapshot(&[[0, 0, delivered, 0, 0]])
    }

    #[test]
    fn a_terminal_shows_one_picture_in_its_place() {
        let captured = Captured::default();
        let mut screen = Screen::to(Box::new(captured.clone()), true);
        screen.show(&with(1));
        assert!(!captured.text().contains('A'), "nothing to move over yet");
        screen.show(&with(2));
        assert_eq!(captured.text().matches("\x1b[3A\r").count(), 1);
        screen.line("below");
        screen.show(&with(3));
        assert_eq!(captured.text().matches("\x1b[3A\r").count(), 1, "what was written in between stays");
        assert_eq!(captured.text().matches("\x1b[?7l").count(), captured.text().matches("\x1b[?7h").count());
    }

    #[test]
    fn elsewhere_a_line_for_each_change_and_not_without_end() {
        let captured = Captured::default();
        let mut screen = Screen::to(Box::new(captured.clone()), false);
        for delivered in [1, 1, 2, 2] {
            screen.show(&with(delivered));
        }
        assert_eq!(captured.text(), "  refuses #\n  refuses ##\n");
        for n in 1..1000 {
            screen.show(&with(1 + n % 2));
        }
        assert_eq!(captured.text().lines().count(), MOST_CHANGES + 1);
        assert!(captured.text().ends_with("  and so on\n"));
        assert!(!captured.text().contains('\x1b'));
    }

    struct Refusing(io::ErrorKind);

    impl Write for Refusing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    /// C198: the demo goes on though nobody reads what it shows.
    #[test]
    fn c198_a_closed_pipe_is_quiet() {
        let mut screen = Screen::to(Box::new(Refusing(io::ErrorKind::BrokenPipe)), false);
        assert!(!screen.is_closed());
        screen.line("one");
        screen.show(&with(1));
        assert!(screen.is_closed());
        assert!(screen.finish().is_ok());
    }

    #[test]
    fn a_full_disk_is_told() {
        let mut screen = Screen::to(Box::new(Refusing(io::ErrorKind::StorageFull)), false);
        screen.line("one");
        screen.line("two");
        assert!(screen.finish().is_err());
    }
}
