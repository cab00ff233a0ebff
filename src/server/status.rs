//! Gathers what the admin endpoint tells, and sets the gauges that tell the same.
//!
//! Does not know how it is told. Shown by `tests/admin.rs`.

use std::time::{Duration, SystemTime};

use super::complaint::Complaint;
use super::history::Moment;
use super::reload::View;
use super::shared::{self, FirstHandshake, Shared};
use crate::admin::{
    ByGeneration, Certificate, Connections, Failure, InForce, OnDisk, Phase, Set, Status, Timestamp,
    WatchMode, Watcher,
};
use crate::certs::{Facts, unix_seconds};
use crate::metrics::Metrics;
use crate::printable::printable;
use crate::watch;

/// What does not change while the process lives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About {
    pub(crate) started: Moment,
    pub(crate) workers: usize,
    /// How long the files may hold something else than what is served.
    pub(crate) stale_limit: Option<Duration>,
}

/// All that is known now.
pub(crate) fn gather(about: &About, shared: &Shared, view: View<'_>, now: Moment) -> Status {
    let metrics = &shared.metrics;
    let count = |count: i64| u64::try_from(count).unwrap_or(0);
    Status {
        version: env!("CARGO_PKG_VERSION"),
        now: Timestamp(now.wall),
        uptime: now.at.saturating_duration_since(about.started.at),
        phase: match shared.phase() {
            shared::Phase::Serving if view.store.current().is_none() => Phase::Starting,
            shared::Phase::Serving => Phase::Serving,
            shared::Phase::Leaving | shared::Phase::Draining | shared::Phase::Stopping => Phase::Draining,
        },
        workers: about.workers,
        connections: Connections {
            accepted: metrics.connections.accepted.get(),
            open: u64::try_from(shared.open()).unwrap_or(u64::MAX),
            handshaking: count(metrics.handshakes.open.get()),
            by_generation: by_generation(view.store.holders()),
        },
        stale_limit: about.stale_limit,
        sets: vec![set(view, &shared.first_handshake, now)],
    }
}

fn set(view: View<'_>, first_handshake: &FirstHandshake, now: Moment) -> Set {
    let [cert, key] = view.files.each_ref().map(|path| printable(&**path));
    Set {
        cert,
        key,
        in_force: in_force(view, first_handshake),
        live_generations: view.store.live_generations(),
        on_disk: on_disk(view, now),
        last_failure: last_failure(view, now),
        watcher: watcher(view.watcher),
    }
}

fn in_force(view: View<'_>, first_handshake: &FirstHandshake) -> Option<InForce> {
    let (generation, origin) = (view.store.current()?, view.history.origin?);
    let first_handshake = first_handshake.took().and_then(|took| origin.published.checked_add(took));
    Some(InForce {
        generation: generation.number,
        certificate: certificate(&generation.facts),
        trigger: origin.trigger.label(),
        publication: origin.publication.label(),
        noticed: Timestamp(origin.noticed),
        published: Timestamp(origin.published),
        notice_to_publish: origin.took,
        first_handshake: first_handshake.map(Timestamp),
    })
}

fn certificate(facts: &Facts) -> Certificate {
    Certificate {
        serial: facts.serial.clone(),
        sha256: facts.leaf_sha256.clone(),
        subject: facts.subject.clone(),
        issuer: facts.issuer.clone(),
        names: facts.names.iter().map(ToString::to_string).collect(),
        not_before: Timestamp(facts.not_before),
        not_after: Timestamp(facts.not_after),
        chain_not_after: Timestamp(facts.chain_not_after),
        chain_certificates: facts.certificates,
    }
}

fn on_disk(view: View<'_>, now: Moment) -> OnDisk {
    let (looked, since) = (view.history.looked, view.history.differs_since);
    OnDisk {
        equals_served: looked.is_some() && since.is_none(),
        differs_since: since.map(|since| Timestamp(since.wall)),
        differs_for: since.map(|since| now.at.saturating_duration_since(since.at)),
        looked: looked.map(|(_, wall)| Timestamp(wall)),
        trigger: looked.map(|(trigger, _)| trigger.label()),
    }
}

/// What stands, or else what was last told.
fn last_failure(view: View<'_>, now: Moment) -> Option<Failure> {
    let told = view.history.told.as_ref();
    let Some(standing) = view.standing else {
        return told.map(|(complaint, at)| failure(complaint, *at, false));
    };
    let at = match told {
        Some((complaint, at)) if complaint == standing => *at,
        Some(_) | None => now.wall,
    };
    Some(failure(standing, at, true))
}

fn failure(complaint: &Complaint, at: SystemTime, stands: bool) -> Failure {
    let Complaint { file, part, problem, reason, .. } = complaint;
    let (file, part, problem) = (file.clone(), part.clone(), problem.clone());
    Failure { at: Timestamp(at), stands, file, part, problem, reason }
}

fn watcher(watcher: &watch::Watcher) -> Watcher {
    Watcher {
        mode: match watcher.mode() {
            watch::Mode::Events => WatchMode::Events,
            watch::Mode::Polling => WatchMode::Polling,
        },
        reasons: watcher.reasons().map(ToString::to_string).collect(),
        watches: watcher.watch_count(),
        directories: watcher.directories().into_iter().map(printable).collect(),
    }
}

/// Holders of each generation, the one in force first.
fn by_generation(mut holders: impl Iterator<Item = usize>) -> ByGeneration {
    let mut next = || holders.next().unwrap_or(0);
    ByGeneration { current: next(), previous: next(), older: holders.sum() }
}

/// Sets the gauges that are not kept up to date by events.
pub(crate) fn show(status: &Status, about: &About, metrics: &Metrics) {
    let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    metrics.process.started.set(unix_seconds(about.started.wall));
    metrics.process.workers.set(gauge(status.workers));
    metrics.process.draining.set(i64::from(status.phase == Phase::Draining));
    let ByGeneration { current, previous, older } = status.connections.by_generation;
    metrics.connections.open.set(i64::try_from(status.connections.open).unwrap_or(i64::MAX));
    for (age, count) in [("current", current), ("previous", previous), ("older", older)] {
        metrics.connections.by_generation.set([age], gauge(count));
    }
    for set in &status.sets {
        show_set(set, metrics);
    }
}

fn show_set(set: &Set, metrics: &Metrics) {
    let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    metrics.certificate.live_generations.set(gauge(set.live_generations));
    for (label, mode) in [("events", WatchMode::Events), ("polling", WatchMode::Polling)] {
        metrics.watch.mode.set([label], i64::from(set.watcher.mode == mode));
    }
    metrics.watch.degraded_reasons.set(gauge(set.watcher.reasons.len()));
    metrics.watch.watches.set(gauge(set.watcher.watches));
}
