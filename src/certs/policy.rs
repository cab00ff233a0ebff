//! What the listener offers in a handshake, whatever the certificate.
//!
//! One [`Terms`] is made of the policy and shared by all generations. So are tickets, while the names stay: a renewed
//! certificate is no reason to end the sessions of its clients. (Should client certificates be verified one day, a change
//! of *their* roots must come with new tickets too: a resumed session is not verified again.)
//!
//! Knows nothing of configuration texts: cipher suites and groups are IANA code points. The tests below hold the order,
//! and handshakes in the tests of the store show what clients get.

use rustls::{
    ConfigBuilder, ProtocolVersion, ServerConfig, SupportedCipherSuite, WantsVerifier,
    crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs},
    server::{NoServerSessionStorage, ProducesTickets},
    sign::{CertifiedKey, SigningKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use std::{fmt, sync::Arc};

/// One ticket lets a client resume once, and clients that need more ask again by connecting.
const TICKETS_PER_HANDSHAKE: usize = 1;

/// The oldest protocol version on offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinimumVersion {
    /// TLS 1.2 and 1.3.
    #[default]
    Tls12,
    /// TLS 1.3 alone.
    Tls13,
}

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls12 => "TLS 1.2",
            Self::Tls13 => "TLS 1.3",
        })
    }
}

/// What to do with an expired certificate when there is nothing to serve yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpiredAtStart {
    /// Serve nothing.
    #[default]
    Refuse,
    /// Serve it.
    Serve,
}

/// What every generation offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The oldest protocol version.
    pub minimum_version: MinimumVersion,
    /// IANA code points, all versions in one list. Exactly these are offered, and the server's order decides: a list
    /// without a TLS 1.3 suite switches TLS 1.3 off. Empty: all, in the order that is fastest here.
    pub cipher_suites: Vec<u16>,
    /// IANA code points of the key exchange groups; empty: ours, the post-quantum hybrid first. The client's order
    /// decides.
    pub groups: Vec<u16>,
    /// Application protocols in the order of preference; empty: the client's offer is ignored.
    pub alpn: Vec<Vec<u8>>,
    /// Whether an expired certificate is better than none.
    pub expired_at_start: ExpiredAtStart,
}

/// A policy under which nothing can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyFault {
    /// No such cipher suite.
    UnknownSuite(u16),
    /// No such group.
    UnknownGroup(u16),
    /// None of the cipher suites works with the allowed protocol versions.
    NoUsableSuite(MinimumVersion),
    /// An application protocol's name must have 1 to 255 bytes.
    AlpnLength(usize),
    /// The system gave no random numbers.
    NoRandomness,
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownSuite(code) => write!(f, "cipher suite 0x{code:04x} is not supported"),
            Self::UnknownGroup(code) => write!(f, "group 0x{code:04x} is not supported"),
            Self::NoUsableSuite(MinimumVersion::Tls12) => {
                write!(f, "none of the cipher suites works with TLS 1.2 or 1.3")
            }
            Self::NoUsableSuite(MinimumVersion::Tls13) => {
                write!(f, "none of the cipher suites works with TLS 1.3, the minimum version")
            }
            Self::AlpnLength(length) => {
                write!(f, "an application protocol's name has {length} bytes; 1 to 255 are allowed")
            }
            Self::NoRandomness => write!(f, "the system gave no random numbers"),
        }
    }
}

impl std::error::Error for PolicyFault {}

/// Draws the first random number, which costs tens of milliseconds once in a process.
///
/// # Errors
/// [`PolicyFault::NoRandomness`].
pub fn warm_up() -> Result<(), PolicyFault> {
    let mut scratch = [0; 32];
    let random = aws_lc_rs::default_provider().secure_random;
    random.fill(&mut scratch).map_err(|_| PolicyFault::NoRandomness)
}

/// Every cipher suite that can be asked for: IANA's name and code point.
pub fn known_suites() -> Vec<(String, u16)> {
    let name = |suite: &SupportedCipherSuite| {
        let name = suite.suite().as_str().unwrap_or_default();
        // rustls tells the versions apart where IANA does not.
        name.strip_prefix("TLS13_").map_or(name.to_owned(), |rest| format!("TLS_{rest}"))
    };
    aws_lc_rs::ALL_CIPHER_SUITES.iter().map(|suite| (name(suite), code(suite))).collect()
}

/// Every key exchange group that can be asked for: IANA's name in lower case and code point.
pub fn known_groups() -> Vec<(String, u16)> {
    let name = |group: &dyn SupportedKxGroup| group.name().as_str().unwrap_or_default().to_lowercase();
    aws_lc_rs::ALL_KX_GROUPS.iter().map(|group| (name(*group), u16::from(group.name()))).collect()
}

fn code(suite: &SupportedCipherSuite) -> u16 {
    suite.suite().into()
}

