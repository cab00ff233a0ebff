//! The words of a walk: what a file system can be asked, and the chain of look-ups behind a path.
//!
//! It does not know real files, events, or which path is a certificate. `walk.rs` speaks these words;
//! `tests/sim/watch` implements `Filesystem` in memory and shows that they suffice.

use std::fmt;
use std::io;

use crate::printable::Printable;

/// What the walk asks of a file system. A node is a pinned inode: whatever happens to the path that led to
/// it, it stays the same object.
pub trait Filesystem {
    /// A pinned inode; cheap to clone.
    type Node: Clone;

    /// The directory that absolute paths start from.
    ///
    /// # Errors
    /// Whatever opening it fails with.
    fn root(&mut self) -> io::Result<Self::Node>;

    /// One look-up of one name (or `..`) in one directory; a symbolic link is returned, not followed.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied` and whatever else the look-up fails with.
    fn look_up(&mut self, directory: &Self::Node, name: &[u8]) -> io::Result<Self::Node>;

    /// One look-up of one name in one directory; the kernel follows a symbolic link to whatever it leads to. For a
    /// [`Kind::MagicLink`], which nobody else can follow.
    ///
    /// # Errors
    /// As [`Filesystem::look_up`], and whatever following fails with.
    fn look_through(&mut self, directory: &Self::Node, name: &[u8]) -> io::Result<Self::Node>;

    /// What is known about a node.
    ///
    /// # Errors
    /// Whatever asking fails with.
    fn facts(&mut self, node: &Self::Node) -> io::Result<Facts>;

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// Whatever reading it fails with.
    fn link_text(&mut self, link: &Self::Node) -> io::Result<Vec<u8>>;

    /// The name of the file system a node lies on, if changes may happen there without an event.
    fn remote(&mut self, node: &Self::Node) -> Option<&'static str>;

    /// Resolves a whole path the way `open` does, following links.
    ///
    /// # Errors
    /// Whatever the resolution fails with.
    fn resolve(&mut self, path: &[u8]) -> io::Result<Self::Node>;

    /// Opens the event queue if there is none.
    ///
    /// # Errors
    /// [`Unwatchable::NoQueue`] when the system grants none.
    fn open_queue(&mut self) -> Result<(), Unwatchable>;

    /// Watches exactly this node. Adds to what is already watched for, never takes away; the same node gives
    /// the
    /// same id.
    ///
    /// # Errors
    /// Why the node can't be watched.
    fn watch(&mut self, node: &Self::Node, role: Role) -> Result<WatchId, Unwatchable>;

    /// Ends a watch. One that has ended by itself is no error.
    fn unwatch(&mut self, watch: WatchId);
}

/// The event queue's number for a watched inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub i32);

/// What a node is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A directory in which a component is looked up: names come and go, rights change, it moves or dies.
    Directory,
    /// A directory in which the last component is looked up: the same, and writes to its files.
    Leaf,
    /// The file at the end: writes, rights, link count.
    File,
    /// A symbolic link whose directory can't be watched: replaced, moved, gone.
    Link,
}

/// Why a node can't be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwatchable {
    /// We may not read it.
    Forbidden,
    /// The system's limit of watches is reached.
    NoRoom,
    /// There is no event queue at all.
    NoQueue,
    /// Anything else; the system's word for it.
    Other(io::ErrorKind),
}

/// What distinguishes an inode from all others, also from a later one with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The device number.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// Seconds and nanoseconds of the inode's birth; zeros where the file system keeps none.
    pub born: (i64, u32),
}

/// An inode as seen through one mount: the same directory may hold other mounts when reached another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The mount's number; zero where the kernel tells none.
    pub mount: u64,
    /// The inode.
    pub identity: Identity,
}

/// What sort of object a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A symbolic link whose text is not where it leads, as those of procfs: only the kernel can follow it.
    MagicLink,
    /// A FIFO, a socket or a device; never opened.
    Other,
}

/// What is known about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Which inode, seen through which mount.
    pub place: Place,
    /// What it is.
    pub kind: Kind,
    /// Seconds and nanoseconds of its last change of any sort, a new name included.
    pub changed: (i64, u32),
    /// Whether it can still be replaced by a new file of its name.
    pub anchor: Anchor,
}

/// Whether the name of a node may come to mean another inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// A directory holds the name; a rename can replace it.
    Named,
    /// It is itself the root of a mount.
    Pinned,
}

