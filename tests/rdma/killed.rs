//! A peer that is killed in mid-stream.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use farword::Error;
use farword::log::{self, Announcement, Log, LogError, Lsn};
use farword::verbs::{ConnConfig, ConnEvent, Listener, Mr, Pages, Pd, VerbsQp};

use crate::Row;
use crate::support::{Appender, LONG, TARGET, paths, record};

pub(crate) const ROWS: &[Row] = &[
    ("a-peer-killed-in-mid-stream-is-noticed-and-the-log-goes-on", killed),
    ("a-peer-killed-while-idle-is-noticed", killed_while_idle),
];

const SIZE: u64 = 1 << 20;

/// How long a killed peer may go unnoticed. It takes milliseconds; a loaded
/// emulated machine takes longer.
const BOUND: Duration = Duration::from_secs(5);

/// The peer that will be killed: exposes the log in a file until its end.
pub(crate) fn serve(address: &str, file: &str) {
    let file = File::options().read(true).write(true).open(file).expect("the file");
    let listener = Listener::bind(&format!("{address}:0")).expect("listening");
    println!("{}", listener.local_address().expect("it is bound"));
    loop {
        let request = listener.next(None).expect("a request");
        let pd = Pd::new(&request.device().expect("its device")).expect("a domain");
        let pages = Pages::map_file(&file).expect("mapped");
        let region = Mr::register(&pd, pages, TARGET).expect("registered");
        if log::tail(region.words()).is_err() {
            log::format(region.words()).expect("a log");
        }
        let told = Announcement::new(region.remote())
            .with_native_flush(region.grants_native_flush())
            .to_bytes();
        let connection = request.accept(&pd, &told, &ConnConfig::default()).expect("accepting");
        let _ = connection.wait_end(None);
    }
}

struct Server {
    process: Child,
    at: String,
}

impl Server {
    fn start(address: &str, file: &std::path::Path) -> Server {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args(["serve", address])
            .arg(file)
            .stdout(Stdio::piped())
            .spawn()
            .expect("another process");
        let mut at = String::new();
        let output = process.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut at).expect("its address");
        Server { process, at: at.trim().into() }
    }

    fn kill(&mut self) {
        self.process.kill().expect("SIGKILL");
        self.process.wait().expect("it is gone");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Checks that the file's log holds the first records, and says how many.
fn records_in(file: &std::path::Path) -> u64 {
    let bytes = std::fs::read(file).expect("the file");
    let tail = u64::from_ne_bytes(bytes[8..16].try_into().expect("8 bytes")) as usize;
    let mut count = 0;
    for found in bytes[16..tail].split(|byte| *byte == 0).filter(|found| !found.is_empty()) {
        assert_eq!(found, record(count), "in order, each whole");
        count += 1;
    }
    assert_eq!(tail as u64, 16 + 14 * count, "the tail is that of some commit");
    count
}

fn killed(address: &str) {
    for path in paths(address) {
        let file = tempfile::NamedTempFile::new_in(".").expect("a file");
        file.as_file().set_len(SIZE).expect("its length");
        let config = ConnConfig::default().with_path(path);
        let mut server = Server::start(address, file.path());
        let mut appender = Appender::connect(&server.at, &config);

        let mut log = appender.log().expect("it opens");
        let mut sent = 0;
        let mut killed_at = None;
        let error = loop {
            if sent == 100 {
                // From another thread, so that it strikes in mid-stream.
                killed_at = Some(thread::scope(|scope| {
                    let killer = scope.spawn(|| {
                        server.kill();
                        Instant::now()
                    });
                    for _ in 0..20 {
                        if append(&mut log, sent).is_err() {
                            break;
                        }
                        sent += 1;
                    }
                    killer.join().expect("no panic")
                }));
            }
            match append(&mut log, sent) {
                Ok(_) => sent += 1,
                Err(error) => break error,
            }
        };
        let noticed = killed_at.expect("it was killed").elapsed();
        assert!(matches!(error, LogError::Ring(Error::Failed { .. })), "{error}");
        assert!(noticed < BOUND, "noticed after {noticed:?}");
        let durable = log.durable();
        drop(log);
        assert_eq!(appender.connection.wait_end(Some(LONG)), Ok(ConnEvent::Closed));

        // What was confirmed is there; of the rest, whole records if any.
        let there = records_in(file.path());
        assert!(16 + 14 * there >= durable.get(), "{there} records, durable {durable:?}");
        assert!(there <= sent + 1);

        // And a new connection goes on from the tail.
        let server = Server::start(address, file.path());
        let mut appender = Appender::connect(&server.at, &config);
        let mut log = appender.log().expect("it opens");
        assert_eq!(log.appended().get(), 16 + 14 * there);
        for number in there..there + 50 {
            append(&mut log, number).expect("it is well again");
        }
        drop(log);
        assert_eq!(records_in(file.path()), there + 50);
    }
}

fn append(log: &mut Log<'_, VerbsQp>, number: u64) -> Result<Lsn, LogError> {
    let lsn = log.append(&record(number))?;
    log.wait(lsn)?;
    Ok(lsn)
}

fn killed_while_idle(address: &str) {
    let file = tempfile::NamedTempFile::new_in(".").expect("a file");
    file.as_file().set_len(SIZE).expect("its length");
    let mut server = Server::start(address, file.path());
    let mut appender = Appender::connect(&server.at, &ConnConfig::default());
    let mut log = appender.log().expect("it opens");
    append(&mut log, 0).expect("all is well");
    server.kill();
    let begin = Instant::now();
    // A program that only polls.
    while log.poll().is_ok() {
        assert!(begin.elapsed() < BOUND, "it never failed");
    }
    drop(log);
    assert!(appender.connection.has_ended());
}
