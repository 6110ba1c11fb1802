//! A bounded long run: rings on many threads, over devices that fail at several
//! rates, with books that must balance to zero at the end.
//!
//! ```sh
//! cargo run --release --example soak --features cli -- --seconds 60 --threads 4 --rings 6
//! ```
//!
//! Every thread drives its rings in turn. A ring lives until it fails, or for
//! some thousands of operations, and is then drained, audited and followed by
//! another. The rings' numbers start near the ends of 32 and of 64 bits as well
//! as at 0, and no ring is closed before it has crossed them. A thread of its own
//! reads the memory all the while, as a peer's processors would.
//!
//! Exit 0 if every balance is zero, 1 if one is not, 2 for bad use.

mod books;
mod rates;
mod user;
mod word;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use farword::soft::{Engine, SoftDevice, SoftRegion};
use farword::{Invalid, Usage};

use books::Books;
use user::{User, WORDS_OF_A_USER};

/// Rings on many threads over failing devices, for a time
#[derive(Clone, Debug, Parser)]
struct Args {
    /// For how many seconds new rings are made
    #[arg(long, default_value_t = 10, value_name = "N")]
    seconds: u64,
    /// How many threads drive rings
    #[arg(long, default_value_t = 2, value_name = "T",
          value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// How many rings each thread has at once
    #[arg(long, default_value_t = 6, value_name = "R",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    rings: u32,
    /// What the faults and the operations follow from
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match soak(&args) {
        Ok(books) => {
            println!("{}", if args.json { books.to_json() } else { books.to_string() });
            if books.balances() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs it all, and adds the books up.
fn soak(args: &Args) -> Result<Books, Invalid> {
    let users = args.threads as usize * args.rings as usize;
    let memory: Vec<AtomicU64> = (0..users * WORDS_OF_A_USER).map(|_| AtomicU64::new(0)).collect();
    let mut device = SoftDevice::new();
    // As one region, which every user cuts its own part out of.
    let region = device.register(&memory, Usage::from_bits(0xff))?;
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let end = begun + Duration::from_secs(args.seconds);
    let (device, memory, stop) = (&device, &memory[..], &stop);
    let mut books = std::thread::scope(|outer| {
        let engine = Engine::spawn(outer, device);
        let reader = outer.spawn(move || read_until(memory, stop));
        let mut books = drive(args, end, device, &engine, region, memory);
        stop.store(true, Ordering::Relaxed);
        books += join(reader.join());
        books
    });
    books.seconds = begun.elapsed().as_secs_f64();
    Ok(books)
}

/// Drives every ring until the end, on so many threads.
fn drive(
    args: &Args,
    end: Instant,
    device: &SoftDevice<'_>,
    engine: &Engine,
    region: SoftRegion,
    memory: &[AtomicU64],
) -> Books {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.threads as usize)
            .map(|thread| {
                let first = thread * args.rings as usize;
                scope.spawn(move || {
                    let mut users: Vec<User<'_>> = (first..first + args.rings as usize)
                        .map(|number| User::new(args.seed, number, device, engine, region, memory))
                        .collect();
                    // Every ring has a turn, however short the time.
                    loop {
                        users.iter_mut().for_each(User::turn);
                        if Instant::now() >= end {
                            break;
                        }
                    }
                    users.into_iter().map(User::finish).sum::<Books>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| join(thread.join())).sum()
    })
}

/// What a thread gave; its panic goes on.
fn join<T>(result: std::thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Loads every word again and again, as the peer's processors may, and counts
/// those that are not whole.
fn read_until(memory: &[AtomicU64], stop: &AtomicBool) -> Books {
    let mut books = Books::default();
    while !stop.load(Ordering::Relaxed) {
        for (index, place) in memory.iter().enumerate() {
            if index % WORDS_OF_A_USER < user::WORDS {
                books.reads += 1;
                books.torn += u64::from(!word::is_whole(place.load(Ordering::Acquire)));
            }
        }
        std::thread::yield_now();
    }
    books
}
