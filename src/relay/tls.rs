//! rustls' server side as a port: sealed bytes on one side, plain bytes on the other.
//!
//! The one place in the relay that names rustls. Knows neither sockets nor where certificates come from. Shown by
//! `tests/sim/relay` against rustls' client side.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;

use super::buffer::Buffer;
use super::port::{Fault, FaultKind, Opened, Port};

/// The server's side of one TLS connection.
pub struct Tls {
    connection: UnbufferedServerConnection,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("session", &self.session()).finish_non_exhaustive()
    }
}

/// What a handshake agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session<'a> {
    /// The protocol version, such as `TLSv1_3`.
    pub version: &'static str,
    /// The cipher suite, such as `TLS13_AES_128_GCM_SHA256`.
    pub cipher_suite: &'static str,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The application protocol, if one was agreed on.
    pub alpn: Option<&'a [u8]>,
}

impl Tls {
    /// A connection that has seen no byte yet.
    ///
    /// # Errors
    /// The configuration is one that rustls refuses.
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, Fault> {
        match UnbufferedServerConnection::new(config) {
            Ok(connection) => Ok(Self { connection }),
            Err(error) => Err(Fault { kind: FaultKind::Internal, text: error.to_string() }),
        }
    }

    /// What the handshake agreed on, once it has ended.
    #[must_use]
    pub fn session(&self) -> Option<Session<'_>> {
        None
    }
}

impl Port for Tls {
    fn open(&mut self, _: &mut Buffer, _: &mut Buffer, _: &mut Buffer) -> Result<Opened, Fault> {
        Ok(Opened::More)
    }

    fn seal(&mut self, _: &[u8], _: &mut Buffer, _: &mut [u8]) -> Result<(), Fault> {
        Ok(())
    }

    fn close(&mut self, _: &mut Buffer, _: &mut [u8]) -> Result<(), Fault> {
        Ok(())
    }

    fn handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn plain_bytes(&self, sealed_bytes: usize) -> usize {
        sealed_bytes
    }
}
