//! What the workers need of the configuration, in the words of the modules that use it.
//!
//! The one place where names of the configuration become those of relays, certificates and watching. Holds no state.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use super::limit::Limit;
use super::upstream::Upstreams;
use crate::certs::{ExpiredAtStart, MinimumVersion, Policy};
use crate::config::{CipherSuites, Config, ExpiredCertificate, Tls, TlsVersion, Workers, limits};
use crate::relay;
use crate::sys::process;

/// What every worker is told.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) relay: relay::Limits,
    pub(crate) limits: Limits,
    pub(crate) upstreams: Upstreams,
    pub(crate) drain_timeout: Duration,
    /// As it was asked for, for messages.
    pub(crate) listen: SocketAddr,
    /// Where what differs by chance begins.
    pub(crate) seed: u64,
}

/// How many there may be, over all workers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections open at once.
    pub(crate) connections: usize,
    /// What sets that number.
    pub(crate) connections_limit: Limit,
    /// Handshakes in flight.
    pub(crate) handshakes: usize,
    /// Connections open at once of one client.
    pub(crate) client_connections: Option<usize>,
    /// Connections accepted in a second.
    pub(crate) accept_rate: Option<u64>,
}

impl Settings {
    /// Resolves the upstream and shares the descriptors out.
    ///
    /// # Errors
    /// An upstream whose name can't be resolved.
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        let timeouts = &config.timeouts;
        Ok(Self {
            relay: relay::Limits {
                handshake_timeout: timeouts.handshake,
                connect_timeout: timeouts.connect,
                idle_timeout: timeouts.idle,
                half_close_timeout: timeouts.half_close,
                maximum_age: timeouts.connection_age,
            },
            limits: how_many(config, process::raise_descriptor_limit()?),
            upstreams: Upstreams::resolve(&config.upstream)?,
            drain_timeout: timeouts.drain,
            listen: config.listen.0,
            seed: RandomState::new().build_hasher().finish(),
        })
    }
}

fn how_many(config: &Config, descriptors: u64) -> Limits {
    let fit = connections_that_fit(config, descriptors);
    let (connections, connections_limit) = match config.limits.connections {
        Some(most) if most.get() <= fit => (most.get(), Limit::Connections),
        Some(_) | None => (fit, Limit::Descriptors),
    };
    Limits {
        connections,
        connections_limit,
        handshakes: config.limits.handshakes.get(),
        client_connections: config.limits.connections_per_client.map(NonZeroUsize::get),
        accept_rate: config.limits.accept_rate.and_then(|rate| u64::try_from(rate.get()).ok()),
    }
}

/// How many connections fit: two descriptors each, and enough left to read files and answer questions.
fn connections_that_fit(config: &Config, descriptors: u64) -> usize {
    let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
    let admin = if config.admin.endpoint.is_some() { limits::ADMIN_CLIENTS + 1 } else { 0 };
    let kept = limits::RESERVED_DESCRIPTORS + limits::DESCRIPTORS_PER_WORKER * workers(config) + admin;
    (descriptors.saturating_sub(kept) / 2).max(1)
}

/// How many workers the configuration means on this machine.
pub(crate) fn workers(config: &Config) -> usize {
    match config.workers {
        Workers::Auto => process::processors().min(limits::AUTO_WORKERS_MAX),
        Workers::Fixed(count) => count.get(),
    }
}

/// What a handshake may agree on, for the store.
#[must_use]
pub fn policy(tls: &Tls, expired: ExpiredCertificate) -> Policy {
    Policy {
        minimum_version: match tls.min_version {
            TlsVersion::V1_2 => MinimumVersion::Tls12,
            TlsVersion::V1_3 => MinimumVersion::Tls13,
        },
        cipher_suites: match &tls.cipher_suites {
            CipherSuites::Auto => Vec::new(),
            CipherSuites::Listed(suites) => suites.clone(),
        },
        groups: tls.groups.clone(),
        alpn: tls.alpn.clone(),
        expired_at_start: match expired {
            ExpiredCertificate::Refuse => ExpiredAtStart::Refuse,
            ExpiredCertificate::Serve => ExpiredAtStart::Serve,
        },
    }
}
