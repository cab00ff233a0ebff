//! A blocking TLS client that trusts one root, for the demo and for the tests: which certificate is served right now?
//!
//! Every handshake is a full one, since a resumed session shows the certificate of the first. It knows nothing of the
//! sidecar. The tests of the demo drive it.

use std::fmt::Write as _;
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, StreamOwned};
use rustls_pki_types::{CertificateDer, ServerName};

use super::http::Message;

/// The longest wait for the peer: to connect, and for each piece of an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What connections have in common: whom they trust.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
}

/// One TLS connection, after its handshake.
#[derive(Debug)]
pub struct Session {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
    serial: String,
}

/// An answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl Client {
    /// A client that trusts certificates under `root` and speaks TLS 1.2 and 1.3.
    ///
    /// # Errors
    /// When `root` is no certificate that can be trusted.
    pub fn new(root: CertificateDer<'static>) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(root)?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config) })
    }

    /// Connects to `address`, asks for `localhost` and completes the handshake.
    ///
    /// # Errors
    /// When the connection or the handshake fails, the certificate is not trusted, or the peer takes over ten seconds.
    pub fn connect(&self, address: SocketAddr) -> io::Result<Session> {
        let mut socket = TcpStream::connect_timeout(&address, PATIENCE)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let mut connection =
            ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        let leaf = connection.peer_certificates().and_then(|chain| chain.first());
        let serial = leaf
            .and_then(|leaf| serial_of(leaf))
            .ok_or_else(|| io::Error::other("a leaf without a serial"))?;
        Ok(Session { stream: BufReader::new(StreamOwned::new(connection, socket)), serial })
    }
}

impl Session {
    /// The serial of the certificate that the server presented, in upper-case hexadecimal, two digits a byte, as openssl prints it.
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// The protocol version that was agreed on.
    pub fn protocol(&self) -> Option<ProtocolVersion> {
        self.stream.get_ref().conn.protocol_version()
    }

    /// How the handshake went; never resumed.
    pub fn handshake_kind(&self) -> Option<HandshakeKind> {
        self.stream.get_ref().conn.handshake_kind()
    }

    /// Sends a GET for `path` and reads the answer; the connection stays open for the next.
    ///
    /// # Errors
    /// When the connection ended or failed, or the answer is none.
    pub fn request(&mut self, path: &str) -> io::Result<Reply> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nuser-agent: tlsidecar-demo\r\n\r\n");
        let stream = self.stream.get_mut();
        stream.write_all(request.as_bytes())?;
        stream.flush()?;
        let answer = Message::read(&mut self.stream)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = answer.word(1).parse().map_err(io::Error::other)?;
        Ok(Reply { status, body: String::from_utf8_lossy(&answer.body).into_owned() })
    }
}

/// The serial of the certificate `der`, written as [`Session::serial`] is; `None` if there is none.
pub fn serial_of(der: &[u8]) -> Option<String> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    // A zero byte in front only says that the number is not negative.
    let number = match certificate.raw_serial() {
        [0, number @ ..] if !number.is_empty() => number,
        number => number,
    };
    Some(hexadecimal(number))
}

/// A leaf's serial written as [`Session::serial`] is.
pub fn serial_text(serial: u64) -> String {
    let bytes = serial.to_be_bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count().min(bytes.len().saturating_sub(1));
    hexadecimal(bytes.get(zeros..).unwrap_or_default())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::super::authority::{Authority, Profile};
    use super::*;

    #[test]
    fn the_serial_is_read_as_it_was_issued() {
        let mut authority = Authority::new("root", SystemTime::UNIX_EPOCH).unwrap();
        for (serial, text) in
            [(1, "01"), (0x7f, "7F"), (0x80, "80"), (0x1abc, "1ABC"), (u64::MAX, "FFFFFFFFFFFFFFFF")]
        {
            let leaf = authority.issue_as(&Profile { serial, ..authority.profile() }).unwrap();
            assert_eq!(serial_of(&leaf.der).unwrap(), text);
            assert_eq!(serial_text(serial), text);
        }
    }

    #[test]
    fn a_certificate_cut_short_has_no_serial() {
        let leaf = Authority::new("root", SystemTime::UNIX_EPOCH).unwrap().issue().unwrap();
        for length in 0..leaf.der.len() {
            assert_eq!(serial_of(leaf.der.get(..length).unwrap()), None, "{length} bytes");
        }
        for bytes in [&[][..], &[0x30], &[0x30, 0x84, 1], &[0x30, 0xff, 0, 0], &[0x02, 1, 1]] {
            assert_eq!(serial_of(bytes), None, "{bytes:?}");
        }
    }
}
