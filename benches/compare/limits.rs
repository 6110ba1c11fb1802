//! Limits on instruction counts, kept in `benches/limits.json`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::args::{Args, Task};
use crate::count;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/limits.json");

/// A limit lies two per cent above the count of its day. Where the ring's own
/// work is all that is counted it lies less than one instruction above, so that
/// one more in every write is always seen.
fn limit(name: &str, count: f64) -> f64 {
    let most = if name.starts_with("ring_only") { 0.9 } else { f64::INFINITY };
    ((count + (count * 0.02).min(most)) * 100.0).round() / 100.0
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match counts(args).and_then(|counts| match args.task {
        Task::Limits => write(&counts),
        _ => check(args, &counts),
    }) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("compare: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The counts of the rows whose cost is this crate's to keep.
fn counts(args: &Args) -> Result<BTreeMap<String, f64>, String> {
    let mut counts = count::count(args)?;
    counts.retain(|name, _| name.starts_with("ring") || name.starts_with("poll"));
    Ok(counts)
}

/// The compiler, which has its share in a count.
fn compiler() -> String {
    let cargo = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = std::process::Command::new(cargo).arg("--version").output();
    output.map_or_else(
        |_| "unknown".into(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

fn write(counts: &BTreeMap<String, f64>) -> Result<bool, String> {
    let limits: BTreeMap<&String, f64> =
        counts.iter().map(|(name, count)| (name, limit(name, *count))).collect();
    let object = json!({ "compiler": compiler(), "limits": limits });
    let text = serde_json::to_string_pretty(&object).map_err(|error| error.to_string())?;
    std::fs::write(PATH, text + "\n").map_err(|error| format!("{PATH}: {error}"))?;
    println!("{} limits written to {PATH}", counts.len());
    Ok(true)
}

fn read() -> Result<(String, BTreeMap<String, f64>), String> {
    let text = std::fs::read_to_string(PATH).map_err(|error| format!("{PATH}: {error}"))?;
    let mut object: Value =
        serde_json::from_str(&text).map_err(|error| format!("{PATH}: {error}"))?;
    let limits = serde_json::from_value(object["limits"].take())
        .map_err(|error| format!("{PATH}: limits: {error}"))?;
    Ok((object["compiler"].as_str().unwrap_or("unknown").to_owned(), limits))
}

fn check(args: &Args, counts: &BTreeMap<String, f64>) -> Result<bool, String> {
    let (compiler_then, limits) = read()?;
    let mut good = true;
    for (name, count) in counts {
        let (kept, verdict) = match limits.get(name) {
            Some(limit) if count <= limit => (true, format!("at most {limit:.2}: kept")),
            Some(limit) => (false, format!("at most {limit:.2}: EXCEEDED")),
            None => (false, "has no limit in benches/limits.json".into()),
        };
        good &= kept;
        println!("{name:<24}{count:>9.2} instructions, {verdict}");
    }
    // A row that vanished is not a row that got cheaper.
    for name in limits.keys().filter(|name| args.wants(name) && !counts.contains_key(*name)) {
        println!("{name:<24} was not counted");
        good = false;
    }
    let compiler = compiler();
    if !good && compiler != compiler_then {
        println!(
            "The limits were written with {compiler_then}, this is {compiler}: where nothing else \
             changed, write them anew with --limits."
        );
    }
    Ok(good)
}
