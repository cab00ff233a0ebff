//! Looks at the files as the serving path does, and at what surrounds them: the only part of the doctor that touches the
//! system.
//!
//! What comes out is data; whether it is good is not decided here. `tests/doctor.rs` shows it on real directories.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Instant, SystemTime};

use super::accounts::Accounts;
use super::examination::{Content, Events, Examination, ExaminedFile, Moment, Purpose, Viewer};
use super::material::Material;
use super::trail::{self, Names};
use super::{kernel, mounts, replacement};
use crate::certs;
use crate::config::{Doctor, ExpiredCertificate};
use crate::printable::printable;
use crate::server::{self, filesystem::RealFilesystem};
use crate::sys::files::{self, Contents, ReadError, Stability};
use crate::sys::process;
use crate::watch::{Pass, Reason, Timing, Unresolved, Watcher};

type Node = <RealFilesystem as crate::watch::Filesystem>::Node;

/// Looks at everything once.
pub(super) fn examine(doctor: &Doctor) -> Examination {
    let (now, wall) = clocks();
    let identity = process::identity();
    let passwd = kernel::read("/etc/passwd").unwrap_or_default();
    let accounts = Accounts::parse(&passwd, &kernel::read("/etc/group").unwrap_or_default());
    let viewer =
        Viewer { owner: accounts.owner(identity.uid, identity.gid), supplementary_groups: identity.groups };
    let mountinfo = kernel::read("/proc/self/mountinfo");
    let has_proc = mountinfo.is_ok();
    let mounts = mounts::parse(&mountinfo.unwrap_or_default());
    // Counted before a queue is opened, so that our own is not among them.
    let in_use = kernel::in_use(identity.uid);
    let names = Names { accounts, mounts };
    let paths = [&doctor.cert, &doctor.key].map(|path| path.as_os_str().as_bytes().to_vec());
    let watched = Watched::new(paths.to_vec(), now);
    let mut files = Vec::new();
    let mut contents = Vec::new();
    for ((path, purpose), node) in
        paths.iter().zip([Purpose::Certificate, Purpose::Key]).zip(&watched.pass.targets)
    {
        let (bytes, content) = read(node);
        let steps = trail::follow(path, &names);
        let replacement = replacement::of(&steps);
        files.push(ExaminedFile { purpose, path: printable(path), steps, content, replacement });
        contents.push(bytes);
    }
    let bytes = |place: usize| {
        contents.get(place).and_then(|contents: &Option<Contents>| Some(&**contents.as_ref()?.bytes))
    };
    let policy = server::policy(&doctor.tls, doctor.expired);
    let material = Material::of(bytes(0), bytes(1), &policy, wall);
    Examination {
        version: env!("CARGO_PKG_VERSION"),
        examined: Moment(wall),
        viewer,
        has_proc,
        files,
        certificates: material.certificates,
        pair: material.pair,
        faults: material.faults,
        expired_allowed: doctor.expired == ExpiredCertificate::Serve,
        events: Events {
            watches: watched.watches,
            obstacles: watched.obstacles,
            limits: kernel::limits(),
            in_use,
        },
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an examination is one turn, and this is where it reads its clocks"
)]
fn clocks() -> (Instant, SystemTime) {
    (Instant::now(), SystemTime::now())
}

/// What the serving path's watcher finds in its first look. Its watches end with it.
struct Watched {
    pass: Pass<Node>,
    watches: usize,
    obstacles: Vec<Reason>,
}

impl Watched {
    fn new(paths: Vec<Vec<u8>>, now: Instant) -> Self {
        let mut filesystem = RealFilesystem::new();
        let mut watcher = Watcher::new(paths, Timing::new(None, 0), now);
        let pass = watcher.pass(&mut filesystem, now);
        Self { pass, watches: watcher.watch_count(), obstacles: watcher.reasons().cloned().collect() }
    }
}

fn read(node: &Result<Node, Unresolved>) -> (Option<Contents>, Content) {
    let outcome = match node {
        Ok(node) => files::read(node.as_fd(), certs::FILE_LIMIT_BYTES),
        Err(unresolved) => {
            let (at, problem) = (printable(&unresolved.at), unresolved.to_string());
            return (None, Content::Unresolved { at, problem, cause: unresolved.cause });
        }
    };
    match outcome {
        Ok(contents) if contents.stability == Stability::Moving => (Some(contents), Content::Moving),
        Ok(contents) => (Some(contents), Content::Read),
        Err(ReadError::TooLarge(_)) => (None, Content::TooLarge),
        Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            (None, Content::Forbidden)
        }
        Err(error) => (None, Content::Failed { problem: error.to_string() }),
    }
}
