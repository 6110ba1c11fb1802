//! A bar on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

/// How far an append has come. It vanishes when it is dropped, so that a
/// complaint or a table has the line to itself.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
}

const READING: &str = "{msg:>9} ...";
const KNOWN: &str = "{msg:>9} [{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec} eta {eta}";
const UNKNOWN: &str = "{msg:>9} {spinner} {bytes} {bytes_per_sec} {elapsed}";

impl Progress {
    /// No more than a word, while files are read.
    pub(super) fn reading() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
            .with_finish(ProgressFinish::AndClear);
        let progress = Progress { bar };
        progress.look(READING, "reading");
        progress
    }

    /// A bar over `len` bytes, or a count of bytes where the end is not known.
    pub(super) fn appending(&self, len: Option<u64>) {
        if let Some(len) = len {
            self.bar.set_length(len);
        }
        self.bar.reset();
        self.look(if len.is_some() { KNOWN } else { UNKNOWN }, "appending");
    }

    fn look(&self, template: &str, message: &'static str) {
        // A template that does not parse leaves the last look; a test holds all.
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("=> "));
        }
        self.bar.set_message(message);
    }

    /// `bytes` of input are in the log.
    pub(super) fn at(&self, bytes: u64) {
        self.bar.set_position(bytes);
    }

    pub(super) fn verifying(&self) {
        self.bar.set_message("verifying");
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_parse() {
        for template in [READING, KNOWN, UNKNOWN] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
