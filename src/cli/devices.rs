//! `farword devices`: what RDMA devices there are, and what they can do.

use farword::verbs::{DeviceInfo, devices};
use serde::Serialize;

use crate::cli::output::{facts, print, print_json};

/// Lists the RDMA devices of this machine and what each can do.
///
/// For each device: its ports with their state and GIDs, the most inline data
/// that a queue pair gets, and whether it has ATOMIC WRITE, FLUSH and on-demand
/// paging, and the verbs library the calls for the first two: a connection uses
/// what both have. Connections need two active ports on one network, and GIDs of one
/// RoCE version.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print one JSON object: devices, a list with name, max_inline,
    /// native_atomic_write, native_flush_visibility, native_flush_persistent
    /// (the device's), library_atomic_write, library_flush (the verbs
    /// library's), on_demand_paging, iwarp, and ports, a list with number, state, mtu, and
    /// gids, a list with index, gid and version.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    devices: Vec<Device>,
}

#[derive(Debug, Serialize)]
struct Device {
    name: String,
    max_inline: u32,
    native_atomic_write: bool,
    native_flush_visibility: bool,
    native_flush_persistent: bool,
    library_atomic_write: bool,
    library_flush: bool,
    on_demand_paging: bool,
    iwarp: bool,
    ports: Vec<Port>,
}

#[derive(Debug, Serialize)]
struct Port {
    number: u8,
    state: String,
    mtu: u32,
    gids: Vec<GidEntry>,
}

#[derive(Debug, Serialize)]
struct GidEntry {
    index: u32,
    gid: String,
    version: Option<String>,
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let report = Report { devices: devices()?.iter().map(Device::from).collect() };
    if args.json {
        return print_json(&report);
    }
    if report.devices.is_empty() {
        return print("No RDMA device.\n");
    }
    let tables: Vec<String> = report.devices.iter().map(Device::table).collect();
    print(&tables.join("\n"))
}

impl From<&DeviceInfo> for Device {
    fn from(info: &DeviceInfo) -> Self {
        let can = &info.capabilities;
        Device {
            name: info.name.to_string(),
            max_inline: info.max_inline,
            native_atomic_write: can.native_atomic_write,
            native_flush_visibility: can.native_flush_visibility,
            native_flush_persistent: can.native_flush_persistent,
            library_atomic_write: info.library_atomic_write,
            library_flush: info.library_flush,
            on_demand_paging: can.on_demand_paging,
            iwarp: can.iwarp,
            ports: info
                .ports
                .iter()
                .map(|port| Port {
                    number: port.number,
                    state: port.state.to_string(),
                    mtu: port.mtu,
                    gids: port
                        .gids
                        .iter()
                        .map(|entry| GidEntry {
                            index: entry.index,
                            gid: entry.gid.to_string(),
                            version: entry.version.map(|version| version.to_string()),
                        })
                        .collect(),
                })
                .collect(),
        }
    }
}

impl Device {
    fn table(&self) -> String {
        let yes = |has: bool| if has { "yes" } else { "no" }.to_string();
        let flush = match (self.native_flush_visibility, self.native_flush_persistent) {
            (true, true) => "visibility, persistence",
            (true, false) => "visibility",
            (false, true) => "persistence",
            (false, false) => "no",
        };
        // Only what the device has is worth the remark.
        let by_library = |device: bool, library: bool, text: String| {
            if device && !library { text + "; the verbs library has no call for it" } else { text }
        };
        let write = yes(self.native_atomic_write);
        let write = by_library(self.native_atomic_write, self.library_atomic_write, write);
        let flush = by_library(flush != "no", self.library_flush, flush.to_string());
        let mut rows = vec![
            ("native atomic write", write),
            ("native flush", flush),
            ("on-demand paging", yes(self.on_demand_paging)),
            ("inline data, at most", format!("{} bytes", self.max_inline)),
        ];
        if self.iwarp {
            rows.push(("iWARP", yes(true)));
        }
        let mut text = format!("{}\n{}\n", self.name, facts(&rows));
        for port in &self.ports {
            text.push_str(&format!("port {}: {}, MTU {}\n", port.number, port.state, port.mtu));
            for entry in &port.gids {
                let version = entry.version.as_deref().unwrap_or("unknown version");
                text.push_str(&format!("  GID {:>3}  {}  {version}\n", entry.index, entry.gid));
            }
        }
        text
    }
}
