//! One TLS connection: sends what it is given, and tells of answers and of its end.

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::time::Instant;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::{ClientConnection, HandshakeKind};

use crate::reply::Reply;

/// How much one socket is read at once.
pub(crate) const SCRATCH_BYTES: usize = 256 * 1024;
/// How much one connection may move before others have their turn.
const TURN_BYTES: u64 = 1 << 20;
/// What uploads are made of.
static FILLER: [u8; 64 * 1024] = [b'x'; 64 * 1024];

/// One TLS connection.
pub(crate) struct Session {
    socket: TcpStream,
    tls: ClientConnection,
    reply: Reply,
    /// Bytes of a body that are still to be sent.
    body_left: u64,
    /// When the connection was asked for, or its last request was due.
    pub(crate) since: Instant,
}

/// What a drive came to.
#[derive(Default)]
pub(crate) struct Progress {
    /// The request was answered in full.
    pub(crate) answered: bool,
    /// The server has ended the connection, by a close_notify or without.
    pub(crate) ended: bool,
    /// Plain bytes moved, either way.
    pub(crate) moved: u64,
    /// There may be more to do, though no event will come.
    pub(crate) unfinished: bool,
}

impl Session {
    pub(crate) fn new(socket: TcpStream, tls: ClientConnection) -> Self {
        Self { socket, tls, reply: Reply::default(), body_left: 0, since: Instant::now() }
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.socket, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Queues a request with a body of `body_bytes`.
    pub(crate) fn ask(&mut self, head: &[u8], body_bytes: u64) -> io::Result<()> {
        self.body_left = body_bytes;
        self.tls.writer().write_all(head)
    }

    pub(crate) fn resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Sends what it can of what was asked, for a connection that has just been answered and so has nothing to read.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.send(&mut Progress::default())
    }

    /// Moves what can be moved, up to an answer: behind that is nothing or the end.
    pub(crate) fn drive(&mut self, scratch: &mut [u8]) -> io::Result<Progress> {
        let mut progress = Progress::default();
        self.send(&mut progress)?;
        self.receive(scratch, &mut progress)?;
        // What was received may call for an answer: the client's part of a handshake.
        self.send(&mut progress)?;
        Ok(progress)
    }

    /// Says that nothing more will come, as well as it can be said at once, and gives the socket.
    pub(crate) fn finish(mut self) -> TcpStream {
        self.tls.send_close_notify();
        // The server may be gone already.
        let _ = self.tls.write_tls(&mut self.socket);
        self.socket
    }

    /// The socket alone, for a connection that nobody will use any more but that stays.
    pub(crate) fn into_socket(self) -> TcpStream {
        self.socket
    }

    fn send(&mut self, progress: &mut Progress) -> io::Result<()> {
        let mut sent = 0;
        loop {
            while self.body_left > 0 && !self.tls.is_handshaking() {
                let wanted = usize::try_from(self.body_left).unwrap_or(usize::MAX).min(FILLER.len());
                let taken = self.tls.writer().write(FILLER.get(..wanted).unwrap_or_default())?;
                if taken == 0 {
                    break;
                }
                self.body_left -= taken as u64;
                progress.moved += taken as u64;
                sent += taken as u64;
            }
            if !self.tls.wants_write() {
                return Ok(());
            }
            match self.tls.write_tls(&mut self.socket) {
                Ok(_) => {}
                // Until the connection stands, and whenever the kernel has enough.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if sent >= TURN_BYTES {
                progress.unfinished = true;
                return Ok(());
            }
        }
    }

    fn receive(&mut self, scratch: &mut [u8], progress: &mut Progress) -> io::Result<()> {
        let mut received = 0;
        while received < TURN_BYTES {
            let count = match self.socket.read(scratch) {
                Ok(0) => {
                    progress.ended = true;
                    return Ok(());
                }
                Ok(count) => count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            received += count as u64;
            self.unseal(scratch.get(..count).unwrap_or_default(), progress)?;
            if progress.answered || progress.ended {
                return Ok(());
            }
        }
        progress.unfinished = true;
        Ok(())
    }

    fn unseal(&mut self, mut sealed: &[u8], progress: &mut Progress) -> io::Result<()> {
        while !sealed.is_empty() {
            self.tls.read_tls(&mut sealed)?;
            let state = self.tls.process_new_packets().map_err(io::Error::other)?;
            progress.ended |= state.peer_has_closed();
            if state.plaintext_bytes_to_read() == 0 {
                continue;
            }
            let mut reader = self.tls.reader();
            loop {
                let bytes = match reader.fill_buf() {
                    // The end, which the state has told.
                    Ok([]) => break,
                    Ok(bytes) => bytes,
                    Err(error)
                        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::UnexpectedEof) =>
                    {
                        break;
                    }
                    Err(error) => return Err(error),
                };
                let count = bytes.len();
                progress.answered |= self.reply.take(bytes)?;
                progress.moved += count as u64;
                reader.consume(count);
            }
        }
        Ok(())
    }
}
