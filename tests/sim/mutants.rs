//! The net works: whatever breaks the protocol is found, and soon.

use farword::sim::{Mutant, RunConfig, Scenario, campaign, replay, shorten};

/// The lowest seed below `bound` that finds a mutant.
fn first_seed(mutant: Mutant, scenario: Scenario, bound: u64) -> u64 {
    let config = RunConfig::default().with_scenario(scenario).with_mutant(mutant);
    let report = campaign(0..bound, config, true);
    let found = report.first().unwrap_or_else(|| {
        panic!("{mutant}: nothing found in {bound} runs of the {scenario:?} scenario")
    });
    println!("{mutant} ({scenario:?}): seed {}: {}", found.seed, found.violation);
    assert_eq!(replay(found.seed, config).0, Some(found.violation), "its seed shows it again");
    found.seed
}

#[test]
fn a_fence_left_out_is_found() {
    first_seed(Mutant::NoFence, Scenario::Ring, 500);
    first_seed(Mutant::NoFence, Scenario::Log, 500);
}

#[test]
fn a_flush_left_out_is_found() {
    first_seed(Mutant::NoFlush, Scenario::Ring, 100);
    first_seed(Mutant::NoFlush, Scenario::Log, 100);
}

#[test]
fn a_signal_window_that_is_too_wide_is_found() {
    first_seed(Mutant::SignalWindow, Scenario::Ring, 100);
}

#[test]
fn a_retry_from_the_head_of_a_chain_is_found() {
    first_seed(Mutant::RetryFromHead, Scenario::Ring, 100);
}

#[test]
fn relaxed_ordering_is_found() {
    first_seed(Mutant::RelaxedOrdering, Scenario::Ring, 100);
}

#[test]
fn one_slot_retired_too_many_is_found() {
    first_seed(Mutant::RetireOneTooMany, Scenario::Ring, 100);
    first_seed(Mutant::RetireOneTooMany, Scenario::Log, 500);
}

#[test]
fn a_completion_claimed_early_is_found() {
    first_seed(Mutant::EarlyCompletion, Scenario::Ring, 100);
    first_seed(Mutant::EarlyCompletion, Scenario::Log, 100);
}

#[test]
fn a_torn_word_is_found() {
    first_seed(Mutant::TornWord, Scenario::Ring, 100);
}

#[test]
fn the_shortened_run_breaks_the_same_rule_in_a_story_that_can_be_read() {
    let config = RunConfig::default().with_scenario(Scenario::Log).with_mutant(Mutant::NoFence);
    let seed = first_seed(Mutant::NoFence, Scenario::Log, 500);
    let (violation, long) = replay(seed, config);
    let short = shorten(seed, config).expect("it breaks a rule");
    let text = short.story.to_string();
    assert_eq!(Some(short.violation.rule), violation.map(|broken| broken.rule));
    assert!(short.story.len() <= 40 && short.story.len() <= long.len(), "{text}");
    assert!(text.contains("overtaking 1 unanswered"), "the cause is told:\n{text}");
    assert!(text.contains("BROKEN: the tail points past records that are not durable"), "{text}");
}
