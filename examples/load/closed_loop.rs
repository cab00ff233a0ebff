//! Load that waits for answers: as much as the other side can take, which is no measure of how long anybody waits.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Poll, Token};

use crate::dialer::{Dialer, Line};
use crate::samples::Samples;
use crate::session::{Progress, SCRATCH_BYTES, Session};
use crate::stop::Stop;

/// How long nothing at all may happen.
const PATIENCE: Duration = Duration::from_secs(10);
/// More failures than this are no accident.
const FAILURES_MAX: u64 = 1000;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Small,
    SmallAndClose,
    /// The connection stays open after that, and another is begun.
    SmallAndStay,
    Download(u64),
    Upload(u64),
}

impl Ask {
    pub(crate) fn head(self) -> String {
        let host = "host: localhost\r\n";
        match self {
            Self::Small | Self::SmallAndStay => format!("GET /small HTTP/1.1\r\n{host}\r\n"),
            Self::SmallAndClose => format!("GET /small HTTP/1.1\r\n{host}connection: close\r\n\r\n"),
            Self::Download(bytes) => format!("GET /bytes/{bytes} HTTP/1.1\r\n{host}\r\n"),
            Self::Upload(bytes) => format!("POST /sink HTTP/1.1\r\n{host}content-length: {bytes}\r\n\r\n"),
        }
    }

    fn body_bytes(self) -> u64 {
        match self {
            Self::Upload(bytes) => bytes,
            Self::Small | Self::SmallAndClose | Self::SmallAndStay | Self::Download(_) => 0,
        }
    }
}

/// Where one connection after the other stands.
struct Place {
    line: Line,
    session: Option<Session>,
    queued: bool,
    answered: bool,
}

/// Connections that ask, each again and again.
pub(crate) struct ClosedLoop {
    poll: Poll,
    dialer: Dialer,
    ask: Ask,
    head: String,
    places: Vec<Place>,
    ready: VecDeque<usize>,
    scratch: Vec<u8>,
    begun: u64,
    done: u64,
    resumed: u64,
    failed: u64,
    moved: u64,
    first_failure: Option<String>,
    /// Connections that stay.
    pub(crate) held: Vec<TcpStream>,
    samples: Samples,
}

impl ClosedLoop {
    pub(crate) fn new(dialer: Dialer, ask: Ask, connections: usize) -> io::Result<Self> {
        let places = (0..connections)
            .map(|_| Place { line: dialer.line(), session: None, queued: false, answered: false })
            .collect();
        Ok(Self {
            poll: Poll::new()?,
            dialer,
            head: ask.head(),
            ask,
            places,
            ready: VecDeque::new(),
            scratch: vec![0; SCRATCH_BYTES],
            begun: 0,
            done: 0,
            resumed: 0,
            failed: 0,
            moved: 0,
            first_failure: None,
            held: Vec::new(),
            samples: Samples::default(),
        })
    }

    /// Loads until `stop` says so, and tells what came of it.
    pub(crate) fn run(&mut self, mut stop: Stop) -> anyhow::Result<serde_json::Value> {
        stop.start();
        self.begin(&mut stop)?;
        for place in 0..self.places.len() {
            self.open(place, &stop)?;
        }
        let mut events = Events::with_capacity(1024);
        loop {
            self.begin(&mut stop)?;
            let now = Instant::now();
            if stop.is_over(now, self.done) {
                return Ok(self.summary(now.duration_since(stop.begun.unwrap_or(now))));
            }
            self.turn(&mut events, &stop)?;
            if self.ask == Ask::SmallAndStay && self.failed > 0 {
                // There is no room for more.
                return Ok(self.summary(Duration::ZERO));
            }
            anyhow::ensure!(self.failed <= FAILURES_MAX, "too many failures: {:?}", self.first_failure);
        }
    }

    /// Counts from here on, if the warm-up is over.
    fn begin(&mut self, stop: &mut Stop) -> io::Result<()> {
        if stop.begins(Instant::now())? {
            (self.done, self.begun, self.resumed, self.failed, self.moved) = (0, 0, 0, 0, 0);
            self.samples.clear();
        }
        Ok(())
    }

