//! Time: interleaved rounds, and the median of each row.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::args::Args;
use crate::count;
use crate::row::Row;
use crate::threads;

/// What was found out about one row.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) name: String,
    /// Nanoseconds an operation, one figure per round; none where only a ratio
    /// means anything.
    pub(crate) ns: Vec<f64>,
    pub(crate) instructions: Option<f64>,
    pub(crate) doorbells: Option<f64>,
}

impl Found {
    pub(crate) fn ns(&self) -> f64 {
        median(&self.ns)
    }
}

/// How many operations one round of a row does: little enough that a round is
/// seldom interrupted where others want the processor too, and the clock's own
/// cost still vanishes in it.
const OPERATIONS: u64 = 4 * 1024;

/// Times every row that is asked for, and counts its instructions.
pub(crate) fn all(args: &Args) -> Vec<Found> {
    let mut rows = crate::rows();
    rows.retain(|row| args.wants(row.name()));
    let mut found = time(&mut rows, args.rounds);
    drop(rows);
    found.extend(threads::all(args));
    let counts = if args.no_count { Ok(BTreeMap::new()) } else { count::count(args) };
    match counts {
        Ok(counts) => {
            for row in &mut found {
                row.instructions = counts.get(&row.name).copied();
            }
        }
        Err(why) => eprintln!("compare: no instruction counts: {why}"),
    }
    found
}

/// All rows in every round, so that what disturbs one disturbs its neighbours.
pub(crate) fn time(rows: &mut [Box<dyn Row>], rounds: usize) -> Vec<Found> {
    let mut found: Vec<Found> = rows
        .iter_mut()
        .map(|row| {
            // Once unmeasured, to warm caches and predictors.
            let doorbells = row.run(OPERATIONS);
            row.verify();
            Found {
                name: row.name().to_owned(),
                ns: Vec::new(),
                instructions: None,
                doorbells: doorbells.map(|count| count as f64 / OPERATIONS as f64),
            }
        })
        .collect();
    for _ in 0..rounds {
        for (row, found) in rows.iter_mut().zip(&mut found) {
            let start = Instant::now();
            row.run(OPERATIONS);
            let spent = start.elapsed();
            row.verify();
            found.ns.push(spent.as_nanos() as f64 / OPERATIONS as f64);
        }
    }
    found
}

/// The middle of some figures.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[len / 2],
        len => (sorted[len / 2 - 1] + sorted[len / 2]) / 2.0,
    }
}
