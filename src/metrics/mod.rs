//! Every counter, gauge and histogram, with its name, help, unit and labels: one table, in the order of `/metrics`.
//!
//! Counting is one relaxed atomic, or a look-up by label for what is rare beside bytes. Values of labels are words of
//! the program or facts of what is served now, so the number of series is bounded. Does not know who counts or how the
//! numbers are served. Shown by the tests below and by `tests/metrics.rs`, which holds this table and
//! `docs/metrics.md` together.

mod table;

use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use table::Table;
pub use table::{Counters, Gauges, Row, Seconds};

/// What [`Metrics::text`] is, for whoever serves it.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// All numbers of the process; each is shared by every worker.
#[derive(Debug)]
pub struct Metrics {
    table: Table,
    /// The process as a whole.
    pub process: Process,
    /// Connections and their bytes.
    pub connections: Connections,
    /// TLS handshakes.
    pub handshakes: Handshakes,
    /// What is served.
    pub certificate: Certificate,
    /// From a change on disk to its first handshake.
    pub reload: Reload,
    /// How changes are noticed.
    pub watch: Watch,
    /// The endpoint that serves these numbers.
    pub admin: Admin,
}

/// The process as a whole.
#[derive(Debug)]
pub struct Process {
    /// When it started, in seconds since 1970.
    pub started: Gauge,
    /// Threads that serve clients.
    pub workers: Gauge,
    /// 1 from the signal to end, 0 before.
    pub draining: Gauge,
}

/// Connections and their bytes.
#[derive(Debug)]
pub struct Connections {
    /// Accepted.
    pub accepted: Counter,
    /// Open now.
    pub open: Gauge,
    /// Closed, by the reason's word.
    pub closed: Counters<1>,
    /// Open now, by the age of the generation they were greeted with: `current`, `previous` or `older`.
    pub by_generation: Gauges<1>,
    /// Clients that left without sending a byte, as health checks do.
    pub probes: Counter,
    /// Bytes read from and written to sockets.
    pub bytes: Bytes,
    /// Workers that leave clients in the backlog now, by the limit that makes them.
    pub paused: Gauges<1>,
    /// Connections reset as soon as they were accepted, by the limit's word.
    pub refused: Counters<1>,
    /// Times that a limit began to hold something back, by the limit's word.
    pub limits_reached: Counters<1>,
}

/// Bytes as they were on the wire of each side.
#[derive(Debug)]
pub struct Bytes {
    /// Read from clients.
    pub from_client: Counter,
    /// Written to clients.
    pub to_client: Counter,
    /// Read from the upstream.
    pub from_upstream: Counter,
    /// Written to the upstream.
    pub to_upstream: Counter,
}

/// TLS handshakes.
#[derive(Debug)]
pub struct Handshakes {
    /// Under way now.
    pub open: Gauge,
    /// Ended well, by protocol version and by `full` or `resumed`.
    pub done: Counters<2>,
    /// Ended otherwise, by kind.
    pub failed: Counters<1>,
}

/// What is served, for each set of files under the path of its certificate.
#[derive(Debug)]
pub struct Certificate {
    info: Gauges<3>,
    not_before: Gauges<1>,
    not_after: Gauges<1>,
    chain_not_after: Gauges<1>,
    generation: Gauges<1>,
    /// Generations that the server or a connection still holds.
    pub live_generations: Gauge,
    differs: Gauges<1>,
    differs_since: Gauges<1>,
}

/// One certificate in force.
#[derive(Debug, Clone, Copy)]
pub struct InForce<'a> {
    /// Path of the certificate's file, which names the set.
    pub file: &'a str,
    /// Serial number in hex.
    pub serial: &'a str,
    /// SHA-256 of the leaf in hex.
    pub sha256: &'a str,
    /// First second of validity, since 1970.
    pub not_before: i64,
    /// Last second of validity, since 1970.
    pub not_after: i64,
    /// The same of the first certificate to end in the whole chain.
    pub chain_not_after: i64,
    /// How many times something else was put in force, with this one.
    pub generation: u64,
}

/// From a change on disk to its first handshake.
#[derive(Debug)]
pub struct Reload {
    /// Looks at all files, by what asked for them.
    pub looks: Counters<1>,
    /// Contents that were new, by `published` or `refused`, and why.
    pub reloads: Counters<2>,
    /// Rotations, by what made the watcher look.
    pub rotations: Counters<1>,
    /// Rotations that the timer found and no event had announced.
    pub rotations_found_by_timer: Counter,
    /// From the notice of a change to its publication.
    pub notice_to_publish: Seconds,
    /// From the publication to the end of the first handshake with it.
    pub publish_to_handshake: Seconds,
}

/// How changes are noticed.
#[derive(Debug)]
pub struct Watch {
    /// 1 for the mode that holds, `events` or `polling`, 0 for the other.
    pub mode: Gauges<1>,
    /// What stands between a change and an event about it.
    pub degraded_reasons: Gauge,
    /// Directories and files watched.
    pub watches: Gauge,
    /// Times the event queue lost records.
    pub overflows: Counter,
}

