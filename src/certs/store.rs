//! Which bundle is served, and what may take its place.

use super::{Bundle, Facts, Policy, PolicyFault};
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

/// Why a good bundle does not take the place of what is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is expired, and what is served (if anything) is better.
    Expired {
        /// The certificate's end.
        since: SystemTime,
    },
    /// It is not yet valid, and what is served is better.
    NotYetValid {
        /// The certificate's beginning.
        from: SystemTime,
        /// When to stage it again: it is valid by then, or what is served no longer is.
        retry: SystemTime,
    },
    /// No cipher suite on offer works with this kind of key.
    NoSuiteForKey,
}

impl Refusal {
    /// A stable label in snake_case.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Expired { .. } => "expired",
            Self::NotYetValid { .. } => "not_yet_valid",
            Self::NoSuiteForKey => "no_suite_for_key",
        }
    }

    /// When to stage the same bundle again, if waiting helps.
    pub const fn retry_at(&self) -> Option<SystemTime> {
        match self {
            Self::NotYetValid { retry, .. } => Some(*retry),
            Self::Expired { .. } | Self::NoSuiteForKey => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { since } => write!(f, "certificate is expired since {}", super::Rfc3339(*since)),
            Self::NotYetValid { from, .. } => {
                write!(f, "certificate is not valid before {}", super::Rfc3339(*from))
            }
            Self::NoSuiteForKey => write!(f, "no cipher suite on offer works with this kind of key"),
        }
    }
}

impl std::error::Error for Refusal {}

/// What is served, and what was. One owner commits; everybody else holds a [`Reader`].
#[derive(Debug)]
pub struct Store {
    current: Arc<ArcSwapOption<Generation>>,
    last_number: u64,
    alive: Vec<Weak<Generation>>,
}

impl Store {
    /// A store that serves nothing yet.
    ///
    /// # Errors
    /// A policy under which nothing could be served.
    pub fn new(policy: &Policy) -> Result<Self, PolicyFault> {
        let _ = policy;
        Ok(Self { current: Arc::new(ArcSwapOption::empty()), last_number: 0, alive: Vec::new() })
    }

    /// Checks at the time `wall` that the bundle may take the place of what is served.
    ///
    /// # Errors
    /// Why what is served (or nothing) is better.
    pub fn stage(&self, bundle: Bundle, wall: SystemTime) -> Result<Staged, Refusal> {
        let _ = (bundle, wall);
        Err(Refusal::NoSuiteForKey)
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
