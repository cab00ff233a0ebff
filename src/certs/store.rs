//! Which bundle is served, and what may take its place.
//!
//! All that can fail happens while staging, so a failure leaves everything as it was; committing is one atomic exchange
//! of a pointer. A connection that wants to be counted among the users of its generation holds the `Arc` of it.
//!
//! Knows neither files nor sockets, and is told the time. The tests below show that every thread sees a commit, that
//! nothing old is kept alive from here, and what clients get.

use super::{
    Bundle, ExpiredAtStart, Facts, Policy, PolicyFault, Refusal, Version,
    admission::admit,
    policy::{Terms, new_tickets},
};
use arc_swap::ArcSwapOption;
use rustls::{pki_types::CertificateDer, sign::CertifiedKey};
use std::{
    fmt,
    sync::{Arc, Weak},
    time::{Instant, SystemTime},
};

/// A bundle in force, or one that was. Immutable.
pub struct Generation {
    /// Counts from one.
    pub number: u64,
    /// What is known about the certificate.
    pub facts: Arc<Facts>,
    /// For new connections.
    pub server_config: Arc<rustls::ServerConfig>,
    /// When it came into force.
    pub published: Instant,
    key: Arc<CertifiedKey>,
}

impl Generation {
    /// The chain in DER, leaf first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }

