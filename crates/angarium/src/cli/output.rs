//! The one way to stdout. When nobody reads any more, what is still written is dropped without a word, and
//! whoever only lists can stop; nothing panics and nothing is cut short that changes things.

use std::io::{self, BufWriter, ErrorKind, Write};

use super::exit::Failure;

/// How results are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Output {
    /// For people; not a stable form.
    #[default]
    Table,
    /// For programs: the shapes of the HTTP API.
    Json,
    /// The same, but a listing is one JSON object a line.
    Ndjson,
    /// One id a line, for other commands.
    Ids,
}

/// How results are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Table,
    /// For programs. Whether a listing is one object or one a line, [`Out::has_lines`] says.
    Json,
    /// One id a line.
    Ids,
}

impl From<Output> for Format {
    fn from(output: Output) -> Self {
        match output {
            Output::Table => Format::Table,
            Output::Json | Output::Ndjson => Format::Json,
            Output::Ids => Format::Ids,
        }
    }
}

/// Stdout, or what stands for it in a test.
pub(super) struct Out {
    to: Box<dyn Write>,
    format: Format,
    lines: bool,
    closed: bool,
    fault: Option<io::Error>,
}

impl Out {
    pub(super) fn stdout(output: Output) -> Self {
        Out::to(Box::new(BufWriter::with_capacity(64 * 1024, io::stdout().lock())), output)
    }

    pub(super) fn to(to: Box<dyn Write>, output: Output) -> Self {
        Out { to, format: output.into(), lines: output == Output::Ndjson, closed: false, fault: None }
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// Whether a listing in JSON is one object a line.
    pub(super) fn has_lines(&self) -> bool {
        self.lines
    }

    /// Writes a text as it is.
    pub(super) fn text(&mut self, text: &str) {
        if !self.closed {
            let written = self.to.write_all(text.as_bytes());
            self.note(written);
        }
    }

    /// Writes a text and a line end.
    pub(super) fn line(&mut self, text: &str) {
        self.text(text);
        self.text("\n");
    }

    /// Hands on what was written so far.
    pub(super) fn flush(&mut self) {
        if !self.closed {
            let flushed = self.to.flush();
            self.note(flushed);
        }
    }

    /// Whether nothing that is still written will be read.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.closed = true;
            self.fault = Some(error).filter(|error| error.kind() != ErrorKind::BrokenPipe);
        }
    }

    /// Hands everything on. A reader that went away is no failure; a full disk is.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.flush();
        match self.fault {
            None => Ok(()),
            Some(error) => {
                Err(Failure::failed("output_failed", &format!("the output cannot be written: {error}")))
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A stdout that a test can look into.
    #[derive(Clone, Default)]
    pub(in crate::cli) struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Captured {
        pub(in crate::cli) fn out(&self, format: Format) -> Out {
            self.out_as(match format {
                Format::Table => Output::Table,
                Format::Json => Output::Json,
                Format::Ids => Output::Ids,
            })
        }

        pub(in crate::cli) fn out_as(&self, output: Output) -> Out {
            Out::to(Box::new(self.clone()), output)
        }

        pub(in crate::cli) fn text(&self) -> String {
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

    struct Refusing(ErrorKind);

    impl Write for Refusing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    /// C198: a reader that went away is no failure, whatever is still written.
    #[test]
    fn c198_a_closed_pipe_is_quiet() {
        let mut out = Out::to(Box::new(Refusing(ErrorKind::BrokenPipe)), Output::Table);
        assert!(!out.is_closed());
        out.line("one");
        assert!(out.is_closed());
        out.line("two");
        assert!(out.finish().is_ok());
    }

    #[test]
    fn a_full_disk_is_told() {
        let mut out = Out::to(Box::new(Refusing(ErrorKind::StorageFull)), Output::Table);
        out.line("one");
        assert!(out.finish().is_err());
        assert!(Out::to(Box::new(Refusing(ErrorKind::StorageFull)), Output::Table).finish().is_err());
    }
}