/// The endpoint that serves these numbers.
#[derive(Debug)]
pub struct Admin {
    /// Answers, by HTTP status.
    pub responses: Counters<1>,
    /// Clients cut for being slow or in the way of others.
    pub cut: Counter,
}

impl Metrics {
    /// All at zero, for the given version of the program.
    #[must_use]
    pub fn new(version: &str) -> Self {
        let mut table = Table::new();
        table.build_info(version);
        Self {
            process: Process::new(&mut table),
            connections: Connections::new(&mut table),
            handshakes: Handshakes::new(&mut table),
            certificate: Certificate::new(&mut table),
            reload: Reload::new(&mut table),
            watch: Watch::new(&mut table),
            admin: Admin::new(&mut table),
            table,
        }
    }

    /// All numbers in the text format of Prometheus, see [`CONTENT_TYPE`].
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = prometheus_text::encode(&mut text, self.table.registry());
        text
    }

    /// What there is, in the order of the text.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        self.table.rows()
    }
}

impl Process {
    fn new(table: &mut Table) -> Self {
        Self {
            started: table
                .gauge("start_timestamp_seconds", "When the process started, in seconds since 1970"),
            workers: table.gauge("workers", "Threads that serve clients"),
            draining: table.gauge("draining", "1 from the signal to end, 0 before"),
        }
    }
}

impl Connections {
    fn new(table: &mut Table) -> Self {
        Self {
            accepted: table.counter("connections_accepted", "Connections accepted"),
            open: table.gauge("connections_open", "Connections open now"),
            closed: table.counters("connections_closed", "Connections closed, by reason", ["reason"]),
            by_generation: table.gauges(
                "connections_by_generation",
                "Connections open now, by the age of the certificate they were greeted with",
                ["age"],
            ),
            probes: table
                .counter("tcp_probes", "Clients that left without sending a byte, as health checks do"),
            bytes: Bytes::new(table),
            paused: table.gauges(
                "accepting_paused_workers",
                "Workers that leave clients in the backlog now, by the limit that makes them",
                ["limit"],
            ),
            refused: table.counters(
                "connections_refused",
                "Connections reset as soon as they were accepted, by the limit that was reached",
                ["limit"],
            ),
            limits_reached: table.counters(
                "limits_reached",
                "Times that a limit began to hold something back",
                ["limit"],
            ),
        }
    }
}

impl Bytes {
    fn new(table: &mut Table) -> Self {
        let bytes = table.counters(
            "socket_bytes",
            "Bytes read from and written to sockets, as they were on the wire of each side",
            ["peer", "direction"],
        );
        Self {
            from_client: bytes.one(["client", "received"]),
            to_client: bytes.one(["client", "sent"]),
            from_upstream: bytes.one(["upstream", "received"]),
            to_upstream: bytes.one(["upstream", "sent"]),
        }
    }
}

impl Handshakes {
    fn new(table: &mut Table) -> Self {
        Self {
            open: table.gauge("handshakes_open", "TLS handshakes under way now"),
            done: table.counters(
                "handshakes",
                "TLS handshakes that ended well, by protocol version and kind of session",
                ["version", "session"],
            ),
            failed: table.counters(
                "handshake_failures",
                "TLS handshakes that did not end well, by kind of failure",
                ["kind"],
            ),
        }
    }
}

impl Certificate {
    fn new(table: &mut Table) -> Self {
        Self {
            info: table.gauges(
                "certificate_info",
                "The certificate in force; always 1",
                ["cert", "serial", "sha256"],
            ),
            not_before: table.gauges(
                "certificate_not_before_timestamp_seconds",
                "First second in which the certificate in force is valid, since 1970",
                ["cert"],
            ),
            not_after: table.gauges(
                "certificate_not_after_timestamp_seconds",
                "Last second in which the certificate in force is valid, since 1970",
                ["cert"],
            ),
            chain_not_after: table.gauges(
                "certificate_chain_not_after_timestamp_seconds",
                "Last second in which all certificates that are sent are valid, since 1970",
                ["cert"],
            ),
            generation: table.gauges(
                "certificate_generation",
                "How many certificates have been in force since the start, this one included",
                ["cert"],
            ),
            live_generations: table.gauge(
                "live_generations",
                "Generations in memory: the one in force and those that connections were greeted with",
            ),
            differs: table.gauges(
                "disk_differs",
                "1 if the files hold something else than what is served, 0 if they hold the same",
                ["cert"],
            ),
            differs_since: table.gauges(
                "disk_differs_since_timestamp_seconds",
                "Since when the files have held something else than what is served; absent if they do not",
                ["cert"],
            ),
        }
    }

