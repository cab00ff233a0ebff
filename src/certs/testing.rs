//! Certificates for the tests of this module.
