//! The `farword` command, run as a process and looked at from outside.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin_cmd;
use serde_json::Value;
use tempfile::TempDir;

/// A directory of input files for one test.
struct Inputs(TempDir);

impl Inputs {
    fn new() -> Self {
        Inputs(TempDir::new().expect("a temporary directory"))
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).expect("the file can be written");
        path
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

fn farword(arguments: &[&str]) -> Command {
    let mut command = cargo_bin_cmd!("farword");
    command.args(arguments).timeout(core::time::Duration::from_secs(300));
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("what is printed is UTF-8")
}

/// The one JSON object on standard output, and nothing beside it.
fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "nothing on standard error");
    let printed = text(&output.stdout);
    assert!(printed.ends_with("}\n") && printed.lines().count() == 1, "{printed:?}");
    serde_json::from_str(&printed).expect("it is JSON")
}

fn append_json(arguments: &[&str], file: &Path) -> Value {
    json(&farword(&["append", "--json"]).args(arguments).arg(file).output().expect("it runs"))
}

/// It fails with this code and one line, which holds all of `words`.
#[track_caller]
fn refused(output: &Output, code: i32, words: &[&str]) {
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint:?}");
    assert!(complaint.starts_with("farword: ") && complaint.ends_with('\n'), "{complaint:?}");
    for word in words {
        assert!(complaint.contains(word), "{word:?} is not in {complaint:?}");
    }
    assert_eq!(text(&output.stdout), "");
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// Lines of many lengths, some of them empty.
fn lines(count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in 0..count {
        let line = format!("{n} {}", "abcdefghij".repeat(n % 13));
        bytes.extend_from_slice(if n % 17 == 0 { b"" } else { line.as_bytes() });
        bytes.push(b'\n');
    }
    bytes
}

#[test]
fn the_json_of_an_append_has_exactly_its_keys() {
    let inputs = Inputs::new();
    let report = append_json(&[], &inputs.file("text", b"one\ntwo\n\nfour\n"));
    let expected = [
        "records",
        "bytes",
        "work_requests",
        "doorbells",
        "verified",
        "device",
        "engine",
        "batch",
        "latency_ns",
    ];
    assert_eq!(keys(&report), BTreeSet::from(expected));
    assert_eq!(keys(&report["latency_ns"]), BTreeSet::from(["p50", "p99", "p999", "max"]));
    assert_eq!(report["records"], 4);
    assert_eq!(report["bytes"], 10);
    assert_eq!(report["verified"], true);
    assert_eq!(report["device"], "soft");
    assert_eq!(report["engine"], "inline");
    assert_eq!(report["batch"], 32);
    // One commit: a write, a flush, the atomic write, a flush, one doorbell.
    assert_eq!((&report["work_requests"], &report["doorbells"]), (&4.into(), &1.into()));
}

#[test]
fn doorbells_go_by_commits_and_latencies_are_in_order() {
    const COUNT: u64 = 200_000;
    let inputs = Inputs::new();
    let file = inputs.file("text", &lines(COUNT as usize));
    for (batch, engine, least, most) in
        [("1", "inline", 0.99, 1.1), ("64", "inline", 0.015, 0.05), ("64", "threaded", 0.015, 0.05)]
    {
        let report = append_json(&["--batch", batch, "--engine", engine], &file);
        assert_eq!(report["records"], COUNT);
        assert_eq!(report["verified"], true);
        assert_eq!(report["engine"], engine);
        assert_eq!(report["batch"].to_string(), batch);
        let doorbells = report["doorbells"].as_f64().expect("a number") / COUNT as f64;
        assert!((least..=most).contains(&doorbells), "{doorbells} doorbells a record");
        let latency = ["p50", "p99", "p999", "max"].map(|key| report["latency_ns"][key].as_u64());
        assert!(latency.is_sorted() && latency[0] > Some(0), "{latency:?}");
    }
}

