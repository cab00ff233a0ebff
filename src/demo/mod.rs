//! The product shown on one machine: a secret volume that rotates, the serving path in front of a small upstream, and a
//! TLS client that measures how soon each new certificate is on the wire.
//!
//! It does what an operator's cluster does, with the same serving path; it knows of it only what [`Front`] says. The
//! tests beside it run it against a front that follows the volume and one that does not.

/// A certificate authority in memory.
pub mod authority;
/// A TLS client that tells which certificate it was shown.
pub mod client;
mod folder;
mod front;
mod http;
mod report;
/// An HTTP service that describes the requests it got.
pub mod upstream;
/// A secret volume as the kubelet lays it out.
pub mod volume;

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant, SystemTime};

use authority::{Authority, IssueFault, Leaf};
use client::{Client, Session};
use folder::Folder;
pub use front::{Front, Published};
pub use report::Style;
use report::{Kept, Places, Report, Rotation};
use upstream::{Bound, Upstream};
use volume::{Order, Volume};

/// Between two looks at something that did not happen yet.
const RETRY_PAUSE: Duration = Duration::from_millis(1);
/// How long open connections may keep the front from ending. The demo's own connection is always open, so that this is
/// also what a signal waits for.
const DRAIN_LIMIT: Duration = Duration::from_millis(200);
/// How long the front may take to end once it drains.
const END_LIMIT: Duration = Duration::from_secs(2);

/// What a person may choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// End after this many rotations; without it, when the front is ended by a signal.
    pub rotations: Option<u32>,
    /// From one rotation to the next.
    pub pause: Duration,
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
        Self { rotations: None, pause, patience, style: Style::Plain, parent }
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