/// One look-up of a walk and what it found.
#[derive(Clone, Debug)]
pub struct LookUp {
    /// The directory that was asked.
    pub directory: Place,
    /// For what name.
    pub name: Vec<u8>,
    /// The answer.
    pub found: Found,
    /// When what was found had last changed; zeros for nothing. No part of the answer: the same object stays the
    /// same.
    pub changed: (i64, u32),
}

impl LookUp {
    /// Whether it is the same question with the same answer.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        (self.directory, &self.name, &self.found) == (other.directory, &other.name, &other.found)
    }
}

/// The answer to a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// An object.
    Node {
        /// Which one.
        place: Place,
        /// What it is; never [`Kind::MagicLink`], which stands for what it leads to.
        kind: Kind,
        /// A link's text, empty for anything else.
        text: Vec<u8>,
    },
    /// Nothing, for this reason.
    Nothing(Cause),
}

/// All look-ups behind one path, in order.
pub type Chain = Vec<LookUp>;

/// Where and why a path leads to no regular file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// The path down to the component where it broke, links replaced by what they mean.
    pub at: Vec<u8>,
    /// What is wrong there.
    pub cause: Cause,
}

/// What is wrong with a component of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// There is no such name.
    Missing,
    /// Something other than a directory where a directory is needed.
    NotADirectory,
    /// The directory may not be searched.
    Forbidden,
    /// More links than the kernel would follow.
    Loop,
    /// More components than we are willing to look up.
    TooLong,
    /// A directory at the end of the path.
    IsADirectory,
    /// A FIFO, a socket or a device at the end of the path.
    NotAFile,
    /// Anything else. No event tells when it is over.
    Failed {
        /// What sort of error it is.
        kind: io::ErrorKind,
        /// The system's number for it, if it came from there.
        number: Option<i32>,
    },
}

impl Cause {
    /// A stable word in snake_case.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::NotADirectory => "not_a_directory",
            Self::Forbidden => "forbidden",
            Self::Loop => "link_loop",
            Self::TooLong => "path_too_long",
            Self::IsADirectory => "is_a_directory",
            Self::NotAFile => "not_a_file",
            Self::Failed { .. } => "look_up_failed",
        }
    }

    /// Whether the end of this trouble shows as an event in the directories that were watched on the way.
    #[must_use]
    pub fn ends_with_an_event(self) -> bool {
        !matches!(self, Self::Failed { .. })
    }
}

impl From<&io::Error> for Cause {
    fn from(error: &io::Error) -> Self {
        let kind = error.kind();
        if kind == io::ErrorKind::NotFound {
            Self::Missing
        } else if kind == io::ErrorKind::NotADirectory {
            Self::NotADirectory
        } else if kind == io::ErrorKind::PermissionDenied {
            Self::Forbidden
        } else if kind == io::ErrorKind::InvalidFilename {
            Self::TooLong
        } else {
            Self::Failed { kind, number: error.raw_os_error() }
        }
    }
}

impl fmt::Display for Unresolved {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ", Printable(&self.at))?;
        match self.cause {
            Cause::Missing => write!(formatter, "does not exist"),
            Cause::NotADirectory => write!(formatter, "is not a directory"),
            Cause::Forbidden => write!(formatter, "may not be looked up: permission denied"),
            Cause::Loop => write!(formatter, "is one symbolic link too many"),
            Cause::TooLong => write!(formatter, "is too long a path"),
            Cause::IsADirectory => write!(formatter, "is a directory, not a file"),
            Cause::NotAFile => write!(formatter, "is not a regular file"),
            Cause::Failed { number: Some(number), .. } => {
                write!(formatter, "could not be looked up: {}", io::Error::from_raw_os_error(number))
            }
            Cause::Failed { kind, number: None } => write!(formatter, "could not be looked up: {kind}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_path_reads_as_a_sentence() {
        let failed = |number| Cause::Failed { kind: io::ErrorKind::OutOfMemory, number };
        let rows: [(&[u8], Cause, &str); 4] = [
            (b"/etc/tls/tls.crt", Cause::Missing, "/etc/tls/tls.crt does not exist"),
            (b"/etc/\xff\n", Cause::IsADirectory, "/etc/\\xff\\n is a directory, not a file"),
            (b"/x", failed(None), "/x could not be looked up: out of memory"),
            (b"/x", failed(Some(24)), "/x could not be looked up: Too many open files (os error 24)"),
        ];
        for (at, cause, text) in rows {
            assert_eq!(Unresolved { at: at.to_vec(), cause }.to_string(), text);
        }
    }
}