#[test]
fn the_table_says_what_was_done() {
    let inputs = Inputs::new();
    let file = inputs.file("text", &lines(1234));
    let output = farword(&["append"]).arg(&file).output().expect("it runs");
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "", "no progress bar where there is no terminal");
    let table = text(&output.stdout);
    for row in [
        "records",
        "1,234",
        "bytes",
        "work requests",
        "doorbells",
        "doorbells per record",
        "p50",
        "p99",
        "p99.9",
        "max",
        "Verified",
    ] {
        assert!(table.contains(row), "{row:?} is not in\n{table}");
    }
}

#[test]
fn an_empty_file_is_no_records_and_verified() {
    let inputs = Inputs::new();
    let file = inputs.file("empty", b"");
    for engine in ["inline", "threaded"] {
        let report = append_json(&["--engine", engine], &file);
        for key in ["records", "bytes", "work_requests", "doorbells"] {
            assert_eq!(report[key], 0, "{key}");
        }
        assert_eq!(report["latency_ns"]["max"], 0);
        assert_eq!(report["verified"], true);
    }
    farword(&["append"]).arg(&file).assert().success();
}

#[test]
fn a_line_is_any_bytes_and_the_last_may_lack_its_end() {
    let inputs = Inputs::new();
    let every_byte: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    let cases: [(&[u8], u64, u64); 8] = [
        (b"\n", 1, 0),
        (b"no end", 1, 6),
        (b"one\nno end", 2, 9),
        (b"one\r\ntwo\r\n", 2, 8),
        (b"\0\0\0\n\0", 2, 4),
        (b"\xff\xfe\x80\n\xc3\x28\n", 2, 5),
        (b"\n\n\n", 3, 0),
        (&every_byte, 3, 510),
    ];
    for (index, (bytes, records, payload)) in cases.into_iter().enumerate() {
        let file = inputs.file(&index.to_string(), bytes);
        for batch in ["1", "2", "1000"] {
            let report = append_json(&["--batch", batch], &file);
            assert_eq!(report["records"], records, "{bytes:?}");
            assert_eq!(report["bytes"], payload, "{bytes:?}");
            assert_eq!(report["verified"], true);
        }
    }
}

#[test]
fn a_record_longer_than_any_buffer_goes_through() {
    let inputs = Inputs::new();
    let mut bytes = vec![b'x'; 3 << 20];
    bytes.extend_from_slice(b"\nshort\n");
    bytes.extend_from_slice(&vec![b'y'; (1 << 20) - 1]);
    let report = append_json(&["--batch", "2"], &inputs.file("long", &bytes));
    assert_eq!(report["records"], 3);
    assert_eq!(report["bytes"], (4u64 << 20) + 4);
}

#[test]
fn files_and_standard_input_are_taken_in_turn() {
    let inputs = Inputs::new();
    let (first, last) = (inputs.file("a", b"1\n2"), inputs.file("b", b"4\n"));
    let output = farword(&["append", "--json"])
        .arg(&first)
        .arg("-")
        .arg(&last)
        .write_stdin("3\n3\n3")
        .output()
        .expect("it runs");
    let report = json(&output);
    assert_eq!((&report["records"], &report["bytes"]), (&6.into(), &6.into()));

    let output = farword(&["append", "--json", "-"]).write_stdin("").output().expect("it runs");
    assert_eq!(json(&output)["records"], 0);
}

#[test]
fn a_log_is_exactly_as_large_as_it_is_told_to_be() {
    let inputs = Inputs::new();
    // 16 bytes of header, 3 of the first record, 4 of the second.
    let file = inputs.file("text", b"ab\nabc\n");
    let report = append_json(&["--log-size", "23"], &file);
    assert_eq!(report["verified"], true);
    let run = |size| farword(&["append", "--log-size", size]).arg(&file).output().expect("it runs");
    refused(&run("22"), 1, &["text, line 2", "takes 4 bytes and 3 are free", "--log-size"]);
    refused(&run("18"), 1, &["text, line 1", "longer than 1 bytes", "--log-size"]);
    refused(&run("16"), 1, &["text, line 1", "--log-size"]);
    append_json(&["--log-size", "16"], &inputs.file("empty", b""));
    append_json(&["--log-size", "1M"], &file);
}

