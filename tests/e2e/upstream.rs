//! Plaintext services of a given character, over TCP or a unix socket: each connection plays one script.
//! Knows nothing of TLS or of the sidecar.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, setsockopt, socket, sockopt,
};

use crate::patience::{SOON, pause, uninterrupted};
use crate::pattern::{Hash, Hasher, Pattern};

const SOCKET_LIMIT: Duration = Duration::from_secs(30);

/// One accepted connection.
#[derive(Debug)]
pub(crate) enum Peer {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Peer {
    fn limited(self) -> io::Result<Self> {
        match &self {
            Self::Tcp(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(SOCKET_LIMIT))?;
                socket.set_write_timeout(Some(SOCKET_LIMIT))?;
            }
            Self::Unix(socket) => {
                socket.set_read_timeout(Some(SOCKET_LIMIT))?;
                socket.set_write_timeout(Some(SOCKET_LIMIT))?;
            }
        }
        Ok(self)
    }

    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(socket) => socket.try_clone().map(Self::Tcp),
            Self::Unix(socket) => socket.try_clone().map(Self::Unix),
        }
    }

    fn end_sending(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.shutdown(Shutdown::Write),
            Self::Unix(socket) => socket.shutdown(Shutdown::Write),
        }
    }

    /// Closes so that the other side sees a reset, not an end.
    fn reset(self) -> io::Result<()> {
        let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
        match &self {
            Self::Tcp(socket) => Ok(setsockopt(socket, sockopt::Linger, &at_once)?),
            Self::Unix(socket) => Ok(setsockopt(socket, sockopt::Linger, &at_once)?),
        }
    }

    /// The hash of what has come and of all that still comes until the other side ends.
    fn hash_rest(&mut self, begin: &[u8]) -> io::Result<Hash> {
        let mut hasher = Hasher::default();
        hasher.update(begin);
        let mut part = vec![0; 64 * 1024];
        loop {
            match self.read(&mut part)? {
                0 => return Ok(hasher.finish()),
                length => hasher.update(&part[..length]),
            }
        }
    }
}

impl Read for Peer {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => uninterrupted(|| socket.read(out)),
            Self::Unix(socket) => uninterrupted(|| socket.read(out)),
        }
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(bytes),
            Self::Unix(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What an upstream does with each connection; the hash is of what it received.
#[derive(Clone, Debug)]
pub(crate) enum Script {
    /// Sends everything back, and ends when the client has ended.
    Echo,
    /// Sends a pattern of this seed and length, ends, and receives meanwhile until the client ends.
    Exchange { seed: u64, length: u64 },
    /// The same for whoever begins with a byte of zero, as patterns do; echoes to others.
    ExchangeOrEcho { seed: u64, length: u64 },
    /// Waits for the client's end, then this long, and only then replies and ends.
    ReplyAfterEnd { delay: Duration, seed: u64, length: u64 },
    /// The same, in parts with a pause after each.
    ReplySlowlyAfterEnd { delay: Duration, seed: u64, length: u64, parts: u64, pause: Duration },
    /// Greets and ends at once, and still receives until the client ends.
    EndFirst { greeting: &'static [u8] },
    /// Answers one HTTP request and ends.
    Http,
    /// Sends this much of a pattern, waits for one byte, and resets.
    ResetAfter { length: u64 },
}

impl Script {
    fn play(self, mut peer: Peer) -> io::Result<Hash> {
        match self {
            Self::Echo => echo(peer, &[]),
            Self::Exchange { seed, length } => exchange(peer, &[], Pattern::new(seed), length),
            Self::ExchangeOrEcho { seed, length } => {
                let mut first = [0];
                peer.read_exact(&mut first)?;
                if first == [0] {
                    exchange(peer, &first, Pattern::new(seed), length)
                } else {
                    echo(peer, &first)
                }
            }
            Self::ReplyAfterEnd { delay, seed, length } => {
                let received = peer.hash_rest(&[])?;
                pause(delay);
                Pattern::new(seed).write_to(&mut peer, length)?;
                peer.end_sending().map(|()| received)
            }
            Self::ReplySlowlyAfterEnd { delay, seed, length, parts, pause: between } => {
                let received = peer.hash_rest(&[])?;
                pause(delay);
                let mut slowly = Slowly { peer: &mut peer, left: 0, part: length / parts, between };
                Pattern::new(seed).write_to(&mut slowly, length)?;
                peer.end_sending().map(|()| received)
            }
            Self::EndFirst { greeting } => {
                peer.write_all(greeting)?;
                peer.end_sending()?;
                peer.hash_rest(&[])
            }
            Self::Http => {
                read_request(&mut peer)?;
                peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")?;
                peer.end_sending().map(|()| Hasher::default().finish())
            }
            Self::ResetAfter { length } => {
                Pattern::new(0).write_to(&mut peer, length)?;
                peer.read_exact(&mut [0])?;
                peer.reset().map(|()| Hasher::default().finish())
            }
        }
    }
}

/// Pauses after each part.
struct Slowly<'a> {
    peer: &'a mut Peer,
    /// Of the part that is being sent.
    left: u64,
    part: u64,
    between: Duration,
}

impl Write for Slowly<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left == 0 {
            pause(self.between);
            self.left = self.part;
        }
        let most = bytes.len().min(usize::try_from(self.left).unwrap());
        let written = self.peer.write(&bytes[..most])?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends a pattern and receives meanwhile, having received how that begins.
fn exchange(mut peer: Peer, begin: &[u8], pattern: Pattern, length: u64) -> io::Result<Hash> {
    let mut sending = peer.try_clone()?;
    let sender = std::thread::spawn(move || {
        pattern.write_to(&mut sending, length)?;
        sending.end_sending()
    });
    let received = peer.hash_rest(begin)?;
    sender.join().unwrap().map(|()| received)
}

fn echo(mut peer: Peer, begin: &[u8]) -> io::Result<Hash> {
    let mut hasher = Hasher::default();
    hasher.update(begin);
    peer.write_all(begin)?;
    let mut part = vec![0; 64 * 1024];
    loop {
        let length = peer.read(&mut part)?;
        if length == 0 {
            return peer.end_sending().map(|()| hasher.finish());
        }
        hasher.update(&part[..length]);
        peer.write_all(&part[..length])?;
    }
}

fn read_request(peer: &mut Peer) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        peer.read_exact(&mut byte)?;
        head.extend(byte);
    }
    Ok(())
}

