//! The pure parts of the product driven in memory: no socket, no file, no wait.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so by a panic"
)]

mod relay;
