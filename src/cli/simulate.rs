//! `farword simulate`: the protocol under everything that RDMA permits.

use std::time::Instant;

use clap::Args as ClapArgs;
use farword::sim::{Mutant, Report, RunConfig, campaign, replay, shorten};
use indicatif::HumanCount;
use serde::Serialize;

use crate::cli::output;

/// Run rings and logs over a simulated fabric, one run a seed
///
/// In each run the seed decides what happens next, out of all that RDMA permits:
/// requests carried out late, reads overtaken, writes landing in pieces, posts
/// refused, connections lost, power lost. After every step the memory is checked.
/// Distinct states are estimated (HyperLogLog, nearly always within 2.5 %).
/// A run that breaks a rule is told of with its seed; --seed shows it again.
#[derive(Clone, Debug, ClapArgs)]
pub(super) struct Args {
    /// How many seeds to run [default: 20000, or 1 with --seed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// Run this seed, or, with --seeds, that many from it on
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Tell the story of the seed's run; of one that breaks a rule, the shortest
    /// that breaks it too
    #[arg(long, requires = "seed", conflicts_with_all = ["seeds", "json"])]
    trace: bool,
    /// Break the protocol in this way, to see that it is noticed: no-fence,
    /// no-flush, signal-window, retry-from-head, relaxed-ordering,
    /// retire-one-too-many, early-completion, torn-word
    #[arg(long, value_name = "HOW", value_parser = parse_mutant)]
    mutant: Option<Mutant>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_mutant(name: &str) -> Result<Mutant, String> {
    let found = Mutant::ALL.into_iter().find(|mutant| mutant.name() == name);
    found.ok_or_else(|| {
        let names: Vec<_> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
        format!("it is one of {}", names.join(", "))
    })
}

#[derive(Debug, Serialize)]
struct Json {
    seeds: u64,
    first_seed: u64,
    steps: u64,
    distinct_states: u64,
    crashes: u64,
    failures: u64,
    refusals: u64,
    reorderings: u64,
    reads_overtaken: u64,
    bytes_out_of_order: u64,
    words_in_pieces: u64,
    completed_before_visible: u64,
    evictions: u64,
    operations: u64,
    commits: u64,
    recoveries: u64,
    seconds: f64,
    violations: u64,
    found: Vec<JsonFound>,
}

#[derive(Debug, Serialize)]
struct JsonFound {
    seed: u64,
    rule: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let mut config = RunConfig::default();
    config.mutant = args.mutant;
    let first = args.seed.unwrap_or(0);
    if args.trace {
        return trace(first, config);
    }
    let seeds = args.seeds.unwrap_or(if args.seed.is_some() { 1 } else { 20_000 });
    let Some(end) = first.checked_add(seeds) else {
        let last = u64::MAX - seeds;
        anyhow::bail!(
            "{seeds} seeds from {first} on do not end below 2^64: begin at {last} at most"
        );
    };
    let begun = Instant::now();
    let report = campaign(first..end, config, false);
    let seconds = begun.elapsed().as_secs_f64();
    if args.json {
        output::print_json(&to_json(&report, first, seconds))?;
    } else {
        output::print(&to_text(&report, seconds))?;
    }
    match report.first() {
        None => Ok(()),
        Some(found) => anyhow::bail!(
            "{} of {} runs broke a rule; see farword simulate --seed {} --trace{}",
            report.violations,
            report.coverage.runs,
            found.seed,
            args.mutant.map(|mutant| format!(" --mutant {}", mutant.name())).unwrap_or_default()
        ),
    }
}

/// The story of one run, cut short if it broke a rule.
fn trace(seed: u64, config: RunConfig) -> anyhow::Result<()> {
    let Some(short) = shorten(seed, config) else {
        let (_, story) = replay(seed, config);
        return output::print(&format!("{story}seed {seed} breaks no rule\n"));
    };
    output::print(&short.story.to_string())?;
    anyhow::bail!(
        "seed {seed}: {} ({} events, cut to {})",
        short.violation,
        short.from,
        short.story.len()
    )
}

fn to_text(report: &Report, seconds: f64) -> String {
    let coverage = &report.coverage;
    let count = |number: u64| HumanCount(number).to_string();
    let rows = [
        ("seeds", count(coverage.runs)),
        ("steps", count(coverage.steps)),
        ("distinct states, about", count(report.distinct_states)),
        ("crashes", count(coverage.crashes)),
        ("failures", count(coverage.failures)),
        ("refusals", count(coverage.refusals + coverage.rejections)),
        ("reorderings", count(coverage.reorderings())),
        ("  reads overtaken", count(coverage.overtaken)),
        ("  bytes out of order", count(coverage.reordered)),
        ("  completed before visible", count(coverage.acked_unseen)),
        ("operations", count(coverage.operations)),
        ("commits", count(coverage.commits)),
        ("recoveries", count(coverage.recoveries)),
        ("seconds", format!("{seconds:.1}")),
        ("violations", count(report.violations)),
    ];
    let mut text = format!("{}\n", output::facts(&rows));
    for found in &report.found {
        text.push_str(&format!("seed {}: {}\n", found.seed, found.violation));
    }
    text
}

fn to_json(report: &Report, first_seed: u64, seconds: f64) -> Json {
    let coverage = &report.coverage;
    Json {
        seeds: coverage.runs,
        first_seed,
        steps: coverage.steps,
        distinct_states: report.distinct_states,
        crashes: coverage.crashes,
        failures: coverage.failures,
        refusals: coverage.refusals + coverage.rejections,
        reorderings: coverage.reorderings(),
        reads_overtaken: coverage.overtaken,
        bytes_out_of_order: coverage.reordered,
        words_in_pieces: coverage.torn,
        completed_before_visible: coverage.acked_unseen,
        evictions: coverage.evictions,
        operations: coverage.operations,
        commits: coverage.commits,
        recoveries: coverage.recoveries,
        seconds,
        violations: report.violations,
        found: report
            .found
            .iter()
            .map(|found| JsonFound { seed: found.seed, rule: found.violation.to_string() })
            .collect(),
    }
}
