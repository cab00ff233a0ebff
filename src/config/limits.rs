//! Every limit in one place, with its unit and its reason: the bounds of what may be configured, and the budgets of
//! the loop. Numbers only; who keeps to them is the server's business. That the bounds hold is shown by
//! `tests/configuration.rs`.

use std::time::Duration;

/// The least and the most of something, both allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<T> {
    /// The least.
    pub least: T,
    /// The most.
    pub most: T,
}

// Bounds of what may be configured.

/// One phase of a connection. Poll counts in milliseconds; a phase of more than a day is a mistaken unit.
pub const PHASE_TIMEOUT: Span<Duration> = Span { least: Duration::from_millis(1), most: hours(24) };

/// Idle time and age of a connection, where they are limited at all. Streams may live for weeks.
pub const LIFE_TIMEOUT: Span<Duration> = Span { least: Duration::from_millis(1), most: hours(30 * 24) };

/// The time given to open connections at the end. Zero is a choice: cut at once.
pub const DRAIN_TIMEOUT: Span<Duration> = Span { least: Duration::ZERO, most: hours(24) };

/// The time between the signal to end and the last accept: routes change within seconds, or minutes at most.
pub const DRAIN_DELAY: Span<Duration> = Span { least: Duration::ZERO, most: hours(1) };

/// Between two looks that no event asked for. Below 10 ms the looking would be the load; above a day it is no safety
/// net.
pub const RELOAD_INTERVAL: Span<Duration> = Span { least: Duration::from_millis(10), most: hours(24) };

/// Files that hold something else than what is served, where readiness depends on it. Writers that change file after
/// file need milliseconds; after a day it is not readiness that is the question.
pub const READY_STALE_LIMIT: Span<Duration> = Span { least: Duration::from_millis(1), most: hours(24) };

/// Between two rotations of the demonstration: long enough for a handshake, short enough to be watched.
pub const DEMO_INTERVAL: Span<Duration> =
    Span { least: Duration::from_millis(50), most: Duration::from_secs(3600) };

/// Connections, where they are limited at all. Each needs two descriptors, and no kernel hands out more to a process
/// without being told to.
pub const CONNECTIONS: Span<u32> = Span { least: 1, most: 1 << 20 };

/// Connections of one client, where they are limited at all.
pub const CONNECTIONS_PER_CLIENT: Span<u32> = Span { least: 1, most: 1 << 20 };

/// Connections accepted in a second, where they are limited at all. No machine shakes hands so often.
pub const ACCEPT_RATE: Span<u32> = Span { least: 1, most: 1_000_000 };

/// Handshakes in flight. Never unlimited: one that has not ended is work given away to a stranger.
pub const HANDSHAKES: Span<u32> = Span { least: 1, most: 1 << 20 };

/// Threads, when a number is given. More than any machine this is meant for has processors.
pub const WORKERS: Span<u32> = Span { least: 1, most: 256 };

/// Rotations of the demonstration, where they are limited at all.
pub const DEMO_ROTATIONS: Span<u32> = Span { least: 1, most: 1_000_000 };

/// Bytes of the name of a Unix socket: `sun_path` has 108, one of which is the NUL.
pub const UNIX_NAME_BYTES_MAX: usize = 107;

/// Bytes of a path: `PATH_MAX` is 4096 with the NUL.
pub const PATH_BYTES_MAX: usize = 4095;

/// Bytes of a host name: what DNS can carry, written with dots.
pub const HOST_BYTES_MAX: usize = 253;

/// Bytes of one ALPN name: its length is one byte on the wire.
pub const ALPN_NAME_BYTES_MAX: usize = 255;

/// Entries of a list. No registry we draw from has more that make sense together.
pub const LIST_ENTRIES_MAX: usize = 64;

/// Characters of a wrong value that are repeated in its fault: enough to find it again.
pub const FAULT_VALUE_CHARS_MAX: usize = 200;

/// The exit code for a configuration that can't run, as for every other wrong use of a command.
pub const EXIT_CODE_FAULTS: u8 = 2;

// Budgets of the loop.

/// The most workers that `auto` starts: beyond that a sidecar takes what its service needs.
pub const AUTO_WORKERS_MAX: usize = 8;

/// Connections the kernel may hold for us until we accept; it lowers this to `net.core.somaxconn`.
pub const LISTEN_BACKLOG: i32 = 4096;

/// Accepts in one turn of the loop: a flood of new clients must not keep the open ones waiting.
pub const ACCEPTS_PER_TURN: usize = 64;

/// Deadlines acted on in one turn: a flood of clients that came together ends together, too.
pub const EXPIRIES_PER_TURN: usize = 64;

/// Events taken from one poll.
pub const EVENTS_PER_POLL: usize = 1024;

/// How long accepting rests after the descriptors ran out, before it is tried again: the edge that announced the
/// clients is spent, so only time can bring us back.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// With more connections than these at work in one turn, each gets less of it.
pub const FEW_CONNECTIONS: usize = 8;

/// Bytes moved for one connection in one turn while few are at work: one large read and its write.
pub const RUN_BYTES_OF_FEW: usize = 1024 * 1024;

/// Bytes moved for one connection in one turn while many are at work: two small reads and their writes.
pub const RUN_BYTES_OF_MANY: usize = 256 * 1024;

/// Bytes that bulk transfers move together in one turn, some milliseconds' work: what is short (a handshake, a small
/// request, a reload) waits no longer than that.
pub const BULK_BYTES_PER_TURN: usize = 2 * 1024 * 1024;

/// A run that moves fewer bytes than this was no bulk transfer's.
pub const BRIEF_RUN_BYTES: usize = 64 * 1024;

/// Descriptors kept free of connections, so that files can be read and questions answered when they run out.
pub const RESERVED_DESCRIPTORS: usize = 32;

/// Descriptors of each worker: its listener, its epoll instance and what wakes it.
pub const DESCRIPTORS_PER_WORKER: usize = 3;

/// Clients of the admin endpoint answered at once: kubelet's two probes, a scrape and a person, a few times over. Further
/// ones wait in the backlog.
pub const ADMIN_CLIENTS: usize = 16;

/// The whole time of a client of the admin endpoint, from accept to its last byte.
pub const ADMIN_PATIENCE: Duration = Duration::from_secs(5);

const fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 3600)
}
