//! The demo's cast and what they do: set up, rotate, measure, end.
//!
//! The clock is read here: measuring is what the demo is for. It does not know how a rotation is shown. The tests of the
//! demo drive it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant, SystemTime};

use super::authority::{Authority, Leaf};
use super::client::{self, Client, Session};
use super::folder::Folder;
use super::report::{Kept, Places, Report, Rotation};
use super::upstream::{Bound, Upstream};
use super::volume::{Order, Swap, Volume};
use super::{Fault, Front, Options};

/// Between two looks at something that did not happen yet.
const RETRY_PAUSE: Duration = Duration::from_millis(1);
/// How long open connections may keep the front from ending. The demo's own connection is always open, so that this is
/// also what a signal waits for.
const DRAIN_LIMIT: Duration = Duration::from_millis(200);
/// How long the front may take to end once it was asked to or has begun to.
const END_LIMIT: Duration = Duration::from_millis(500);

/// All that takes part.
pub(super) struct Stage {
    authority: Authority,
    volume: Volume,
    root_path: PathBuf,
    client: Client,
    front: Front,
    address: SocketAddr,
    patience: Duration,
    upstream: Upstream,
    veteran: Veteran,
}

/// The connection from before the first rotation, and how many answers it has had.
struct Veteran {
    session: Session,
    answers: u64,
}

impl Stage {
    /// Sets everything up; the front serves the first certificate when this returns.
    pub(super) fn set<S>(folder: &Folder, options: &Options, serve: S) -> Result<Self, Fault>
    where
        S: FnOnce(&[OsString]) -> Result<Front, String>,
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
        let front = serve(&arguments(options.listen, bound.address(), &volume)).map_err(Fault::Front)?;
        // Only now, with the signals blocked that the front waits for, may threads be started.
        let upstream = bound.start().map_err(setup)?;
        let address = first_address(&front, options.patience)?;
        let session = client.connect(address).map_err(setup)?;
        let veteran = Veteran { session, answers: 0 };
        Ok(Self {
            authority,
            volume,
            root_path,
            client,
            front,
            address,
            patience: options.patience,
            upstream,
            veteran,
        })
    }

    /// Rotates until there were enough, or the front ends.
    pub(super) fn play(
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
    pub(super) fn strike(self) {
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
        let before = self.client.connect(self.address);
        let before = before.map_or_else(|_| "none".to_owned(), |session| session.serial().to_owned());
        let swap = write_leaf(&mut self.volume, &leaf).map_err(|error| Fault::Io("cannot rotate", error))?;
        let after = client::serial_text(leaf.serial);
        let handshake = self.first_handshake(&after, swap.renaming);
        let publish = (self.front.current)()
            .filter(|generation| generation.serial == after)
            .map(|generation| generation.published.saturating_duration_since(swap.renaming));
        Ok(Rotation { number, before, after, publish, handshake, kept: self.veteran.ask() })
    }

    /// From `renaming` to the end of the first handshake that showed `serial`.
    fn first_handshake(&self, serial: &str, renaming: Instant) -> Result<Duration, String> {
        loop {
            let session =
                self.client.connect(self.address).map_err(|error| format!("handshake failed: {error}"))?;
            let took = clock().saturating_duration_since(renaming);
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

pub(super) fn write_leaf(volume: &mut Volume, leaf: &Leaf) -> io::Result<Swap> {
    volume.write(&[("tls.crt", leaf.chain_pem.as_bytes()), ("tls.key", leaf.key_pem.as_bytes())])
}

/// The command line of a sidecar at `listen` before `upstream` with the certificate in `volume`.
pub(super) fn arguments(listen: SocketAddr, upstream: SocketAddr, volume: &Volume) -> Vec<OsString> {
    let path = |name| volume.path(name).into_os_string();
    let pairs = [
        ("--listen", listen.to_string().into()),
        ("--upstream", upstream.to_string().into()),
        ("--cert", path("tls.crt")),
        ("--key", path("tls.key")),
        ("--drain-timeout", format!("{}ms", DRAIN_LIMIT.as_millis()).into()),
        ("--log-level", "warn".into()),
    ];
    let flags = pairs.into_iter().flat_map(|(flag, value)| [flag.into(), value]);
    ["tlsidecar".into(), "serve".into()].into_iter().chain(flags).collect()
}

pub(super) fn clock() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "the demo is a shell of its own, and measuring is its purpose"
    )]
    Instant::now()
}

pub(super) fn wall_clock() -> SystemTime {
    #[expect(clippy::disallowed_methods, reason = "certificates made now must be valid now")]
    SystemTime::now()
}
