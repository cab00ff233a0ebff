//! rustls' server side as a port: sealed bytes on one side, plain bytes on the other.
//!
//! The one place in the relay that names rustls. Its unbuffered interface keeps no buffers of its own, so an idle
//! connection costs little, and one read may hold as many records as the socket has. Knows neither sockets nor
//! where certificates come from. Shown by `tests/sim/relay` against rustls' client side.

use std::fmt;
use std::sync::Arc;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{Error, HandshakeKind, InvalidMessage, PeerIncompatible, ServerConfig};

use super::buffer::Buffer;
use super::port::{Fault, FaultKind, Opened, Port};

/// How many plain bytes a record holds at most, and by how much it is longer when sealed, at most.
const RECORD_BYTES: usize = 16_384;
const RECORD_OVERHEAD: usize = 256 + 5;

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
            Err(error) => Err(fault(&error)),
        }
    }

    /// What the handshake agreed on, once it has ended.
    #[must_use]
    pub fn session(&self) -> Option<Session<'_>> {
        if self.connection.is_handshaking() {
            return None;
        }
        Some(Session {
            version: self.connection.protocol_version()?.as_str().unwrap_or("unknown"),
            cipher_suite: self.connection.negotiated_cipher_suite()?.suite().as_str().unwrap_or("unknown"),
            resumed: self.connection.handshake_kind() == Some(HandshakeKind::Resumed),
            alpn: self.connection.alpn_protocol(),
        })
    }

    /// What rustls had queued to say before it gave up. Nothing is looked at but that queue, so that what the client
    /// sent need not be at hand any more.
    fn last_words(&mut self, replies: &mut Buffer) {
        while self.connection.wants_write() {
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(message)) => encode(message, replies),
                Ok(ConnectionState::TransmitTlsData(sent)) => sent.done(),
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Runs `write` on the connection as soon as it may write. `unopened` holds no complete record, so nothing can be
    /// opened on the way.
    fn when_writable(
        &mut self,
        sealed: &mut Buffer,
        unopened: &mut [u8],
        mut write: impl FnMut(&mut WriteTraffic<'_, ServerData>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<(), Fault> {
        loop {
            let UnbufferedStatus { discard, state } = self.connection.process_tls_records(unopened);
            debug_assert_eq!(discard, 0, "a complete record was left unopened");
            match state {
                Ok(ConnectionState::EncodeTlsData(message)) => encode(message, sealed),
                Ok(ConnectionState::TransmitTlsData(sent)) => sent.done(),
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let mut wanted = 0;
                    loop {
                        match write(&mut traffic, sealed.room_for(wanted)) {
                            Ok(written) => {
                                sealed.fill(written);
                                return Ok(());
                            }
                            Err(EncryptError::InsufficientSize(size)) => wanted = size.required_size,
                            Err(EncryptError::EncryptExhausted) => return Err(exhausted()),
                        }
                    }
                }
                Ok(other) => return Err(internal(format!("cannot write in state {other:?}"))),
                Err(error) => return Err(fault(&error)),
            }
        }
    }
}

type ServerData = rustls::server::ServerConnectionData;

