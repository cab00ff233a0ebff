//! Text to a checked, immutable configuration.
