//! What an examination finds, as data: nothing here is a judgement yet.
//!
//! These are the fields of the JSON document, whose names are kept. It does not know how the facts are gathered.
//! `tests/doctor.rs` reads the document.

use std::time::SystemTime;

use serde::{Serialize, Serializer};

use crate::certs::{Fault, Inspected, Rfc3339, Usage, Version};
use crate::watch::{Cause, Reason};

/// All that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Examination {
    /// Of this program.
    pub version: &'static str,
    /// When.
    pub examined: Moment,
    /// With whose rights.
    pub viewer: Viewer,
    /// Whether `/proc` is there, without which no file can be read or watched.
    pub has_proc: bool,
    /// The certificate's file and the key's, in this order.
    pub files: Vec<ExaminedFile>,
    /// What the certificate's file holds, in its order; empty when it can't be read as certificates.
    pub certificates: Vec<Certificate>,
    /// What came of holding key and chain together.
    pub pair: Pair,
    /// Every fault of the contents that could be told.
    #[serde(skip)]
    pub faults: Vec<Fault>,
    /// Versions of TLS that are allowed and of which no client could be served.
    #[serde(skip)]
    pub useless_versions: Vec<Version>,
    /// Whether a certificate whose time is over would be served.
    pub expired_allowed: bool,
    /// Whether changes would be noticed as they happen.
    pub events: Events,
}

/// A moment, written as RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(pub SystemTime);

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Rfc3339(self.0))
    }
}

/// Who looked.
#[derive(Clone, Debug, Serialize)]
pub struct Viewer {
    /// Effective user and group.
    #[serde(flatten)]
    pub owner: Owner,
    /// The other groups.
    pub supplementary_groups: Vec<u32>,
}

/// A user and a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// The user's number.
    pub uid: u32,
    /// The user's name, if `/etc/passwd` knows it.
    pub user: Option<String>,
    /// The group's number.
    pub gid: u32,
    /// The group's name, if `/etc/group` knows it.
    pub group: Option<String>,
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// It holds the chain.
    Certificate,
    /// It holds the private key.
    Key,
}

/// One of the two files.
#[derive(Clone, Debug, Serialize)]
pub struct ExaminedFile {
    /// What it is for.
    pub purpose: Purpose,
    /// The path that was given, made absolute; control characters and bytes that are not UTF-8 are escaped here and in
    /// every other path.
    pub path: String,
    /// Every look-up behind the path, in order, the root directory first.
    pub steps: Vec<Step>,
    /// What came of reading it.
    pub content: Content,
    /// Whether a new file under its name would be seen; `None` when nothing is known to keep one away, but there is no
    /// file yet or not all mounts on the way are known.
    pub replacement: Option<Replacement>,
}

/// What one look-up found.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// The path so far, links replaced by where they lead.
    pub path: String,
    /// What is there.
    pub kind: Kind,
    /// The text of a link.
    pub link_text: Option<String>,
    /// What says where a link leads.
    pub followed_by: Option<Follower>,
    /// Owner, rights and mount; `None` when nothing is there.
    pub inode: Option<Inode>,
}

/// What says where a link leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Follower {
    /// Its text.
    Text,
    /// The kernel alone, as for the links of `/proc`; the next step is what it found.
    Kernel,
}

/// What sort of object is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A device.
    Device,
    /// Nothing that could be looked at.
    Nothing,
}

/// An object's owner, rights and place.
#[derive(Clone, Debug, Serialize)]
pub struct Inode {
    /// Whose it is.
    #[serde(flatten)]
    pub owner: Owner,
    /// Its rights.
    pub mode: Mode,
    /// How many names it has in its file system.
    pub hard_links: u64,
    /// Its length, if it is a file.
    pub size_bytes: u64,
    /// Whether it is itself mounted, rather than named by a directory of its file system.
    pub is_mount_root: bool,
    /// The mount it was reached through; `None` when the kernel does not tell.
    pub mount: Option<MountPoint>,
}

/// Permission bits with those for set-id and sticky, written as four octal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub u32);

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04o}", self.0 & 0o7777)
    }
}

/// A mount as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MountPoint {
    /// Where it is mounted.
    pub point: String,
    /// Which part of its file system that is.
    pub root: String,
    /// The type of file system.
    pub filesystem: String,
}

