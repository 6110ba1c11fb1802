//! GIDs, and the RoCE version that each stands for.

use core::fmt;
use core::net::Ipv6Addr;

use super::DeviceName;

/// A port's address in the RDMA network: 16 bytes, written as an IPv6 address.
/// One that stands for an IPv4 address is written as that, mapped.
///
/// ```
/// use farword::verbs::Gid;
/// let bytes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1];
/// assert_eq!(Gid::from(bytes).to_string(), "::ffff:10.9.0.1");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gid([u8; 16]);

impl Gid {
    /// The bytes.
    #[must_use]
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// Whether it is all zero: an entry that is not in use.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0 == [0; 16]
    }
}

impl From<[u8; 16]> for Gid {
    fn from(bytes: [u8; 16]) -> Self {
        Gid(bytes)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({self})")
    }
}

/// How a GID's packets travel. Both ends of a connection must use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoceVersion {
    /// RoCE v1 on Ethernet; on an InfiniBand port, plain InfiniBand.
    IbOrRoceV1,
    /// RoCE v2: UDP port 4791.
    RoceV2,
}

impl fmt::Display for RoceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RoceVersion::IbOrRoceV1 => "IB/RoCE v1",
            RoceVersion::RoceV2 => "RoCE v2",
        })
    }
}

/// One entry of a port's GID table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GidEntry {
    /// Its index.
    pub index: u32,
    /// The GID.
    pub gid: Gid,
    /// Its RoCE version, where the kernel says.
    pub version: Option<RoceVersion>,
}

/// The entries of a port's table that are in use, from sysfs, which every
/// kernel and library version has.
pub(super) fn gid_table(device: DeviceName, port: u8, len: u32) -> std::vec::Vec<GidEntry> {
    let folder = std::format!("/sys/class/infiniband/{device}/ports/{port}");
    let read = |part: &str, index| {
        // An entry that is not in use has no attributes: reading them fails.
        std::fs::read_to_string(std::format!("{folder}/{part}/{index}")).ok()
    };
    let entry = |index| {
        let gid: Ipv6Addr = read("gids", index)?.trim().parse().ok()?;
        let gid = Gid(gid.octets());
        if gid.is_zero() {
            return None;
        }
        let version = match read("gid_attrs/types", index).as_deref().map(str::trim) {
            Some("RoCE v2") => Some(RoceVersion::RoceV2),
            Some("IB/RoCE v1") => Some(RoceVersion::IbOrRoceV1),
            _ => None,
        };
        Some(GidEntry { index, gid, version })
    };
    (0..len).filter_map(entry).collect()
}
