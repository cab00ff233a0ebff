//! Looks at the files as the serving path does, and at what surrounds them: the only part of the doctor that touches the
//! system.
//!
//! What comes out is data; whether it is good is not decided here. `tests/doctor.rs` shows it on real directories.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant, SystemTime};

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
    // One queue for all looks: the kernel takes its time to close one.
    let mut filesystem = RealFilesystem::new();
    let look = || Look::new(&mut filesystem, &paths, &names, now);
    let Look { watched, files, contents, .. } = at_rest(look, |look| look.rest, pause);
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
        useless_versions: material.useless_versions,
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

/// How many looks are taken at most until one finds things at rest, and the time between two of them.
const LOOKS_MAX: usize = 10;
const PAUSE: Duration = Duration::from_millis(10);

#[expect(clippy::disallowed_methods, reason = "nothing else is to be done while a writer finishes")]
fn pause() {
    std::thread::sleep(PAUSE);
}

/// Looks again while what is found may be what a writer is just leaving behind. The last of the best looks, for what
/// stays wrong is wrong.
fn at_rest<L>(mut look: impl FnMut() -> L, rest: impl Fn(&L) -> Rest, mut pause: impl FnMut()) -> L {
    let mut best = look();
    for _ in 1..LOOKS_MAX {
        if rest(&best) == Rest::Still {
            break;
        }
        pause();
        let next = look();
        if rest(&next) >= rest(&best) {
            best = next;
        }
    }
    best
}

/// What speaks for it that nothing changed during a look, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rest {
    /// A path led nowhere, or a file changed while it was read.
    Doubtful,
    /// Both files were read, but the steps shown do not lead to them.
    Moving,
    /// Both files were read, and the steps lead to them.
    Still,
}

/// One look at both files, with all that is told of it.
#[derive(Debug)]
struct Look {
    watched: Watched,
    files: Vec<ExaminedFile>,
    contents: Vec<Option<Contents>>,
    rest: Rest,
}

impl Look {
    fn new(filesystem: &mut RealFilesystem, paths: &[Vec<u8>; 2], names: &Names, now: Instant) -> Self {
        let watched = Watched::new(filesystem, paths.to_vec(), now);
        let (mut files, mut contents, mut rest) = (Vec::new(), Vec::new(), Rest::Still);
        for ((path, purpose), node) in
            paths.iter().zip([Purpose::Certificate, Purpose::Key]).zip(&watched.pass.targets)
        {
            let (bytes, content) = read(node);
            let trail = trail::follow(path, names);
            rest = rest.min(match (&content, node) {
                (Content::Unresolved { .. } | Content::Moving, _) | (_, Err(_)) => Rest::Doubtful,
                (_, Ok(node)) if trail.leads_to(node) => Rest::Still,
                (_, Ok(_)) => Rest::Moving,
            });
            let steps = trail.steps;
            let replacement = replacement::of(&steps);
            files.push(ExaminedFile { purpose, path: printable(path), steps, content, replacement });
            contents.push(bytes);
        }
        Self { watched, files, contents, rest }
    }
}

/// What the serving path's watcher finds in its first look.
#[derive(Debug)]
struct Watched {
    pass: Pass<Node>,
    watches: usize,
    obstacles: Vec<Reason>,
}

impl Watched {
    fn new(filesystem: &mut RealFilesystem, paths: Vec<Vec<u8>>, now: Instant) -> Self {
        let mut watcher = Watcher::new(paths, Timing::new(None, 0), now);
        let pass = watcher.pass(filesystem, now);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_in_the_middle_of_a_change_is_not_the_last() {
        use Rest::{Doubtful, Moving, Still};
        for (found, taken, kept) in [
            (vec![Still], 1, Still),
            (vec![Doubtful, Still], 2, Still),
            (vec![Moving, Doubtful, Still], 3, Still),
            (vec![Moving, Doubtful], LOOKS_MAX, Moving),
            (vec![Doubtful], LOOKS_MAX, Doubtful),
        ] {
            let (mut looks, mut pauses) = (0, 0);
            let look = || {
                looks += 1;
                (found.get(looks - 1).copied().unwrap_or(Doubtful), looks)
            };
            let (rest, _) = at_rest(look, |(rest, _)| *rest, || pauses += 1);
            assert_eq!((rest, looks, pauses), (kept, taken, taken - 1), "{found:?}");
        }
        let mut looks = 0;
        let look = || {
            looks += 1;
            looks
        };
        assert_eq!(at_rest(look, |_| Doubtful, || {}), LOOKS_MAX, "of looks alike the last is kept");
    }
}
