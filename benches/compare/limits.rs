//! Limits on instruction counts, kept in `benches/limits.json`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use crate::args::{Args, Task};
use crate::count;

/// `rustc` and librpma differ from machine to machine by a little.
const MARGIN: f64 = 1.03;

pub(crate) fn run(args: &Args) -> ExitCode {
    let counts = match count::count(args) {
        Ok(counts) => counts,
        Err(why) => {
            eprintln!("compare: {why}");
            return ExitCode::FAILURE;
        }
    };
    if args.task == Task::Limits {
        let limits: BTreeMap<&String, f64> = counts
            .iter()
            .filter(|(name, _)| is_ours(name))
            .map(|(name, count)| (name, (count * MARGIN * 10.0).ceil() / 10.0))
            .collect();
        println!("{}", serde_json::to_string_pretty(&limits).expect("numbers and names"));
        return ExitCode::SUCCESS;
    }
    check(args, &counts)
}

/// The rows whose cost is this crate's to keep.
fn is_ours(name: &str) -> bool {
    name.starts_with("ring") || name.starts_with("poll")
}

fn check(args: &Args, counts: &BTreeMap<String, f64>) -> ExitCode {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/limits.json");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let limits: BTreeMap<String, f64> = match serde_json::from_str(&text) {
        Ok(limits) => limits,
        Err(error) => {
            eprintln!("compare: {path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut good = true;
    for (name, count) in counts.iter().filter(|(name, _)| is_ours(name)) {
        let verdict = match limits.get(name) {
            Some(limit) if count <= limit => format!("at most {limit:.1}: kept"),
            Some(limit) => format!("at most {limit:.1}: EXCEEDED"),
            None => "has no limit in benches/limits.json".into(),
        };
        good &= verdict.ends_with("kept");
        println!("{name:<24}{count:>8.1} instructions, {verdict}");
    }
    // A row that vanished is not a row that got cheaper.
    for name in limits.keys().filter(|name| args.wants(name) && !counts.contains_key(*name)) {
        println!("{name:<24} was not counted");
        good = false;
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
