//! One thread's loop: poll, dispatch, expire, drain. Reads the clock once a turn and passes it down.
//!
//! Does not know PEM, HTTP or buffer arithmetic. Shown by every end-to-end test.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll};

use super::admission::Admission;
use super::clock;
use super::connection::{self, Connection, Progress, Surroundings};
use super::control::Control;
use super::jitter::Jitter;
use super::limit::Limit;
use super::listener::{Accepted, Listener};
use super::ready::{Load, Ready};
use super::seat::Seat;
use super::settings::Settings;
use super::shared::{Phase, Shared};
use super::story;
use super::table::Table;
use super::tally::{self, Moved};
use super::token::Source;
use crate::config::limits;
use crate::deadlines::Deadlines;
use crate::relay::{CloseReason, Pool, Side, Size};

/// One thread's loop and all that it owns.
#[derive(Debug)]
pub(crate) struct Worker {
    poll: Poll,
    listener: Listener,
    admission: Admission,
    connections: Table,
    ready: Ready,
    deadlines: Deadlines,
    pool: Pool,
    settings: Arc<Settings>,
    shared: Arc<Shared>,
    /// Signals, reload: only the first worker's loop has them.
    control: Option<Box<Control>>,
    /// Set when this worker has begun to drain: when to cut what is left.
    drain_until: Option<Instant>,
    /// Connections that were cut.
    cut: usize,
    /// Bytes moved in this turn.
    bytes: tally::Bytes,
    /// How the ages of connections differ.
    ages: Jitter,
}

impl Worker {
    pub(crate) fn new(
        poll: Poll,
        socket: std::net::TcpListener,
        settings: Arc<Settings>,
        seat: Seat,
        control: Option<Box<Control>>,
    ) -> Self {
        let number = u64::try_from(seat.number).unwrap_or(u64::MAX);
        Self {
            poll,
            listener: Listener::new(socket),
            admission: Admission::new(seat.clone()),
            connections: Table::new(seat.clone()),
            ready: Ready::default(),
            deadlines: Deadlines::new(),
            pool: Pool::default(),
            ages: Jitter::new(settings.seed ^ number),
            settings,
            shared: seat.shared,
            control,
            drain_until: None,
            cut: 0,
            bytes: tally::Bytes::default(),
        }
    }

    /// Turns until the process drains and no connection is left. Returns how many connections were cut.
    ///
    /// # Errors
    /// What keeps the loop from turning at all.
    pub(crate) fn run(mut self) -> io::Result<usize> {
        let mut events = Events::with_capacity(limits::EVENTS_PER_POLL);
        let mut now = clock::now();
        loop {
            self.poll_events(&mut events, now)?;
            now = clock::now();
            self.note(&events);
            self.turn_control(now)?;
            self.listen()?;
            let limit = self.accept(now);
            self.run_ready(now);
            self.bytes.count(&self.shared.metrics);
            self.admission.hold(limit, now);
            self.expire(now);
            if self.drained(now) {
                return Ok(self.cut);
            }
        }
    }

    fn poll_events(&mut self, events: &mut Events, now: Instant) -> io::Result<()> {
        let patience = self.patience(now);
        match self.poll.poll(events, patience) {
            // What a signal interrupted has nothing to say; `events` is empty then.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            polled => polled,
        }
    }

    /// How long to wait for an event; none at all while there is work left over.
    fn patience(&mut self, now: Instant) -> Option<Duration> {
        if !self.ready.is_empty() || self.can_accept(now) {
            return Some(Duration::ZERO);
        }
        let control = self.control.as_ref().and_then(|control| control.deadline(now));
        let accepting = self.listener.deadline(now).or_else(|| self.admission.deadline(now));
        // Once it is over, the end of the other workers is waited for, which wakes.
        let drain = self.drain_until.filter(|until| *until > now);
        [self.deadlines.earliest(), accepting, self.admission.news_deadline(), drain, control]
            .into_iter()
            .flatten()
            .min()
            .map(|at| at.saturating_duration_since(now))
    }

    /// Remembers what the kernel says; nothing is acted on yet, so that the control goes first.
    fn note(&mut self, events: &Events) {
        for event in events {
            match Source::of(event.token()) {
                Some(Source::Listener) => self.listener.wake(),
                Some(Source::Connection(slot, side)) => {
                    if let Some(connection) = self.connections.find(slot) {
                        connection.wake(side, event);
                        self.ready.push(connection);
                    }
                }
                Some(
                    source @ (Source::Watches
                    | Source::Signals
                    | Source::Mounts
                    | Source::Admin
                    | Source::AdminClient(_)),
                ) => {
                    if let Some(control) = &mut self.control {
                        control.wake(source);
                    }
                }
                // Whoever woke us has changed what every turn looks at anyway.
                Some(Source::Waker) | None => {}
            }
        }
    }

