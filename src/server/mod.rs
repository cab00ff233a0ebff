//! Sockets, files, signals and the clock around the pure parts: start-up, the threads, and the end.
//!
//! Each worker is one thread with one loop ([`worker`]) and its own listener; the first one's loop also holds signals
//! and the watched files ([`control`]). Knows nothing of PEM, buffers or HTTP. Shown by the end-to-end tests.

mod admin;
mod admission;
mod clients;
mod clock;
mod complaint;
mod connection;
mod control;
mod door;
mod episode;
/// The real file system as the watcher asks it.
pub mod filesystem;
mod gate;
mod history;
mod jitter;
mod lifetime;
mod limit;
mod listener;
mod material;
mod outage;
mod quota;
mod rate;
mod ready;
mod reload;
mod seat;
mod settings;
mod shared;
mod status;
mod story;
mod table;
mod tally;
mod token;
mod upstream;
mod worker;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use mio::{Poll, Waker};

use crate::certs::{self, Generation, Store};
use crate::config::{Config, limits};
use crate::metrics::Metrics;
use crate::sys::signal::Signals;
pub use crate::sys::signal::hold as hold_signals;
use crate::sys::socket::{self, Share};
use crate::watch::Timing;
use admin::Admin;
use control::{Control, Manner};
use door::Door;
use gate::Gate;
use history::Moment;
use reload::Reload;
use seat::Seat;
use settings::Settings;
pub use settings::policy;
use shared::{Phase, Shared};
use status::About;
use token::Source;
use worker::Worker;

/// How the process came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every connection ended by itself.
    Drained,
    /// This many connections were cut when the time for draining was over.
    Cut(usize),
}

/// What keeps the server from starting or from going on.
#[derive(Debug)]
pub struct Fault {
    /// What was tried, fit to stand before a colon.
    pub what: String,
    /// The system's answer.
    pub error: io::Error,
}

