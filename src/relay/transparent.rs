//! A port without cryptography, small enough for every history of a connection to be tried.

/// A port whose sealed bytes are its plain bytes, but for a few that stand for TLS' own messages.
#[derive(Debug, Clone, Default)]
pub struct Transparent;
