//! PEM bytes to a checked bundle, and bundles to generations.
//!
//! A certificate file and a key file become a `Bundle` or a `Fault` that names the part to blame. A `Store`
//! stages a bundle against what is served and commits it as the next `Generation`; a `Reader` hands the
//! generation in force to whoever accepts a connection. Nothing here knows paths, watching or sockets, and
//! time always comes in as an argument. The tests stand beside the code of each file.

mod admission;
mod bundle;
mod facts;
mod fault;
mod pem;
mod policy;
mod store;
#[cfg(test)]
mod testing;
mod usage;

pub use admission::Refusal;
pub use bundle::{Bundle, Inspected, digest, inspect_chain, inspect_key};
pub use facts::{Facts, Name, Rfc3339, Validity, unix_seconds};
pub use fault::{Fault, File, Part, Problem};
pub use pem::{CERTIFICATE_LIMIT, FILE_LIMIT_BYTES};
pub use policy::{
    ExpiredAtStart, MinimumVersion, Policy, PolicyFault, Version, known_groups, known_suites, warm_up,
};
pub use store::{Generation, Reader, Staged, Store};
pub use usage::{Authority, Hash, Issuance, Key, Purpose, Usage};
