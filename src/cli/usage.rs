//! Wrong usage in one line; help and version as they are. And the numbers that
//! options take.

use core::time::Duration;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::cli::output;

/// Says what the parser has to say, and with which code the process ends.
pub(super) fn answer(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            match output::print(&error.render().to_string()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    output::complain(&format!("{error:#}"));
                    ExitCode::FAILURE
                }
            }
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::explain(&error.render().to_string());
            ExitCode::from(2)
        }
        _ => {
            output::complain(&one_line(&error.render().to_string()));
            ExitCode::from(2)
        }
    }
}

/// Clap's paragraphs as one line: what is wrong, then its tips in brackets.
fn one_line(rendered: &str) -> String {
    let mut line = String::new();
    for paragraph in rendered.split("\n\n") {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        let text = words.join(" ");
        if let Some(wrong) = text.strip_prefix("error: ") {
            line.push_str(wrong);
        } else if let Some(tip) = text.strip_prefix("tip: ") {
            line.push_str(&format!(" ({tip})"));
        }
    }
    if line.is_empty() {
        line.push_str("wrong usage");
    }
    line.push_str("; see --help");
    line
}

/// A number of bytes: digits, and perhaps K, M, G or T (or KiB and so on), each
/// 1024 times the one before.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit = unit.trim_start().trim_end_matches("iB");
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("unknown unit {unit:?}: use K, M, G or T, or none for bytes")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "a number of bytes is needed, such as 65536 or 64M".to_string())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "more bytes than a machine can address".to_string())
}

/// A size for a log: at least its header.
pub(super) fn log_size(text: &str) -> Result<u64, String> {
    let size = bytes(text)?;
    if size < farword::log::DATA_OFFSET {
        return Err(format!("a log needs {} bytes for its header", farword::log::DATA_OFFSET));
    }
    Ok(size)
}

/// A length of time in seconds, more than none and at most a day.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    const RULE: &str = "seconds are needed, more than 0 and at most 86400, such as 2 or 0.5";
    let seconds: f64 = text.parse().map_err(|_| RULE.to_string())?;
    // Written so that NaN fails it too.
    if !(seconds > 0.0 && seconds <= 86_400.0) {
        return Err(RULE.to_string());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| RULE.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_units_and_refuse_what_is_none() {
        assert_eq!(bytes("0"), Ok(0));
        assert_eq!(bytes("4096"), Ok(4096));
        for text in ["64M", "64m", "64MiB", "64 MiB"] {
            assert_eq!(bytes(text), Ok(64 << 20), "{text}");
        }
        for text in ["", "M", "-1", "1.5M", "64X", "64 M M", "99999999999999999999", "99999999999T"]
        {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert!(log_size("15").is_err());
        assert_eq!(log_size("16"), Ok(16));
    }

    #[test]
    fn durations_are_more_than_nothing_and_less_than_for_ever() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "NaN", "inf", "1e99", "86401", "soon", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_parsers_paragraphs_become_one_line() {
        let rendered = "error: the following were not provided:\n  <FILE>...\n\n  \
                        tip: try harder\n\nUsage: farword append\n\nFor more information";
        assert_eq!(
            one_line(rendered),
            "the following were not provided: <FILE>... (try harder); see --help"
        );
    }
}
