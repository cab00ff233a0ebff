//! The log on standard error, written by a thread of its own: whoever reads it slowly, or not at all, must not keep the
//! loop waiting. Lines that find no room are lost and counted.
//!
//! Knows nothing of what the lines say. Shown by the end-to-end test with a reader that never reads.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tlsidecar::config::{Log, LogFormat, LogLevel};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// How many lines may wait to be written: some hundred kilobytes.
const WAITING_MAXIMUM: usize = 1024;

/// How long the end of the process waits for the lines that were written last.
const FAREWELL: Duration = Duration::from_secs(1);

/// The log while it is open; on drop the lines that wait are given a moment to be written.
#[derive(Debug)]
pub(crate) struct Open {
    lines: SyncSender<Entry>,
    written: Receiver<()>,
}

#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    End,
}

/// Where the subscriber writes.
#[derive(Clone, Debug)]
struct Queue {
    lines: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
}

/// Opens the log for the whole process.
///
/// # Errors
/// There is no thread to be had.
pub(crate) fn open(log: Log) -> io::Result<Open> {
    let (lines, waiting) = sync_channel(WAITING_MAXIMUM);
    let (tell, written) = sync_channel(1);
    let lost = Arc::new(AtomicU64::new(0));
    let queue = Queue { lines: lines.clone(), lost: Arc::clone(&lost) };
    thread::Builder::new().name("log".to_owned()).spawn(move || {
        write_lines(&waiting, &lost);
        let _ = tell.try_send(());
    })?;
    subscribe(log, queue);
    Ok(Open { lines, written })
}

fn write_lines(waiting: &Receiver<Entry>, lost: &AtomicU64) {
    while let Ok(Entry::Line(line)) = waiting.recv() {
        // Nobody is left to tell when a terminal or a pipe has gone.
        let _ = io::stderr().write_all(&line);
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(lost, "standard error was not read: log lines were lost");
        }
    }
}

fn subscribe(log: Log, queue: Queue) {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt()
        .with_writer(queue)
        .with_max_level(level)
        .with_target(false)
        .log_internal_errors(false);
    match log.format {
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(false).with_span_list(false).init()
        }
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).init(),
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.lines.try_send(Entry::End).is_ok() {
            let _ = self.written.recv_timeout(FAREWELL);
        }
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for Queue {
    /// Takes a whole line, for the subscriber writes each with one call.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lines.try_send(Entry::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