    fn turn_control(&mut self, now: Instant) -> io::Result<()> {
        match &mut self.control {
            Some(control) => control.turn(self.poll.registry(), &self.shared, now),
            None => Ok(()),
        }
    }

    /// Lets clients in once there is a certificate to greet them with.
    fn listen(&mut self) -> io::Result<()> {
        if self.listener.is_bound()
            && self.drain_until.is_none()
            && self.shared.generations.current().is_some()
        {
            let address = self.settings.listen;
            self.listener
                .listen(self.poll.registry(), limits::LISTEN_BACKLOG)
                .map_err(|error| io::Error::new(error.kind(), format!("listen on {address}: {error}")))?;
            if let Some(control) = &self.control {
                control.tell_listening();
            }
        }
        Ok(())
    }

    fn can_accept(&self, now: Instant) -> bool {
        self.listener.is_ready(now) && self.admission.has_room(now)
    }

    /// Lets clients in, up to the budget. Returns the limit that keeps others waiting.
    fn accept(&mut self, now: Instant) -> Option<Limit> {
        for _ in 0..limits::ACCEPTS_PER_TURN {
            if !self.listener.is_ready(now) {
                return self.listener.deadline(now).map(|_| Limit::Descriptors);
            }
            if let Err(limit) = self.admission.reserve(now) {
                return self.listener.has_clients().then_some(limit);
            }
            match self.listener.accept(now) {
                Accepted::Client(client, peer) => {
                    if self.admission.admits(peer.ip(), now) {
                        self.admit((client, peer), now);
                    } else {
                        connection::reset(&client);
                    }
                }
                Accepted::Nobody => {
                    self.admission.put_back();
                    return None;
                }
                Accepted::Exhausted(error) => {
                    self.admission.put_back();
                    story::exhausted(&error);
                    return Some(Limit::Descriptors);
                }
                Accepted::Failed(error) => {
                    self.admission.put_back();
                    tracing::debug!(%error, "a client was gone before it was accepted");
                }
            }
        }
        None
    }

    fn admit(&mut self, accepted: (mio::net::TcpStream, std::net::SocketAddr), now: Instant) {
        let peer = accepted.1;
        let Some(generation) = self.shared.generations.current() else {
            return self.admission.lost(peer.ip());
        };
        let around = surroundings(&self.poll, &mut self.pool, &self.settings, now);
        let mut relay_limits = self.settings.relay;
        relay_limits.maximum_age = relay_limits.maximum_age.map(|age| self.ages.spread(age));
        let inserted = self
            .connections
            .insert(|slot| Connection::new(accepted, slot, generation, relay_limits, &around));
        match inserted {
            Ok(connection) => {
                self.shared.admit();
                tally::accepted(&self.shared.metrics);
                set_timer(&mut self.deadlines, connection);
            }
            Err(error) => {
                self.admission.lost(peer.ip());
                tracing::warn!(%error, "an accepted client can't be served");
            }
        }
    }

    /// Gives each connection that has something to do its share of the turn: first those whose work is short, then the
    /// bulk transfers until theirs is used up.
    fn run_ready(&mut self, now: Instant) {
        let few = self.ready.len() <= limits::FEW_CONNECTIONS;
        let run_bytes = if few { limits::RUN_BYTES_OF_FEW } else { limits::RUN_BYTES_OF_MANY };
        self.pool.prefer(Size::Small);
        for _ in 0..self.ready.brief.len() {
            let Some(index) = self.ready.brief.pop_front() else { break };
            self.run_one(index, run_bytes, now);
        }
        self.pool.prefer(if few { Size::Large } else { Size::Small });
        let mut left = limits::BULK_BYTES_PER_TURN;
        for _ in 0..self.ready.bulk.len() {
            if left == 0 {
                break;
            }
            let Some(index) = self.ready.bulk.pop_front() else { break };
            left = left.saturating_sub(self.run_one(index, run_bytes, now));
        }
    }

