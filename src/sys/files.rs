//! Looking up names one at a time, and reading a pinned file whole.
//!
//! A directory or file is held by an `O_PATH` descriptor, which pins the inode without opening it: nothing
//! here can block on a FIFO or wake a device. It does not know why a path is walked or what a file contains.
//! `tests/sim/kernel.rs` shows it on real directories.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::time::{Duration, SystemTime};

use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::Mode;
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use zeroize::Zeroizing;

/// What is known about an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Device number, both halves.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Seconds and nanoseconds of birth, if the file system keeps them.
    pub born: Option<(i64, u32)>,
    /// Seconds and nanoseconds of its last change of any sort, a new name included.
    pub changed: (i64, u32),
    /// The mount it was reached through, if the kernel tells.
    pub mount: Option<u64>,
    /// Whether it is the root of that mount.
    pub is_mount_root: bool,
    /// What it is.
    pub kind: Kind,
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A symbolic link of procfs: its text tells people what it stands for, and only the kernel knows where it leads.
    MagicLink,
    /// A FIFO, a socket or a device.
    Other,
}

/// A file as it was read.
#[derive(Debug)]
pub struct Contents {
    /// All of it; wiped when dropped, for it may be a private key.
    pub bytes: Zeroizing<Vec<u8>>,
    /// When it was last written or its inode last touched, whichever is later: a copier can set back the
    /// first, not the second.
    pub changed: SystemTime,
    /// Whether it held still meanwhile.
    pub stability: Stability,
}

/// Whether a file changed while it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// Size and times were the same before and after.
    Still,
    /// They were not.
    Moving,
}

