//! For the tests of this module: a root, an intermediate, leaves below it, and clients that trust the root.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a fixture that can't be made fails its test"
)]

use super::{Bundle, Generation};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_RSA_SHA256, RsaKeySize, SerialNumber, date_time_ymd,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConnection, SupportedProtocolVersion,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
    time_provider::TimeProvider,
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

/// The day on which the tests take place, since 1970.
pub(super) const TODAY: u64 = 20_050;

/// The kinds of key that files come with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Algorithm {
    P256,
    Rsa,
}

/// What a test cares about in a leaf.
pub(super) struct Leaf {
    pub(super) serial: u8,
    /// Days since 1970.
    pub(super) valid: (u64, u64),
    pub(super) algorithm: Algorithm,
    pub(super) names: &'static [&'static str],
}

impl Default for Leaf {
    fn default() -> Self {
        let names = &["localhost", "*.example.org", "127.0.0.1", "::1"];
        Self { serial: 7, valid: (20_000, 20_090), algorithm: Algorithm::P256, names }
    }
}

/// One leaf with all that belongs to it, in PEM.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) leaf: String,
    pub(super) intermediate: String,
    pub(super) root: String,
    pub(super) key: String,
}

impl Pair {
    pub(super) fn new(leaf: &Leaf) -> Self {
        Authority::new().issue(leaf)
    }

    /// Leaf, intermediate and root.
    pub(super) fn chain(&self) -> String {
        [&*self.leaf, &self.intermediate, &self.root].concat()
    }
}

/// The whole chain with its key.
pub(super) fn bundle(pair: &Pair) -> Bundle {
    Bundle::parse(pair.chain().as_bytes(), pair.key.as_bytes()).unwrap()
}

/// A root and an intermediate.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    intermediate: String,
    root: String,
}

impl Authority {
    pub(super) fn new() -> Self {
        Self::until(30_000, 30_000)
    }

    /// One whose certificates end on these days since 1970.
    pub(super) fn until(intermediate_end: u64, root_end: u64) -> Self {
        let (root, root_key) = (authority_params("root", root_end), KeyPair::generate().unwrap());
        let root_pem = root.self_signed(&root_key).unwrap().pem();
        let root = Issuer::new(root, root_key);
        let (intermediate, key) =
            (authority_params("intermediate", intermediate_end), KeyPair::generate().unwrap());
        let intermediate_pem = intermediate.signed_by(&key, &root).unwrap().pem();
        Self { issuer: Issuer::new(intermediate, key), intermediate: intermediate_pem, root: root_pem }
    }

    pub(super) fn issue(&self, leaf: &Leaf) -> Pair {
        let key = match leaf.algorithm {
            Algorithm::P256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap(),
            Algorithm::Rsa => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap(),
        };
        let names: Vec<_> = leaf.names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "leaf");
        params.subject_alt_names.push(rcgen::SanType::URI("spiffe://example.org/web".try_into().unwrap()));
        params.serial_number = Some(SerialNumber::from_slice(&[0xca, leaf.serial]));
        let day = |days: u64| date_time_ymd(1970, 1, 1) + Duration::from_secs(days * 86_400);
        (params.not_before, params.not_after) = (day(leaf.valid.0), day(leaf.valid.1));
        Pair {
            leaf: params.signed_by(&key, &self.issuer).unwrap().pem(),
            intermediate: self.intermediate.clone(),
            root: self.root.clone(),
            key: key.serialize_pem(),
        }
    }
}

fn authority_params(name: &str, end: u64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(end * 86_400);
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// Midnight of a day since 1970.
pub(super) fn day(days: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(days * 86_400)
}

/// The content of a file with Windows line ends.
pub(super) fn crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// The same key in the older format that its kind has: SEC1 or PKCS#1.
pub(super) fn older_format(pkcs8_pem: &str, label: &str) -> String {
    use x509_parser::der_parser::der::parse_der_sequence;
    let der = PrivateKeyDer::from_pem_slice(pkcs8_pem.as_bytes()).unwrap();
    let (_, pkcs8) = parse_der_sequence(der.secret_der()).unwrap();
    let inner = pkcs8.as_sequence().unwrap()[2].as_slice().unwrap();
    pem(label, inner)
}

/// Any bytes as a PEM block.
pub(super) fn pem(label: &str, der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for (n, bytes) in der.chunks(3).enumerate() {
        let word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - bytes.len()));
        for place in 0..4 {
            let digit = (word >> (18 - 6 * place) & 63) as usize;
            text.push(if place > bytes.len() { '=' } else { char::from(ALPHABET[digit]) });
        }
        if n % 16 == 15 {
            text.push('\n');
        }
    }
    format!("{}\n-----END {label}-----\n", text.trim_end())
}

/// A clock for clients that stands at [`TODAY`].
#[derive(Debug)]
struct Standing;

impl TimeProvider for Standing {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(TODAY * 86_400)))
    }
}

/// A client of both versions that trusts the pair's root.
pub(super) fn client(pair: &Pair) -> ClientConfig {
    client_of(pair, rustls::ALL_VERSIONS)
}

/// The same of chosen versions.
pub(super) fn client_of(pair: &Pair, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pair.root.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_details(provider, Arc::new(Standing))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// A whole handshake in memory.
pub(super) fn connect(
    client: &Arc<ClientConfig>,
    generation: &Generation,
) -> Result<(ClientConnection, ServerConnection), rustls::Error> {
    let name = "localhost".try_into().unwrap();
    let mut client = ClientConnection::new(Arc::clone(client), name)?;
    let mut server = ServerConnection::new(Arc::clone(&generation.server_config))?;
    while client.wants_write() || server.wants_write() {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut rest = &*wire;
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets()?;
        }
        wire.clear();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut rest = &*wire;
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok((client, server))
}
