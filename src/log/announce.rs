//! What the owner of a log tells a peer that connects: 28 bytes of private data.

use super::*;

/// Where a log lies: the private data of librpma's atomic-write example.
///
/// | bytes | what |
/// | --- | --- |
/// | 0..2 | the offset of `used` in the region, u16 in the machine's own byte order |
/// | 2 | the length of the region's descriptor, 21 |
/// | 3 | the length of the peer configuration's descriptor, 0 or 1 |
/// | 4..28 | the descriptors, one behind the other; zeros behind them |
/// | 27 | farword's own, where no descriptor reaches it: 0xf0 if peers must not use the FLUSH operation, 0xf1 if they may, anything else if nothing is said |
///
/// ```
/// use farword::log::{Announcement, USED_OFFSET};
/// use farword::{RemoteRegion, Usage};
///
/// let region = RemoteRegion::new(0x1000, 4096, 7, Usage::WRITE_DST | Usage::READ_SRC);
/// let bytes = Announcement::new(region).to_bytes();
/// let told = Announcement::from_bytes(&bytes)?;
/// assert_eq!((told.region, told.used_offset), (region, USED_OFFSET));
/// # Ok::<(), farword::log::BadAnnouncement>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Announcement {
    /// The region.
    pub region: RemoteRegion,
    /// Where in it the word `used` lies.
    pub used_offset: AlignedOffset,
    /// Whether writes go straight to persistent memory; `None` where the peer
    /// does not say.
    pub persistent: Option<bool>,
    /// Whether the region may be flushed by the FLUSH operation; `None` where
    /// the peer does not say, as librpma's example. Unless it is `Some(true)`,
    /// flush by reads: a FLUSH that is not granted kills the connection. See
    /// `Connection::emulate_flush` of the feature `verbs`.
    pub native_flush: Option<bool>,
}

/// The last byte where it says something of FLUSH: bit 0 is what. The other bits
/// tell it from zeros, and from what may be left there by accident.
const FLUSH_MARK: u8 = 0xf0;

/// Why bytes are no [`Announcement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadAnnouncement {
    /// Too few bytes.
    TooShort {
        /// How many there are.
        len: usize,
        /// How many it needs.
        needs: usize,
    },
    /// The region's descriptor or the offset of `used` is not valid.
    Invalid(Invalid),
}

impl fmt::Display for BadAnnouncement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BadAnnouncement::TooShort { len, needs } => {
                write!(f, "a log's announcement of {len} bytes: it needs {needs}")
            }
            BadAnnouncement::Invalid(which) => write!(f, "a log's announcement: {which}"),
        }
    }
}

impl core::error::Error for BadAnnouncement {}

impl Announcement {
    /// How many bytes it has.
    pub const LEN: usize = 28;

    /// Of a log with the usual layout, whose owner says nothing of persistence
    /// or of the FLUSH operation.
    #[must_use]
    pub const fn new(region: RemoteRegion) -> Self {
        Announcement { region, used_offset: USED_OFFSET, persistent: None, native_flush: None }
    }

    /// Says whether writes go straight to persistent memory.
    #[must_use]
    pub const fn with_persistent(mut self, persistent: bool) -> Self {
        self.persistent = Some(persistent);
        self
    }

    /// Says whether peers may use the FLUSH operation on the region.
    #[must_use]
    pub const fn with_native_flush(mut self, granted: bool) -> Self {
        self.native_flush = Some(granted);
        self
    }

    /// The bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..2].copy_from_slice(&(self.used_offset.get() as u16).to_ne_bytes());
        bytes[2] = RemoteRegion::DESCRIPTOR_LEN as u8;
        bytes[4..25].copy_from_slice(&self.region.to_descriptor());
        if let Some(persistent) = self.persistent {
            bytes[3] = 1;
            bytes[25] = u8::from(persistent);
        }
        if let Some(granted) = self.native_flush {
            bytes[Self::FLUSH_AT] = FLUSH_MARK | u8::from(granted);
        }
        bytes
    }

    /// Where it says whether FLUSH is granted.
    const FLUSH_AT: usize = Self::LEN - 1;

    /// From what a peer sent; bytes behind the 28th are ignored.
    ///
    /// # Errors
    /// [`BadAnnouncement`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadAnnouncement> {
        let len = bytes.len();
        let short = |needs| BadAnnouncement::TooShort { len, needs };
        let Some((&[low, high, region_len, config_len], descriptors)) = bytes.split_first_chunk()
        else {
            return Err(short(Self::LEN));
        };
        let needs = usize::from(region_len) + usize::from(config_len);
        let Some(descriptors) = descriptors.get(..needs) else {
            return Err(short(needs + 4));
        };
        let (region, config) = descriptors.split_at(usize::from(region_len));
        let used = u64::from(u16::from_ne_bytes([low, high]));
        Ok(Announcement {
            region: RemoteRegion::from_descriptor(region).map_err(BadAnnouncement::Invalid)?,
            used_offset: AlignedOffset::new(used).map_err(BadAnnouncement::Invalid)?,
            persistent: config.first().map(|bits| bits & 1 != 0),
            native_flush: match bytes.get(Self::FLUSH_AT) {
                Some(said) if 4 + needs <= Self::FLUSH_AT && said & !1 == FLUSH_MARK => {
                    Some(said & 1 != 0)
                }
                _ => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_example() {
        let region = RemoteRegion::new(1, 2, 3, Usage::from_bits(0x19));
        let bytes = Announcement::new(region).to_bytes();
        assert_eq!(bytes[..4], [8, 0, 21, 0], "on a little-endian machine");
        assert_eq!(bytes[4..25], region.to_descriptor());
        assert_eq!(bytes[25..], [0; 3]);
        let persistent = Announcement::new(region).with_persistent(true);
        assert_eq!(Announcement::from_bytes(&persistent.to_bytes()), Ok(persistent));
    }

    #[test]
    fn the_flush_that_is_granted_is_said_in_a_byte_that_librpma_leaves_alone() {
        let region = RemoteRegion::new(1, 2, 3, Usage::from_bits(0x19));
        for granted in [false, true] {
            let told = Announcement::new(region).with_persistent(true).with_native_flush(granted);
            let mut bytes = told.to_bytes();
            assert_eq!(Announcement::from_bytes(&bytes), Ok(told));
            for silent in [0, 1, 0xef, 0x70, 0xff] {
                bytes[27] = silent;
                let heard = Announcement::from_bytes(&bytes).map(|told| told.native_flush);
                assert_eq!(heard, Ok(None), "{silent:#x}");
            }
            // A peer's longer configuration, which reaches that byte.
            (bytes[3], bytes[27]) = (3, 0xf1);
            let heard = Announcement::from_bytes(&bytes).map(|told| told.native_flush);
            assert_eq!(heard, Ok(None));
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut bytes = [0xff; 600];
        for len in 0..600 {
            let _ = Announcement::from_bytes(&bytes[..len]);
            bytes[2] = len as u8;
            bytes[3] = (len * 7) as u8;
        }
    }
}
