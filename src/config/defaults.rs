//! What holds where nothing is written, as a person would write it, so that help, documentation and program can't
//! differ: the same text goes through the same checks. That every default passes them is shown by
//! `tests/configuration.rs`.

/// A certificate that no event announced is served within a minute.
pub(super) const RELOAD_INTERVAL: &str = "60s";

/// TLS 1.2 is still what some clients speak; anything older is broken.
pub(super) const TLS_MIN_VERSION: &str = "1.2";

/// The order follows the processor, which the configuration does not know.
pub(super) const TLS_CIPHER_SUITES: &str = "auto";

/// The hybrid post-quantum exchange, and the curves everyone has.
pub(super) const TLS_GROUPS: &str = "X25519MLKEM768,X25519,P-256,P-384";

/// A handshake over a bad line takes a few round trips of a second.
pub(super) const HANDSHAKE_TIMEOUT: &str = "10s";

/// The upstream is near; if it has not answered by now it will not.
pub(super) const CONNECT_TIMEOUT: &str = "5s";

/// Long-lived streams are silent for hours, rightly.
pub(super) const IDLE_TIMEOUT: &str = "0";

/// A reply may take its time; a peer that has gone does not come back.
pub(super) const HALF_CLOSE_TIMEOUT: &str = "60s";

/// Ending a healthy connection is for those who ask for it.
pub(super) const MAX_CONNECTION_AGE: &str = "0";

/// As long as Kubernetes waits for a pod to end.
pub(super) const DRAIN_TIMEOUT: &str = "30s";

/// Those who route clients here often know of the end before the process does.
pub(super) const DRAIN_DELAY: &str = "0";

/// The descriptor limit bounds them anyway.
pub(super) const MAX_CONNECTIONS: &str = "0";

/// A burst of reconnecting clients fits; a flood stays in the backlog.
pub(super) const MAX_HANDSHAKES: &str = "4096";

/// Behind a load balancer all clients share an address.
pub(super) const MAX_CONNECTIONS_PER_CLIENT: &str = "0";

/// What can be served is, as fast as it can be.
pub(super) const ACCEPT_RATE: &str = "0";

/// A sidecar is small beside its service.
pub(super) const WORKERS: &str = "1";

/// A bad secret reaches all replicas at once, and its repair takes a minute or two to be brought to them: within that
/// time none leaves its service over a fault that harms no client yet.
pub(super) const READY_STALE_LIMIT: &str = "5m";

/// The first reader is a person.
pub(super) const LOG_FORMAT: &str = "text";

/// Real changes and failures, no chatter.
pub(super) const LOG_LEVEL: &str = "info";

/// Off, for each switch.
pub(super) const SWITCH: &str = "false";

/// Until interrupted.
pub(super) const DEMO_ROTATIONS: &str = "0";

/// Slow enough to read along.
pub(super) const DEMO_INTERVAL: &str = "3s";

/// This machine only, any free port.
pub(super) const DEMO_LISTEN: &str = "127.0.0.1:0";