impl Port for Tls {
    fn open(
        &mut self,
        sealed: &mut Buffer,
        plain: &mut Buffer,
        replies: &mut Buffer,
    ) -> Result<Opened, Fault> {
        let handshaking = self.connection.is_handshaking();
        let http = handshaking && speaks_http(sealed.filled());
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.connection.process_tls_records(sealed.filled_mut());
            let mut opened = None;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(|error| fault(&error))?;
                        plain.append(record.payload);
                        discard += record.discard;
                    }
                }
                Ok(ConnectionState::EncodeTlsData(message)) => encode(message, replies),
                Ok(ConnectionState::TransmitTlsData(sent)) => sent.done(),
                Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => {
                    opened = Some(Opened::More);
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => opened = Some(Opened::Closed),
                Ok(other) => return Err(internal(format!("unexpected state {other:?}"))),
                Err(error) => {
                    self.last_words(replies);
                    return Err(in_context(fault(&error), handshaking, http));
                }
            }
            sealed.consume(discard);
            if opened == Some(Opened::Closed) {
                sealed.clear();
            }
            if let Some(opened) = opened {
                return Ok(opened);
            }
        }
    }

    fn seal(&mut self, plain: &[u8], sealed: &mut Buffer, unopened: &mut [u8]) -> Result<(), Fault> {
        self.when_writable(sealed, unopened, |traffic, room| traffic.encrypt(plain, room))
    }

    fn close(&mut self, sealed: &mut Buffer, unopened: &mut [u8]) -> Result<(), Fault> {
        self.when_writable(sealed, unopened, |traffic, room| traffic.queue_close_notify(room))
    }

    fn handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn plain_bytes(&self, sealed_bytes: usize) -> usize {
        match sealed_bytes / (RECORD_BYTES + RECORD_OVERHEAD) {
            0 => sealed_bytes.saturating_sub(RECORD_OVERHEAD).max(1),
            records => records * RECORD_BYTES,
        }
    }
}

fn encode(mut message: EncodeTlsData<'_, ServerData>, sealed: &mut Buffer) {
    let mut wanted = 0;
    loop {
        match message.encode(sealed.room_for(wanted)) {
            Ok(written) => return sealed.fill(written),
            Err(EncodeError::InsufficientSize(size)) => wanted = size.required_size,
            Err(EncodeError::AlreadyEncoded) => {
                debug_assert!(false, "a message encoded twice");
                return;
            }
        }
    }
}

fn speaks_http(bytes: &[u8]) -> bool {
    const METHODS: [&[u8]; 8] =
        [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"CONNECT ", b"PRI * HTTP"];
    METHODS.iter().any(|method| bytes.starts_with(method))
}

/// Bytes that are no TLS are a fault of another class when they follow proper TLS, and of a better known one when they
/// are a request.
fn in_context(mut fault: Fault, handshaking: bool, http: bool) -> Fault {
    if fault.kind == FaultKind::NotTls && http {
        fault.kind = FaultKind::PlainHttp;
    } else if fault.kind == FaultKind::NotTls && !handshaking {
        fault.kind = FaultKind::BadRecord;
    }
    fault
}

fn exhausted() -> Fault {
    Fault { kind: FaultKind::KeysExhausted, text: String::from("too many records under one key") }
}

fn internal(text: String) -> Fault {
    debug_assert!(false, "{text}");
    Fault { kind: FaultKind::Internal, text }
}

fn fault(error: &Error) -> Fault {
    Fault { kind: kind(error), text: error.to_string() }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "rustls' errors are open-ended; the rest is of our making"
)]
fn kind(error: &Error) -> FaultKind {
    match error {
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::InvalidEmptyPayload
            | InvalidMessage::MessageTooLarge,
        ) => FaultKind::NotTls,
        Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge) => FaultKind::TooLong,
        Error::InvalidMessage(_) => FaultKind::BadMessage,
        Error::PeerIncompatible(
            PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            // What hellos of earlier versions lack, and rustls looks for first.
            | PeerIncompatible::SignatureAlgorithmsExtensionRequired,
        ) => FaultKind::NoSharedVersion,
        Error::PeerIncompatible(_) => FaultKind::NoSharedParameters,
        Error::NoApplicationProtocol => FaultKind::NoSharedProtocol,
        Error::AlertReceived(_) => FaultKind::Alert,
        Error::DecryptError | Error::PeerSentOversizedRecord => FaultKind::BadRecord,
        Error::PeerMisbehaved(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. } => FaultKind::Misbehaved,
        Error::InvalidCertificate(_) | Error::NoCertificatesPresented => FaultKind::ClientCertificate,
        _ => FaultKind::Internal,
    }
}
