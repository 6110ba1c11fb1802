//! The simulator: no violation over many seeds, and every mutant caught.

#[path = "sim/fabric.rs"]
mod fabric;
#[path = "sim/mutants.rs"]
mod mutants;

use farword::sim::{RunConfig, Scenario, campaign, replay, shorten};

/// On a violation, the seed and the shortest story that breaks the same rule.
fn assert_clean(seeds: core::ops::Range<u64>, config: RunConfig) -> farword::sim::Report {
    let report = campaign(seeds, config, false);
    if let Some(found) = report.first() {
        let story = shorten(found.seed, config).map(|short| short.story).unwrap_or_default();
        panic!("{report}\nseed {}: {}\n{story}", found.seed, found.violation);
    }
    report
}

#[test]
fn no_rule_is_broken_over_many_seeds() {
    let report = assert_clean(0..20_000, RunConfig::default());
    let coverage = report.coverage;
    // What was never met was not shown to be harmless.
    for (what, count) in [
        ("loss of power", coverage.crashes),
        ("failure", coverage.failures),
        ("refusal", coverage.refusals),
        ("rejection", coverage.rejections),
        ("read overtaken", coverage.overtaken),
        ("byte out of order", coverage.reordered),
        ("piece of a word", coverage.torn),
        ("completion before its bytes", coverage.acked_unseen),
        ("eviction", coverage.evictions),
        ("commit", coverage.commits),
        ("recovery", coverage.recoveries),
    ] {
        assert!(count > 1000, "too few of this: {what}: {count}");
    }
    assert_eq!(coverage.overfull, 0, "a ring posted more than its queue has slots");
    assert!(report.distinct_states > 100_000, "{}", report.distinct_states);
}

#[test]
fn each_scenario_is_clean_by_itself() {
    for scenario in [Scenario::Ring, Scenario::Log] {
        let config = RunConfig::default().with_scenario(scenario);
        assert_clean(1_000_000..1_003_000, config);
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [0, 7, 12_345, u64::MAX] {
        let told =
            |(violation, story): (Option<_>, farword::sim::Story)| (violation, story.to_string());
        let first = told(replay(seed, RunConfig::default()));
        assert!(first.1.lines().count() > 10, "{}", first.1);
        assert_eq!(first, told(replay(seed, RunConfig::default())));
    }
}

#[test]
fn threads_do_not_change_what_a_campaign_covers() {
    let (one, other) = (
        campaign(5..905, RunConfig::default(), false),
        campaign(5..905, RunConfig::default(), false),
    );
    assert_eq!(one.coverage, other.coverage);
    assert_eq!(one.distinct_states, other.distinct_states);
}