/// What came of reading a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Content {
    /// It was read whole.
    Read,
    /// It was read, but it changed meanwhile.
    Moving,
    /// There is no regular file at the end of the path.
    Unresolved {
        /// The path down to where it broke.
        at: String,
        /// The sentence that says why.
        problem: String,
        /// The reason.
        #[serde(serialize_with = "label")]
        cause: Cause,
    },
    /// The file may not be read.
    Forbidden,
    /// It is larger than any certificate or key.
    TooLarge,
    /// It could not be read for another reason.
    Failed {
        /// The system's word.
        problem: String,
    },
}

fn label<S: Serializer>(cause: &Cause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(cause.label())
}

/// Whether a new file that takes the name of the old one would be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// It would.
    Seen,
    /// Never: the file itself is mounted.
    SingleFileMount,
    /// Never: the file itself is mounted, and where it came from it is no more.
    SingleFileMountOfDeleted,
    /// Never: the path ends in a file that a process holds open, whatever has its name now.
    OpenFile,
    /// Never: a directory on the way is mounted, and where it came from it is no more.
    MountOfDeletedDirectory,
    /// Never: a directory on the way is mounted from within one generation of a Kubernetes volume.
    MountOfOneGeneration,
}

/// One certificate of the chain.
#[derive(Clone, Debug, Serialize)]
pub struct Certificate {
    /// Its place in the file, from one.
    pub position: usize,
    /// Subject name.
    pub subject: String,
    /// Issuer name.
    pub issuer: String,
    /// Serial number in upper-case hex.
    pub serial: String,
    /// DNS names, addresses and URIs it is valid for.
    pub names: Vec<String>,
    /// First moment of validity.
    pub not_before: Moment,
    /// Last moment of validity.
    pub not_after: Moment,
    /// SHA-256 of its DER in lower-case hex.
    pub sha256: String,
    /// What it may be used for and how it is signed.
    #[serde(skip)]
    pub usage: Usage,
}

impl Certificate {
    /// The certificate at a place of the file.
    #[must_use]
    pub fn new(position: usize, Inspected { facts, usage }: Inspected) -> Self {
        Self {
            position,
            names: facts.names.iter().map(ToString::to_string).collect(),
            subject: facts.subject,
            issuer: facts.issuer,
            serial: facts.serial,
            not_before: Moment(facts.not_before),
            not_after: Moment(facts.not_after),
            sha256: facts.leaf_sha256,
            usage,
        }
    }
}

/// What came of holding key and chain together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pair {
    /// Each certificate is issued by the next, the key is that of the first, and it can be served.
    Good,
    /// The same, but no cipher suite on offer works with this kind of key.
    NoSuiteForKey,
    /// They do not belong together, or the chain is out of order.
    Faulty,
    /// One of the files could not be read.
    Unknown,
}

/// Whether changes would be noticed as they happen.
#[derive(Clone, Debug, Serialize)]
pub struct Events {
    /// How many inotify watches were placed, of all that are needed if no reason stands against it.
    pub watches: usize,
    /// What stands between a change and an event.
    #[serde(serialize_with = "sentences")]
    pub obstacles: Vec<Reason>,
    /// The system's limits.
    pub limits: QueueLimits,
    /// What this user had in use before.
    pub in_use: QueueUse,
}

fn sentences<S: Serializer>(reasons: &[Reason], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(reasons.iter().map(ToString::to_string))
}

impl Events {
    /// Whether the files have to be looked at from time to time.
    #[must_use]
    pub fn call_for_polling(&self) -> bool {
        self.obstacles.iter().any(Reason::calls_for_polling)
    }
}

/// The kernel's limits of inotify; `None` where it does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueLimits {
    /// Instances of one user.
    pub max_user_instances: Option<u64>,
    /// Watches of one user.
    pub max_user_watches: Option<u64>,
    /// Events in one queue.
    pub max_queued_events: Option<u64>,
}

/// What the processes of one user hold, as far as they may be looked into from here: at least this much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueUse {
    /// Instances.
    pub instances: u64,
    /// Watches.
    pub watches: u64,
    /// Processes of this user that may not be looked into.
    pub processes_hidden: u64,
}
