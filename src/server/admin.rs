//! The admin endpoint's sockets around [`crate::admin`]: a few clients at once, each with a request, an answer and a
//! deadline.
//!
//! A client's bytes can cost no more than the limits here: the loop also greets TLS clients. Edge-triggered events are
//! remembered until a call says that it would block. Does not know what is asked or what a metric means. Shown by
//! `tests/admin.rs`.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::Registry;
use slab::Slab;

use super::door::Door;
use super::status::About;
use super::token::{Slot, Source};
use super::upstream::Socket;
use crate::admin::{HEAD_BYTES_MAX, Head, Request, Response, parse};
use crate::config::limits::{ACCEPT_PAUSE, ADMIN_CLIENTS, ADMIN_PATIENCE};
use crate::metrics::Metrics;

/// Answers in one turn of the loop: an answer takes some tens of microseconds to write down.
const ANSWERS_PER_TURN: usize = 4;

/// How long a client may take once others wait for its place. Kubelet gives up on a probe after a second.
const PATIENCE_WHEN_FULL: Duration = Duration::from_millis(500);

/// How long a client that has its answer may take to close. Closing before it does would throw away an answer that
/// is still on its way if there is anything of the client's left to read.
const PARTING: Duration = Duration::from_secs(1);

/// Bytes taken from a client by one call.
const READ_BYTES: usize = 2048;

/// Bytes behind a request that are read and thrown away for that reason.
const IGNORED_BYTES_MAX: usize = 64 * 1024;

/// The endpoint.
#[derive(Debug)]
pub(crate) struct Admin {
    door: Door,
    /// Edge-triggered readiness, remembered until accept says that nobody waits.
    clients_wait: bool,
    /// Not before this moment, after the system refused a descriptor.
    resume_at: Option<Instant>,
    clients: Slab<Client>,
    next_stamp: u32,
    about: About,
    metrics: Arc<Metrics>,
}

/// One client, with one request.
#[derive(Debug)]
struct Client {
    stamp: u32,
    socket: Socket,
    exchange: Exchange,
    /// When it may be cut in favour of one that waits.
    may_go_at: Instant,
    /// When it is cut.
    deadline: Instant,
    /// Whether a call on its socket is worth trying.
    awake: bool,
}

#[derive(Debug)]
enum Exchange {
    /// These bytes have come.
    Asking(Vec<u8>),
    /// These are to go, from the index on.
    Answering(Vec<u8>, usize),
    /// The answer is out, and so many bytes were ignored.
    Parting(usize),
}

/// Whether there is more to do for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Going,
    Over,
}

impl Admin {
    pub(crate) fn new(door: Door, about: About, metrics: Arc<Metrics>) -> Self {
        let (clients_wait, resume_at, next_stamp) = (false, None, 0);
        Self { door, clients_wait, resume_at, clients: Slab::new(), next_stamp, about, metrics }
    }

