//! Drives the real binary over real files, real inotify and real TLS clients: what a user of it would notice.
//! Knows nothing of the crate's insides but what its demo shows as well: a secret volume, an authority, a front that says
//! to the microsecond when it published.
//!
//! `TLSIDECAR_E2E_FULL=1` plays the long runs in full length, which `ci/soak` does by their names; without it they are
//! short slices of themselves. `TLSIDECAR_E2E_BINARY=path` tests that binary instead of the one just built.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says on stderr what it saw"
)]

// The harness.
#[path = "../admin/asking.rs"]
mod asking;
mod client;
mod dice;
mod figures;
mod log;
mod mapping;
mod material;
mod namespace;
mod patience;
mod pattern;
mod probe;
mod procfs;
mod scene;
mod secret;
mod sidecar;
mod upstream;

// The behaviours.
mod arguments;
mod bestiary;
mod bytes;
mod clients;
mod degraded;
mod demo;
mod descriptors;
mod elsewhere;
mod floods;
mod forgery;
mod harness;
mod layouts;
mod lifecycle;
mod limits;
mod mutations;
mod noise;
mod overdue;
mod partings;
mod pumps;
mod refusal;
mod remote;
mod rotation;
mod soak;
mod starts;
mod unread;
mod workers;
