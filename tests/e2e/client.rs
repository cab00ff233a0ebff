//! A blocking TLS client of rustls: what it got, and how the other side ended.
//! Every socket has a time limit, so that a sidecar that stalls fails a test instead of hanging it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, SupportedProtocolVersion,
};

use crate::patience::uninterrupted;
use crate::pattern::{Hash, Hasher};

const SOCKET_LIMIT: Duration = Duration::from_secs(30);

/// Whom a client trusts, which versions it speaks, and the sessions it remembers.
#[derive(Clone, Debug)]
pub(crate) struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Both versions, no session remembered: each connection is a full handshake.
    pub(crate) fn new(ca_pem: &str) -> Self {
        Self::with(ca_pem, rustls::ALL_VERSIONS, Resumption::disabled())
    }

    pub(crate) fn only(ca_pem: &str, version: &'static SupportedProtocolVersion) -> Self {
        Self::with(ca_pem, &[version], Resumption::disabled())
    }

    pub(crate) fn resuming(ca_pem: &str, version: &'static SupportedProtocolVersion) -> Self {
        Self::with(ca_pem, &[version], Resumption::in_memory_sessions(16))
    }

    fn with(ca_pem: &str, versions: &[&'static SupportedProtocolVersion], resumption: Resumption) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.resumption = resumption;
        Self(Arc::new(config))
    }

    /// Connects and completes the handshake.
    pub(crate) fn connect(&self, address: SocketAddr) -> io::Result<Client> {
        let mut client = self.connect_holding_back(address)?;
        client.flush()?;
        Ok(client)
    }

    /// The same, but the last bytes of the handshake go out together with the first that the caller writes.
    pub(crate) fn connect_holding_back(&self, address: SocketAddr) -> io::Result<Client> {
        self.over(TcpStream::connect_timeout(&address, SOCKET_LIMIT)?)
    }

    /// The same over a socket that is connected already.
    pub(crate) fn over(&self, mut socket: TcpStream) -> io::Result<Client> {
        socket.set_read_timeout(Some(SOCKET_LIMIT))?;
        socket.set_write_timeout(Some(SOCKET_LIMIT))?;
        socket.set_nodelay(true)?;
        let mut session = self.session()?;
        while session.is_handshaking() {
            if session.wants_write() {
                session.write_tls(&mut socket)?;
                continue;
            }
            if uninterrupted(|| session.read_tls(&mut socket))? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            session.process_new_packets().map_err(io::Error::other)?;
        }
        let sender = Sender { socket, session: Arc::new(Mutex::new(session)) };
        Ok(Client { sender, sealed: Vec::new() })
    }

    fn session(&self) -> io::Result<ClientConnection> {
        let name = ServerName::try_from("localhost").unwrap();
        ClientConnection::new(Arc::clone(&self.0), name).map_err(io::Error::other)
    }

    /// The first bytes that a client sends.
    pub(crate) fn hello(&self) -> Vec<u8> {
        let mut sealed = Vec::new();
        self.session().unwrap().write_tls(&mut sealed).unwrap();
        sealed
    }

    /// The same client with a hello longer by about `more_bytes` of protocol names.
    pub(crate) fn verbose(&self, more_bytes: usize) -> Self {
        let name = |number: usize| format!("{number:0>250}").into_bytes();
        let mut config = ClientConfig::clone(&self.0);
        config.alpn_protocols = (0..more_bytes / 251).map(name).collect();
        Self(Arc::new(config))
    }

    /// The serial of the certificate that a new handshake gets.
    pub(crate) fn served_serial(&self, address: SocketAddr) -> io::Result<String> {
        self.connect(address).map(|client| client.serial())
    }
}

/// A serial number as everybody here spells it: lower-case hex, no colons, no leading zeros.
pub(crate) fn canonical_serial(text: &str) -> String {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    digits.trim_start_matches('0').to_ascii_lowercase()
}

/// How the sidecar ended its sending side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Properly: close_notify.
    Notified,
    /// A FIN without close_notify: the data may be cut.
    Torn,
    /// A reset, or another error of the connection.
    Broken,
    /// Nothing came for longer than the socket's limit.
    Silent,
}

/// The sending half of a client, which may go to another thread; only one thread may use it at a time.
#[derive(Debug)]
pub(crate) struct Sender {
    socket: TcpStream,
    session: Arc<Mutex<ClientConnection>>,
}

