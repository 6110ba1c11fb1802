//! The command line: parse, run a subcommand, turn what went wrong into one
//! line and an exit code.
//!
//! A subcommand is a module with its arguments and a `run`; the parts that do
//! the work (`append::job`, `append::readback`, `perf::latency`, `perf::rate`)
//! are generic over the provider and know nothing of the software device.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod append;
mod device;
#[cfg(feature = "verbs")]
mod devices;
#[cfg(feature = "verbs")]
mod fabric;
mod latency;
mod output;
mod perf;
mod remote;
#[cfg(feature = "verbs")]
mod serve;
#[cfg(feature = "sim")]
mod simulate;
mod soft;
mod stop;
mod usage;

/// Atomic 8-byte remote writes over RDMA, and the log that they make safe.
///
/// A storage engine writes records into another machine's memory, flushes them,
/// and publishes one word that makes them count. `farword append` does that with
/// your own lines and checks the result byte by byte; `farword perf` measures
/// the word. Both run on the software device: no RDMA hardware is needed. Built
/// with the feature `verbs` they run over a fabric too, against `farword serve`.
#[derive(Debug, Parser)]
#[command(name = "farword", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  farword append README.md
  farword append --batch 64 --json access.log
  dmesg | farword append -
  farword perf rate --batch 32 --duration 5
  farword perf latency --engine threaded

Exit codes: 0 done (and verified, for append), 1 it failed, 2 wrong usage,
130 an append that was stopped half-way (SIGINT, SIGTERM).";

#[derive(Debug, Subcommand)]
enum Command {
    Append(append::Args),
    Perf(perf::Args),
    #[cfg(feature = "verbs")]
    Serve(serve::Args),
    #[cfg(feature = "verbs")]
    Devices(devices::Args),
    #[cfg(feature = "sim")]
    Simulate(simulate::Args),
}

/// Runs the command that the process was started with.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::answer(&error),
    };
    let result = stop::listen().and_then(|()| match cli.command {
        Command::Append(args) => append::run(&args),
        Command::Perf(args) => perf::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "verbs")]
        Command::Serve(args) => serve::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "verbs")]
        Command::Devices(args) => devices::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "sim")]
        Command::Simulate(args) => simulate::run(&args).map(|()| ExitCode::SUCCESS),
    });
    match result {
        Ok(code) => code,
        Err(error) => {
            output::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_do_not_contradict_one_another() {
        <super::Cli as clap::CommandFactory>::command().debug_assert();
    }
}