impl Fault {
    fn new(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self { what, error }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// A server that holds its address and its signals, and does not serve yet.
#[derive(Debug)]
pub struct Server {
    workers: Vec<Worker>,
    handle: Handle,
}

/// A view of a server, and the means to end it, for other threads of the process.
#[derive(Debug, Clone)]
pub struct Handle {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Handle {
    /// Where it listens, the port filled in.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is served; nothing before the first certificate.
    #[must_use]
    pub fn current(&self) -> Option<Arc<Generation>> {
        self.shared.generations.current()
    }

    /// Asks it to end: no new connections, the open ones may end by themselves.
    pub fn drain(&self) {
        self.shared.enter(Phase::Draining);
    }
}

impl Server {
    /// Takes the signals and the address. Call it before another thread is started: the signals are taken away from
    /// the calling thread and from those started after it.
    ///
    /// # Errors
    /// The address is taken, the upstream's name does not resolve, or the system gives no descriptors.
    pub fn bind(config: &Config) -> Result<Self, Fault> {
        let signals = Signals::take().map_err(Fault::new("signals"))?;
        certs::warm_up().map_err(io::Error::other).map_err(Fault::new("random numbers"))?;
        let settings = Settings::new(config).map_err(Fault::new(format!("upstream {}", config.upstream)))?;
        let clients = bind_all(config).map_err(Fault::new(format!("--listen {}", config.listen)))?;
        let admin = match &config.admin.endpoint {
            Some(endpoint) => Some(Door::open(endpoint).map_err(Fault::new(format!("--admin {endpoint}")))?),
            None => None,
        };
        let sockets = Sockets { clients, admin };
        let store = Store::new(&policy(&config.tls, config.reload.expired))
            .map_err(io::Error::other)
            .map_err(Fault::new("TLS"))?;
        Self::assemble(config, signals, settings, sockets, store).map_err(Fault::new("event loop"))
    }

    fn assemble(
        config: &Config,
        signals: Signals,
        settings: Settings,
        sockets: Sockets,
        store: Store,
    ) -> io::Result<Self> {
        let Sockets { clients: sockets, admin: door } = sockets;
        let address = sockets.first().map_or(Ok(config.listen.0), TcpListener::local_addr)?;
        tracing::info!(%address, workers = sockets.len(), connections = settings.limits.connections, "bound");
        if let Some(wanted) =
            config.limits.connections.filter(|most| most.get() > settings.limits.connections)
        {
            tracing::warn!(
                max_connections = wanted,
                connections = settings.limits.connections,
                "there are descriptors for fewer connections than --max-connections"
            );
        }
        let polls = sockets.iter().map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
        let wakers = polls
            .iter()
            .map(|poll| Waker::new(poll.registry(), Source::Waker.token()))
            .collect::<io::Result<Vec<_>>>()?;
        let metrics = Arc::new(Metrics::new(env!("CARGO_PKG_VERSION")));
        tally::show(&metrics);
        let now = clock::now();
        let gate = Gate::new(settings.limits, wakers.len(), now);
        let shared = Arc::new(Shared::new(store.reader(), Arc::clone(&metrics), gate, wakers, now));
        let paths = [config.reload.cert.clone(), config.reload.key.clone()];
        let timing = Timing::new(config.reload.interval, u64::from(std::process::id()));
        let reload = Reload::new(paths, timing, store, Arc::clone(&metrics), now);
        let about = About {
            started: Moment { at: now, wall: clock::wall() },
            workers: sockets.len(),
            stale_limit: config.admin.ready_stale_limit,
        };
        let admin = door.map(|door| {
            tracing::info!(address = %door.address(), "admin endpoint");
            Admin::new(door, about, metrics)
        });
        let mut control = Some(Box::new(Control::new(signals, reload, Manner::new(config, address), admin)));
        let settings = Arc::new(settings);
        let mut workers = Vec::with_capacity(sockets.len());
        for (number, (poll, socket)) in polls.into_iter().zip(sockets).enumerate() {
            let mut control = control.take();
            if let Some(control) = &mut control {
                control.register(poll.registry())?;
            }
            let seat = Seat { shared: Arc::clone(&shared), number };
            workers.push(Worker::new(poll, socket, Arc::clone(&settings), seat, control));
        }
        Ok(Self { workers, handle: Handle { shared, address } })
    }

    /// A view for other threads.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until a signal or [`Handle::drain`] ends it, the first worker on the calling thread.
    ///
    /// # Errors
    /// A loop that can't turn, or no certificate at start where one is required.
    pub fn run(self) -> Result<Ending, Fault> {
        let mut workers = self.workers.into_iter();
        let Some(first) = workers.next() else { return Ok(Ending::Drained) };
        let mut threads = Vec::new();
        for (number, worker) in workers.enumerate() {
            let shared = Arc::clone(&self.handle.shared);
            let thread = thread::Builder::new()
                .name(format!("worker-{}", number + 1))
                .spawn(move || shared.beside(|| worker.run()))
                .map_err(Fault::new("worker thread"))?;
            threads.push(thread);
        }
        let first = first.run();
        // Whatever ended the first worker ends the others.
        self.handle.shared.enter(if first.is_ok() { Phase::Draining } else { Phase::Stopping });
        let mut cut = first.map_err(Fault::new("serving"))?;
        for thread in threads {
            let outcome = thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker thread panicked")));
            cut += outcome.map_err(Fault::new("worker"))?;
        }
        let ending = if cut == 0 { Ending::Drained } else { Ending::Cut(cut) };
        tracing::info!(cut, "ended");
        Ok(ending)
    }
}

/// What holds our addresses.
#[derive(Debug)]
struct Sockets {
    /// One a worker, all with the same address.
    clients: Vec<TcpListener>,
    admin: Option<Door>,
}

/// One socket a worker, all with the same address.
fn bind_all(config: &Config) -> io::Result<Vec<TcpListener>> {
    let workers = settings::workers(config);
    let share = if workers > 1 { Share::Workers } else { Share::Alone };
    let first = bind_first(config.listen.0, share)?;
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..workers {
        sockets.push(socket::bind(address, share)?);
    }
    Ok(sockets)
}

/// Every address of a host without IPv6 is every IPv4 address.
fn bind_first(address: SocketAddr, share: Share) -> io::Result<TcpListener> {
    match socket::bind(address, share) {
        Err(error) if socket::is_unsupported_family(&error) && address.ip().is_unspecified() => {
            socket::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port()), share)
        }
        outcome => outcome,
    }
}

const _: () = assert!(limits::LISTEN_BACKLOG > 0, "a backlog of zero refuses clients in a burst");
