//! The log's story: every line that an operator reads, in one place.
//!
//! Takes facts and decides their words and level. Shown by the end-to-end tests, which read these lines.

use std::time::Duration;

use super::complaint::Complaint;
use super::connection::Connection;
use super::lifetime::Standing;
use super::limit::{Fate, Limit};
use crate::certs::{Facts, Generation, Rfc3339};
use crate::printable::printable;
use crate::relay::{CloseReason, Party, Side};
use crate::watch::{Commit, Mode, Watcher};

/// The first certificate.
pub(crate) fn loaded(generation: &Generation) {
    let facts = &generation.facts;
    tracing::info!(
        generation = generation.number,
        serial = %facts.serial,
        names = %names(facts),
        not_after = %Rfc3339(facts.not_after),
        certificates = facts.certificates,
        "certificate loaded"
    );
}

/// A rotation.
pub(crate) fn changed(before: &Generation, generation: &Generation, commit: &Commit, took: Duration) {
    let facts = &generation.facts;
    tracing::info!(
        generation = generation.number,
        serial = %facts.serial,
        previous_serial = %before.facts.serial,
        names = %names(facts),
        not_after = %Rfc3339(facts.not_after),
        previous_not_after = %Rfc3339(before.facts.not_after),
        trigger = commit.trigger.label(),
        publication = commit.publication.label(),
        took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        "certificate changed"
    );
    if names(facts) != names(&before.facts) {
        tracing::warn!(
            names = %names(facts),
            previous_names = %names(&before.facts),
            "the new certificate is for other names"
        );
    }
}

/// What is on disk can't be served.
pub(crate) fn refused(complaint: &Complaint, served: Option<&Generation>) {
    let Complaint { file, part, problem, reason, .. } = complaint;
    match served {
        Some(generation) => tracing::warn!(
            %file, %part, %problem, %reason,
            serving = %generation.facts.serial,
            not_after = %Rfc3339(generation.facts.not_after),
            "certificate refused, the one in force stays"
        ),
        None => tracing::warn!(%file, %part, %problem, %reason, "waiting for a certificate"),
    }
}

/// How the files are watched, at start and when that changes.
pub(crate) fn watching(watcher: &Watcher) {
    let directories: Vec<_> = watcher.directories().into_iter().map(printable).collect();
    let reasons: Vec<_> = watcher.reasons().map(ToString::to_string).collect();
    let (directories, watches) = (directories.join(" "), watcher.watch_count());
    match watcher.mode() {
        Mode::Events if reasons.is_empty() => tracing::info!(watches, %directories, "watching"),
        Mode::Events => tracing::warn!(watches, %directories, limits = %reasons.join("; "), "watching"),
        Mode::Polling => tracing::warn!(
            watches, %directories, reasons = %reasons.join("; "),
            "watching by polling: a change may come without an event"
        ),
    }
}

fn names(facts: &Facts) -> String {
    facts.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// A connection has ended.
pub(crate) fn closed(connection: &Connection) {
    let Some(reason) = connection.relay.closed() else { return };
    let (client, upstream) =
        (connection.relay.traffic(Side::Client), connection.relay.traffic(Side::Upstream));
    // What runs out is told as a limit, and not for each connection.
    if reason.party() == Party::Us && *reason != CloseReason::Exhausted {
        tracing::warn!(peer = %connection.peer, %reason, "connection closed");
    } else {
        tracing::debug!(
            peer = %connection.peer, %reason,
            generation = connection.generation.number,
            from_client_bytes = client.read, to_client_bytes = client.written,
            from_upstream_bytes = upstream.read, to_upstream_bytes = upstream.written,
            "connection closed"
        );
    }
}

/// There is no descriptor for another client.
pub(crate) fn exhausted(error: &std::io::Error) {
    tracing::debug!(%error, "no descriptor for another client");
}

/// A limit begins to keep clients out.
pub(crate) fn limit_reached(limit: Limit) {
    let limit_label = limit.label();
    match limit.fate() {
        Fate::Wait => tracing::warn!(limit = limit_label, "a limit is reached: clients wait in the backlog"),
        Fate::Reset => tracing::warn!(limit = limit_label, "a limit is reached: connections are reset"),
    }
}

/// A limit has kept nobody out for a while.
pub(crate) fn limit_over(limit: Limit, times: u64, lasted: Duration) {
    let lasted_ms = u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(limit = limit.label(), times, lasted_ms, "a limit is no longer reached");
}

/// The files hold again what is served.
pub(crate) fn agreed(served: Option<&Generation>) {
    if let Some(served) = served {
        tracing::info!(serial = %served.facts.serial, "the files hold again what is served");
    }
}

/// The time of the certificate in force has not come, nears its end, or is over.
pub(crate) fn aged(served: &Generation, standing: Standing) {
    let (serial, not_after) = (&served.facts.serial, Rfc3339(served.facts.not_after));
    match standing {
        Standing::Fine => {}
        Standing::NotYetValid => tracing::warn!(
            %serial, not_before = %Rfc3339(served.facts.not_before),
            "the certificate in force is not yet valid: clients will refuse it until it is"
        ),
        Standing::EndsSoon => {
            tracing::warn!(%serial, %not_after, "the certificate in force ends soon, and none better has come");
        }
        Standing::Over => {
            tracing::error!(%serial, %not_after, "the certificate in force has expired, and none better has come");
        }
    }
}

/// An intermediate of what is in force ends before the leaf does.
pub(crate) fn chain_aged(served: &Generation, standing: Standing) {
    let (serial, chain_not_after) = (&served.facts.serial, Rfc3339(served.facts.chain_not_after));
    match standing {
        // What the chain awaits is told of the leaf.
        Standing::Fine | Standing::NotYetValid => {}
        Standing::EndsSoon => {
            tracing::warn!(%serial, %chain_not_after, "an intermediate certificate ends soon, and before the leaf");
        }
        Standing::Over => tracing::error!(
            %serial, %chain_not_after,
            "an intermediate certificate has expired: clients will refuse the chain"
        ),
    }
}

/// The upstream can't be reached any more.
pub(crate) fn upstream_failed(reason: &CloseReason) {
    tracing::warn!(%reason, "the upstream can't be reached");
}

/// The upstream can be reached again.
pub(crate) fn upstream_reached() {
    tracing::info!("the upstream can be reached again");
}
