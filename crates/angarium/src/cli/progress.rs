//! How far a long work has come, told on stderr: a bar that is drawn over itself on a terminal, else a line now and then.

use std::io::IsTerminal;

use super::exit::say;
use super::output::{Format, Out};

/// Characters between the ends of the bar.
const BAR: usize = 30;
/// Without a terminal, a line is written after so many things.
const EVERY: u64 = 10_000;

/// What is told of a work while it goes on.
pub(super) struct Progress {
    way: Way,
    /// How much there is to do; none if nobody knows.
    total: Option<u64>,
    say: fn(&str),
}

#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// Over the line that was drawn before, which had so many characters.
    Bar {
        drawn: usize,
    },
    /// A line, when so many things are done.
    Lines {
        next: u64,
    },
    Silent,
}

impl Progress {
    /// Tells how a work goes of which there is `total` to do, in whatever unit [`Self::at`] counts.
    pub(super) fn start(out: &Out, total: Option<u64>) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Progress { way: Way::of(std::io::stderr().is_terminal(), plain, out.format()), total, say }
    }

    /// Tells that `done` of the total is done, which made `count` things, in words.
    pub(super) fn at(&mut self, done: u64, count: u64, words: &str) {
        match &mut self.way {
            Way::Silent => {}
            Way::Lines { next } if count < *next => {}
            Way::Lines { next } => {
                *next = (count / EVERY + 1) * EVERY;
                (self.say)(&format!("{words}\n"));
            }
            Way::Bar { drawn } => {
                let line = line(self.total, done, words);
                let width = line.chars().count();
                (self.say)(&format!("\r{line:<drawn$}", drawn = *drawn));
                *drawn = width;
            }
        }
    }

    /// Makes room for what is said next.
    pub(super) fn clear(&mut self) {
        if let Way::Bar { drawn: drawn @ 1.. } = &mut self.way {
            (self.say)(&format!("\r{:drawn$}\r", "", drawn = *drawn));
            *drawn = 0;
        }
    }
}

impl Way {
    /// Programs that read JSON from stderr are not told anything that is none.
    fn of(terminal: bool, plain: bool, format: Format) -> Self {
        match (terminal && !plain, format) {
            (true, _) => Way::Bar { drawn: 0 },
            (false, Format::Json) => Way::Silent,
            (false, _) => Way::Lines { next: EVERY },
        }
    }
}

fn line(total: Option<u64>, done: u64, words: &str) -> String {
    let Some(total) = total.filter(|total| *total > 0) else { return words.to_owned() };
    let percent = u128::from(done.min(total)) * 100 / u128::from(total);
    let filled = usize::try_from(percent).unwrap_or(100) * BAR / 100;
    format!("[{}{}] {percent:>3} %  {words}", "#".repeat(filled), ".".repeat(BAR - filled))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        static SAID: RefCell<String> = const { RefCell::new(String::new()) };
    }

    fn progress(way: Way, total: Option<u64>) -> Progress {
        Progress { way, total, say: |text| SAID.with_borrow_mut(|said| said.push_str(text)) }
    }

    fn said() -> String {
        SAID.take()
    }

    #[test]
    fn a_bar_is_for_terminals_that_may_be_drawn_on() {
        assert_eq!(Way::of(true, false, Format::Table), Way::Bar { drawn: 0 });
        assert_eq!(Way::of(true, false, Format::Json), Way::Bar { drawn: 0 });
        for (terminal, plain) in [(true, true), (false, false), (false, true)] {
            assert_eq!(Way::of(terminal, plain, Format::Table), Way::Lines { next: EVERY });
            assert_eq!(Way::of(terminal, plain, Format::Json), Way::Silent);
        }
    }

    #[test]
    fn a_bar_is_drawn_over_the_one_before() {
        let mut progress = progress(Way::Bar { drawn: 0 }, None);
        progress.clear();
        progress.at(1, 1, "10 stored");
        progress.at(2, 2, "9 left");
        progress.clear();
        progress.clear();
        assert_eq!(said(), "\r10 stored\r9 left   \r      \r");
    }

    #[test]
    fn lines_come_now_and_then() {
        let mut progress = progress(Way::Lines { next: EVERY }, Some(100));
        for (count, words) in
            [(9_999, "a"), (10_000, "b"), (19_999, "c"), (35_000, "d"), (39_999, "e"), (40_000, "f")]
        {
            progress.at(0, count, words);
        }
        progress.clear();
        assert_eq!(said(), "b\nd\nf\n");
    }

    #[test]
    fn a_bar_is_as_long_as_the_work_is_done() {
        let bar = |total, done| line(Some(total), done, "w");
        assert_eq!(bar(200, 0), format!("[{}]   0 %  w", ".".repeat(30)));
        assert_eq!(bar(200, 101), format!("[{}{}]  50 %  w", "#".repeat(15), ".".repeat(15)));
        assert_eq!(bar(200, 200), format!("[{}] 100 %  w", "#".repeat(30)));
        assert_eq!(bar(200, 900), bar(200, 200), "the file grew");
        assert_eq!(bar(u64::MAX, u64::MAX), bar(1, 1));
        assert_eq!(line(None, 7, "w"), "w");
        assert_eq!(line(Some(0), 0, "w"), "w");
    }
}