impl Sender {
    fn session(&self) -> MutexGuard<'_, ClientConnection> {
        self.session.lock().unwrap()
    }

    /// Sends what is sealed. The session is free meanwhile, so that a blocked send does not stop the reader.
    fn send_sealed(&mut self) -> io::Result<()> {
        let mut sealed = Vec::new();
        let mut session = self.session();
        while session.wants_write() {
            session.write_tls(&mut sealed)?;
        }
        drop(session);
        self.socket.write_all(&sealed)
    }

    /// Ends the sending side as TLS wants it: close_notify, then FIN.
    pub(crate) fn end_with_notify(&mut self) -> io::Result<()> {
        self.session().send_close_notify();
        self.send_sealed()?;
        self.socket.shutdown(Shutdown::Write)
    }

    /// Sends bytes in records of one each, all at once.
    pub(crate) fn write_byte_by_byte(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            self.session().writer().write_all(&[*byte])?;
        }
        self.send_sealed()
    }

    /// Changes its keys, and asks the other side to change its own.
    pub(crate) fn update_keys(&mut self) -> io::Result<()> {
        self.session().refresh_traffic_keys().map_err(io::Error::other)?;
        self.send_sealed()
    }

    /// Ends the sending side with a bare FIN.
    pub(crate) fn end_with_fin(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.session().writer().write(bytes)?;
        self.send_sealed()?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_sealed()
    }
}

/// A connection after its handshake.
#[derive(Debug)]
pub(crate) struct Client {
    sender: Sender,
    /// Received from the wire, not yet given to the session.
    sealed: Vec<u8>,
}

impl Client {
    /// Waits so long for bytes instead of the usual time.
    pub(crate) fn wait_for_bytes(&self, limit: Duration) {
        self.sender.socket.set_read_timeout(Some(limit)).unwrap();
    }

    /// A second handle that sends while this one reads on another thread.
    pub(crate) fn sender(&self) -> Sender {
        let socket = self.sender.socket.try_clone().unwrap();
        Sender { socket, session: Arc::clone(&self.sender.session) }
    }

    pub(crate) fn serial(&self) -> String {
        let session = self.sender.session();
        let leaf = session.peer_certificates().unwrap()[0].clone();
        let (_, parsed) = x509_parser::parse_x509_certificate(&leaf).unwrap();
        canonical_serial(&parsed.raw_serial_as_string())
    }

    /// How many certificates came in the handshake.
    pub(crate) fn chain_length(&self) -> usize {
        self.sender.session().peer_certificates().unwrap().len()
    }

    pub(crate) fn version(&self) -> ProtocolVersion {
        self.sender.session().protocol_version().unwrap()
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.sender.session().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Sends `bytes` and reads as many back, which must be the same.
    pub(crate) fn echo(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)?;
        let mut back = vec![0; bytes.len()];
        self.read_exact(&mut back)?;
        if back == bytes { Ok(()) } else { Err(io::Error::new(ErrorKind::InvalidData, "not an echo")) }
    }

    /// Reads until the other side ends, giving each part away as it comes.
    fn read_parts(&mut self, mut take: impl FnMut(&[u8])) -> End {
        let mut part = vec![0; 64 * 1024];
        loop {
            match self.read(&mut part) {
                Ok(0) => return End::Notified,
                Ok(length) => take(&part[..length]),
                Err(error) => return end_of(&error),
            }
        }
    }

    /// All that still comes, and how it ended.
    pub(crate) fn read_rest(&mut self) -> (Vec<u8>, End) {
        let mut rest = Vec::new();
        let end = self.read_parts(|part| rest.extend_from_slice(part));
        (rest, end)
    }

    /// The hash of all that still comes, and how it ended.
    pub(crate) fn hash_rest(&mut self) -> (Hash, End) {
        let mut hasher = Hasher::default();
        let end = self.read_parts(|part| hasher.update(part));
        (hasher.finish(), end)
    }

    pub(crate) fn end_with_notify(&mut self) -> io::Result<()> {
        self.sender.end_with_notify()
    }

    pub(crate) fn end_with_fin(&self) -> io::Result<()> {
        self.sender.end_with_fin()
    }

    /// Closes so that the other side sees a reset, not an end.
    pub(crate) fn reset(self) {
        let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
        setsockopt(&self.sender.socket, sockopt::Linger, &at_once).unwrap();
    }

    /// Gives the session what came from the wire, or an end.
    fn feed(&mut self) -> io::Result<()> {
        let mut session = self.sender.session.lock().unwrap();
        let mut rest = self.sealed.as_slice();
        session.read_tls(&mut rest)?;
        let left = rest.len();
        self.sealed.drain(..self.sealed.len() - left);
        // What the session would answer goes out with the next write: only one thread may send.
        session.process_new_packets().map(drop).map_err(io::Error::other)
    }
}

fn end_of(error: &io::Error) -> End {
    // Shown only when a test fails.
    eprintln!("the connection ended by an error: {error}");
    let kind = error.kind();
    if kind == ErrorKind::UnexpectedEof {
        End::Torn
    } else if matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut) {
        End::Silent
    } else {
        End::Broken
    }
}

impl Read for Client {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            // Bound first: the lock must be free again before the socket blocks.
            let plain = self.sender.session().reader().read(out);
            match plain {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            if self.sealed.is_empty() {
                self.sealed.resize(64 * 1024, 0);
                let received = uninterrupted(|| self.sender.socket.read(&mut self.sealed));
                self.sealed.truncate(*received.as_ref().unwrap_or(&0));
                received?;
            }
            self.feed()?;
        }
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sender.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sender.flush()
    }
}
