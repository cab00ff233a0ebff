//! A sidecar over a secret volume with its admin endpoint, and what that says. Knows no behaviour.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use tempfile::TempDir;
use tlsidecar::demo::authority::Leaf;
use tlsidecar::demo::volume::{Order, Volume};

use crate::client::{Client, Trust};
use crate::log::Line;
use crate::material::{Generations, folder, payload};
use crate::patience::{SOON, until};
use crate::procfs::Proc;
use crate::sidecar::{Serve, Sidecar};

/// A sidecar that serves generation 1 of a volume.
#[derive(Debug)]
pub(crate) struct Scene {
    // The order is that of the ends: first the sidecar, last the folder.
    pub(crate) sidecar: Sidecar,
    pub(crate) generations: Generations,
    pub(crate) trust: Trust,
    admin: SocketAddr,
    volume: Volume,
    _folder: TempDir,
}

impl Scene {
    /// In front of `upstream`, with flags of the test.
    pub(crate) fn before(upstream: &str, flags: &[(&str, &str)]) -> Self {
        Self::with(upstream, |serve| flags.iter().fold(serve, |serve, (flag, value)| serve.with(flag, value)))
    }

    /// The same, with a command line that the test completes.
    pub(crate) fn with(upstream: &str, more: impl FnOnce(Serve) -> Serve) -> Self {
        let generations = Generations::new();
        let leaf = generations.leaf(1);
        Self::of(upstream, generations, &leaf, more)
    }

    /// The same with a leaf of the test's choice.
    pub(crate) fn of(
        upstream: &str,
        generations: Generations,
        leaf: &Leaf,
        more: impl FnOnce(Serve) -> Serve,
    ) -> Self {
        let folder = folder();
        let mut volume = Volume::create(folder.path().join("secret"), Order::LinksLast).unwrap();
        volume.write(&payload(leaf)).unwrap();
        let serve = Serve::new(upstream, &volume.path("tls.crt"), &volume.path("tls.key"));
        let sidecar = more(serve.with("--admin", "127.0.0.1:0")).ready();
        let admin = sidecar.line("admin endpoint").text("address").parse().unwrap();
        let trust = generations.trust();
        Self { sidecar, generations, trust, admin, volume, _folder: folder }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.sidecar.address()
    }

    pub(crate) fn kernel(&self) -> Proc {
        self.sidecar.kernel()
    }

    pub(crate) fn connect(&self) -> Client {
        self.trust.connect(self.address()).unwrap()
    }

    /// A connection without a byte on it.
    pub(crate) fn bare(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address()).unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        socket
    }

    /// A connection to the admin endpoint without a question on it.
    pub(crate) fn bare_admin(&self) -> TcpStream {
        TcpStream::connect(self.admin).unwrap()
    }

    /// That the next client is served.
    pub(crate) fn still_echoes(&self) {
        self.connect().echo(b"and the next one").unwrap();
    }

    /// Swaps a generation in and waits until the log tells that it is in force.
    pub(crate) fn rotate(&mut self, number: u64) {
        let mark = self.sidecar.log.mark();
        self.volume.write(&payload(&self.generations.leaf(number))).unwrap();
        self.sidecar.line_after(mark, "certificate changed");
    }

    /// The answer of the admin endpoint: status and body. Nothing once it is gone.
    pub(crate) fn ask(&self, path: &str) -> Option<(String, String)> {
        let mut socket = TcpStream::connect(self.admin).ok()?;
        socket.set_read_timeout(Some(SOON)).unwrap();
        socket.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.to_owned(), body.to_owned()))
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ask("/readyz").is_some_and(|(code, _)| code == "200")
    }

    /// The value of a series by name and labels, 0 where there is none.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let (_, text) = self.ask("/metrics").expect("no answer of the admin endpoint");
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    /// The sum of a metric over its labels.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        let (_, text) = self.ask("/metrics").expect("no answer of the admin endpoint");
        let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// That a series comes to have a value.
    pub(crate) fn expect_metric(&self, series: &str, value: f64) {
        let came = until(SOON, || self.metric(series) == value);
        assert!(came, "{series} is {} and not {value}", self.metric(series));
    }

    /// That it does nothing while nobody wants anything: at most 20 ms of a second, on a machine that is busy otherwise.
    pub(crate) fn rests(&self) {
        let mut spent = 0;
        // What a burst of clients has left behind may take a moment.
        let rested = until(SOON, || {
            spent = self.ticks_of_a_second();
            spent <= 2
        });
        assert!(rested, "{spent} ticks of 10 ms in a second of nothing to do");
    }

    /// What it uses of the processor in a second, in ticks of 10 ms.
    pub(crate) fn ticks_of_a_second(&self) -> u64 {
        let before = self.kernel().cpu_ticks();
        crate::patience::pause(std::time::Duration::from_secs(1));
        self.kernel().cpu_ticks() - before
    }

    /// The lines above debug since a mark, without those of rotations.
    pub(crate) fn told(&self, mark: usize) -> Vec<Line> {
        self.sidecar.log.all(mark, |line| line.is_above_debug() && !line.says("certificate changed"))
    }
}

/// Ends the sending side without a word of TLS.
pub(crate) fn fin(socket: &TcpStream) {
    socket.shutdown(Shutdown::Write).unwrap();
}

/// All that comes until the other side ends or resets, and whether it did so properly.
pub(crate) fn drain(socket: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Ok(_) => (bytes, true),
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
            (bytes, false)
        }
    }
}