/// Runs the demo. `serve` starts the serving path from the arguments of a command line (without the program's name);
/// whatever comes, the volume's folder is gone when this returns.
///
/// # Errors
/// When it cannot be set up, when it is ended early, and when a rotation was missed.
pub fn run<S>(options: &Options, serve: S, out: &mut dyn Write) -> Result<(), Fault>
where
    S: FnOnce(&[String]) -> Result<Front, String>,
{
    let folder = Folder::new(&options.parent).map_err(|error| Fault::Io("cannot make a folder", error))?;
    let mut report = Report::new(out, options.style);
    let mut stage = Stage::set(&folder, options.patience, serve)?;
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

/// All that takes part.
struct Stage {
    authority: Authority,
    volume: Volume,
    root_path: PathBuf,
    client: Client,
    front: Front,
    address: SocketAddr,
    patience: Duration,
    upstream: Upstream,
    /// The serial of the certificate that was written last.
    serial: String,
    veteran: Veteran,
}

/// The connection from before the first rotation, and how many answers it has had.
struct Veteran {
    session: Session,
    answers: u64,
}

impl Stage {
    /// Sets everything up; the front serves the first certificate when this returns.
    fn set<S>(folder: &Folder, patience: Duration, serve: S) -> Result<Self, Fault>
    where
        S: FnOnce(&[String]) -> Result<Front, String>,
    {
        let setup = |error| Fault::Io("cannot set up", error);
        let mut authority = Authority::new("tlsidecar demo", wall_clock())?;
        let root_path = folder.path().join("ca.crt");
        fs::write(&root_path, authority.root_pem()).map_err(setup)?;
        let mut volume = Volume::create(folder.path().join("volume"), Order::LinksLast).map_err(setup)?;
        let leaf = authority.issue()?;
        write_leaf(&mut volume, &leaf).map_err(setup)?;
        let client = Client::new(authority.root_der()).map_err(|error| setup(io::Error::other(error)))?;
        let bound = Bound::new().map_err(setup)?;
        let front = serve(&arguments(&volume, bound.address())).map_err(Fault::Front)?;
        // Only now, with the signals blocked that the front waits for, may threads be started.
        let upstream = bound.start().map_err(setup)?;
        let serial = format!("{:x}", leaf.serial);
        let address = first_address(&front, patience)?;
        let session = client.connect(address).map_err(setup)?;
        let veteran = Veteran { session, answers: 0 };
        Ok(Self { authority, volume, root_path, client, front, address, patience, upstream, serial, veteran })
    }

    /// Rotates until there were enough, or the front ends.
    fn play(
        &mut self,
        options: &Options,
        report: &mut Report<'_>,
        done: &mut Vec<Rotation>,
    ) -> Result<(), Fault> {
        let write = |error| Fault::Io("cannot write", error);
        let volume = self.volume.root();
        let places =
            Places { volume, root: &self.root_path, upstream: self.upstream.address(), front: self.address };
        report.opening(places, options.pause).map_err(write)?;
        let ended = if options.rotations.is_some() { Err(Fault::Ended) } else { Ok(()) };
        for number in 1..=options.rotations.unwrap_or(u32::MAX) {
            if self.ends_within(options.pause) {
                return ended;
            }
            let rotation = self.rotate(number)?;
            // A signal in the middle of a rotation is not the certificate's fault.
            if !rotation.seen() && self.ends_within(END_LIMIT) {
                return ended;
            }
            report.rotation(&rotation).map_err(write)?;
            done.push(rotation);
        }
        Ok(())
    }

    /// Ends the front, giving open connections a moment.
    fn strike(self) {
        drop(self.veteran);
        (self.front.drain)();
        let _ = self.front.ended.recv_timeout(END_LIMIT);
    }

    /// Waits for `pause`, or less if the front ends meanwhile.
    fn ends_within(&self, pause: Duration) -> bool {
        self.front.ended.recv_timeout(pause) != Err(RecvTimeoutError::Timeout)
    }

    fn rotate(&mut self, number: u32) -> Result<Rotation, Fault> {
        let leaf = self.authority.issue()?;
        let before = match self.client.connect(self.address) {
            Ok(session) => session.serial().to_owned(),
            Err(_) => self.serial.clone(),
        };
        let swap = write_leaf(&mut self.volume, &leaf).map_err(|error| Fault::Io("cannot rotate", error))?;
        let after = format!("{:x}", leaf.serial);
        let handshake = self.first_handshake(&after, swap.renamed);
        let publish = (self.front.current)()
            .filter(|generation| generation.serial == after)
            .map(|generation| generation.published.saturating_duration_since(swap.renamed));
        self.serial.clone_from(&after);
        Ok(Rotation { number, before, after, publish, handshake, kept: self.veteran.ask() })
    }

    /// From `renamed` to the end of the first handshake that showed `serial`.
    fn first_handshake(&self, serial: &str, renamed: Instant) -> Result<Duration, String> {
        loop {
            let session =
                self.client.connect(self.address).map_err(|error| format!("handshake failed: {error}"))?;
            let took = clock().saturating_duration_since(renamed);
            if session.serial() == serial {
                return Ok(took);
            }
            if took > self.patience {
                return Err(format!("still served {} after {:.1} s", session.serial(), took.as_secs_f64()));
            }
            if self.ends_within(RETRY_PAUSE) {
                return Err("the server ended".to_owned());
            }
        }
    }
}

impl Veteran {
    /// One more request on the old connection.
    fn ask(&mut self) -> Kept {
        match self.session.request("/still-here") {
            Ok(reply) if reply.status == 200 && reply.body.contains("/still-here") => {
                self.answers = self.answers.saturating_add(1);
                Kept::Answers(self.answers)
            }
            Ok(reply) => Kept::Broken(format!("answered {}", reply.status)),
            Err(error) => Kept::Broken(error.to_string()),
        }
    }
}

/// Where `front` listens, once it does and has a certificate.
fn first_address(front: &Front, patience: Duration) -> Result<SocketAddr, Fault> {
    let deadline = clock() + patience;
    loop {
        if let (Some(address), Some(_)) = ((front.address)(), (front.current)()) {
            return Ok(address);
        }
        if clock() > deadline {
            return Err(Fault::Silent);
        }
        if front.ended.recv_timeout(RETRY_PAUSE) != Err(RecvTimeoutError::Timeout) {
            return Err(Fault::Ended);
        }
    }
}

fn write_leaf(volume: &mut Volume, leaf: &Leaf) -> io::Result<volume::Swap> {
    volume.write(&[("tls.crt", leaf.chain_pem.as_bytes()), ("tls.key", leaf.key_pem.as_bytes())])
}

/// The command line of a sidecar before `upstream` with the certificate in `volume`.
fn arguments(volume: &Volume, upstream: SocketAddr) -> Vec<String> {
    let path = |name| volume.path(name).display().to_string();
    let pairs = [
        ("--listen", "127.0.0.1:0".to_owned()),
        ("--upstream", upstream.to_string()),
        ("--cert", path("tls.crt")),
        ("--key", path("tls.key")),
        ("--drain-timeout", format!("{}ms", DRAIN_LIMIT.as_millis())),
        ("--log-level", "warn".to_owned()),
    ];
    let flags = pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
    std::iter::once("serve".to_owned()).chain(flags).collect()
}

fn clock() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "the demo is a shell of its own, and measuring is its purpose"
    )]
    Instant::now()
}

fn wall_clock() -> SystemTime {
    #[expect(clippy::disallowed_methods, reason = "certificates made now must be valid now")]
    SystemTime::now()
}