    /// Shows what is in force; what was shown of the one before is gone.
    pub fn put_in_force(&self, certificate: &InForce<'_>) {
        let InForce { file, serial, sha256, not_before, not_after, chain_not_after, generation } =
            *certificate;
        self.info.forget(file);
        self.info.set([file, serial, sha256], 1);
        self.not_before.set([file], not_before);
        self.not_after.set([file], not_after);
        self.chain_not_after.set([file], chain_not_after);
        self.generation.set([file], i64::try_from(generation).unwrap_or(i64::MAX));
    }

    /// Whether the files of a set hold what is served, or since when they do not, in seconds since 1970.
    pub fn compare_with_disk(&self, file: &str, differs_since: Option<i64>) {
        self.differs.set([file], i64::from(differs_since.is_some()));
        match differs_since {
            Some(since) => self.differs_since.set([file], since),
            None => self.differs_since.forget(file),
        }
    }
}

impl Reload {
    fn new(table: &mut Table) -> Self {
        Self {
            looks: table.counters("looks", "Looks at all files, by what asked for them", ["trigger"]),
            reloads: table.counters(
                "reloads",
                "New contents on disk, by what became of them and why",
                ["result", "reason"],
            ),
            rotations: table.counters(
                "rotations",
                "Certificates put in force, by what made the watcher look",
                ["trigger"],
            ),
            rotations_found_by_timer: table.counter(
                "rotations_found_by_timer",
                "Rotations that only the timer found although events should have told of them",
            ),
            notice_to_publish: table
                .seconds("notice_to_publish", "From the notice of a change on disk to its publication"),
            publish_to_handshake: table.seconds(
                "publish_to_handshake",
                "From a publication to the end of the first handshake with it",
            ),
        }
    }
}

impl Watch {
    fn new(table: &mut Table) -> Self {
        Self {
            mode: table.gauges("watch_mode", "1 for the way of watching that holds now", ["mode"]),
            degraded_reasons: table.gauge(
                "watch_degraded_reasons",
                "How many things stand between a change on disk and an event about it",
            ),
            watches: table.gauge("watches", "Directories and files watched"),
            overflows: table.counter("watch_overflows", "Times the event queue lost records"),
        }
    }
}

impl Admin {
    fn new(table: &mut Table) -> Self {
        Self {
            responses: table.counters(
                "admin_responses",
                "Answers of the admin endpoint, by status",
                ["code"],
            ),
            cut: table.counter(
                "admin_connections_cut",
                "Connections to the admin endpoint cut for being slow or in the way of others",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_force(serial: &str, generation: u64) -> InForce<'_> {
        InForce {
            file: "/tls/tls.crt",
            serial,
            sha256: "ab",
            not_before: -5,
            not_after: 7,
            chain_not_after: 6,
            generation,
        }
    }

    #[test]
    fn a_counted_event_shows_in_the_text() {
        let metrics = Metrics::new("1.2.3");
        metrics.reload.rotations_found_by_timer.inc();
        metrics.connections.bytes.to_upstream.inc_by(42);
        metrics.handshakes.done.inc(["TLSv1_3", "full"]);
        metrics.handshakes.done.inc(["TLSv1_3", "full"]);
        let text = metrics.text();
        for line in [
            "tlsidecar_build_info{version=\"1.2.3\"} 1\n",
            "tlsidecar_rotations_found_by_timer_total 1\n",
            "tlsidecar_socket_bytes_total{peer=\"upstream\",direction=\"sent\"} 42\n",
            "tlsidecar_handshakes_total{version=\"TLSv1_3\",session=\"full\"} 2\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn nothing_is_left_of_a_certificate_that_is_no_longer_in_force() {
        let metrics = Metrics::new("1");
        metrics.certificate.put_in_force(&in_force("OLD", 1));
        metrics.certificate.put_in_force(&in_force("NEW", 2));
        let text = metrics.text();
        assert!(!text.contains("OLD"), "{text}");
        for line in [
            "tlsidecar_certificate_info{cert=\"/tls/tls.crt\",serial=\"NEW\",sha256=\"ab\"} 1\n",
            "tlsidecar_certificate_not_before_timestamp_seconds{cert=\"/tls/tls.crt\"} -5\n",
            "tlsidecar_certificate_not_after_timestamp_seconds{cert=\"/tls/tls.crt\"} 7\n",
            "tlsidecar_certificate_chain_not_after_timestamp_seconds{cert=\"/tls/tls.crt\"} 6\n",
            "tlsidecar_certificate_generation{cert=\"/tls/tls.crt\"} 2\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn since_when_the_disk_differs_is_told_only_while_it_does() {
        let metrics = Metrics::new("1");
        metrics.certificate.compare_with_disk("/c", Some(1_800_000_000));
        assert!(metrics.text().contains("tlsidecar_disk_differs{cert=\"/c\"} 1\n"));
        assert!(metrics.text().contains("_since_timestamp_seconds{cert=\"/c\"} 1800000000\n"));
        metrics.certificate.compare_with_disk("/c", None);
        assert!(metrics.text().contains("tlsidecar_disk_differs{cert=\"/c\"} 0\n"));
        assert!(!metrics.text().contains("_since_timestamp_seconds{"));
    }
}
