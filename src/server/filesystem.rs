//! The real file system in the watcher's words.
//!
//! It decides nothing: every call of the walk becomes one of `sys::files` or `sys::inotify`. It does not know
//! which paths matter. `tests/sim/kernel.rs` drives a watcher through it on real directories.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::sys::files::{self, ReadError};
use crate::sys::inotify::{self, Drained, Inotify, Interest};
use crate::watch::{
    Anchor, Arrival, Facts, Filesystem, Identity, Kind, Place, Reading, Record, Role, Unwatchable, WatchId,
};

/// The real file system and its event queue.
#[derive(Debug, Default)]
pub struct RealFilesystem {
    queue: Option<Inotify>,
}

impl RealFilesystem {
    /// Without an event queue; the watcher's first pass opens it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The queue's descriptor, to be registered as readable. It appears with the first pass, and may change
    /// with any pass that followed a lost queue.
    #[must_use]
    pub fn queue(&self) -> Option<RawFd> {
        self.queue.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Hands over what is in the queue, oldest first. Without a queue there is nothing.
    ///
    /// # Errors
    /// The queue broke and has been closed: tell the watcher that it is lost.
    pub fn drain(&mut self, mut on_record: impl FnMut(Record<'_>)) -> io::Result<Drained> {
        let Some(queue) = &mut self.queue else { return Ok(Drained::ToTheEnd) };
        let outcome = queue.drain(|record| {
            on_record(match record {
                inotify::Record::Overflow => Record::Overflow,
                inotify::Record::Event { watch, name, arrival } => {
                    Record::Event { watch: WatchId(watch), name, arrival: in_its_words(arrival) }
                }
            });
        });
        if outcome.is_err() {
            self.queue = None;
        }
        outcome
    }
}

impl Filesystem for RealFilesystem {
    type Node = Arc<OwnedFd>;

    fn root(&mut self) -> io::Result<Self::Node> {
        files::root().map(Arc::new)
    }

    fn look_up(&mut self, directory: &Self::Node, name: &[u8]) -> io::Result<Self::Node> {
        files::look_up(directory.as_fd(), name).map(Arc::new)
    }

    fn look_through(&mut self, directory: &Self::Node, name: &[u8]) -> io::Result<Self::Node> {
        files::look_through(directory.as_fd(), name).map(Arc::new)
    }

    fn facts(&mut self, node: &Self::Node) -> io::Result<Facts> {
        let facts = files::facts(node.as_fd())?;
        let identity =
            Identity { device: facts.device, inode: facts.inode, born: facts.born.unwrap_or_default() };
        let kind = match facts.kind {
            files::Kind::Directory => Kind::Directory,
            files::Kind::File => Kind::File,
            files::Kind::Link => Kind::Link,
            files::Kind::MagicLink => Kind::MagicLink,
            files::Kind::Other => Kind::Other,
        };
        let is_pinned = kind == Kind::File && facts.is_mount_root;
        Ok(Facts {
            place: Place { mount: facts.mount.unwrap_or_default(), identity },
            kind,
            changed: facts.changed,
            anchor: if is_pinned { Anchor::Pinned } else { Anchor::Named },
        })
    }

    fn link_text(&mut self, link: &Self::Node) -> io::Result<Vec<u8>> {
        files::link_text(link.as_fd())
    }

    fn remote(&mut self, node: &Self::Node) -> Option<&'static str> {
        let magic = files::filesystem_type(node.as_fd()).ok()?;
        SILENT.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
    }

    fn resolve(&mut self, path: &[u8]) -> io::Result<Self::Node> {
        files::resolve(path).map(Arc::new)
    }

    fn open_queue(&mut self) -> Result<(), Unwatchable> {
        if self.queue.is_none() {
            self.queue = Some(Inotify::new().map_err(|_| Unwatchable::NoQueue)?);
        }
        Ok(())
    }

    fn watch(&mut self, node: &Self::Node, role: Role) -> Result<WatchId, Unwatchable> {
        let Some(queue) = &mut self.queue else { return Err(Unwatchable::NoQueue) };
        let interest = match role {
            Role::Directory => Interest::Directory,
            Role::Leaf => Interest::DirectoryAndWrites,
            Role::File => Interest::File,
            Role::Link => Interest::Link,
        };
        queue.watch(node.as_fd(), interest).map(WatchId).map_err(|error| unwatchable(&error))
    }

    fn unwatch(&mut self, watch: WatchId) {
        if let Some(queue) = &mut self.queue {
            queue.unwatch(watch.0);
        }
    }
}

/// What a file that was not read means to the watcher: whether its repair will be an event.
#[must_use]
pub fn reading(error: &ReadError) -> Reading {
    match error {
        ReadError::TooLarge(_) | ReadError::NotARegularFile => Reading::Unreadable,
        ReadError::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => Reading::Unreadable,
        ReadError::Io(_) => Reading::Failed,
    }
}

fn in_its_words(arrival: inotify::Arrival) -> Arrival {
    match arrival {
        inotify::Arrival::Moved => Arrival::Moved,
        inotify::Arrival::Made => Arrival::Made,
        inotify::Arrival::Other => Arrival::Other,
    }
}

fn unwatchable(error: &io::Error) -> Unwatchable {
    let kind = error.kind();
    if kind == io::ErrorKind::PermissionDenied {
        Unwatchable::Forbidden
    } else if kind == io::ErrorKind::StorageFull || kind == io::ErrorKind::OutOfMemory {
        Unwatchable::NoRoom
    } else {
        Unwatchable::Other(kind)
    }
}

/// File systems where somebody else, or the kernel, changes things without an event here, by their magic
/// number.
const SILENT: [(i64, &str); 23] = [
    (0x6969, "nfs"),
    (0x517B, "smb"),
    (0xFE53_4D42, "smb2"),
    (0xFF53_4D42, "cifs"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x6A65_6A63, "fakeowner"),
    (0xBACB_ACBC, "vmhgfs"),
    (0x7C7C_6673, "prl_fs"),
    (0x4750_4653, "gpfs"),
    (0x00C3_6400, "ceph"),
    (0x5346_414F, "afs"),
    (0x6B41_4653, "afs"),
    (0x0116_1970, "gfs2"),
    (0x7461_636F, "ocfs2"),
    (0x786F_4256, "vboxsf"),
    (0x7375_7245, "coda"),
    (0x564C, "ncp"),
    (0x0BD0_0BD0, "lustre"),
    (0x9FA0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0027_E0EB, "cgroup"),
    (0x6367_7270, "cgroup2"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lasting_faults_of_a_file_wait_for_an_event() {
        let rows = [
            (ReadError::TooLarge(1), Reading::Unreadable),
            (ReadError::NotARegularFile, Reading::Unreadable),
            (ReadError::Io(io::ErrorKind::PermissionDenied.into()), Reading::Unreadable),
            (ReadError::Io(io::ErrorKind::OutOfMemory.into()), Reading::Failed),
            (ReadError::Io(io::ErrorKind::StaleNetworkFileHandle.into()), Reading::Failed),
        ];
        for (error, expected) in rows {
            assert_eq!(reading(&error), expected, "{error}");
        }
    }

    #[test]
    fn a_full_house_is_told_from_a_closed_door() {
        let rows = [
            (io::ErrorKind::StorageFull, Unwatchable::NoRoom),
            (io::ErrorKind::OutOfMemory, Unwatchable::NoRoom),
            (io::ErrorKind::PermissionDenied, Unwatchable::Forbidden),
            (io::ErrorKind::NotFound, Unwatchable::Other(io::ErrorKind::NotFound)),
        ];
        for (kind, expected) in rows {
            assert_eq!(unwatchable(&kind.into()), expected);
        }
    }
}
