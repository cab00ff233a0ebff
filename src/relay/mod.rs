//! Bytes between two sockets: what to do next, and why a connection ended.
