//! Where every decision of a run comes from: a seed, or a list to replay.

use std::vec::Vec;

use oorandom::Rand32;

/// A source of decisions. The same seed, or the same list, gives the same run.
///
/// 0 is always the quietest choice, so that a list cut short or filled with
/// zeros gives a simpler run: that is what the shrinker works with.
#[derive(Debug)]
pub(super) struct Choices {
    random: Rand32,
    /// What is replayed instead, from `at` on; zeros come after its end.
    replay: Option<Vec<u32>>,
    at: usize,
    /// What was chosen, where it is wanted.
    record: Option<Vec<u32>>,
}

impl Choices {
    pub(super) fn seeded(seed: u64) -> Self {
        Choices { random: Rand32::new(seed), replay: None, at: 0, record: None }
    }

    pub(super) fn replaying(list: Vec<u32>) -> Self {
        Choices { random: Rand32::new(0), replay: Some(list), at: 0, record: None }
    }

    /// Keeps what is chosen from now on.
    pub(super) fn keep(&mut self) {
        self.record = Some(Vec::new());
    }

    pub(super) fn take_record(&mut self) -> Vec<u32> {
        self.record.take().unwrap_or_default()
    }

    /// A number below `count`; 0, and no decision, where there is only that.
    #[inline]
    pub(super) fn below(&mut self, count: u32) -> u32 {
        if count <= 1 {
            return 0;
        }
        let chosen = match &self.replay {
            None => ((u64::from(self.random.rand_u32()) * u64::from(count)) >> 32) as u32,
            Some(list) => {
                let value = list.get(self.at).copied().unwrap_or(0);
                self.at += 1;
                value.min(count - 1)
            }
        };
        if let Some(record) = &mut self.record {
            record.push(chosen);
        }
        chosen
    }

    /// Yes in `numerator` of 1024 cases; the quiet choice is no.
    #[inline]
    pub(super) fn chance(&mut self, numerator: u32) -> bool {
        numerator > 0 && self.below(1024) >= 1024 - numerator.min(1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_its_record_give_the_same_choices() {
        let mut seeded = Choices::seeded(7);
        seeded.keep();
        let first: Vec<u32> = (2..200).map(|count| seeded.below(count)).collect();
        let mut again = Choices::seeded(7);
        assert!((2..200).all(|count| again.below(count) == first[count as usize - 2]));
        let mut replayed = Choices::replaying(seeded.take_record());
        assert!((2..200).all(|count| replayed.below(count) == first[count as usize - 2]));
        assert_eq!(replayed.below(1000), 0, "behind the end of the list");
        assert!(first.iter().any(|value| *value > 0));
    }

    #[test]
    fn a_chance_of_nothing_or_of_all_is_certain() {
        let mut choices = Choices::seeded(1);
        assert!((0..1000).all(|_| !choices.chance(0) && choices.chance(1024)));
    }
}
