//! The product shown on one machine: a secret volume, an upstream and rotations.
