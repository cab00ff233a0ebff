//! Requests at times that are fixed beforehand. Each is timed from when it was due, so that a server that stalls can't hide
//! the wait of those that stood behind.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::closed_loop::Ask;
use crate::dialer::{Dialer, Line};
use crate::samples::Samples;
use crate::session::{SCRATCH_BYTES, Session};

const CLOCK: Token = Token(usize::MAX);
/// How long the last answers may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Before the first request is due.
const LEAD: Duration = Duration::from_millis(100);

/// What a request is asked on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// A connection that is there.
    Kept,
    /// A connection of its own, with a full handshake.
    Fresh,
}

/// A connection and the requests that are due on it and not answered, by when they were due.
struct Place {
    /// None between two fresh ones.
    session: Option<Session>,
    due: VecDeque<Instant>,
    queued: bool,
}

/// Connections that take turns in asking.
pub(crate) struct OpenLoop {
    poll: Poll,
    dialer: Dialer,
    line: Line,
    usage: Use,
    /// The kernel's timer: waiting in the poll itself is only good to a millisecond.
    timer: TimerFd,
    places: Vec<Place>,
    ready: VecDeque<usize>,
    scratch: Vec<u8>,
    head: String,
    failed: u64,
    first_failure: Option<String>,
    waits: Samples,
    /// How late we ourselves were in asking, where the connection was free.
    lateness: Samples,
}

impl OpenLoop {
    /// Connections that have had an answer each.
    pub(crate) fn new(dialer: Dialer, connections: usize, usage: Use) -> anyhow::Result<Self> {
        let poll = Poll::new()?;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        poll.registry().register(&mut SourceFd(&timer.as_fd().as_raw_fd()), CLOCK, Interest::READABLE)?;
        let empty = || Place { session: None, due: VecDeque::new(), queued: false };
        let ask = if usage == Use::Fresh { Ask::SmallAndClose } else { Ask::Small };
        let mut made = Self {
            poll,
            line: dialer.line(),
            dialer,
            usage,
            timer,
            places: (0..connections).map(|_| empty()).collect(),
            ready: VecDeque::new(),
            scratch: vec![0; SCRATCH_BYTES],
            head: ask.head(),
            failed: 0,
            first_failure: None,
            waits: Samples::default(),
            lateness: Samples::default(),
        };
        (0..connections).try_for_each(|place| made.ask(place, Instant::now()))?;
        made.settle()?;
        anyhow::ensure!(made.unanswered() == 0, "{} connections had no answer", made.unanswered());
        Ok(made)
    }

    /// Asks `rate` times a second for as long as `length`, and tells what came of it.
    pub(crate) fn run(mut self, rate: f64, length: Duration) -> anyhow::Result<serde_json::Value> {
        self.waits.clear();
        self.lateness.clear();
        let total = (rate * length.as_secs_f64()) as u64;
        println!("ready");
        io::stdout().flush()?;
        let start = Instant::now() + LEAD;
        let at = |number: u64| start + Duration::from_secs_f64(number as f64 / rate);
        let mut next = 0;
        let mut events = Events::with_capacity(1024);
        while next < total {
            let now = Instant::now();
            while next < total && at(next) <= now {
                let place = usize::try_from(next)? % self.places.len();
                self.ask(place, at(next))?;
                next += 1;
            }
            let wait = at(next).saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
            self.timer.set(Expiration::OneShot(wait.into()), TimerSetTimeFlags::empty())?;
            self.turn(&mut events, PATIENCE)?;
        }
        self.timer.unset()?;
        self.settle()?;
        let took = start.elapsed().as_secs_f64();
        Ok(serde_json::json!({
            "seconds": took, "done": total, "failed": self.failed + self.unanswered() as u64, "rate": rate,
            "failure": self.first_failure, "us": self.waits.summary(), "late_us": self.lateness.summary(),
        }))
    }

    fn ask(&mut self, index: usize, due: Instant) -> io::Result<()> {
        let Some(place) = self.places.get_mut(index) else { return Ok(()) };
        place.due.push_back(due);
        if place.due.len() == 1 {
            self.lateness.add(due.elapsed());
            self.send(index)?;
        }
        Ok(())
    }

    /// Asks for what is due first in this place.
    fn send(&mut self, index: usize) -> io::Result<()> {
        let Some(place) = self.places.get_mut(index) else { return Ok(()) };
        let session = match &mut place.session {
            Some(session) => session,
            vacant @ None => {
                let mut session = self.dialer.dial(&self.line)?;
                session.register(self.poll.registry(), Token(index))?;
                vacant.insert(session)
            }
        };
        session.ask(self.head.as_bytes(), 0)?;
        session.flush()
    }

    fn turn(&mut self, events: &mut Events, patience: Duration) -> io::Result<()> {
        let patience = if self.ready.is_empty() { patience } else { Duration::ZERO };
        self.poll.poll(events, Some(patience))?;
        for event in events.iter().filter(|event| event.token() != CLOCK) {
            if let Some(place) = self.places.get_mut(event.token().0)
                && !place.queued
            {
                place.queued = true;
                self.ready.push_back(event.token().0);
            }
        }
        for _ in 0..self.ready.len() {
            if let Some(index) = self.ready.pop_front() {
                self.drive(index)?;
            }
        }
        Ok(())
    }

    fn drive(&mut self, index: usize) -> io::Result<()> {
        let Some(place) = self.places.get_mut(index) else { return Ok(()) };
        place.queued = false;
        let Some(session) = &mut place.session else { return Ok(()) };
        let progress = session.drive(&mut self.scratch);
        let answered = progress.as_ref().is_ok_and(|progress| progress.answered);
        let error = match progress {
            Err(error) => Some(error),
            Ok(progress) if progress.ended && !answered => Some(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => None,
        };
        if !answered && error.is_none() {
            return Ok(());
        }
        if let Some(error) = error {
            self.failed += 1;
            self.first_failure.get_or_insert_with(|| error.to_string());
            place.session = None;
        } else if self.usage == Use::Fresh {
            place.session.take().map(Session::finish);
        }
        // A failure is a wait that has ended too: there is one figure for each request.
        if let Some(due) = place.due.pop_front() {
            self.waits.add(due.elapsed());
        }
        if place.due.is_empty() { Ok(()) } else { self.send(index) }
    }

    /// Waits for all answers, or until patience ends.
    fn settle(&mut self) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        let mut events = Events::with_capacity(1024);
        while self.unanswered() > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.turn(&mut events, left)?;
        }
        // Whoever had no answer has waited at least so long.
        let late: Vec<Duration> =
            self.places.iter().flat_map(|place| &place.due).map(Instant::elapsed).collect();
        late.into_iter().for_each(|wait| self.waits.add(wait));
        Ok(())
    }

    fn unanswered(&self) -> usize {
        self.places.iter().map(|place| place.due.len()).sum()
    }
}
