//! `farword serve`: a log that a peer appends to.

use core::fmt::Write as _;
use core::time::Duration;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, bail};
use farword::Usage;
use farword::log::{self, Announcement, DATA_OFFSET, LogError};
use farword::soft::load_bytes;
use farword::verbs::{
    ConnConfig, ConnEvent, Connection, Device, Incoming, Listener, Memory, Mr, Pages, Pd,
};
use serde::Serialize;

use crate::cli::output::{complain, explain, plain, print_bytes, print_json};
use crate::cli::{fabric, stop, usage};

/// Exposes a log to peers that append to it, one at a time, and prints what each
/// has appended when it is done.
///
/// The log is librpma's atomic-write example's: `farword append --connect` and
/// that example's client can append to it. Records are printed as lines. A peer
/// that comes while another is there is refused. SIGINT ends it, after what the
/// present peer has appended so far was printed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where to listen: an address of this machine's RDMA device and a port.
    ///
    /// Port 0 takes a free one; 0.0.0.0 and [::] listen on all devices. The line
    /// "listening on ADDR:PORT" appears on standard error once peers may come.
    #[arg(value_name = "ADDR:PORT")]
    listen: String,

    /// How large the log is, its header of 16 bytes included.
    ///
    /// A record takes one byte more than its length. K, M, G and T are taken as
    /// units. Without it: 64M, or the length of the file that --file names.
    #[arg(long, value_name = "BYTES", value_parser = usage::log_size)]
    log_size: Option<u64>,

    /// Keep the log in this file.
    ///
    /// A file that is not there is made. One that holds a log is gone on with,
    /// and one that holds anything else is refused. It is mapped, so peers write
    /// to it directly, and synced to the disk when a peer is done.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,

    /// End when the first peer is done.
    #[arg(long)]
    once: bool,

    /// Print one JSON object a peer, and nothing else.
    ///
    /// Its keys: peer, records (how many), bytes (of the records), tail (where
    /// the log ends now), ended ("closed", "lost" or "stopped"), text (the
    /// records; what is not UTF-8 in them is replaced).
    #[arg(long)]
    json: bool,
}

/// The size of a log in memory.
const DEFAULT_SIZE: u64 = 64 << 20;

const LOG_USAGE: Usage = Usage::WRITE_DST.and(Usage::READ_SRC).and(Usage::FLUSH_VISIBILITY);

/// What a peer hears that comes while another is there.
const BUSY: &[u8] = b"another peer is appending";

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let store = Store::open(args)?;
    let mut printed = store.tail()?;
    let mut exposed = Exposed { store: &store, regions: Vec::new() };
    let (listener, _wake) = fabric::listen(&args.listen, |listener| {
        // Registering pins the memory, which may take longer than a peer waits.
        match listener.device()? {
            Some(device) => exposed.on(&device).map(drop),
            None => Ok(()),
        }
    })?;
    while let Some(request) = fabric::next_peer(&listener)? {
        // A peer that fails on the way in is its own loss, unless it is the one
        // that is waited for.
        match serve(&listener, request, &mut exposed, args, &mut printed) {
            Ok(()) => {}
            Err(error) if args.once => return Err(error),
            Err(error) => complain(&format!("{error:#}")),
        }
        if args.once || stop::requested() {
            break;
        }
    }
    Ok(())
}

/// Serves one peer to its end.
fn serve(
    listener: &Listener,
    request: Incoming,
    exposed: &mut Exposed<'_>,
    args: &Args,
    printed: &mut u64,
) -> anyhow::Result<()> {
    let store = exposed.store;
    let region = exposed.on(&request.device()?)?;
    let told = Announcement::new(region.remote())
        .with_native_flush(region.grants_native_flush())
        .to_bytes();
    let connection = request.accept(region.pd(), &told, &ConnConfig::default())?;
    let peer = connection.peer_address().map(|peer| peer.to_string());
    let ended = wait_for_end(listener, &connection)?;
    drop(connection);

    store.sync()?;
    let tail = store.tail()?;
    if tail < *printed {
        bail!("the peer has set the tail back, from byte {printed} to {tail}");
    }
    let report = Report::new(store, peer, ended, *printed, tail);
    *printed = tail;
    report.print(args.json)
}

/// Waits for the end of a connection, or of our patience, and turns other peers
/// away meanwhile. Says how it ended.
fn wait_for_end(listener: &Listener, connection: &Connection) -> anyhow::Result<&'static str> {
    let waker = connection.waker();
    let _wake = stop::wake_with(move || waker.wake());
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            // Until the waker below, or a stop.
            while let Ok(other) = listener.next(None) {
                let _ = other.reject(BUSY);
            }
        });
        let ended = connection.wait_end(None);
        listener.waker().wake();
        ended
    });
    match ended {
        Ok(ConnEvent::Closed) => Ok("closed"),
        Ok(_) => Ok("lost"),
        Err(error) if error.is_woken() => {
            connection.disconnect()?;
            // What is on its way has arrived, or never will.
            let _ = connection.wait_end(Some(Duration::from_secs(1)));
            Ok("stopped")
        }
        Err(error) => Err(error.into()),
    }
}

