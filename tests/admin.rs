//! The admin endpoint as kubelet, Prometheus and people meet it: the real binary over real sockets and files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

#[path = "admin/answers.rs"]
mod answers;
#[path = "admin/asking.rs"]
mod asking;
#[path = "admin/certificates.rs"]
mod certificates;
#[path = "admin/crowds.rs"]
mod crowds;
#[path = "admin/process.rs"]
mod process;
