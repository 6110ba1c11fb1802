//! The words that rings write: a count and its complement, so that a torn word
//! shows.

/// The word of a count.
pub(crate) fn of(count: u32) -> u64 {
    u64::from(count) << 32 | u64::from(!count)
}

/// The count of a whole word; 0 for the word that nobody has written.
pub(crate) fn count(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Whether a word was written as one, or never.
pub(crate) fn is_whole(word: u64) -> bool {
    word == 0 || word == of(count(word))
}
