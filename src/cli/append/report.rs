//! What an append prints at its end.

use std::process::ExitCode;

use anyhow::bail;
use serde::Serialize;

use super::job::Done;
use super::readback::Difference;
use crate::cli::device::RanOn;
use crate::cli::output::{count, facts, print, print_json, time};
use crate::cli::stop;

/// With what it was done.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) ran_on: RanOn,
    pub(super) batch: u32,
    pub(super) log_size: u64,
}

/// The JSON object, and what the table is made of.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    records: u64,
    bytes: u64,
    work_requests: u64,
    doorbells: u64,
    verified: bool,
    #[serde(flatten)]
    ran_on: RanOn,
    batch: u32,
    latency_ns: Latency,
    /// Only there where it was.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    stopped: bool,
    #[serde(skip)]
    log_size: u64,
    #[serde(skip)]
    difference: Option<Difference>,
}

/// All 0 where there was no record. Three digits are exact.
#[derive(Debug, Serialize)]
struct Latency {
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

impl Report {
    pub(super) fn new(setting: Setting, done: &Done, difference: Option<Difference>) -> Self {
        let latency = done.latencies.summary();
        Report {
            records: done.records,
            bytes: done.bytes,
            work_requests: done.work_requests,
            doorbells: done.doorbells,
            verified: difference.is_none(),
            ran_on: setting.ran_on,
            batch: setting.batch,
            latency_ns: Latency {
                p50: latency.p50,
                p99: latency.p99,
                p999: latency.p999,
                max: latency.max,
            },
            stopped: done.stopped,
            log_size: setting.log_size,
            difference,
        }
    }

    /// Prints it, and fails if the log was not what was sent. The exit code
    /// tells whether the job was stopped half-way.
    pub(super) fn print(self, json: bool) -> anyhow::Result<ExitCode> {
        if json {
            print_json(&self)?;
        } else {
            print(&self.table())?;
        }
        match self.difference {
            Some(difference) => bail!("{difference}"),
            None if self.stopped => Ok(ExitCode::from(stop::EXIT_CODE)),
            None => Ok(ExitCode::SUCCESS),
        }
    }

    fn table(&self) -> String {
        let latency = |ns| if self.records == 0 { "-".to_string() } else { time(ns) };
        let per_record = match self.records {
            0 => "-".to_string(),
            records => format!("{:.4}", self.doorbells as f64 / records as f64),
        };
        let table = facts(&[
            ("records", count(self.records)),
            ("bytes", count(self.bytes)),
            ("work requests", count(self.work_requests)),
            ("doorbells", count(self.doorbells)),
            ("doorbells per record", per_record),
            ("latency p50", latency(self.latency_ns.p50)),
            ("latency p99", latency(self.latency_ns.p99)),
            ("latency p99.9", latency(self.latency_ns.p999)),
            ("latency max", latency(self.latency_ns.max)),
        ]);
        let verdict = match (self.verified, self.stopped) {
            (false, _) => "NOT VERIFIED",
            (true, false) => {
                "Verified: every byte, read back from the remote side, is what was sent."
            }
            (true, true) => {
                "Stopped before the end of the input. Verified: every byte that was sent, read\n\
                 back from the remote side, is there."
            }
        };
        format!(
            "A log of {} bytes, {} to a commit\n{}\n{table}\n{verdict}\n",
            count(self.log_size),
            match self.batch {
                1 => "1 record".to_string(),
                batch => format!("{} records", count(batch.into())),
            },
            self.ran_on.title(),
        )
    }
}