/// Whether the processor has instructions for AES-GCM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aes {
    Fast,
    Slow,
}

impl Aes {
    fn here() -> Self {
        #[cfg(target_arch = "x86_64")]
        let fast = is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        let fast = std::arch::is_aarch64_feature_detected!("aes");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let fast = false;
        if fast { Self::Fast } else { Self::Slow }
    }
}

/// Who chooses among the cipher suites that both sides know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Server,
    Client,
}

/// Tickets of their own keys; nothing if there is no randomness for those.
pub(super) fn new_tickets() -> Option<Arc<dyn ProducesTickets>> {
    aws_lc_rs::Ticketer::new().ok()
}

/// The checked policy in rustls' terms.
pub(super) struct Terms {
    builder: ConfigBuilder<ServerConfig, WantsVerifier>,
    minimum_version: MinimumVersion,
    choice: Choice,
    alpn: Vec<Vec<u8>>,
}

impl Terms {
    pub(super) fn new(policy: &Policy) -> Result<Self, PolicyFault> {
        Self::for_processor(policy, Aes::here())
    }

    fn for_processor(policy: &Policy, aes: Aes) -> Result<Self, PolicyFault> {
        if let Some(name) = policy.alpn.iter().find(|name| !(1..=255).contains(&name.len())) {
            return Err(PolicyFault::AlpnLength(name.len()));
        }
        let (cipher_suites, choice) = choose_suites(&policy.cipher_suites, aes)?;
        let provider = CryptoProvider {
            cipher_suites,
            kx_groups: choose_groups(&policy.groups)?,
            ..aws_lc_rs::default_provider()
        };
        let versions: &[_] = match policy.minimum_version {
            MinimumVersion::Tls12 => &[&TLS13, &TLS12],
            MinimumVersion::Tls13 => &[&TLS13],
        };
        let builder = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .map_err(|_| PolicyFault::NoUsableSuite(policy.minimum_version))?;
        let (minimum_version, alpn) = (policy.minimum_version, policy.alpn.clone());
        Ok(Self { builder, minimum_version, choice, alpn })
    }

    /// A configuration that serves `key` on these terms; sessions that `tickets` has given out are resumed.
    pub(super) fn server_config(
        &self,
        key: Arc<CertifiedKey>,
        tickets: Arc<dyn ProducesTickets>,
    ) -> ServerConfig {
        let resolver = Arc::new(SingleCertAndKey::from(key));
        let mut config = self.builder.clone().with_no_client_auth().with_cert_resolver(resolver);
        config.ignore_client_order = self.choice == Choice::Server;
        config.alpn_protocols.clone_from(&self.alpn);
        config.ticketer = tickets;
        config.send_tls13_tickets = TICKETS_PER_HANDSHAKE;
        // Tickets need no memory and no lock among workers.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config
    }

    /// Whether a handshake with this kind of key can succeed at all.
    pub(super) fn can_sign_with(&self, key: &dyn SigningKey) -> bool {
        let suites = &self.builder.crypto_provider().cipher_suites;
        suites.iter().any(|suite| suite.usable_for_signature_algorithm(key.algorithm()))
    }

    /// The versions that are allowed and yet of no use: of their suites or of their groups none is on offer that works
    /// with this kind of key.
    pub(super) fn useless_versions(&self, key: &dyn SigningKey) -> Vec<Version> {
        let provider = self.builder.crypto_provider();
        let works = |version: ProtocolVersion| {
            let suits = |suite: &SupportedCipherSuite| {
                suite.version().version == version && suite.usable_for_signature_algorithm(key.algorithm())
            };
            provider.cipher_suites.iter().any(suits)
                && provider.kx_groups.iter().any(|group| group.usable_for_version(version))
        };
        let is_allowed = |version| version == Version::Tls13 || self.minimum_version == MinimumVersion::Tls12;
        let all = [(Version::Tls12, ProtocolVersion::TLSv1_2), (Version::Tls13, ProtocolVersion::TLSv1_3)];
        let useless = all.into_iter().filter(|(version, wire)| is_allowed(*version) && !works(*wire));
        useless.map(|(version, _)| version).collect()
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms")
            .field("choice", &self.choice)
            .field("alpn", &self.alpn)
            .finish_non_exhaustive()
    }
}

fn choose_suites(codes: &[u16], aes: Aes) -> Result<(Vec<SupportedCipherSuite>, Choice), PolicyFault> {
    if !codes.is_empty() {
        let find = |wanted: &u16| {
            let suite = aws_lc_rs::ALL_CIPHER_SUITES.iter().find(|suite| code(suite) == *wanted);
            suite.copied().ok_or(PolicyFault::UnknownSuite(*wanted))
        };
        return Ok((codes.iter().map(find).collect::<Result<_, _>>()?, Choice::Server));
    }
    let mut suites = aws_lc_rs::DEFAULT_CIPHER_SUITES.to_vec();
    match aes {
        // Its hash, SHA-256, has instructions where AES has; SHA-384 has none, and handshakes are mostly hashing.
        Aes::Fast => {
            suites.sort_by_key(|suite| !is_aes_128(suite));
            Ok((suites, Choice::Server))
        }
        Aes::Slow => Ok((suites, Choice::Client)),
    }
}