    /// Whether the bundle holds the same chain, and so the same public key, however its files are laid out.
    pub fn serves(&self, bundle: &Bundle) -> bool {
        self.key.cert == bundle.key.cert
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation")
            .field("number", &self.number)
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

/// A bundle that may take the place of what is served.
pub struct Staged {
    facts: Arc<Facts>,
    server_config: Arc<rustls::ServerConfig>,
    key: Arc<CertifiedKey>,
}

impl Staged {
    /// What is known about the certificate.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// What is served, and what was. One owner commits; everybody else holds a [`Reader`].
#[derive(Debug)]
pub struct Store {
    terms: Terms,
    expired_at_start: ExpiredAtStart,
    current: Arc<ArcSwapOption<Generation>>,
    last_number: u64,
    /// Every generation that somebody may still hold, oldest first; forgotten ones leave at the next commit.
    alive: Vec<Weak<Generation>>,
}

impl Store {
    /// A store that serves nothing yet.
    ///
    /// # Errors
    /// A policy under which nothing could be served.
    pub fn new(policy: &Policy) -> Result<Self, PolicyFault> {
        Ok(Self {
            terms: Terms::new(policy)?,
            expired_at_start: policy.expired_at_start,
            current: Arc::new(ArcSwapOption::empty()),
            last_number: 0,
            alive: Vec::new(),
        })
    }

    /// The versions of TLS that are allowed and of which no client can be served with this bundle.
    pub fn useless_versions(&self, bundle: &Bundle) -> Vec<Version> {
        self.terms.useless_versions(&*bundle.key.key)
    }

    /// Checks at the time `wall` that the bundle may take the place of what is served. Whether it differs from that
    /// is asked of [`Generation::serves`].
    ///
    /// # Errors
    /// Why what is served, or nothing, is better.
    pub fn stage(&self, bundle: Bundle, wall: SystemTime) -> Result<Staged, Refusal> {
        if !self.terms.can_sign_with(&*bundle.key.key) {
            return Err(Refusal::NoSuiteForKey);
        }
        let served = self.current();
        let served_facts = served.as_deref().map(|generation| &*generation.facts);
        admit(&bundle.facts, served_facts, wall, self.expired_at_start)?;
        // Who resumes is not shown the new certificate, which is all right only while it says the same of us.
        let tickets = match served.as_deref() {
            Some(served) if served.facts.names == bundle.facts.names => {
                Arc::clone(&served.server_config.ticketer)
            }
            Some(_) | None => new_tickets().ok_or(Refusal::NoRandomness)?,
        };
        let server_config = Arc::new(self.terms.server_config(Arc::clone(&bundle.key), tickets));
        Ok(Staged { facts: bundle.facts, server_config, key: bundle.key })
    }

    /// Puts the staged bundle in force; when this returns, every reader sees it.
    pub fn commit(&mut self, staged: Staged, now: Instant) -> Arc<Generation> {
        self.last_number += 1;
        let generation = Arc::new(Generation {
            number: self.last_number,
            facts: staged.facts,
            server_config: staged.server_config,
            published: now,
            key: staged.key,
        });
        self.alive.retain(|generation| generation.strong_count() > 0);
        self.alive.push(Arc::downgrade(&generation));
        self.current.store(Some(Arc::clone(&generation)));
        generation
    }

    /// A view for another thread.
    pub fn reader(&self) -> Reader {
        Reader { current: Arc::clone(&self.current) }
    }

    /// The generation in force.
    pub fn current(&self) -> Option<Arc<Generation>> {
        self.current.load_full()
    }

    /// How many hold each generation besides the store, the one in force first, then the one before it, and so on.
    /// Those that nobody holds any more may be among them.
    pub fn holders(&self) -> impl Iterator<Item = usize> {
        // The store holds the one in force, by its pointer.
        let by_store = std::iter::once(1).chain(std::iter::repeat(0));
        let strong = self.alive.iter().rev().map(Weak::strong_count);
        strong.zip(by_store).map(|(strong, ours)| strong.saturating_sub(ours))
    }

    /// How many generations somebody still holds, the one in force among them.
    pub fn live_generations(&self) -> usize {
        self.alive.iter().filter(|generation| generation.strong_count() > 0).count()
    }
}

/// A view of what is served, cheap to clone and to ask.
#[derive(Clone, Debug)]
pub struct Reader {
    current: Arc<ArcSwapOption<Generation>>,
}

impl Reader {
    /// The generation in force, or none before the first commit.
    pub fn current(&self) -> Option<Arc<Generation>> {
        self.current.load_full()
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::disallowed_methods,
        reason = "tests stop at the first surprise"
    )]

    use super::super::{
        MinimumVersion, Rfc3339,
        testing::{Algorithm, Authority, Leaf, Pair, TODAY, bundle, client, client_of, connect, crlf, day},
    };
    use super::*;
    use rustls::HandshakeKind;
    use std::{sync::mpsc, thread};

    fn store() -> Store {
        Store::new(&Policy::default()).unwrap()
    }

    /// Stages and commits [`TODAY`].
    fn serve(store: &mut Store, bundle: Bundle) -> Arc<Generation> {
        let staged = store.stage(bundle, day(TODAY)).unwrap();
        store.commit(staged, Instant::now())
    }

    #[test]
    fn a_refused_bundle_is_admitted_at_the_time_to_retry() {
        let authority = Authority::new();
        for (from, to) in [(TODAY + 1, TODAY + 50), (TODAY + 20, TODAY + 50)] {
            let mut store = store();
            serve(
                &mut store,
                bundle(&authority.issue(&Leaf { valid: (TODAY - 10, TODAY + 10), ..Leaf::default() })),
            );
            let next = bundle(&authority.issue(&Leaf { valid: (from, to), ..Leaf::default() }));
            let refusal = store.stage(next.clone(), day(TODAY)).unwrap_err();
            assert_eq!(refusal.reason(), "not_yet_valid");
            assert_eq!(
                refusal.to_string(),
                format!("certificate is not valid before {}", Rfc3339(day(from)))
            );
            let retry = refusal.retry_at().unwrap();
            assert!(retry > day(TODAY));
            assert!(store.stage(next, retry).is_ok());
            assert_eq!(store.current().unwrap().number, 1);
        }
    }

    #[test]
    fn nothing_is_served_before_the_first_commit_and_staging_changes_nothing() {
        let mut store = store();
        let reader = store.reader();
        assert!(reader.current().is_none());
        let staged = store.stage(bundle(&Pair::new(&Leaf::default())), day(TODAY)).unwrap();
        assert!(reader.current().is_none());
        let published = Instant::now();
        let generation = store.commit(staged, published);
        assert_eq!((generation.number, generation.published), (1, published));
        assert!(Arc::ptr_eq(&reader.current().unwrap(), &generation));
    }

    #[test]
    fn a_key_that_no_suite_can_use_is_refused() {
        const ECDSA_AES_128: u16 = 0xc02b;
        let policy = Policy { cipher_suites: vec![ECDSA_AES_128], ..Policy::default() };
        let store = Store::new(&policy).unwrap();
        let authority = Authority::new();
        assert!(store.stage(bundle(&authority.issue(&Leaf::default())), day(TODAY)).is_ok());
        let rsa = bundle(&authority.issue(&Leaf { algorithm: Algorithm::Rsa, ..Leaf::default() }));
        assert_eq!(store.stage(rsa, day(TODAY)).unwrap_err(), Refusal::NoSuiteForKey);
    }

    #[test]
    fn a_version_without_suite_or_group_for_the_key_is_told() {
        const ECDSA_AES_128: u16 = 0xc02b;
        const AES_128_TLS13: u16 = 0x1301;
        const HYBRID: u16 = 0x11ec;
        let authority = Authority::new();
        let ecdsa = bundle(&authority.issue(&Leaf::default()));
        let rsa = bundle(&authority.issue(&Leaf { algorithm: Algorithm::Rsa, ..Leaf::default() }));
        let (both, newest) = (MinimumVersion::Tls12, MinimumVersion::Tls13);
        for (minimum_version, cipher_suites, groups, bundle, expected) in [
            (both, vec![], vec![], &ecdsa, vec![]),
            (both, vec![], vec![], &rsa, vec![]),
            (both, vec![AES_128_TLS13, ECDSA_AES_128], vec![], &ecdsa, vec![]),
            (both, vec![AES_128_TLS13, ECDSA_AES_128], vec![], &rsa, vec![Version::Tls12]),
            (both, vec![AES_128_TLS13], vec![], &rsa, vec![Version::Tls12]),
            (both, vec![], vec![HYBRID], &ecdsa, vec![Version::Tls12]),
            (both, vec![ECDSA_AES_128], vec![], &ecdsa, vec![Version::Tls13]),
            (newest, vec![AES_128_TLS13], vec![HYBRID], &rsa, vec![]),
        ] {
            let name = format!("{minimum_version:?} {cipher_suites:?} {groups:?}");
            let policy = Policy { minimum_version, cipher_suites, groups, ..Policy::default() };
            assert_eq!(Store::new(&policy).unwrap().useless_versions(bundle), expected, "{name}");
        }
    }

    #[test]
    fn another_layout_is_no_change_and_a_renewed_intermediate_is_one() {
        let pair = Pair::new(&Leaf::default());
        let mut store = store();
        let generation = serve(&mut store, bundle(&pair));
        let commented = Pair { leaf: format!("# renewed by hand\n{}", crlf(&pair.leaf)), ..pair.clone() };
        assert!(generation.serves(&bundle(&commented)));
        let shorter = Bundle::parse(pair.leaf.as_bytes(), pair.key.as_bytes()).unwrap();
        assert!(!generation.serves(&shorter));
        let renewed =
            Pair { intermediate: Authority::new().issue(&Leaf::default()).intermediate, ..pair.clone() };
        let renewed = pair.leaf + &renewed.intermediate;
        assert!(!generation.serves(&Bundle::parse(renewed.as_bytes(), pair.key.as_bytes()).unwrap()));
    }

    #[test]
    fn old_generations_live_as_long_as_somebody_holds_them() {
        let mut store = store();
        let bundle = bundle(&Pair::new(&Leaf::default()));
        assert_eq!(store.live_generations(), 0);
        let first = serve(&mut store, bundle.clone());
        let config = Arc::downgrade(&first.server_config);
        for _ in 0..5_000 {
            serve(&mut store, bundle.clone());
            assert!(store.alive.len() <= 3);
        }
        assert_eq!(store.live_generations(), 2);
        drop(first);
        assert_eq!(store.live_generations(), 1);
        assert!(config.upgrade().is_none());
        assert_eq!(store.current().unwrap().number, 5_001);
        // The key is held here, by the generation and by its configuration.
        assert!(Arc::strong_count(&bundle.key) <= 4, "{}", Arc::strong_count(&bundle.key));
    }

    #[test]
    fn when_a_commit_returns_every_thread_reads_it() {
        const COMMITS: u64 = 2_000;
        let mut store = store();
        let bundle = bundle(&Pair::new(&Leaf::default()));
        let (announce, announced) = mpsc::channel::<u64>();
        let (answer, answered) = mpsc::channel::<u64>();
        let reader = store.reader();
        let other = thread::spawn(move || {
            while announced.recv().is_ok() {
                answer.send(reader.current().map_or(0, |generation| generation.number)).unwrap();
            }
        });
        for number in 1..=COMMITS {
            serve(&mut store, bundle.clone());
            announce.send(number).unwrap();
            assert_eq!(answered.recv().unwrap(), number);
        }
        drop(announce);
        other.join().unwrap();
    }

    #[test]
    fn clients_get_the_chain_in_force_and_resume_across_a_rotation() {
        let authority = Authority::new();
        let [old, new] = [1, 2].map(|serial| authority.issue(&Leaf { serial, ..Leaf::default() }));
        let other =
            authority.issue(&Leaf { serial: 3, names: &["localhost", "other.example"], ..Leaf::default() });
        for version in rustls::ALL_VERSIONS {
            let mut store = store();
            let first = serve(&mut store, bundle(&old));
            let known = Arc::new(client_of(&old, &[version]));
            let (seen, _) = connect(&known, &first).unwrap();
            assert_eq!(seen.protocol_version(), Some(version.version));
            assert_eq!(seen.handshake_kind(), Some(HandshakeKind::Full));
            assert_eq!(seen.peer_certificates(), Some(first.chain()));

            let second = serve(&mut store, bundle(&new));
            let (resumed, _) = connect(&known, &second).unwrap();
            assert_eq!(resumed.handshake_kind(), Some(HandshakeKind::Resumed));
            let (fresh, _) = connect(&Arc::new(client_of(&old, &[version])), &second).unwrap();
            assert_eq!(fresh.peer_certificates(), Some(second.chain()));
            assert_ne!(first.chain(), second.chain());

            let third = serve(&mut store, bundle(&other));
            let (anew, _) = connect(&known, &third).unwrap();
            assert_eq!(anew.handshake_kind(), Some(HandshakeKind::Full), "other names are another service");
        }
    }

    #[test]
    fn the_policy_is_what_clients_get() {
        const AES_256_TLS13: u16 = 0x1302;
        let pair = Pair::new(&Leaf::default());
        let policy = Policy {
            minimum_version: MinimumVersion::Tls13,
            cipher_suites: vec![AES_256_TLS13],
            groups: vec![0x0017],
            alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            ..Policy::default()
        };
        let mut store = Store::new(&policy).unwrap();
        let generation = serve(&mut store, bundle(&pair));
        let mut config = client(&pair);
        config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
        let (client, server) = connect(&Arc::new(config.clone()), &generation).unwrap();
        assert_eq!(client.alpn_protocol(), Some(&b"h2"[..]));
        let suite = server.negotiated_cipher_suite().map(|suite| u16::from(suite.suite()));
        assert_eq!(suite, Some(AES_256_TLS13));
        let group = server.negotiated_key_exchange_group().map(|group| u16::from(group.name()));
        assert_eq!(group, Some(0x0017));

        config.alpn_protocols = vec![b"spdy/1".to_vec()];
        assert!(connect(&Arc::new(config), &generation).is_err());
        let old_client = client_of(&pair, &[&rustls::version::TLS12]);
        assert!(connect(&Arc::new(old_client), &generation).is_err());
    }

    #[test]
    fn the_order_of_a_list_of_suites_is_stronger_than_the_order_of_the_client() {
        let pair = Pair::new(&Leaf::default());
        let client = Arc::new(client(&pair));
        for codes in [[0x1301, 0x1302], [0x1302, 0x1301]] {
            let policy = Policy { cipher_suites: codes.to_vec(), ..Policy::default() };
            let generation = serve(&mut Store::new(&policy).unwrap(), bundle(&pair));
            let (_, server) = connect(&client, &generation).unwrap();
            let suite = server.negotiated_cipher_suite().map(|suite| u16::from(suite.suite()));
            assert_eq!(suite, codes.first().copied());
        }
    }

    #[test]
    fn a_handshake_by_default_is_post_quantum_and_costs_one_ticket() {
        let pair = Pair::new(&Leaf::default());
        let generation = serve(&mut store(), bundle(&pair));
        let (client, server) = connect(&Arc::new(client(&pair)), &generation).unwrap();
        let group = server.negotiated_key_exchange_group().map(|group| u16::from(group.name()));
        assert_eq!(group, Some(0x11ec));
        assert_eq!(client.tls13_tickets_received(), 1);
    }
}
