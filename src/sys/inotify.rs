//! The kernel's event queue: owns its descriptor, adds and removes watches, reads what happened.
//!
//! It does not know which paths matter, nor what an event means to anybody: it hands on the watch and the name.
//! `tests/sim/kernel.rs` shows it on real directories.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use inotify::{Event, EventMask, WatchDescriptor, WatchMask};

/// Events that tell of a directory: names in it come and go, its rights change, it moves or dies.
const DIRECTORY: WatchMask = WatchMask::CREATE
    .union(WatchMask::DELETE)
    .union(WatchMask::MOVED_FROM)
    .union(WatchMask::MOVED_TO)
    .union(INODE);

/// Events that tell of the inode itself.
const INODE: WatchMask = WatchMask::ATTRIB.union(WatchMask::DELETE_SELF).union(WatchMask::MOVE_SELF);

/// Events that tell of writing. `MODIFY` is needed besides `CLOSE_WRITE`: some writers never close.
const WRITES: WatchMask = WatchMask::MODIFY.union(WatchMask::CLOSE_WRITE);

/// One read takes this much at most; the largest event is 272 bytes.
const BUFFER_BYTES: usize = 16 * 1024;

/// One turn takes this much at most, so that a flood of events can't keep the loop from its other work.
const TURN_BYTES: usize = 64 * 1024;

/// What an inode is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Changes of a directory's names.
    Directory,
    /// Changes of a directory's names and writes to its files.
    DirectoryAndWrites,
    /// Writes to a file, its rights and its links.
    File,
    /// A symbolic link itself, not what it leads to.
    Link,
}

impl Interest {
    /// A directory can have several roles at once, and so can a file: what is asked for is added to what was.
    fn mask(self) -> WatchMask {
        let events = match self {
            Self::Directory => DIRECTORY | WatchMask::ONLYDIR,
            Self::DirectoryAndWrites => DIRECTORY | WRITES | WatchMask::ONLYDIR,
            Self::File => INODE | WRITES,
            Self::Link => INODE,
        };
        events | WatchMask::MASK_ADD
    }
}

/// One entry of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Entries were lost.
    Overflow,
    /// Something happened to a watched inode.
    Event {
        /// The number of its watch.
        watch: i32,
        /// The name in the directory, without padding; empty for the inode itself.
        name: &'a [u8],
        /// How the name came there.
        arrival: Arrival,
    },
}

/// How a name came into a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// By rename or exchange.
    Moved,
    /// Something new was made, or an older file was given another name.
    Made,
    /// It did not come: something else happened.
    Other,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// The queue is empty; a new event will make the descriptor readable.
    ToTheEnd,
    /// There may be more, for which no new readiness will be reported: call again.
    MorePending,
}

/// The one event queue of the process.
#[derive(Debug)]
pub struct Inotify {
    queue: inotify::Inotify,
    /// Removing takes the library's descriptor back; a watch that ended by itself stays here until it is
    /// removed.
    watches: BTreeMap<i32, WatchDescriptor>,
    buffer: Vec<u8>,
}

impl Inotify {
    /// A queue that does not block and is not inherited.
    ///
    /// # Errors
    /// `EMFILE` when the user has no instance left (`fs.inotify.max_user_instances`) or the process no
    /// descriptor, `ENOMEM`.
    pub fn new() -> io::Result<Self> {
        let queue = inotify::Inotify::init()?;
        Ok(Self { queue, watches: BTreeMap::new(), buffer: vec![0; BUFFER_BYTES] })
    }

    /// Watches exactly the inode behind a descriptor (`O_PATH` is enough), whatever became of its path. The
    /// same inode gives the same number.
    ///
    /// # Errors
    /// `EACCES` without permission to read the inode, `ENOSPC` at the user's limit of watches, `ENOENT`
    /// without `/proc`.
    pub fn watch(&mut self, node: BorrowedFd<'_>, interest: Interest) -> io::Result<i32> {
        let path = format!("/proc/self/fd/{}", node.as_raw_fd());
        let descriptor = self.queue.watches().add(path, interest.mask())?;
        let watch = descriptor.get_watch_descriptor_id();
        self.watches.insert(watch, descriptor);
        Ok(watch)
    }

    /// Ends a watch. One that ended by itself, or never was, is passed over.
    pub fn unwatch(&mut self, watch: i32) {
        if let Some(descriptor) = self.watches.remove(&watch) {
            // The kernel says EINVAL for a watch that died with its inode: what we wanted.
            let _ = self.queue.watches().remove(descriptor);
        }
    }

    /// Reads what happened, oldest first, until the queue is empty or the turn's share is used up.
    ///
    /// # Errors
    /// Anything but "nothing to read" and an interruption; the queue is then not to be relied on any more.
    pub fn drain(&mut self, mut on_record: impl FnMut(Record<'_>)) -> io::Result<Drained> {
        let mut taken_bytes = 0;
        while taken_bytes < TURN_BYTES {
            let events = match self.queue.read_events(&mut self.buffer) {
                Ok(events) => events,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Drained::ToTheEnd),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            for event in events {
                taken_bytes += EVENT_BYTES + event.name.map_or(0, |name| name.len());
                on_record(record(&event));
            }
        }
        Ok(Drained::MorePending)
    }
}

/// What an event takes in the queue besides its name.
const EVENT_BYTES: usize = 16;

/// Cookie and nearly all of the kind are dropped here on purpose: an event wakes, it does not inform.
fn record<'a>(event: &Event<&'a std::ffi::OsStr>) -> Record<'a> {
    if event.mask.contains(EventMask::Q_OVERFLOW) {
        return Record::Overflow;
    }
    Record::Event {
        watch: event.wd.get_watch_descriptor_id(),
        name: event.name.map_or(&[], |name| name.as_bytes()),
        arrival: if event.mask.contains(EventMask::MOVED_TO) {
            Arrival::Moved
        } else if event.mask.contains(EventMask::CREATE) {
            Arrival::Made
        } else {
            Arrival::Other
        },
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl AsRawFd for Inotify {
    fn as_raw_fd(&self) -> RawFd {
        self.queue.as_raw_fd()
    }
}
