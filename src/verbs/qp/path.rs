//! Which calls a queue pair is driven by.

use core::fmt;

/// How requests reach a queue pair, best last.
///
/// All three give the same results but for the completion's opcode
/// ([`WC_ATOMIC_WRITE`](crate::wr::WC_ATOMIC_WRITE) on the native path). The
/// best that the queue pair has is taken, unless one is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// `ibv_post_send` of the ring's chain as it stands; an atomic write is an
    /// inline RDMA WRITE. What every device has.
    PostSend,
    /// `ibv_wr_start` … `ibv_wr_complete` around one call per request, which is
    /// cheaper where a provider has it; an atomic write is an inline RDMA WRITE.
    WrCalls,
    /// As [`WrCalls`](Path::WrCalls), an atomic write being the ATOMIC WRITE
    /// operation.
    Native,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Path::PostSend => "ibv_post_send",
            Path::WrCalls => "ibv_wr_rdma_write",
            Path::Native => "ibv_wr_atomic_write",
        })
    }
}

/// A queue pair does not have what the asked-for path needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathUnavailable {
    /// The path that was asked for.
    pub asked: Path,
    /// The best that the queue pair has.
    pub best: Path,
}

impl fmt::Display for PathUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PathUnavailable { asked, best } = self;
        write!(f, "the queue pair has no {asked}: the best that it has is {best}")
    }
}

impl core::error::Error for PathUnavailable {}

impl Path {
    /// The asked-for path, or the best.
    pub(super) fn choose(best: Path, asked: Option<Path>) -> Result<Path, PathUnavailable> {
        match asked {
            None => Ok(best),
            Some(asked) if asked <= best => Ok(asked),
            Some(asked) => Err(PathUnavailable { asked, best }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_can_be_forced_down_and_not_up() {
        use Path::{Native, PostSend, WrCalls};
        for best in [PostSend, WrCalls, Native] {
            assert_eq!(Path::choose(best, None), Ok(best));
            assert_eq!(Path::choose(best, Some(PostSend)), Ok(PostSend));
        }
        assert_eq!(Path::choose(Native, Some(WrCalls)), Ok(WrCalls));
        let refused = Path::choose(WrCalls, Some(Native));
        assert_eq!(refused, Err(PathUnavailable { asked: Native, best: WrCalls }));
    }
}