    /// # Errors
    /// What epoll_ctl(2) says.
    pub(crate) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        self.door.register(registry, Source::Admin.token())
    }

    /// A client waits at the door.
    pub(crate) fn wake(&mut self) {
        self.clients_wait = true;
    }

    /// The kernel says something of a client's socket.
    pub(crate) fn wake_client(&mut self, slot: Slot) {
        if let Some(client) = self.clients.get_mut(slot.index).filter(|client| client.stamp == slot.stamp) {
            client.awake = true;
        }
    }

    /// When to take a turn although nothing happened.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        if self.clients.iter().any(|(_, client)| client.awake) {
            return Some(now);
        }
        let place = if self.clients_wait { self.place_at(now) } else { None };
        let clients = self.clients.iter().map(|(_, client)| client.deadline).min();
        [place, clients].into_iter().flatten().min()
    }

    /// When there may be a place for another client.
    fn place_at(&self, now: Instant) -> Option<Instant> {
        let leaves = self.clients.iter().map(|(_, client)| client.may_go_at).min();
        let place = if self.clients.len() < ADMIN_CLIENTS { Some(now) } else { leaves };
        // Both must be past; there is no place while nobody may go, which is never for long.
        place.max(self.resume_at)
    }

    /// Cuts who is late, lets in who waits, and answers who has asked.
    pub(crate) fn turn(
        &mut self,
        registry: &Registry,
        now: Instant,
        mut answer: impl FnMut(&About, &Request) -> Response,
    ) {
        self.cut_late(now);
        self.accept(registry, now);
        let mut answers = 0;
        for index in self.eldest_first() {
            let Some(client) = self.clients.get_mut(index).filter(|client| client.awake) else { continue };
            if answers == ANSWERS_PER_TURN {
                return;
            }
            let (about, metrics) = (&self.about, &self.metrics);
            let progress = client.run(now, &mut |head| {
                let response = match head {
                    Head::Incomplete => return None,
                    Head::Complete(request) => answer(about, &request),
                    Head::Refused(response) => response,
                };
                answers += 1;
                metrics.admin.responses.inc([response.code().digits()]);
                Some(response.bytes())
            });
            if progress == Progress::Over {
                self.clients.try_remove(index);
            }
        }
    }

    /// So that nobody who came later is answered before.
    fn eldest_first(&self) -> Vec<usize> {
        let mut clients: Vec<_> =
            self.clients.iter().map(|(index, client)| (client.deadline, index)).collect();
        clients.sort_unstable();
        clients.into_iter().map(|(_, index)| index).collect()
    }

    fn cut_late(&mut self, now: Instant) {
        for index in self.eldest_first() {
            if self.clients.get(index).is_some_and(|client| client.deadline <= now) {
                self.cut(index);
            }
        }
    }

    fn cut(&mut self, index: usize) {
        let Some(client) = self.clients.try_remove(index) else { return };
        if !matches!(client.exchange, Exchange::Parting(_)) {
            self.metrics.admin.cut.inc();
        }
    }

    fn accept(&mut self, registry: &Registry, now: Instant) {
        while self.clients_wait && self.resume_at.is_none_or(|at| at <= now) && self.make_room(now) {
            self.resume_at = None;
            match self.door.accept() {
                Ok(socket) => {
                    if let Err(error) = self.admit(socket, registry, now) {
                        tracing::warn!(%error, "a client of the admin endpoint can't be served");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.clients_wait = false,
                Err(error) => {
                    // Mostly there is no descriptor left; a client that has gone is no reason to wait, but harmless.
                    tracing::debug!(%error, "accepting at the admin endpoint pauses");
                    self.resume_at = Some(now + ACCEPT_PAUSE);
                }
            }
        }
    }

    /// Whether there is a place, for which the client that has been there longest may have to go.
    fn make_room(&mut self, now: Instant) -> bool {
        if self.clients.len() < ADMIN_CLIENTS {
            return true;
        }
        let first = self.clients.iter().min_by_key(|(_, client)| client.may_go_at);
        match first.filter(|(_, client)| client.may_go_at <= now).map(|(index, _)| index) {
            Some(index) => {
                self.cut(index);
                true
            }
            None => false,
        }
    }

    fn admit(&mut self, mut socket: Socket, registry: &Registry, now: Instant) -> io::Result<()> {
        let entry = self.clients.vacant_entry();
        let stamp = self.next_stamp;
        self.next_stamp = stamp.wrapping_add(1);
        socket.register(registry, Source::AdminClient(Slot { index: entry.key(), stamp }).token())?;
        entry.insert(Client {
            stamp,
            socket,
            exchange: Exchange::Asking(Vec::new()),
            may_go_at: now + PATIENCE_WHEN_FULL,
            deadline: now + ADMIN_PATIENCE,
            awake: true,
        });
        Ok(())
    }
}

impl Client {
    /// Goes on until the socket would block.
    fn run(&mut self, now: Instant, reply: &mut dyn FnMut(Head) -> Option<Vec<u8>>) -> Progress {
        loop {
            match self.step(now, reply) {
                Ok(Progress::Going) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.awake = false;
                    return Progress::Going;
                }
                Ok(Progress::Over) | Err(_) => return Progress::Over,
            }
        }
    }

    /// One call on the socket, and what follows from it.
    fn step(&mut self, now: Instant, reply: &mut dyn FnMut(Head) -> Option<Vec<u8>>) -> io::Result<Progress> {
        let mut space = [0; READ_BYTES];
        match &mut self.exchange {
            Exchange::Asking(bytes) => {
                let room = HEAD_BYTES_MAX.saturating_sub(bytes.len()).min(READ_BYTES);
                let came = read(&mut self.socket, space.get_mut(..room).unwrap_or_default())?;
                if came.is_empty() {
                    return Ok(Progress::Over);
                }
                bytes.extend_from_slice(came);
                if let Some(answer) = reply(parse(bytes)) {
                    self.exchange = Exchange::Answering(answer, 0);
                }
            }
            Exchange::Answering(bytes, sent) => {
                *sent += self.socket.write(bytes.get(*sent..).unwrap_or_default())?;
                if *sent >= bytes.len() {
                    self.part(now);
                }
            }
            Exchange::Parting(ignored) => {
                let came = read(&mut self.socket, &mut space)?.len();
                *ignored += came;
                if came == 0 || *ignored > IGNORED_BYTES_MAX {
                    return Ok(Progress::Over);
                }
            }
        }
        Ok(Progress::Going)
    }

    /// The answer is out: what is left is that the client closes.
    fn part(&mut self, now: Instant) {
        // Whoever has reset the connection is found out by the read that follows.
        let _ = self.socket.shut();
        self.exchange = Exchange::Parting(0);
        self.deadline = self.deadline.min(now + PARTING);
        self.may_go_at = now;
    }
}

fn read<'a>(socket: &mut Socket, space: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let count = socket.read(space)?;
    Ok(space.get(..count).unwrap_or_default())
}
