//! Facts of connections to numbers, as the story turns them into lines.
//!
//! Knows neither when something happens nor what the numbers are called outside. Shown by `tests/admin.rs`.

use std::time::Instant;

use super::connection::Connection;
use super::limit::{Fate, Limit};
use super::shared::Shared;
use crate::metrics::Metrics;
use crate::relay::{CloseReason, Relay, Side, Tls, Traffic};

/// A client was let in.
pub(crate) fn accepted(metrics: &Metrics) {
    metrics.connections.accepted.inc();
    metrics.handshakes.open.inc();
}

/// The handshake of a connection has ended, well or not.
pub(crate) fn greeted(shared: &Shared, connection: &Connection, now: Instant) {
    let metrics = &shared.metrics;
    metrics.handshakes.open.dec();
    if let Some(session) = connection.relay.port().session() {
        metrics.handshakes.done.inc([session.version, if session.resumed { "resumed" } else { "full" }]);
        // Who resumes is not shown the certificate.
        if !session.resumed
            && let Some(took) = shared.first_handshake.note(&connection.generation, now)
        {
            metrics.reload.publish_to_handshake.observe(took);
        }
    }
}

/// A connection has ended.
pub(crate) fn closed(metrics: &Metrics, connection: &Connection) {
    let Some(reason) = connection.relay.closed() else { return };
    metrics.connections.closed.inc([reason.label()]);
    if !connection.greeted {
        metrics.handshakes.open.dec();
    }
    if connection.relay.port().session().is_none() {
        unfinished(metrics, reason);
    }
}

/// A connection ended before its handshake did.
fn unfinished(metrics: &Metrics, reason: &CloseReason) {
    match reason {
        CloseReason::ClientProbe => {
            metrics.connections.probes.inc();
        }
        CloseReason::Drain => {}
        CloseReason::ClientFault(fault) => metrics.handshakes.failed.inc([fault.kind.label()]),
        CloseReason::Finished
        | CloseReason::ClientTorn
        | CloseReason::ClientReset
        | CloseReason::ClientLeft
        | CloseReason::UpstreamRefused
        | CloseReason::UpstreamUnreachable
        | CloseReason::UpstreamConnectTimeout
        | CloseReason::UpstreamConnectFailed
        | CloseReason::UpstreamReset
        | CloseReason::UpstreamStoppedReading
        | CloseReason::HandshakeTimeout
        | CloseReason::IdleTimeout
        | CloseReason::HalfCloseTimeout
        | CloseReason::MaximumAge
        | CloseReason::Exhausted
        | CloseReason::Bug(_) => metrics.handshakes.failed.inc([reason.label()]),
    }
}

/// A worker's clients are kept waiting by another limit than before, or by none.
pub(crate) fn paused(metrics: &Metrics, before: Option<Limit>, limit: Option<Limit>) {
    if before == limit {
        return;
    }
    if let Some(before) = before {
        metrics.connections.paused.add([before.label()], -1);
    }
    if let Some(limit) = limit {
        metrics.connections.paused.add([limit.label()], 1);
        metrics.connections.limits_reached.inc([limit.label()]);
    }
}

/// A client was reset because of a limit, which may have been reached by that.
pub(crate) fn refused(metrics: &Metrics, limit: Limit, reached: bool) {
    metrics.connections.refused.inc([limit.label()]);
    if reached {
        metrics.connections.limits_reached.inc([limit.label()]);
    }
}

/// Shows from the start what says something while it is 0.
pub(crate) fn show(metrics: &Metrics) {
    for limit in Limit::ALL {
        metrics.connections.limits_reached.show([[limit.label()]]);
        match limit.fate() {
            Fate::Wait => metrics.connections.paused.add([limit.label()], 0),
            Fate::Reset => metrics.connections.refused.show([[limit.label()]]),
        }
    }
    metrics.connections.closed.show([[CloseReason::Finished.label()], [CloseReason::Bug("").label()]]);
}

/// Bytes of a turn, so that a turn and not each connection pays for shared counters.
#[derive(Debug, Default)]
pub(crate) struct Bytes {
    client: Traffic,
    upstream: Traffic,
}

/// What a connection had moved at some moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved {
    client: Traffic,
    upstream: Traffic,
}

impl Moved {
    pub(crate) fn by(relay: &Relay<Tls>) -> Self {
        Self { client: relay.traffic(Side::Client), upstream: relay.traffic(Side::Upstream) }
    }
}

impl Bytes {
    /// Adds what a connection has moved since `before`, and says how much that is.
    pub(crate) fn add(&mut self, before: Moved, after: Moved) -> usize {
        let moved = add(&mut self.client, before.client, after.client)
            + add(&mut self.upstream, before.upstream, after.upstream);
        usize::try_from(moved).unwrap_or(usize::MAX)
    }

    /// Hands all of it to the counters.
    pub(crate) fn count(&mut self, metrics: &Metrics) {
        let Self { client, upstream } = std::mem::take(self);
        let bytes = &metrics.connections.bytes;
        for (counter, count) in [
            (&bytes.from_client, client.read),
            (&bytes.to_client, client.written),
            (&bytes.from_upstream, upstream.read),
            (&bytes.to_upstream, upstream.written),
        ] {
            if count > 0 {
                counter.inc_by(count);
            }
        }
    }
}

fn add(sum: &mut Traffic, before: Traffic, after: Traffic) -> u64 {
    let read = after.read.saturating_sub(before.read);
    let written = after.written.saturating_sub(before.written);
    sum.read += read;
    sum.written += written;
    read + written
}