    fn summary(&mut self, took: Duration) -> serde_json::Value {
        serde_json::json!({
            "seconds": took.as_secs_f64(), "done": self.done, "moved": self.moved, "resumed": self.resumed,
            "failed": self.failed, "failure": self.first_failure, "us": self.samples.summary(),
        })
    }

    fn turn(&mut self, events: &mut Events, stop: &Stop) -> anyhow::Result<()> {
        let patience = if self.ready.is_empty() { PATIENCE } else { Duration::ZERO };
        self.poll.poll(events, Some(patience))?;
        anyhow::ensure!(!events.is_empty() || patience.is_zero(), "nothing happened for {PATIENCE:?}");
        for event in events.iter() {
            self.enqueue(event.token().0);
        }
        for _ in 0..self.ready.len() {
            if let Some(place) = self.ready.pop_front() {
                self.drive(place, stop)?;
            }
        }
        Ok(())
    }

    fn enqueue(&mut self, index: usize) {
        if let Some(place) = self.places.get_mut(index)
            && !place.queued
        {
            place.queued = true;
            self.ready.push_back(index);
        }
    }

    fn open(&mut self, index: usize, stop: &Stop) -> io::Result<()> {
        let Some(place) = self.places.get_mut(index) else { return Ok(()) };
        if stop.left(self.begun) == 0 {
            return Ok(());
        }
        self.begun += 1;
        let mut session = self.dialer.dial(&place.line)?;
        session.register(self.poll.registry(), Token(index))?;
        session.ask(self.head.as_bytes(), self.ask.body_bytes())?;
        place.session = Some(session);
        place.answered = false;
        Ok(())
    }

    fn drive(&mut self, index: usize, stop: &Stop) -> io::Result<()> {
        let Some(place) = self.places.get_mut(index) else { return Ok(()) };
        place.queued = false;
        let Some(session) = &mut place.session else { return Ok(()) };
        match session.drive(&mut self.scratch) {
            Ok(progress) => self.note(index, &progress, stop),
            Err(error) => self.fail(index, &error, stop),
        }
    }

    fn note(&mut self, index: usize, progress: &Progress, stop: &Stop) -> io::Result<()> {
        self.moved += progress.moved;
        let Some(place) = self.places.get_mut(index) else { return Ok(()) };
        let Some(session) = &mut place.session else { return Ok(()) };
        if progress.answered {
            place.answered = true;
            self.samples.add(session.since.elapsed());
            if self.ask != Ask::SmallAndClose {
                return self.ask_on(index, stop);
            }
        }
        if progress.ended && !place.answered {
            return self.fail(index, &io::ErrorKind::UnexpectedEof.into(), stop);
        }
        if progress.ended {
            self.done += 1;
            self.resumed += u64::from(session.resumed());
            place.session.take().map(Session::finish);
            return self.open(index, stop);
        }
        // The end may have come with the answer, which was read no further.
        if progress.unfinished || progress.answered {
            self.enqueue(index);
        }
        Ok(())
    }

    fn ask_on(&mut self, index: usize, stop: &Stop) -> io::Result<()> {
        let Some(place) = self.places.get_mut(index) else { return Ok(()) };
        match (self.ask, &mut place.session) {
            (Ask::SmallAndStay, session) => {
                self.done += 1;
                self.held.extend(session.take().map(Session::into_socket));
                return self.open(index, stop);
            }
            (_, Some(session)) => {
                self.done += 1;
                if stop.left(self.begun) > 0 {
                    self.begun += 1;
                    session.since = Instant::now();
                    session.ask(self.head.as_bytes(), self.ask.body_bytes())?;
                    session.flush()?;
                    // A long body is not sent at once.
                    if self.ask.body_bytes() > 0 {
                        self.enqueue(index);
                    }
                }
            }
            (_, None) => {}
        }
        Ok(())
    }

    fn fail(&mut self, index: usize, error: &io::Error, stop: &Stop) -> io::Result<()> {
        if let Some(place) = self.places.get_mut(index) {
            place.session = None;
        }
        self.failed += 1;
        self.first_failure.get_or_insert_with(|| error.to_string());
        self.begun -= 1;
        self.open(index, stop)
    }
}
