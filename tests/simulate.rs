//! `farword simulate`, run as a process and looked at from outside.

use std::process::Output;

use assert_cmd::cargo::cargo_bin_cmd;
use serde_json::Value;

fn simulate(arguments: &[&str]) -> Output {
    let mut command = cargo_bin_cmd!("farword");
    command.arg("simulate").args(arguments).timeout(core::time::Duration::from_secs(300));
    command.output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("what is printed is UTF-8")
}

/// The one JSON object on standard output.
fn json(output: &Output) -> Value {
    let printed = text(&output.stdout);
    assert!(printed.ends_with("}\n") && printed.lines().count() == 1, "{printed:?}");
    serde_json::from_str(&printed).expect("it is JSON")
}

#[track_caller]
fn passed(output: &Output) {
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

/// It ends with this code and one line of complaint, which is given back.
#[track_caller]
fn complaint(output: &Output, code: i32) -> String {
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{complaint}");
    assert!(complaint.starts_with("farword: ") && complaint.lines().count() == 1, "{complaint:?}");
    complaint
}

#[test]
fn a_campaign_says_what_it_covered_and_that_nothing_was_broken() {
    let output = simulate(&["--seeds", "400", "--json"]);
    passed(&output);
    let mut report = json(&output);
    let numbers = report.as_object_mut().expect("an object");
    assert!(numbers.remove("seconds").is_some_and(|seconds| seconds.as_f64() > Some(0.0)));
    assert_eq!(numbers.remove("found"), Some(Value::Array(vec![])));
    for (name, wanted) in [("seeds", 400), ("first_seed", 0), ("violations", 0)] {
        assert_eq!(numbers.remove(name), Some(wanted.into()), "{name}");
    }
    // Everything else was met.
    let names: Vec<&str> = numbers.keys().map(String::as_str).collect();
    let wanted = [
        "bytes_out_of_order",
        "commits",
        "completed_before_visible",
        "crashes",
        "distinct_states",
        "evictions",
        "failures",
        "operations",
        "reads_overtaken",
        "recoveries",
        "refusals",
        "reorderings",
        "steps",
        "words_in_pieces",
    ];
    assert_eq!(names, wanted);
    assert!(numbers.values().all(|number| number.as_u64() > Some(10)), "{numbers:?}");
}

#[test]
fn the_same_seeds_cover_the_same_again() {
    let of = |first: &str| {
        let mut report = json(&simulate(&["--seed", first, "--seeds", "150", "--json"]));
        report.as_object_mut().expect("an object").remove("seconds");
        report
    };
    assert_eq!(of("1000"), of("1000"));
    assert_ne!(of("1000"), of("2000"));
}

#[test]
fn the_table_names_what_the_json_names() {
    let output = simulate(&["--seeds", "100"]);
    passed(&output);
    let table = text(&output.stdout);
    for name in ["seeds", "steps", "crashes", "refusals", "reorderings", "distinct states"] {
        assert!(table.contains(name), "{name}: {table}");
    }
    let last = table.lines().find(|line| line.contains("violations")).expect("the last row");
    assert!(last.split_whitespace().any(|word| word == "0"), "{last}");
}

#[test]
fn one_seed_tells_its_story_and_tells_it_again() {
    for seed in ["0", "12345", "18446744073709551615"] {
        let output = simulate(&["--seed", seed, "--trace"]);
        passed(&output);
        let story = text(&output.stdout);
        assert!(story.lines().count() > 10, "{story}");
        assert!(story.ends_with(&format!("seed {seed} breaks no rule\n")), "{story}");
        assert_eq!(story, text(&simulate(&["--seed", seed, "--trace"]).stdout));
    }
}

#[test]
fn a_broken_protocol_is_named_with_a_seed_that_shows_it() {
    let output = simulate(&["--seeds", "600", "--mutant", "no-fence", "--json"]);
    let report = json(&output);
    assert!(report["violations"].as_u64() > Some(0), "{report}");
    let seed = report["found"][0]["seed"].to_string();
    let hint = format!("farword simulate --seed {seed} --trace --mutant no-fence\n");
    let complaint = complaint(&output, 1);
    assert!(complaint.ends_with(&hint), "{complaint}");

    let told = simulate(&["--seed", &seed, "--trace", "--mutant", "no-fence"]);
    self::complaint(&told, 1);
    let story = text(&told.stdout);
    assert!(story.contains("BROKEN: ") && story.lines().count() <= 60, "{story}");
    // The same seed of the true protocol breaks nothing.
    passed(&simulate(&["--seed", &seed]));
}

#[test]
fn every_mutant_has_a_name_and_others_are_refused() {
    for mutant in farword::sim::Mutant::ALL {
        let output = simulate(&["--seeds", "600", "--mutant", mutant.name(), "--json"]);
        complaint(&output, 1);
        assert!(json(&output)["violations"].as_u64() > Some(0), "{mutant}");
    }
    let complaint = complaint(&simulate(&["--mutant", "no-such"]), 2);
    assert!(complaint.contains("no-fence"), "{complaint}");
}

#[test]
fn seeds_that_cannot_be_run_are_refused() {
    complaint(&simulate(&["--seeds", "0"]), 2);
    complaint(&simulate(&["--trace"]), 2);
    complaint(&simulate(&["--seed", "1", "--seeds", "2", "--trace"]), 2);
    let beyond = complaint(&simulate(&["--seed", "18446744073709551610", "--seeds", "10"]), 1);
    assert!(beyond.contains("18446744073709551605"), "{beyond}");
    // The last ones that can be.
    let report = json(&simulate(&["--seed", "18446744073709551515", "--seeds", "100", "--json"]));
    assert_eq!((&report["seeds"], &report["violations"]), (&100.into(), &0.into()));
}
