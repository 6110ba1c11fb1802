//! What a software NIC is made with.

use crate::verbs::qp::Path;

/// How a software NIC's queue pair is made, and which habits it has.
///
/// ```
/// use farword::verbs::Path;
/// use farword::verbs::nic::{NicConfig, Refusal};
///
/// let config = NicConfig::default()
///     .with_depths(64, 64)
///     .with_best(Path::WrCalls)
///     .with_refusal(Refusal::MinusOne);
/// assert_eq!(config.sq_depth, 64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NicConfig {
    /// How many requests the send queue holds.
    pub sq_depth: u32,
    /// How many completions the completion queue holds.
    pub cq_depth: u32,
    /// How many bytes of inline data it grants.
    pub max_inline: u32,
    /// The best path that it offers.
    pub best: Path,
    /// Whether it offers FLUSH too, where its best path is [`Path::Native`].
    pub native_flush: bool,
    /// The path that the provider is to take; `None` for the best.
    pub path: Option<Path>,
    /// How it says that it refuses a request.
    pub refusal: Refusal,
    /// Whether a read answers as late as the rules of RDMA allow: after every
    /// later request up to the next fenced one, or up to the next poll.
    pub late_reads: bool,
    /// Whether it carries requests out. Without, it costs the processor what a
    /// real NIC does, and no more: the queue entry, the doorbell and the
    /// completion.
    pub carries_out: bool,
    /// Whether it keeps a record of every request that it was given.
    pub records: bool,
    /// Whether its completion queue has a channel.
    pub channel: bool,
}

impl Default for NicConfig {
    /// Queues of 256, 16 bytes inline, everything offered, requests carried out.
    fn default() -> Self {
        NicConfig {
            sq_depth: 256,
            cq_depth: 256,
            max_inline: 16,
            best: Path::Native,
            native_flush: true,
            path: None,
            refusal: Refusal::Errno,
            late_reads: false,
            carries_out: true,
            records: false,
            channel: false,
        }
    }
}

impl NicConfig {
    /// With queues of these depths.
    #[must_use]
    pub const fn with_depths(mut self, sq: u32, cq: u32) -> Self {
        self.sq_depth = sq;
        self.cq_depth = cq;
        self
    }

    /// With another grant of inline data.
    #[must_use]
    pub const fn with_max_inline(mut self, bytes: u32) -> Self {
        self.max_inline = bytes;
        self
    }

    /// Offering nothing better than this path.
    #[must_use]
    pub const fn with_best(mut self, best: Path) -> Self {
        self.best = best;
        self
    }

    /// Offering FLUSH with the native path, or ATOMIC WRITE alone, as rdma-core
    /// 44 does.
    #[must_use]
    pub const fn with_native_flush(mut self, flush: bool) -> Self {
        self.native_flush = flush;
        self
    }

    /// With a path that the provider must take.
    #[must_use]
    pub const fn with_path(mut self, path: Path) -> Self {
        self.path = Some(path);
        self
    }

    /// With another way to refuse.
    #[must_use]
    pub const fn with_refusal(mut self, refusal: Refusal) -> Self {
        self.refusal = refusal;
        self
    }

    /// With late reads, or without.
    #[must_use]
    pub const fn with_late_reads(mut self, late: bool) -> Self {
        self.late_reads = late;
        self
    }

    /// Carrying requests out, or not.
    #[must_use]
    pub const fn with_carries_out(mut self, carries_out: bool) -> Self {
        self.carries_out = carries_out;
        self
    }

    /// With a record of every request, or without.
    #[must_use]
    pub const fn with_records(mut self, records: bool) -> Self {
        self.records = records;
        self
    }

    /// With a completion channel, or without.
    #[must_use]
    pub const fn with_channel(mut self, channel: bool) -> Self {
        self.channel = channel;
        self
    }
}

/// How a provider says that it refuses a request. Real ones do each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Refusal {
    /// The errno is returned and `bad_wr` set, as the manual has it.
    #[default]
    Errno,
    /// −1 is returned, with `errno` set.
    MinusOne,
    /// The errno is returned, negative.
    Negative,
    /// The errno is returned and `bad_wr` left as it was.
    BadWrUnset,
    /// The errno is returned and `bad_wr` made null.
    BadWrNull,
    /// The errno is returned and `bad_wr` set to a request of the provider's own.
    BadWrForeign,
}
