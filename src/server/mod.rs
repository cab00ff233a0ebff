//! Sockets, files, signals and the clock around the pure parts.

pub mod filesystem;
