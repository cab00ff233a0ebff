//! The pure parts against simulated worlds: no sockets, no files but in `kernel.rs`, no clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that can't go on says so by panicking"
)]

mod kernel;
mod relay;
mod watch;
