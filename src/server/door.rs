//! The admin endpoint's listening socket, TCP or Unix.
//!
//! Does not know what is asked there. Shown by `tests/admin.rs`.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mio::net::{TcpListener, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};

use super::upstream::Socket;
use crate::config::{Endpoint, limits};
use crate::printable::Printable;
use crate::sys::socket::{self, Share};

/// Owner and group may connect. Without the right to write nobody can.
const UNIX_MODE: u32 = 0o660;

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Door {
    Tcp(TcpListener),
    Unix(UnixListener, Name),
}

/// The name of a Unix socket in the file system, which goes when its listener goes.
#[derive(Debug)]
pub(crate) struct Name {
    path: PathBuf,
    /// Device and inode, because somebody else may have put another socket there meanwhile.
    identity: (u64, u64),
}

impl Door {
    /// Listens at `endpoint`.
    ///
    /// # Errors
    /// What bind(2) says: most of all that somebody else listens there.
    pub(crate) fn open(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp(listen) => {
                let bound = super::bind_first(listen.0, Share::Alone)?;
                socket::start_listening(&bound, limits::LISTEN_BACKLOG)?;
                Ok(Self::Tcp(TcpListener::from_std(bound)))
            }
            Endpoint::Unix(path) => {
                let listener = listen_at(path)?;
                fs::set_permissions(path, Permissions::from_mode(UNIX_MODE))?;
                let name = Name { identity: identity(path)?, path: path.clone() };
                Ok(Self::Unix(listener, name))
            }
        }
    }

    /// Where it is, the port filled in, as it would be written on the command line.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().map_or_else(|error| error.to_string(), |at| at.to_string())
            }
            Self::Unix(_, name) => format!("unix:{}", Printable::from(&*name.path)),
        }
    }

    /// # Errors
    /// What epoll_ctl(2) says.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Self::Unix(listener, _) => registry.register(listener, token, Interest::READABLE),
        }
    }

    /// The next client that waits.
    ///
    /// # Errors
    /// What accept(2) says, such as that nobody waits.
    pub(crate) fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Socket::Tcp(stream)),
            Self::Unix(listener, _) => listener.accept().map(|(stream, _)| Socket::Unix(stream)),
        }
    }
}

/// Listens at `path`, also if a process that has ended has left a socket there.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) => {
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        outcome => outcome,
    }
}

/// Whether a socket is there to which nobody listens. Any other file is somebody's, and stays.
fn is_abandoned(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|facts| facts.file_type().is_socket());
    // The stream does not block, even where a listener's backlog is full.
    let refused =
        || UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    is_socket && refused()
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|facts| (facts.dev(), facts.ino()))
}

impl Drop for Name {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            // What can't be removed is replaced by whoever comes next.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_nobody_listens_to_is_replaced_and_any_other_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = |name: &str| Endpoint::Unix(folder.path().join(name));
        // The name outlives its listener unless somebody removes it.
        drop(std::os::unix::net::UnixListener::bind(folder.path().join("left")).unwrap());
        let door = Door::open(&endpoint("left")).unwrap();
        let mode = fs::metadata(folder.path().join("left")).unwrap().mode();
        assert_eq!(mode & 0o777, UNIX_MODE);
        assert_eq!(Door::open(&endpoint("left")).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        fs::write(folder.path().join("file"), "x").unwrap();
        assert_eq!(Door::open(&endpoint("file")).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"x");
        drop(door);
        assert!(!folder.path().join("left").exists());
    }

    #[test]
    fn the_name_of_somebody_elses_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let ours = Door::open(&Endpoint::Unix(path.clone())).unwrap();
        fs::rename(&path, folder.path().join("aside")).unwrap();
        let theirs = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(ours);
        assert!(path.exists());
        drop(theirs);
    }
}
