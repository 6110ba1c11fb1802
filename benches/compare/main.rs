//! farword beside librpma, beside plain verbs, and beside the floor, on the same
//! work and in one run. `benches/README.md` says what every row is.
//!
//! ```text
//! cargo bench --features verbs --bench compare                  a table
//! cargo bench --features verbs --bench compare -- --json        one JSON object, a key per row
//! cargo bench --features verbs --bench compare -- --check       instruction counts against benches/limits.json
//! cargo bench --features verbs --bench compare -- --limits      writes that file
//! cargo bench --features verbs --bench compare -- --sweep --svg benches/batch.svg
//!                                                               rate and latency against batch size
//! ```

mod args;
#[cfg(feature = "capi")]
mod capi;
mod count;
mod floor;
mod limits;
mod measure;
#[cfg(feature = "verbs")]
mod nic;
mod only;
#[cfg(feature = "verbs")]
mod plain;
mod plot;
mod polling;
mod report;
mod ring;
mod row;
#[cfg(feature = "verbs")]
mod rpma;
mod sweep;
mod threads;
#[cfg(feature = "verbs")]
mod verbs;
#[cfg(feature = "verbs")]
mod wqe;

use std::process::ExitCode;

use args::{Args, Task};

fn main() -> ExitCode {
    let args = match Args::read(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(why) => {
            eprintln!("compare: {why}");
            return ExitCode::from(2);
        }
    };
    match args.task {
        Task::Table | Task::Json => {
            let results = measure::all(&args);
            print!(
                "{}",
                if args.task == Task::Json {
                    report::json(&results)
                } else {
                    report::table(&results)
                }
            );
            ExitCode::SUCCESS
        }
        Task::Check | Task::Limits => limits::run(&args),
        Task::Sweep => sweep::run(&args),
        Task::Counted => count::be_counted(&args),
    }
}

/// Every row that this build and this machine have, in the order of the table.
fn rows() -> Vec<Box<dyn row::Row>> {
    let mut rows = Vec::new();
    #[cfg(feature = "verbs")]
    {
        rpma::add(&mut rows);
        #[cfg(feature = "capi")]
        capi::add(&mut rows);
        plain::add(&mut rows);
        wqe::add(&mut rows);
        verbs::add(&mut rows);
    }
    floor::add(&mut rows);
    ring::add(&mut rows);
    only::add(&mut rows);
    polling::add(&mut rows);
    rows
}
