//! What people and programs read: standard output, one line of complaint, and
//! numbers in tables.

use std::io::{self, Write};

use anyhow::Context;
use comfy_table::{CellAlignment, Table};
use indicatif::HumanCount;
use serde::Serialize;

/// Writes to standard output, all at once. A reader that has gone away is an
/// error like any other, not a panic.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    print_bytes(text.as_bytes())
}

/// As [`print`], for what need not be UTF-8.
pub(super) fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(plain)
        .context("cannot write to standard output")
}

/// Prints one JSON object on one line.
pub(super) fn print_json(report: &impl Serialize) -> anyhow::Result<()> {
    print(&format!("{}\n", serde_json::to_string(report)?))
}

/// Says on standard error, in one line, what went wrong. If nobody listens
/// there, the exit code has to do.
pub(super) fn complain(what: &str) {
    let mut line = String::from("farword: ");
    for c in what.chars() {
        // A file's name may hold anything, a line break too.
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line.push('\n');
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Writes help to standard error.
pub(super) fn explain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// An I/O error without its number: "No such file or directory", not
/// "... (os error 2)".
pub(super) fn plain(error: io::Error) -> anyhow::Error {
    let text = error.to_string();
    let plain = text.split(" (os error").next().unwrap_or(&text);
    anyhow::Error::msg(plain.to_string())
}

/// A table with a header of column names, everything aligned to the right.
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::ASCII_HORIZONTAL_ONLY).set_header(header);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    align(&mut table, 0);
    table
}

/// A table of names and their values.
pub(super) fn facts(rows: &[(&str, String)]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::ASCII_BORDERS_ONLY_CONDENSED);
    for (name, value) in rows {
        table.add_row([*name, value]);
    }
    align(&mut table, 1);
    table
}

fn align(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// 1234567 as 1,234,567.
pub(super) fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

/// A length of time in the unit that suits it.
pub(super) fn time(nanoseconds: u64) -> String {
    let ns = nanoseconds as f64;
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{:.2} us", ns / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_the_unit_that_suits_them() {
        let times = [0, 999, 1_000, 12_345, 1_000_000, 2_500_000_000].map(time);
        assert_eq!(times, ["0 ns", "999 ns", "1.00 us", "12.35 us", "1.00 ms", "2.50 s"]);
    }

    #[test]
    fn an_io_error_is_told_in_words() {
        let error = io::Error::from_raw_os_error(2);
        assert_eq!(plain(error).to_string(), "No such file or directory");
    }
}