    /// Gives one connection its share and says how many bytes it moved.
    fn run_one(&mut self, index: usize, run_bytes: usize, now: Instant) -> usize {
        let Some(connection) = self.connections.at(index) else { return 0 };
        connection.queued = false;
        let mut around = surroundings(&self.poll, &mut self.pool, &self.settings, now);
        let before = Moved::by(&connection.relay);
        let progress = connection.run(run_bytes, &mut around);
        let moved = self.bytes.add(before, Moved::by(&connection.relay));
        let just_greeted = !connection.greeted && !connection.relay.handshaking();
        connection.greeted |= just_greeted;
        connection.load = Load::of_run(moved);
        if progress == Progress::Unfinished {
            self.ready.push(connection);
        }
        set_timer(&mut self.deadlines, connection);
        if std::mem::take(&mut connection.just_reached) && self.shared.outage.reached() {
            story::upstream_reached();
        }
        if just_greeted {
            tally::greeted(&self.shared, connection, now);
            self.connections.greeted();
        }
        if progress == Progress::Closed {
            self.close(index, now);
        }
        moved
    }

    /// Acts on deadlines, up to the budget; the others are due in the next turn.
    fn expire(&mut self, now: Instant) {
        for _ in 0..limits::EXPIRIES_PER_TURN {
            let Some(index) = self.deadlines.expired(now) else { return };
            let Some(connection) = self.connections.at(index) else { continue };
            connection.timer = None;
            connection.expire(&mut self.pool, now);
            self.ready.push(connection);
        }
    }

    fn close(&mut self, index: usize, now: Instant) {
        let Some(connection) = self.connections.remove(index) else { return };
        self.deadlines.clear(index);
        self.shared.dismiss();
        if connection.relay.closed() == Some(&CloseReason::Exhausted) {
            self.admission.exhausted();
        }
        story::closed(&connection);
        if let Some(reason) = connection.relay.closed()
            && reason.is_unreachable_upstream()
            && self.shared.outage.failed(now)
        {
            story::upstream_failed(reason);
        }
        tally::closed(&self.shared.metrics, &connection);
        connection.let_go();
        self.connections.trim();
    }

    /// Whether this worker's work is over.
    fn drained(&mut self, now: Instant) -> bool {
        let phase = self.shared.phase();
        if phase < Phase::Draining {
            return false;
        }
        let until = match self.drain_until {
            Some(until) => until,
            None => self.begin_drain(now),
        };
        // Whoever waits in the backlog came before the end was announced, and is still served if there is room.
        if !self.listener.is_ready(now) || self.admission.is_holding() {
            self.listener.close();
        }
        if until <= now || phase == Phase::Stopping {
            self.cut_all(now);
        }
        // Signals and the admin endpoint are the first worker's, and wanted until the last one ends.
        self.connections.is_empty() && (self.control.is_none() || self.shared.is_alone())
    }

    /// Connections that have not said a word have nothing to finish.
    fn begin_drain(&mut self, now: Instant) -> Instant {
        let until = now + self.settings.drain_timeout;
        self.drain_until = Some(until);
        for index in self.connections.indices() {
            if let Some(connection) = self.connections.at(index)
                && connection.relay.handshaking()
                && connection.relay.traffic(Side::Client).read == 0
            {
                connection.relay.cut(CloseReason::Drain, &mut self.pool);
                self.close(index, now);
            }
        }
        until
    }

    /// Ends all connections: with a word to those at rest, as they are told of the end of their time.
    fn cut_all(&mut self, now: Instant) {
        self.listener.close();
        for index in self.connections.indices() {
            let Some(connection) = self.connections.at(index) else { continue };
            let mut around = surroundings(&self.poll, &mut self.pool, &self.settings, now);
            connection.relay.stop(CloseReason::Drain, around.pool, now);
            connection.run(limits::RUN_BYTES_OF_MANY, &mut around);
            connection.relay.cut(CloseReason::Drain, &mut self.pool);
            self.cut += 1;
            self.close(index, now);
        }
    }
}

/// What a connection borrows: of the worker's parts, so that the others stay free meanwhile.
fn surroundings<'a>(
    poll: &'a Poll,
    pool: &'a mut Pool,
    settings: &'a Settings,
    now: Instant,
) -> Surroundings<'a> {
    Surroundings { registry: poll.registry(), pool, upstreams: &settings.upstreams, now }
}

/// Moved bytes only put a deadline off, so an entry that comes too early is left alone and asks again when it fires.
fn set_timer(deadlines: &mut Deadlines, connection: &mut Connection) {
    if let Some(at) = connection.deadline()
        && connection.timer.is_none_or(|timer| at < timer)
    {
        deadlines.set(connection.slot.index, at);
        connection.timer = Some(at);
    }
}
