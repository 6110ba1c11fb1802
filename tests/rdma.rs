//! Tests over a real RDMA device, for the VM suite.
//!
//! `cargo test` builds this program and does not count it: it has no test
//! harness, and run without arguments it says so and fails. `tests/vm/run` runs
//! it in a VM with Soft-RoCE, once for each row:
//!
//! ```text
//! rdma list                     the rows, a line each
//! rdma run ROW ADDRESS [PORT]   one row; exit status 0 if it passed
//! ```

use std::process::ExitCode;

#[path = "rdma/rows.rs"]
mod rows;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["list"] => {
            for (name, _) in rows::ROWS {
                println!("{name}");
            }
            ExitCode::SUCCESS
        }
        ["run", row, address, ..] => {
            let Some((_, run)) = rows::ROWS.iter().find(|(name, _)| *name == row) else {
                eprintln!("no row {row}");
                return ExitCode::from(2);
            };
            run(address);
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: rdma list | rdma run ROW ADDRESS");
            ExitCode::from(2)
        }
    }
}
