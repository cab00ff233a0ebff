//! PEM bytes to a checked bundle, and bundles to generations.
