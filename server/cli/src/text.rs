//! Numbers, keys and tables for people, in 80 columns.

use tollgate_kernel::{Micros, Wait};

/// The byte that separates the parts of a key made of several fields. Shown as a space.
pub(crate) const KEY_SEPARATOR: u8 = 0x1f;

/// Formats `1234567` as `1,234,567`.
pub(crate) fn grouped(number: impl Into<u128>) -> String {
    let digits = number.into().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats `part` of `whole` as `12.5 %`. A part above zero is never shown as zero, and one below the whole never as
/// all.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let (part, whole) = (u128::from(part), u128::from(whole));
    let tenths = (2_000 * part + whole) / (2 * whole);
    match tenths {
        0 if part > 0 => "<0.1 %".to_owned(),
        1_000 if part < whole => ">99.9 %".to_owned(),
        _ => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// Formats a count with its noun in the right number.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// Formats a wait to about three digits, rounded up: a wait that is too short would be wrong.
pub(crate) fn wait(wait: Wait) -> String {
    match wait {
        Wait::After(span) => rounded_up(span).to_string(),
        Wait::Never => "never".to_owned(),
    }
}

fn rounded_up(span: Micros) -> Micros {
    let us = span.get();
    let unit = match us {
        0..1_000_000 => 1,
        1_000_000..60_000_000 => 1_000,
        60_000_000..3_600_000_000 => 1_000_000,
        3_600_000_000..86_400_000_000 => 60_000_000,
        _ => 3_600_000_000,
    };
    Micros::new(us.div_ceil(unit).saturating_mul(unit))
}

/// Returns a key as text, since a key may be any bytes and a document may not.
pub(crate) fn key(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace(char::from(KEY_SEPARATOR), " ")
}

/// Returns a key for a terminal: nothing in it can move the cursor, and it is at most `width` wide. The middle of a
/// longer key is left out, since keys differ at their ends.
pub(crate) fn shown_key(bytes: &[u8], width: usize) -> String {
    let mut text = String::new();
    for char in key(bytes).chars() {
        match char.is_control() {
            true => text.extend(char.escape_unicode()),
            false => text.push(char),
        }
    }
    let length = text.chars().count();
    if length <= width {
        return text;
    }
    let head = width / 2;
    let tail = width.saturating_sub(head + 1);
    let front: String = text.chars().take(head).collect();
    let back: String = text.chars().skip(length - tail).collect();
    format!("{front}…{back}")
}

/// Formats a JSON document with a line end. All documents consist of strings and numbers, so this cannot fail.
pub(crate) fn json(document: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(document).unwrap_or_default() + "\n"
}

/// Breaks a line at spaces so that it fits a terminal; continuation lines keep its indent.
pub(crate) fn wrapped(line: &str) -> String {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let mut text = String::new();
    let mut width = 0;
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        let length = word.chars().count();
        if width == 0 || width + 1 + length > WIDTH {
            if width > 0 {
                text.push('\n');
            }
            text += &" ".repeat(indent);
            width = indent;
        } else {
            text.push(' ');
            width += 1;
        }
        text += word;
        width += length;
    }
    text.push('\n');
    text
}

/// Formats a line that begins with `head`; continuation lines are indented to where the text began.
pub(crate) fn hanging(head: &str, text: &str) -> String {
    let width = head.chars().count();
    let lines = wrapped(&format!("{}{text}", " ".repeat(width)));
    format!("{head}{}", lines.get(width..).unwrap_or_default())
}

/// The default width of a terminal.
pub(crate) const WIDTH: usize = 80;

/// The edge at which the cells of a column are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnAlignment {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Rows of cells in columns as wide as their widest cell.
#[derive(Debug)]
pub(crate) struct TextTable {
    sides: Vec<ColumnAlignment>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Returns an empty table with these columns.
    pub(crate) fn new(sides: &[ColumnAlignment]) -> Self {
        Self { sides: sides.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Formats the rows as lines, indented by two, with two spaces between columns.
    pub(crate) fn print(&self) -> String {
        let mut widths = vec![0; self.sides.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, side), &width) in row.iter().zip(&self.sides).zip(&widths) {
                match side {
                    ColumnAlignment::Left => line += &format!("  {cell:<width$}"),
                    ColumnAlignment::Right => line += &format!("  {cell:>width$}"),
                }
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0u64), "0");
        assert_eq!(grouped(999u64), "999");
        assert_eq!(grouped(1_234_567u64), "1,234,567");
        for (part, whole, text) in [
            (0, 0, "-"),
            (0, 5, "0.0 %"),
            (1, 3, "33.3 %"),
            (2, 3, "66.7 %"),
            (1, 100_000, "<0.1 %"),
            (99_999, 100_000, ">99.9 %"),
            (5, 5, "100.0 %"),
        ] {
            assert_eq!(percent(part, whole), text);
        }
    }

    #[test]
    fn waits_are_never_told_too_short() {
        for (us, text) in [
            (0, "0us"),
            (999_999, "999.999ms"),
            (4_000_001, "4.001s"),
            (59_999_999, "1min"),
            (3_599_000_001, "1h"),
            (7_199_000_000, "2h"),
            (100_000_000_000, "1d 4h"),
        ] {
            assert_eq!(wait(Wait::After(Micros::new(us))), text);
        }
        assert_eq!(wait(Wait::Never), "never");
    }

    #[test]
    fn lines_are_broken_at_spaces_and_keep_their_indent() {
        assert_eq!(wrapped("  short"), "  short\n");
        let long = wrapped(&format!("  {}", "word ".repeat(40)));
        assert!(long.lines().count() == 3 && long.lines().all(|line| line.len() <= 80 && line.starts_with("  word")));
        assert_eq!(wrapped(&"x".repeat(100)), format!("{}\n", "x".repeat(100)));
        let long = hanging("  ok  ", &"word ".repeat(20));
        assert!(
            long.starts_with("  ok  word") && long.lines().nth(1).is_some_and(|line| line.starts_with("      word"))
        );
    }

    #[test]
    fn keys_cannot_harm_a_terminal_or_a_table() {
        assert_eq!(shown_key(b"a\x1b[2Jb", 40), "a\\u{1b}[2Jb");
        assert_eq!(shown_key(b"192.0.2.1\x1f/login", 40), "192.0.2.1 /login");
        assert_eq!(shown_key(b"0123456789", 7), "012…789");
        assert_eq!(shown_key(b"\xff", 7), "\u{fffd}");
    }
}