#[test]
fn a_line_longer_than_the_log_is_named() {
    let inputs = Inputs::new();
    let mut bytes = b"short\n".to_vec();
    bytes.extend_from_slice(&[b'x'; 5000]);
    let file = inputs.file("text", &bytes);
    let output = farword(&["append", "--json", "--log-size", "4096"]).arg(&file).output();
    refused(&output.expect("it runs"), 1, &["text, line 2", "4079"]);
}

#[test]
fn an_endless_input_ends_with_the_log() {
    for (batch, reason) in [("7", "the log is full"), ("1000000", "the log is full")] {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("farword"));
        command.args(["append", "-", "--log-size", "65536", "--batch", batch]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        // Until the reader is gone.
        while stdin.write_all(b"yes\nyes\nyes\n").is_ok() {}
        let output = child.wait_with_output().expect("it ends");
        refused(&output, 1, &["standard input, line 16381", reason]);
    }
}

#[cfg(unix)]
#[test]
fn an_endless_line_is_refused_and_not_read_for_ever() {
    let output = farword(&["append", "/dev/zero"]).output().expect("it runs");
    refused(&output, 1, &["/dev/zero, line 1", "67108863"]);
}

#[test]
fn wrong_usage_is_one_line_and_code_2() {
    let inputs = Inputs::new();
    let file = inputs.file("text", b"one\n");
    let name = file.to_str().expect("a plain path");
    let cases: [(&[&str], &str); 14] = [
        (&["append"], "<FILE>"),
        (&["append", "--batch", "0", name], "--batch"),
        (&["append", "--batch", "-1", name], "-1"),
        (&["append", "--batch", "many", name], "many"),
        (&["append", "--log-size", "0", name], "16 bytes"),
        (&["append", "--log-size", "12Q", name], "unit"),
        (&["append", "--engine", "steam", name], "inline, threaded"),
        (&["append", "--jsn", name], "--json"),
        (&["apend", name], "append"),
        (&["perf", "rate", "--batch", "0"], "--batch"),
        (&["perf", "rate", "--batch", "4097"], "4096"),
        (&["perf", "latency", "--batch", "0"], "--batch"),
        (&["perf", "rate", "--duration", "0"], "more than 0"),
        (&["perf", "latency", "--duration", "NaN"], "more than 0"),
    ];
    for (arguments, word) in cases {
        refused(&farword(arguments).output().expect("it runs"), 2, &[word, "--help"]);
    }
}

#[test]
fn bad_files_are_one_line_and_code_1() {
    let inputs = Inputs::new();
    let good = inputs.file("good", b"one\n");
    let run = |path: &Path| farword(&["append"]).arg(&good).arg(path).output().expect("it runs");
    let missing = inputs.path().join("missing");
    refused(&run(&missing), 1, &["missing", "No such file"]);
    refused(&run(inputs.path()), 1, &["is a directory"]);
    refused(&run(&inputs.path().join("two\nlines")), 1, &["two\\nlines"]);
    refused(&run(&good.join("below")), 1, &["good/below"]);
}

#[test]
fn more_memory_than_there_is_is_refused() {
    let inputs = Inputs::new();
    let file = inputs.file("text", b"one\n");
    for (size, bytes) in
        [("18446744073709551615", "18446744073709551615"), ("8388608T", "9223372036854775808")]
    {
        let output = farword(&["append", "--log-size", size]).arg(&file).output();
        refused(&output.expect("it runs"), 1, &["no memory", bytes]);
    }
}

