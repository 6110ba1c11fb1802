//! Chance that can be had again.

/// The outcome of a throw depends on the seed, the purpose and a number, and on
/// nothing else: not on how many throws came before it. So one fault more in a
/// plan, or one poll more in a test, leaves all other faults where they were.
///
/// The mixing is that of SplitMix64 (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014): a counter times an odd constant,
/// then two xor-shift-multiply rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dice {
    seed: u64,
}

/// What a throw is for. Each has a sequence of its own.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(super) enum Purpose {
    Refuse = 1,
    Fail,
    Unknown,
    Delay,
    Stale,
    DeviceFault,
    Garbage,
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Dice { seed }
    }

    /// 64 bits.
    pub(super) const fn throw(self, purpose: Purpose, number: u64) -> u64 {
        let stream = mix(self.seed.wrapping_add((purpose as u64).wrapping_mul(GOLDEN)));
        mix(stream.wrapping_add(number.wrapping_add(1).wrapping_mul(GOLDEN)))
    }

    /// With a probability of `per_1024` in 1024, some more bits.
    pub(super) const fn chance(self, purpose: Purpose, number: u64, per_1024: u16) -> Option<u64> {
        let bits = self.throw(purpose, number);
        if bits % 1024 < per_1024 as u64 { Some(bits >> 10) } else { None }
    }
}

const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throw_depends_on_seed_purpose_and_number_alone() {
        let dice = Dice::new(7);
        assert_eq!(dice.throw(Purpose::Fail, 3), Dice::new(7).throw(Purpose::Fail, 3));
        assert_ne!(dice.throw(Purpose::Fail, 3), dice.throw(Purpose::Fail, 4));
        assert_ne!(dice.throw(Purpose::Fail, 3), dice.throw(Purpose::Refuse, 3));
        assert_ne!(dice.throw(Purpose::Fail, 3), Dice::new(8).throw(Purpose::Fail, 3));
    }

    #[test]
    fn a_chance_comes_as_often_as_it_says() {
        let dice = Dice::new(0);
        let count =
            |rate| (0..65_536).filter(|n| dice.chance(Purpose::Stale, *n, rate).is_some()).count();
        assert_eq!(count(0), 0);
        assert_eq!(count(1024), 65_536);
        let quarter = count(256);
        assert!((15_500..17_300).contains(&quarter), "{quarter} of 65,536 for one in four");
    }
}