fn is_aes_128(suite: &SupportedCipherSuite) -> bool {
    suite.suite().as_str().is_some_and(|name| name.contains("AES_128_GCM"))
}

fn choose_groups(codes: &[u16]) -> Result<Vec<&'static dyn SupportedKxGroup>, PolicyFault> {
    if codes.is_empty() {
        return Ok(aws_lc_rs::DEFAULT_KX_GROUPS.to_vec());
    }
    let find = |wanted: &u16| {
        let group = aws_lc_rs::ALL_KX_GROUPS.iter().find(|group| u16::from(group.name()) == *wanted);
        group.copied().ok_or(PolicyFault::UnknownGroup(*wanted))
    };
    codes.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AES_128_TLS13: u16 = 0x1301;
    const AES_256_TLS13: u16 = 0x1302;
    const ECDSA_AES_256: u16 = 0xc02c;

    fn suites(policy: &Policy, aes: Aes) -> (Vec<u16>, Choice) {
        let terms = Terms::for_processor(policy, aes).unwrap();
        (terms.builder.crypto_provider().cipher_suites.iter().map(code).collect(), terms.choice)
    }

    fn fault(policy: &Policy) -> PolicyFault {
        Terms::new(policy).unwrap_err()
    }

    #[test]
    fn the_server_prefers_aes_128_where_that_is_fast() {
        let (fast, choice) = suites(&Policy::default(), Aes::Fast);
        assert_eq!((fast[0], choice), (AES_128_TLS13, Choice::Server));
        let (slow, choice) = suites(&Policy::default(), Aes::Slow);
        assert_eq!(choice, Choice::Client);
        let sorted = |mut codes: Vec<u16>| {
            codes.sort_unstable();
            codes
        };
        assert_eq!(sorted(fast), sorted(slow));
    }

    #[test]
    fn an_explicit_list_is_offered_as_it_is() {
        for codes in [vec![AES_256_TLS13, AES_128_TLS13], vec![ECDSA_AES_256]] {
            let policy = Policy { cipher_suites: codes.clone(), ..Policy::default() };
            assert_eq!(suites(&policy, Aes::Fast), (codes, Choice::Server));
        }
    }

    #[test]
    fn the_post_quantum_group_comes_first_unless_groups_are_listed() {
        let first = |policy: &Policy| {
            let terms = Terms::new(policy).unwrap();
            u16::from(terms.builder.crypto_provider().kx_groups[0].name())
        };
        assert_eq!(first(&Policy::default()), 0x11ec);
        assert_eq!(first(&Policy { groups: vec![0x0017, 0x001d], ..Policy::default() }), 0x0017);
    }

    #[test]
    fn a_policy_that_can_serve_nobody_says_why() {
        let minimum_version = MinimumVersion::Tls13;
        let only_tls12 = Policy { minimum_version, cipher_suites: vec![ECDSA_AES_256], ..Policy::default() };
        assert_eq!(fault(&only_tls12), PolicyFault::NoUsableSuite(minimum_version));
        let unknown = Policy { cipher_suites: vec![AES_128_TLS13, 0x000a], ..Policy::default() };
        assert_eq!(fault(&unknown), PolicyFault::UnknownSuite(0x000a));
        assert_eq!(fault(&unknown).to_string(), "cipher suite 0x000a is not supported");
        let group = Policy { groups: vec![0x0100], ..Policy::default() };
        assert_eq!(fault(&group), PolicyFault::UnknownGroup(0x0100));
        for length in [0, 256] {
            let alpn = Policy { alpn: vec![b"h2".to_vec(), vec![b'x'; length]], ..Policy::default() };
            assert_eq!(fault(&alpn), PolicyFault::AlpnLength(length));
        }
    }

    #[test]
    fn what_is_known_can_be_asked_for_and_has_a_name() {
        warm_up().unwrap();
        let (suites, groups) = (known_suites(), known_groups());
        assert!(suites.contains(&("TLS_AES_128_GCM_SHA256".to_owned(), AES_128_TLS13)));
        assert!(groups.contains(&("x25519mlkem768".to_owned(), 0x11ec)));
        assert!(groups.contains(&("x25519".to_owned(), 0x001d)));
        assert!(suites.iter().chain(&groups).all(|(name, _)| !name.is_empty()));
        let policy = Policy {
            cipher_suites: suites.into_iter().map(|(_, code)| code).collect(),
            groups: groups.into_iter().map(|(_, code)| code).collect(),
            ..Policy::default()
        };
        assert!(Terms::new(&policy).is_ok());
    }
}
