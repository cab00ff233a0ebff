//! What the sidecar says on stderr, line by line as it comes: one JSON object a line.
//! Knows no message by name; `sidecar.rs` does.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::patience::now;

/// The end of the log is told without holding the lock, so a waiting thread may miss that it was told.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How many of its last lines a log shows: what led to a failure, and not a thousand rotations before it.
const SHOWN: usize = 200;

/// One line of the log.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    raw: String,
    fields: Value,
    /// When this process read it: an upper bound of when it was written.
    pub(crate) seen: Instant,
}

impl Line {
    fn new(raw: String) -> Self {
        let fields = serde_json::from_str(&raw).unwrap_or(Value::Null);
        Self { raw, fields, seen: now() }
    }

    /// A field as text, whatever its JSON type; empty when there is none.
    pub(crate) fn text(&self, field: &str) -> String {
        match self.fields.get(field) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    pub(crate) fn number(&self, field: &str) -> Option<u64> {
        self.text(field).parse().ok()
    }

    pub(crate) fn says(&self, message: &str) -> bool {
        self.text("message") == message
    }

    /// Whether an operator sees it at the default level.
    pub(crate) fn is_above_debug(&self) -> bool {
        !matches!(self.text("level").to_ascii_uppercase().as_str(), "DEBUG" | "TRACE")
    }

    pub(crate) fn is_json_object(&self) -> bool {
        self.fields.is_object()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.raw)
    }
}

/// All lines so far, filled by a thread of its own, so that the child never blocks on a full pipe.
#[derive(Debug, Default)]
pub(crate) struct Log {
    lines: Mutex<Vec<Line>>,
    grown: Condvar,
    /// The child has closed its end: no line will come any more.
    ended: AtomicBool,
}

impl Log {
    pub(crate) fn follow(stream: impl Read + Send + 'static) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let filled = Arc::clone(&log);
        std::thread::spawn(move || {
            for raw in BufReader::new(stream).lines() {
                let Ok(raw) = raw else { break };
                filled.held().push(Line::new(raw));
                filled.grown.notify_all();
            }
            filled.ended.store(true, Ordering::SeqCst);
            filled.grown.notify_all();
        });
        log
    }

    fn held(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap()
    }

    /// A place in the log to look from later.
    pub(crate) fn mark(&self) -> usize {
        self.held().len()
    }

    /// The first line after `mark` that is wanted, waiting for it until `limit` is over or the log has ended.
    pub(crate) fn wait(&self, mark: usize, limit: Duration, wanted: impl Fn(&Line) -> bool) -> Option<Line> {
        let end = now() + limit;
        let mut lines = self.held();
        loop {
            if let Some(line) = lines.iter().skip(mark).find(|line| wanted(line)) {
                return Some(line.clone());
            }
            let left = end.saturating_duration_since(now()).min(LOOK_AGAIN);
            if left.is_zero() || self.ended.load(Ordering::SeqCst) {
                return None;
            }
            lines = self.grown.wait_timeout(lines, left).unwrap().0;
        }
    }

    /// All lines after `mark` that are wanted, as of now.
    pub(crate) fn all(&self, mark: usize, wanted: impl Fn(&Line) -> bool) -> Vec<Line> {
        self.held().iter().skip(mark).filter(|line| wanted(line)).cloned().collect()
    }
}

impl fmt::Display for Log {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.held();
        let hidden = lines.len().saturating_sub(SHOWN);
        if hidden > 0 {
            writeln!(out, "  | ({hidden} lines before)")?;
        }
        for line in lines.iter().skip(hidden) {
            writeln!(out, "  | {line}")?;
        }
        Ok(())
    }
}
