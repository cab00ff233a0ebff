//! Which identifier expires next.
