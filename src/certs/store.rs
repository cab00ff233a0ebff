//! Which bundle is served, and what may take its place.
//!
//! All that can fail happens while staging; committing is one atomic exchange of a pointer. What is served stays until
//! something better is proven:
//!
//! | candidate | nothing served | served is valid | served is not yet valid | served is expired |
//! |---|---|---|---|---|
//! | valid | serve | serve | serve | serve |
//! | not yet valid | serve | refuse, retry | serve unless it begins later | serve |
//! | expired | as the policy says | refuse | refuse | serve unless it ended earlier |
//!
//! A certificate that is not yet valid is served when there is no other: the clock that is wrong may be ours.
//!
//! Knows neither files nor sockets, and is told the time. A connection that wants to be counted among the users of its
//! generation holds the `Arc` of it. The tests below show the table, and that nothing old is kept alive from here.

use super::{
    Bundle, Facts, Policy, PolicyFault, Rfc3339, Validity,
    policy::{ExpiredAtStart, Terms},
};
use arc_swap::ArcSwapOption;
use rustls::{pki_types::CertificateDer, sign::CertifiedKey};
use std::{
    fmt,
    sync::{Arc, Weak},
    time::{Duration, Instant, SystemTime},
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
            Self::Expired { since } => write!(f, "certificate is expired since {}", Rfc3339(*since)),
            Self::NotYetValid { from, .. } => {
                write!(f, "certificate is not valid before {}", Rfc3339(*from))
            }
            Self::NoSuiteForKey => write!(f, "no cipher suite on offer works with this kind of key"),
        }
    }
}

impl std::error::Error for Refusal {}

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
    /// A store that serves nothing yet. Draws random numbers for the tickets' keys.
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
        let served = served.as_deref().map(|generation| &*generation.facts);
        admit(&bundle.facts, served, wall, self.expired_at_start)?;
        let server_config = Arc::new(self.terms.server_config(Arc::clone(&bundle.key)));
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

    /// How many generations somebody still holds, the one in force among them.
    pub fn live_generations(&self) -> usize {
        self.alive.iter().filter(|generation| generation.strong_count() > 0).count()
    }
}

/// The table at the top of this file.
fn admit(
    candidate: &Facts,
    served: Option<&Facts>,
    wall: SystemTime,
    expired_at_start: ExpiredAtStart,
) -> Result<(), Refusal> {
    use Validity::{Expired, NotYetValid, Valid};
    let expired = Err(Refusal::Expired { since: candidate.not_after });
    match (candidate.validity(wall), served.map(|served| (served, served.validity(wall)))) {
        (Valid, _) | (NotYetValid, None | Some((_, Expired))) => Ok(()),
        (NotYetValid, Some((served, Valid))) => {
            let served_ends =
                served.not_after.checked_add(Duration::from_secs(1)).unwrap_or(served.not_after);
            let retry = candidate.not_before.min(served_ends);
            Err(Refusal::NotYetValid { from: candidate.not_before, retry })
        }
        (NotYetValid, Some((served, NotYetValid))) if candidate.not_before > served.not_before => {
            Err(Refusal::NotYetValid { from: candidate.not_before, retry: candidate.not_before })
        }
        (NotYetValid, Some((_, NotYetValid))) => Ok(()),
        (Expired, None) => match expired_at_start {
            ExpiredAtStart::Serve => Ok(()),
            ExpiredAtStart::Refuse => expired,
        },
        (Expired, Some((_, Valid | NotYetValid))) => expired,
        (Expired, Some((served, Expired))) if candidate.not_after < served.not_after => expired,
        (Expired, Some((_, Expired))) => Ok(()),
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