/// Why a file was not read.
#[derive(Debug)]
pub enum ReadError {
    /// It has more bytes than the limit, which is given.
    TooLarge(usize),
    /// It is a directory, a FIFO, a socket or a device.
    NotARegularFile,
    /// The system's word.
    Io(io::Error),
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge(limit_bytes) => write!(formatter, "larger than {limit_bytes} bytes"),
            Self::NotARegularFile => write!(formatter, "not a regular file"),
            Self::Io(error) => write!(formatter, "{error}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Opening pins, follows no link, and is not inherited.
const PIN: OFlag = OFlag::O_PATH.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// The root directory.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM`.
pub fn root() -> io::Result<OwnedFd> {
    resolve(b"/")
}

/// One name (or `..`) in one directory; a symbolic link is pinned, not followed.
///
/// # Errors
/// `ENOENT`, `ENOTDIR`, `EACCES`, `EMFILE` and so on; `EINVAL` for a name with a zero byte.
pub fn look_up(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    Ok(openat(directory, OsStr::from_bytes(name), PIN, Mode::empty())?)
}

/// The same, but a symbolic link is followed by the kernel, to whatever it leads to.
///
/// # Errors
/// As [`look_up`], and `ELOOP`; `EACCES`, `ENOENT` or `ESRCH` for a link of procfs whose process may not be looked into
/// or has gone.
pub fn look_through(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    Ok(openat(directory, OsStr::from_bytes(name), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?)
}

/// A whole path, links followed, as any program would open it.
///
/// # Errors
/// As [`look_up`], and `ELOOP`.
pub fn resolve(path: &[u8]) -> io::Result<OwnedFd> {
    Ok(nix::fcntl::open(OsStr::from_bytes(path), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?)
}

/// The text of a pinned symbolic link.
///
/// # Errors
/// `EINVAL` or `ENOENT` for anything else.
pub fn link_text(link: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    Ok(readlinkat(link, "")?.into_vec())
}

/// The magic number of the file system a pinned inode lies on, from 0 to 2^32 - 1.
///
/// # Errors
/// `EIO`, `ENOSYS`.
pub fn filesystem_type(node: BorrowedFd<'_>) -> io::Result<i64> {
    #[allow(clippy::unnecessary_cast, reason = "the width of the field depends on the platform")]
    let magic = fstatfs(node)?.filesystem_type().0 as i64;
    Ok(magic & 0xFFFF_FFFF)
}

/// What is known about a pinned inode.
///
/// # Errors
/// `EIO`, `ESTALE`, `ENOMEM`.
#[expect(unsafe_code, reason = "only statx tells birth time and mount, and nix does not offer it")]
pub fn facts(node: BorrowedFd<'_>) -> io::Result<Facts> {
    let wanted = libc::STATX_BASIC_STATS | libc::STATX_BTIME | libc::STATX_MNT_ID;
    let flags = AtFlags::AT_EMPTY_PATH.bits();
    let mut answer = std::mem::MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the descriptor is borrowed and thus open, the path is a constant ending in zero, and `answer` is
    // writable memory of the size the call fills.
    let outcome = unsafe { libc::statx(node.as_raw_fd(), c"".as_ptr(), flags, wanted, answer.as_mut_ptr()) };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: every field is an integer, for which the zeros written at creation are a value.
    let answer = unsafe { answer.assume_init() };
    Ok(Facts {
        device: u64::from(answer.stx_dev_major) << 32 | u64::from(answer.stx_dev_minor),
        inode: answer.stx_ino,
        born: (answer.stx_mask & libc::STATX_BTIME != 0)
            .then_some((answer.stx_btime.tv_sec, answer.stx_btime.tv_nsec)),
        changed: (answer.stx_ctime.tv_sec, answer.stx_ctime.tv_nsec),
        mount: (answer.stx_mask & libc::STATX_MNT_ID != 0).then_some(answer.stx_mnt_id),
        is_mount_root: answer.stx_attributes & u64::from(libc::STATX_ATTR_MOUNT_ROOT.cast_unsigned()) != 0,
        kind: kind(node, u32::from(answer.stx_mode))?,
    })
}

fn kind(node: BorrowedFd<'_>, mode: u32) -> io::Result<Kind> {
    Ok(match mode & libc::S_IFMT {
        libc::S_IFDIR => Kind::Directory,
        libc::S_IFREG => Kind::File,
        libc::S_IFLNK if fstatfs(node)?.filesystem_type() == PROC_SUPER_MAGIC => Kind::MagicLink,
        libc::S_IFLNK => Kind::Link,
        _ => Kind::Other,
    })
}

/// Reads a pinned regular file whole.
///
/// # Errors
/// More than `limit_bytes`, not a regular file (which is then never opened), or the system's word.
pub fn read(node: BorrowedFd<'_>, limit_bytes: usize) -> Result<Contents, ReadError> {
    if facts(node)?.kind != Kind::File {
        return Err(ReadError::NotARegularFile);
    }
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC)
        .open(format!("/proc/self/fd/{}", node.as_raw_fd()))?;
    let before = file.metadata()?;
    let bytes = read_at_most(&file, before.len(), limit_bytes)?;
    let after = file.metadata()?;
    let is_still = Stamp::of(&before) == Stamp::of(&after) && after.len() == bytes.len() as u64;
    Ok(Contents {
        bytes,
        changed: Stamp::of(&after).latest(),
        stability: if is_still { Stability::Still } else { Stability::Moving },
    })
}

/// The buffer is reserved once, with room to notice growth: growing it would leave parts of a key behind in
/// freed memory.
fn read_at_most(
    file: &File,
    expected_bytes: u64,
    limit_bytes: usize,
) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    let expected_bytes = usize::try_from(expected_bytes).unwrap_or(usize::MAX);
    if expected_bytes > limit_bytes {
        return Err(ReadError::TooLarge(limit_bytes));
    }
    let mut bytes = Zeroizing::new(vec![0; expected_bytes + 1]);
    let mut filled_bytes = 0;
    while let Some(rest) = bytes.get_mut(filled_bytes..).filter(|rest| !rest.is_empty()) {
        match (&mut &*file).read(rest) {
            Ok(0) => break,
            Ok(count) => filled_bytes += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    bytes.truncate(filled_bytes);
    Ok(bytes)
}

/// Size and times of a file at one moment.
#[derive(PartialEq, Eq)]
struct Stamp {
    size_bytes: u64,
    written: (i64, i64),
    touched: (i64, i64),
}

impl Stamp {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            size_bytes: metadata.len(),
            written: (metadata.mtime(), metadata.mtime_nsec()),
            touched: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    fn latest(&self) -> SystemTime {
        let (seconds, nanoseconds) = self.written.max(self.touched);
        let since_epoch =
            Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanoseconds).unwrap_or(0));
        SystemTime::UNIX_EPOCH.checked_add(since_epoch).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}
