//! Tests over a real RDMA device, for the VM suite.
//!
//! `cargo test` does not run this program: a machine without a device would fail
//! every row of it. `tests/vm/run` runs it in a VM with Soft-RoCE, a process a
//! row:
//!
//! ```text
//! rdma list GROUP               the group's rows, a line each
//! rdma run ROW ADDRESS          one row; exit status 0 if it passed
//! ```
//!
//! The groups: `one`, for a device with ADDRESS; `two`, for a second one on a
//! wire, at the next address, that the row may spoil; `two-native`, for two that
//! have ATOMIC WRITE.

use std::process::ExitCode;

#[path = "rdma/connect.rs"]
mod connect;
#[path = "rdma/faults.rs"]
mod faults;
#[path = "rdma/killed.rs"]
mod killed;
#[path = "rdma/log_faults.rs"]
mod log_faults;
#[path = "rdma/memory.rs"]
mod memory;
#[path = "rdma/queues.rs"]
mod queues;
#[path = "rdma/support.rs"]
mod support;
#[path = "rdma/wire.rs"]
mod wire;

/// A row: its name and what it does at an address.
type Row = (&'static str, fn(&str));

const GROUPS: [&str; 3] = ["one", "two", "two-native"];

fn rows(group: &str) -> Vec<Row> {
    match group {
        "one" => [
            connect::ROWS,
            memory::ROWS,
            faults::ROWS,
            queues::ROWS,
            killed::ROWS,
            log_faults::ROWS,
        ]
        .concat(),
        "two" => [wire::ROWS, log_faults::WIRE_ROWS].concat(),
        "two-native" => wire::NATIVE_ROWS.to_vec(),
        _ => Vec::new(),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["list", group] if !rows(group).is_empty() => {
            for (name, _) in rows(group) {
                println!("{name}");
            }
        }
        ["run", row, address] => {
            let all = GROUPS.map(rows).concat();
            let Some((_, run)) = all.iter().find(|(name, _)| *name == row) else {
                eprintln!("no row {row}");
                return ExitCode::from(2);
            };
            run(address);
        }
        ["serve", address, file] => killed::serve(address, file),
        _ => {
            eprintln!("usage: rdma list GROUP | rdma run ROW ADDRESS");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
