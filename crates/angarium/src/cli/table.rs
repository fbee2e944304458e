//! Tables for people: aligned columns, nothing in them that a terminal would obey.

use super::output::Out;

/// A column: its title, and the most characters that are shown of a value.
pub(super) type Column = (&'static str, usize);

/// A table that is written in pieces; the first piece decides how wide its columns are.
pub(super) struct Table {
    columns: &'static [Column],
    widths: Vec<usize>,
}

impl Table {
    pub(super) fn new(columns: &'static [Column]) -> Self {
        Table { columns, widths: Vec::new() }
    }

    /// Writes rows, below the titles if they are the first. Without rows it writes nothing.
    pub(super) fn write(&mut self, rows: &[Vec<String>], out: &mut Out) {
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                row.iter().zip(self.columns).map(|(cell, (_, most))| cut(&escape(cell), *most)).collect()
            })
            .collect();
        if rows.is_empty() {
            return;
        }
        if self.widths.is_empty() {
            self.widths = widths(self.columns, &rows);
            let titles: Vec<String> = self.columns.iter().map(|(title, _)| (*title).to_owned()).collect();
            out.line(&aligned(&titles, &self.widths));
        }
        for row in &rows {
            out.line(&aligned(row, &self.widths));
        }
    }
}

fn widths(columns: &[Column], rows: &[Vec<String>]) -> Vec<usize> {
    let width = |(i, (title, _)): (usize, &Column)| {
        let cells = rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count());
        cells.chain([title.len()]).max().unwrap_or(0)
    };
    columns.iter().enumerate().map(width).collect()
}

fn aligned(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> =
        row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
    cells.join("  ").trim_end().to_owned()
}

/// At most `most` characters, the last of them an ellipsis if some were left out.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// A text in which everything that a terminal would obey, or that would change how the rest is read, is
/// written out.
pub(super) fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => shown.extend(c.escape_default()),
            _ if is_unseen(c) => shown.extend(c.escape_unicode()),
            _ => shown.push(c),
        }
    }
    shown
}

/// The same, but lines stay lines.
pub(super) fn escape_lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

/// Controls, and marks that hide or turn text around.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{00AD}' | '\u{061C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{2069}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::{Format, tests::Captured};

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn columns_stand_under_each_other() {
        let captured = Captured::default();
        let mut out = captured.out(Format::Table);
        let mut table = Table::new(&[("ID", 8), ("STATUS", 8), ("SUBJECT", 6)]);
        table.write(&[], &mut out);
        table.write(&[row(&["1", "pending", "äöü"]), row(&["22", "parked", "far too long"])], &mut out);
        table.write(&[row(&["3", "", ""]), row(&["4", "x", "y"])], &mut out);
        assert_eq!(
            captured.text(),
            "ID  STATUS   SUBJECT\n1   pending  äöü\n22  parked   far t…\n3\n4   x        y\n"
        );
    }

    #[test]
    fn nothing_reaches_the_terminal_that_it_would_obey() {
        assert_eq!(escape("a\x1b[2J\u{9b}b"), "a\\u{1b}[2J\\u{9b}b");
        assert_eq!(escape("one\ntwo\t\r"), "one\\ntwo\\t\\r");
        assert_eq!(escape("abc\u{202E}fed\u{200B}"), "abc\\u{202e}fed\\u{200b}");
        assert_eq!(escape("Größe 漢字 🙂"), "Größe 漢字 🙂");
        assert_eq!(escape_lines("one\n\x07two"), "one\n\\u{7}two");
    }

    #[test]
    fn cut_counts_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
        assert_eq!(cut("", 3), "");
    }
}