/// A listening upstream; it stops accepting when dropped.
#[derive(Debug)]
pub(crate) struct Upstream {
    place: Place,
    stopped: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
    reports: Receiver<io::Result<Hash>>,
}

#[derive(Debug)]
enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Upstream {
    pub(crate) fn tcp(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = Place::Tcp(listener.local_addr().unwrap());
        Self::start(place, script, move || listener.accept().map(|(socket, _)| Peer::Tcp(socket)))
    }

    pub(crate) fn unix(path: &Path, script: Script) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let place = Place::Unix(path.to_owned());
        Self::start(place, script, move || listener.accept().map(|(socket, _)| Peer::Unix(socket)))
    }

    fn start(place: Place, script: Script, accept: impl Fn() -> io::Result<Peer> + Send + 'static) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let (done, reports) = channel();
        let stop = Arc::clone(&stopped);
        let accepting = std::thread::spawn(move || {
            while let Ok(peer) = accept() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                play_apart(script.clone(), peer, done.clone());
            }
        });
        Self { place, stopped, accepting: Some(accepting), reports }
    }

    /// As the sidecar's `--upstream` wants it.
    pub(crate) fn address(&self) -> String {
        match &self.place {
            Place::Tcp(address) => address.to_string(),
            Place::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// What the next finished connection received.
    pub(crate) fn report(&self) -> io::Result<Hash> {
        self.reports.recv_timeout(SOON).expect("no connection of the upstream finished")
    }
}

fn play_apart(script: Script, peer: Peer, done: Sender<io::Result<Hash>>) {
    std::thread::spawn(move || {
        let report = peer.limited().and_then(|peer| script.play(peer));
        // Nobody may be waiting for it any more.
        let _ = done.send(report);
    });
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // One more connection wakes the accepting thread, which then sees that it is stopped.
        let woken = match &self.place {
            Place::Tcp(address) => TcpStream::connect(address).is_ok(),
            Place::Unix(path) => UnixStream::connect(path).is_ok(),
        };
        if let Some(accepting) = self.accepting.take().filter(|_| woken) {
            let _ = accepting.join();
        }
    }
}

/// A port that refuses connections for as long as this lives: taken, but not listening.
#[derive(Debug)]
pub(crate) struct RefusingPort(OwnedFd);

impl RefusingPort {
    pub(crate) fn new() -> Self {
        let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(fd.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
        Self(fd)
    }

    pub(crate) fn address(&self) -> String {
        getsockname::<SockaddrIn>(self.0.as_raw_fd()).unwrap().to_string()
    }
}
