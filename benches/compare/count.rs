//! Instruction counts: this program runs itself once more under callgrind, which
//! gives exact counts where a noisy clock cannot, and needs no hardware counter.
//!
//! Every row is run there at two lengths, each within [`counted`]; callgrind is
//! told to start from zero and to write its sum when that function is entered
//! and left. The difference of the two is free of what happens once.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::args::Args;
use crate::row::Row;

/// The two lengths. The short one is a warm-up too.
const LENGTHS: [u64; 2] = [1024, 4096];

/// Instructions per operation, by row; or why there are none.
pub(crate) fn count(args: &Args) -> Result<BTreeMap<String, f64>, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let out = folder.path().join("sum");
    let own = std::env::current_exe().map_err(|error| format!("own path unknown: {error}"))?;
    let mut command = Command::new("valgrind");
    command
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .args(["--zero-before=compare::count::counted", "--dump-after=compare::count::counted"])
        .arg(own)
        .arg("--counted")
        .stderr(Stdio::piped())
        .stdin(Stdio::null());
    if !args.only.is_empty() {
        command.args(["--rows", &args.only.join(",")]);
    }
    let output = command.output().map_err(|error| {
        format!("valgrind does not start ({error}); install it for instruction counts")
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("the run under valgrind failed:\n{said}"));
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut counts = BTreeMap::new();
    for (index, name) in names.lines().enumerate() {
        let short = sum(&out, 2 * index + 1)?;
        let long = sum(&out, 2 * index + 2)?;
        let per_operation = (long - short) as f64 / (LENGTHS[1] - LENGTHS[0]) as f64;
        counts.insert(name.to_owned(), per_operation);
    }
    Ok(counts)
}

/// The instructions of one call of [`counted`], from callgrind's dump number
/// `number`.
fn sum(out: &Path, number: usize) -> Result<u64, String> {
    let path = format!("{}.{number}", out.display());
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("summary: "))
        .ok_or_else(|| format!("{path}: no summary line"))?;
    line.trim().parse().map_err(|_| format!("{path}: {line:?} is no count"))
}

/// The side under callgrind: runs the countable rows and prints their names.
pub(crate) fn be_counted(args: &Args) -> ExitCode {
    for mut row in crate::rows().into_iter().filter(|row| args.wants(row.name())) {
        if !row.is_countable() {
            continue;
        }
        for length in LENGTHS {
            counted(row.as_mut(), length);
        }
        row.verify();
        println!("{}", row.name());
    }
    ExitCode::SUCCESS
}

/// What callgrind looks for, so it must stay a function of its own, that
/// returns itself (no tail call).
#[inline(never)]
fn counted(row: &mut dyn Row, operations: u64) {
    core::hint::black_box(row.run(operations));
}
