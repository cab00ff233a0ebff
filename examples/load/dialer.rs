//! How connections are made: to whom, with what TLS, trusting whom.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::session::Session;

/// Whether sessions are resumed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resumption {
    On,
    Off,
}

/// Whether it matters who answers.
pub(crate) enum Identity {
    /// Only somebody with a certificate under one of these, in PEM.
    Trusted(Vec<u8>),
    /// Anybody.
    Ignored,
}

/// Makes connections.
pub(crate) struct Dialer {
    to: SocketAddr,
    config: ClientConfig,
    resumption: Resumption,
    name: ServerName<'static>,
}

/// What the connections of one place have in common, so that each resumes the session of the one before it.
pub(crate) struct Line(Arc<ClientConfig>);

impl Dialer {
    /// All connections use X25519, which every terminator has, so that they all do the same work.
    pub(crate) fn new(
        to: SocketAddr,
        identity: &Identity,
        suite: Option<&str>,
        resumption: Resumption,
    ) -> anyhow::Result<Self> {
        let mut provider = aws_lc_rs::default_provider();
        provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
        if let Some(wanted) = suite {
            provider.cipher_suites.retain(|suite| is_called(suite.suite(), wanted));
            anyhow::ensure!(!provider.cipher_suites.is_empty(), "no suite is called {wanted}");
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let mut config = match identity {
            Identity::Trusted(pem) => {
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    roots.add(certificate?)?;
                }
                builder.with_root_certificates(roots).with_no_client_auth()
            }
            Identity::Ignored => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody)).with_no_client_auth()
            }
        };
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self { to, config, resumption, name: ServerName::try_from("localhost")? })
    }

    pub(crate) fn line(&self) -> Line {
        let mut config = self.config.clone();
        if self.resumption == Resumption::On {
            config.resumption = rustls::client::Resumption::in_memory_sessions(8);
        }
        Line(Arc::new(config))
    }

    /// Begins to connect.
    pub(crate) fn dial(&self, line: &Line) -> io::Result<Session> {
        let socket = TcpStream::connect(self.to)?;
        socket.set_nodelay(true)?;
        let tls = ClientConnection::new(Arc::clone(&line.0), self.name.clone()).map_err(io::Error::other)?;
        Ok(Session::new(socket, tls))
    }
}

fn is_called(suite: CipherSuite, wanted: &str) -> bool {
    suite.as_str().is_some_and(|name| name.strip_prefix("TLS13_") == Some(wanted))
}

/// Takes whatever a server says of itself.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::ED25519,
        ]
    }
}
