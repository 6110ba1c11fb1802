//! The table for people and the object for programs.

use core::fmt::Write;

use serde_json::{Map, Value, json};

use crate::measure::{Found, median};

/// What a row is held against: its name, the other row's, and what the ratio of
/// their times has to be at most, where there is a target.
const AGAINST: &[(&str, &str, Option<f64>)] = &[
    ("librpma_on_error", "librpma_always", None),
    ("verbs_one", "librpma_always", None),
    ("verbs_chain_32", "librpma_always", None),
    ("ring_verbs_1", "librpma_always", Some(0.75)),
    ("ring_verbs_1_on_error", "librpma_on_error", Some(0.75)),
    ("ring_verbs_8", "librpma_always", None),
    ("ring_verbs_32", "librpma_always", Some(0.25)),
    ("ring_native_32", "librpma_always", Some(0.25)),
    ("capi_one", "librpma_always", Some(0.85)),
    ("capi_batch_32", "librpma_always", Some(0.3)),
    ("ring_soft_1", "floor_soft_1", None),
    ("ring_soft_32", "floor_soft_32", Some(1.35)),
    ("ring_commit", "librpma_commit", Some(0.5)),
    ("ring_threaded_1", "cache_line_round_trip", Some(1.5)),
    ("threads_2", "threads_1", Some(1.0 / 1.8)),
    ("poll_empty_after_1e6", "poll_empty", Some(1.1)),
    ("rings_4096", "poll_empty", Some(1.1)),
];

/// The median over the rounds of the ratio within each round.
fn ratio(found: &[Found], row: &Found) -> Option<(&'static str, f64, Option<f64>)> {
    let (_, other, target) = AGAINST.iter().find(|(name, ..)| *name == row.name)?;
    let other_row = found.iter().find(|found| found.name == *other)?;
    let ratios: Vec<f64> =
        row.ns.iter().zip(&other_row.ns).map(|(own, other)| own / other).collect();
    Some((other, median(&ratios), *target))
}

pub(crate) fn json(found: &[Found]) -> String {
    let mut object = Map::new();
    for row in found {
        let mut entry = json!({
            "ns_per_write": rounded(row.ns()),
            "instructions_per_write": row.instructions.map(rounded),
            "doorbells_per_write": row.doorbells,
        });
        if let Some((other, ratio, target)) = ratio(found, row) {
            entry["against"] = json!(other);
            entry["time_ratio"] = rounded(ratio);
            entry["time_ratio_target"] = json!(target);
        }
        object.insert(row.name.clone(), entry);
    }
    let mut text = Value::Object(object).to_string();
    text.push('\n');
    text
}

fn rounded(figure: f64) -> Value {
    json!((figure * 1000.0).round() / 1000.0)
}

pub(crate) fn table(found: &[Found]) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<24}{:>10}{:>14}{:>12}   time against (target)",
        "row", "ns", "instructions", "doorbells"
    );
    for row in found {
        let instructions = row.instructions.map_or("-".into(), |count| format!("{count:.1}"));
        let doorbells = row.doorbells.map_or("-".into(), |count| format!("{count:.4}"));
        let _ =
            write!(text, "{:<24}{:>10.2}{:>14}{:>12}", row.name, row.ns(), instructions, doorbells);
        if let Some((other, ratio, target)) = ratio(found, row) {
            let _ = write!(text, "   {ratio:.2} x {other}");
            if let Some(target) = target {
                let met = if ratio <= target { "met" } else { "not met" };
                let _ = write!(text, " (at most {target:.2}: {met})");
            }
        }
        text.push('\n');
    }
    text
}
