//! A TLS client in memory, and what it takes to make one and its server: certificates and configurations.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, ServerConfig, SupportedProtocolVersion,
};
use tlsidecar::relay::{Pool, Tls};

use super::world::{LIMITS, Socket, World, start};

#[derive(Debug)]
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed([String::from("localhost")]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        Identity { chain: vec![made.cert.der().clone()], key }
    })
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// A server's configuration whose chain is padded with certificates that nobody needs, to `chain_bytes` at least.
pub(crate) fn server_config(chain_bytes: usize) -> ServerConfig {
    let identity = identity();
    let mut chain = identity.chain.clone();
    while chain.iter().map(|certificate| certificate.len()).sum::<usize>() < chain_bytes {
        chain.push(identity.chain[0].clone());
    }
    ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, identity.key.clone_key())
        .unwrap()
}

pub(crate) fn client_config(version: &'static SupportedProtocolVersion) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(identity().chain[0].clone()).unwrap();
    ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// A relay for a TLS client, not yet begun.
pub(crate) fn world(config: ServerConfig) -> World<Tls> {
    World::new(Tls::new(Arc::new(config)).unwrap(), LIMITS, Pool::default(), start())
}

/// The client at the other end of the relay's client socket.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) connection: ClientConnection,
    /// Sealed, and not sent yet.
    pub(crate) wire: Vec<u8>,
    /// How much of what the socket's peer got was looked at.
    seen: usize,
    /// Plain bytes received.
    pub(crate) received: Vec<u8>,
    /// Whether close_notify was received.
    pub(crate) closed: bool,
    /// The fatal error, such as an alert received.
    pub(crate) error: Option<rustls::Error>,
}

impl Client {
    pub(crate) fn new(config: ClientConfig) -> Self {
        let mut connection =
            ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        connection.set_buffer_limit(None);
        Self { connection, wire: Vec::new(), seen: 0, received: Vec::new(), closed: false, error: None }
    }

    /// One of TLS 1.3.
    pub(crate) fn usual() -> Self {
        Self::new(client_config(&rustls::version::TLS13))
    }

    /// Seals what the connection wants to say.
    pub(crate) fn seal(&mut self) {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.wire).unwrap();
        }
    }

    pub(crate) fn say(&mut self, plain: &[u8]) {
        std::io::Write::write_all(&mut self.connection.writer(), plain).unwrap();
        self.seal();
    }

    pub(crate) fn say_close(&mut self) {
        self.connection.send_close_notify();
        self.seal();
    }

    /// Sends up to `count` sealed bytes.
    pub(crate) fn send(&mut self, socket: &mut Socket, count: usize) {
        let count = count.min(self.wire.len());
        if count > 0 {
            let bytes: Vec<u8> = self.wire.drain(..count).collect();
            socket.arrive(&bytes);
        }
    }

    /// Reads what its socket got since it last looked.
    pub(crate) fn look(&mut self, socket: &Socket) {
        let mut sealed = &socket.got[self.seen..];
        self.seen = socket.got.len();
        while !sealed.is_empty() && self.error.is_none() && !self.closed {
            self.connection.read_tls(&mut sealed).unwrap();
            match self.connection.process_new_packets() {
                Ok(state) => {
                    let mut plain = vec![0; state.plaintext_bytes_to_read()];
                    std::io::Read::read_exact(&mut self.connection.reader(), &mut plain).unwrap();
                    self.received.extend(plain);
                    self.closed |= state.peer_has_closed();
                }
                Err(error) => self.error = Some(error),
            }
        }
        self.seal();
    }

    /// Takes all there is, and sends all there is.
    pub(crate) fn exchange(&mut self, socket: &mut Socket) {
        socket.drain(usize::MAX);
        self.look(socket);
        self.send(socket, usize::MAX);
    }

    pub(crate) fn speaks(&self, version: ProtocolVersion) -> bool {
        self.connection.protocol_version() == Some(version)
    }
}

/// Runs the relay, its client and an upstream that reads until nothing is left to do.
pub(crate) fn settle(world: &mut World<Tls>, client: &mut Client) {
    for _ in 0..10_000 {
        client.seal();
        client.exchange(&mut world.client);
        world.upstream.drain(usize::MAX);
        world.run();
        if client.wire.is_empty() && world.client.queued() + world.upstream.queued() == 0 {
            client.look(&world.client);
            return;
        }
    }
    panic!("it does not settle");
}

/// A relay whose client has shaken hands and whose upstream is connected.
pub(crate) fn connected() -> (World<Tls>, Client) {
    connected_by(Client::usual())
}

pub(crate) fn connected_by(mut client: Client) -> (World<Tls>, Client) {
    let mut world = world(server_config(0));
    settle(&mut world, &mut client);
    assert!(world.connected && !client.connection.is_handshaking());
    (world, client)
}

/// Bytes that tell where they belong.
pub(crate) fn pattern(count: usize, seed: u64) -> Vec<u8> {
    (0..count as u64).map(|at| ((at + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}