/// The log, registered with each device that a peer has come by.
struct Exposed<'s> {
    store: &'s Store,
    regions: Vec<Mr<Arc<Pages>>>,
}

impl Exposed<'_> {
    fn on(&mut self, device: &Device) -> anyhow::Result<&Mr<Arc<Pages>>> {
        let found = self.regions.iter().position(|region| region.pd().device() == device);
        let index = match found {
            Some(index) => index,
            None => {
                let memory = Arc::clone(&self.store.pages);
                self.regions.push(Mr::register(&Pd::new(device)?, memory, LOG_USAGE)?);
                self.regions.len() - 1
            }
        };
        Ok(&self.regions[index])
    }
}

/// The log's memory, and the file behind it.
struct Store {
    pages: Arc<Pages>,
    in_file: bool,
}

impl Store {
    fn open(args: &Args) -> anyhow::Result<Self> {
        let pages = match &args.file {
            None => {
                let size = args.log_size.unwrap_or(DEFAULT_SIZE);
                Pages::zeroed(usize::try_from(size).context("so large a log")?)?
            }
            Some(path) => {
                map(path, args.log_size).with_context(|| format!("the file {}", path.display()))?
            }
        };
        let store = Store { pages: Arc::new(pages), in_file: args.file.is_some() };
        match log::tail(store.pages.words()) {
            // The one thing that is no log and may become one: zeros.
            Err(LogError::TailOutside { .. }) if store.is_blank() => {
                log::format(store.pages.words())?;
            }
            Err(error) if store.in_file => {
                let path = args.file.as_deref().unwrap_or(Path::new("")).display().to_string();
                return Err(error).with_context(|| format!("{path} holds something else"));
            }
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        Ok(store)
    }

    fn is_blank(&self) -> bool {
        use core::sync::atomic::Ordering;
        self.pages.words().iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    fn tail(&self) -> anyhow::Result<u64> {
        let tail = log::tail(self.pages.words()).context("the log is damaged")?;
        Ok(tail.get())
    }

    fn sync(&self) -> anyhow::Result<()> {
        if self.in_file {
            self.pages.sync().context("cannot sync the file")?;
        }
        Ok(())
    }

    fn bytes(&self, from: u64, to: u64) -> Vec<u8> {
        let mut bytes = vec![0; (to - from) as usize];
        load_bytes(self.pages.words(), from, &mut bytes);
        bytes
    }
}

fn map(path: &Path, size: Option<u64>) -> anyhow::Result<Pages> {
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(plain)?;
    let len = file.metadata().map_err(plain)?.len();
    let wanted = match size {
        Some(size) => size,
        None if len == 0 => DEFAULT_SIZE,
        None => len,
    };
    // A larger log is made of a smaller one, never the reverse.
    if wanted < len {
        bail!("it has {len} bytes already: a --log-size of {wanted} would cut it");
    }
    let wanted = wanted.next_multiple_of(8);
    if wanted > len {
        file.set_len(wanted).map_err(plain)?;
    }
    Ok(Pages::map_file(&file)?)
}

#[derive(Debug, Serialize)]
struct Report {
    peer: Option<String>,
    records: u64,
    bytes: u64,
    tail: u64,
    ended: &'static str,
    text: Vec<String>,
    /// The records, a NUL behind each.
    #[serde(skip)]
    raw: Vec<u8>,
}

impl Report {
    fn new(store: &Store, peer: Option<String>, ended: &'static str, from: u64, to: u64) -> Self {
        let from = from.max(DATA_OFFSET);
        let raw = store.bytes(from, to);
        let whole = raw.strip_suffix(b"\0").unwrap_or(&raw);
        let records = whole.split(|byte| *byte == 0).filter(|_| !raw.is_empty());
        let text: Vec<String> =
            records.map(|record| String::from_utf8_lossy(record).into_owned()).collect();
        let records = text.len() as u64;
        Report { peer, records, bytes: raw.len() as u64 - records, tail: to, ended, text, raw }
    }

    fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            return print_json(self);
        }
        let lines: Vec<u8> =
            self.raw.iter().map(|byte| if *byte == 0 { b'\n' } else { *byte }).collect();
        print_bytes(&lines)?;
        let mut note = String::from("farword: ");
        let peer = self.peer.as_deref().unwrap_or("a peer");
        let _ = writeln!(
            note,
            "{peer} appended {} records and {}; the log ends at byte {}",
            self.records,
            match self.ended {
                "closed" => "closed the connection",
                "stopped" => "was stopped",
                _ => "was lost",
            },
            self.tail
        );
        explain(&note);
        Ok(())
    }
}
