//! The product shown on one machine: a secret volume that rotates, the serving path in front of a small upstream, and a
//! TLS client that measures how soon each new certificate is on the wire.
//!
//! It does what an operator's cluster does, with the same serving path; it knows of it only what [`Front`] says. The
//! tests beside it run it against a front that follows the volume and one that does not.

pub mod authority;
pub mod client;
mod folder;
mod front;
mod http;
mod report;
mod serving;
mod stage;
pub mod upstream;
pub mod volume;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use authority::IssueFault;
use folder::Folder;
pub use front::{Front, Published};
use report::Report;
pub use report::Style;
pub use serving::serve;
use stage::Stage;

/// What a person may choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// End after this many rotations; without it, when the front is ended by a signal.
    pub rotations: Option<u32>,
    /// From one rotation to the next.
    pub pause: Duration,
    /// Where the front listens; port zero takes a free one.
    pub listen: SocketAddr,
    /// How long a certificate may take to be served before its rotation counts as missed.
    pub patience: Duration,
    /// How to write.
    pub style: Style,
    /// Where to make the folder for the volume.
    pub parent: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        let parent = std::env::temp_dir();
        let (pause, patience) = (Duration::from_secs(3), Duration::from_secs(10));
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        Self { rotations: None, pause, listen, patience, style: Style::Plain, parent }
    }
}

/// Why a demo did not come to a good end.
#[derive(Debug)]
pub enum Fault {
    /// An operation of the demo's own failed.
    Io(&'static str, io::Error),
    /// No certificate could be issued.
    Issue(IssueFault),
    /// The front did not start, said why.
    Front(String),
    /// The front did not serve the first certificate in time.
    Silent,
    /// The front ended before all rotations were done.
    Ended,
    /// This many rotations were not seen on the wire, or broke the old connection.
    Missed(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(what, error) => write!(f, "{what}: {error}"),
            Self::Issue(fault) => fault.fmt(f),
            Self::Front(reason) => write!(f, "the server did not start: {reason}"),
            Self::Silent => f.write_str("the server served no certificate in time"),
            Self::Ended => f.write_str("the server ended before all rotations were done"),
            Self::Missed(count) => write!(f, "{count} rotations were not seen"),
        }
    }
}

impl std::error::Error for Fault {}

impl From<IssueFault> for Fault {
    fn from(fault: IssueFault) -> Self {
        Self::Issue(fault)
    }
}

/// Runs the demo. `serve` starts the serving path from a command line (the program's name first);
/// whatever comes, the volume's folder is gone when this returns.
///
/// # Errors
/// When it cannot be set up, when it is ended early, and when a rotation was missed.
pub fn run<S>(options: &Options, serve: S, out: &mut dyn Write) -> Result<(), Fault>
where
    S: FnOnce(&[OsString]) -> Result<Front, String>,
{
    let folder = Folder::new(&options.parent).map_err(|error| Fault::Io("cannot make a folder", error))?;
    let mut report = Report::new(out, options.style);
    let mut stage = Stage::set(&folder, options, serve)?;
    let mut rotations = Vec::new();
    let done = stage.play(options, &mut report, &mut rotations);
    stage.strike();
    report.summary(&rotations).map_err(|error| Fault::Io("cannot write", error))?;
    done?;
    match rotations.iter().filter(|rotation| !rotation.seen()).count() {
        0 => Ok(()),
        missed => Err(Fault::Missed(missed)),
    }
}
