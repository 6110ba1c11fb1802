//! Rate and latency against batch size.

use std::process::ExitCode;

use crate::args::Args;

pub(crate) fn run(_args: &Args) -> ExitCode {
    ExitCode::SUCCESS
}