/// The reader of standard output has gone before anything is written to it.
#[cfg(unix)]
#[test]
fn a_closed_pipe_is_one_line_and_no_panic() {
    let inputs = Inputs::new();
    let file = inputs.file("text", b"one\n");
    let name = file.to_str().expect("a plain path");
    for arguments in [
        &["append", name][..],
        &["append", "--json", name],
        &["perf", "rate", "--duration", "0.01"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = std::process::Command::new(assert_cmd::cargo::cargo_bin!("farword"))
            .args(arguments)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .expect("it runs");
        refused(&output, 1, &["standard output", "Broken pipe"]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = std::process::Command::new(assert_cmd::cargo::cargo_bin!("farword"))
        .args(["append", "-"])
        .stdin(Stdio::null())
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .expect("it runs");
    refused(&output, 1, &["standard output", "No space left"]);
}

#[test]
fn a_rate_counts_every_write_of_every_batch() {
    for (batch, engine) in
        [("1", "inline"), ("3", "inline"), ("4096", "inline"), ("32", "threaded")]
    {
        let output = farword(&["perf", "rate", "--json", "--duration", "0.05"])
            .args(["--batch", batch, "--engine", engine])
            .output()
            .expect("it runs");
        let report = json(&output);
        let number = |key: &str| report[key].as_f64().expect("a number");
        assert_eq!(report["verified"], true);
        assert_eq!(report["device"], "soft");
        assert_eq!(report["engine"], engine);
        assert_eq!(report["batch"].to_string(), batch);
        assert!(number("writes") > 0.0 && number("seconds") >= 0.05);
        assert!(number("doorbells") >= number("writes") / number("batch"), "{report}");
        let rate = number("writes") / number("seconds");
        assert!((number("writes_per_sec") / rate - 1.0).abs() < 0.001, "{report}");
    }
}

#[test]
fn a_latency_is_that_of_every_write() {
    for (batch, engine) in [("1", "inline"), ("5", "inline"), ("1", "threaded")] {
        let output = farword(&["perf", "latency", "--json", "--duration", "0.05"])
            .args(["--batch", batch, "--engine", engine])
            .output()
            .expect("it runs");
        let report = json(&output);
        let latency = &report["latency_ns"];
        assert_eq!(
            keys(latency),
            BTreeSet::from(["min", "p50", "avg", "stdev", "p99", "p999", "max"])
        );
        let sorted = ["min", "p50", "p99", "p999", "max"].map(|key| latency[key].as_u64());
        assert!(sorted.is_sorted() && sorted[1] > Some(0), "{latency}");
        // The iterations fill the time that was measured, and no more than it.
        let seconds = report["seconds"].as_f64().expect("a number");
        let sum = latency["avg"].as_f64().expect("a number")
            * report["iterations"].as_f64().expect("a number")
            / 1e9;
        assert!(sum > seconds / 100.0 && sum < seconds * 1.01, "{sum} of {seconds} s");
        assert_eq!(report["verified"], true);
        let batch: u64 = batch.parse().expect("a number");
        assert_eq!(report["writes"].as_u64(), report["iterations"].as_u64().map(|n| n * batch));
    }
}

#[test]
fn perf_tables_say_that_they_are_not_a_nics() {
    for (what, words) in [
        ("latency", ["t_min", "t_typical", "99.9%", "#iterations"]),
        ("rate", ["Mwrites/s", "ns/write", "#doorbells", "#batch"]),
    ] {
        let output = farword(&["perf", what, "--duration", "0.01"]).output().expect("it runs");
        assert!(output.status.success());
        let table = text(&output.stdout);
        for word in words.into_iter().chain(["not NIC numbers"]) {
            assert!(table.contains(word), "{word:?} is not in\n{table}");
        }
        // The table itself grows with its figures, which a busy machine makes long.
        let mut prose = table.lines().filter(|line| line.starts_with(char::is_alphabetic));
        assert!(prose.all(|line| line.chars().count() <= 80), "{table}");
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    for arguments in
        [&["--help"][..], &["append", "--help"], &["perf", "rate", "--help"], &["--version"]]
    {
        let output = farword(arguments).output().expect("it runs");
        assert!(output.status.success());
        assert!(text(&output.stdout).contains("farword"));
        assert_eq!(text(&output.stderr), "");
    }
    let output = farword(&[]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("Usage: farword"));
}
