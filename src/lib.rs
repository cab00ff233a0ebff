//! tlsidecar: a TLS sidecar for Linux whose certificate is never stale.
//!
//! Only [`server`] acts on the world (sockets, files, the clock), through [`sys`], which alone is unsafe.
//! Everything else is a function of its arguments.
//!
//! ```text
//! main --> demo --> server -->  config   relay   watch   certs   admin     the product: pure, no arrow among these
//!                     |                                          |
//!                     +----->  sys                               |       raw calls, the only unsafe
//!                     +----->  metrics   deadlines   printable <-+       vocabulary
//! ```
//!
//! # Glossary
//!
//! - *client*: the peer that speaks TLS to us; *upstream*: the plaintext service behind us.
//! - *listener*: the socket that accepts clients; *worker*: one thread with one event loop and its own listener.
//! - *connection*: two sockets and their *relay*; a relay is two *halves*, one a direction.
//! - *port*: what turns *sealed* bytes (on the client's wire) into *plain* bytes and back.
//! - *step* and *outcome*: what the relay wants done to a socket, and what became of it.
//! - *target*: a watched file of the set; *chain*: the look-ups behind its path.
//! - *bundle*: certificate chain and key as read and checked; *generation*: a bundle in force.
//! - *drain*: no new connections, the open ones may end by themselves.

// Vocabulary: knows nothing of the crate.
// Which identifier expires next.
pub mod deadlines;
// Every counter, gauge and histogram, with its name and help.
pub mod metrics;
// Text from outside as text that can't draw over a terminal or forge a line.
pub mod printable;

// Raw calls: knows nothing of the crate, and holds all that is unsafe.
// Descriptors and the kernel's own words.
pub mod sys;

// The domain: pure, and no module of it names another.
// A question of the admin endpoint and what is known of the process to an answer.
pub mod admin;
// PEM bytes to a checked bundle, and bundles to generations.
pub mod certs;
// Text to a checked, immutable configuration.
pub mod config;
// Bytes between two sockets: what to do next, and why a connection ended.
pub mod relay;
// Paths to the look-ups behind them, and look-ups to decisions.
pub mod watch;

// The shell: the only place that sees two domains.
// Sockets, files, signals and the clock around the pure parts.
pub mod server;

// The product shown on one machine: a secret volume, an upstream and rotations.
pub mod demo;

// What is behind a certificate and its key, and whether they can be served and followed.
pub mod doctor;
