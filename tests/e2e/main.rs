//! Drives the real binary over real files, real inotify and real TLS clients: what a user of it would notice.
//! Knows nothing of the crate's insides but the secret volume and the authority that its demo shows as well.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says on stderr what it saw"
)]

// The harness.
mod client;
mod log;
mod mapping;
mod material;
mod patience;
mod pattern;
mod probe;
mod procfs;
mod sidecar;
mod upstream;

// The behaviours.
mod arguments;
mod bytes;
mod clients;
mod degraded;
mod demo;
mod elsewhere;
mod forgery;
mod harness;
mod layouts;
mod lifecycle;
mod mutations;
mod noise;
mod overdue;
mod refusal;
mod rotation;
mod starts;
